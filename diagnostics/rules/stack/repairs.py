"""The repair that each cause of a failing operator component asks for, and what it may cost."""

from collections.abc import Sequence

from diagnostics.fixes import Risk, Step, StepKind
from diagnostics.snapshot import Pod
from diagnostics.text import counted, listed, printable


def repair(cause: str, how: str) -> Step:
    """The step for a cause, else for the way of failing."""
    title, risk, why = REPAIRS.get(cause) or REPAIRS.get(how) or _UNKNOWN
    return Step(
        kind=StepKind.FIX,
        title=title,
        why=why,
        risk=risk,
        expect="The container starts at its next attempt, at most five minutes later.",
    )


def held_there(on_node: Sequence[Pod]) -> str:
    """Who holds GPUs on a node, as a sentence to follow what a restart of its container runtime risks."""
    holders = [pod for pod in on_node if pod.holds_gpus]
    if not holders:
        return " No pod holds a GPU of the node now."
    names = listed([printable(pod.key, 120) for pod in holders], 4)
    return (
        f" GPUs of the node are held by {counted(len(holders), 'pod')}, whose owners should agree: {names}."
    )


_ALL_NODES = " A change in the ClusterPolicy concerns this component on every node."
_GPU_PODS = " The GPU pods of the node have to leave first and lose what they have not saved."
_UNKNOWN = (
    "Repair what the message names",
    Risk.DISRUPTIVE,
    "The message of the container names the reason. Take it for disruptive until the repair is known.",
)
_REGISTRY = (
    "Correct the access to the registry",
    Risk.DISRUPTIVE,
    "The node must reach the registry: its name, proxy, certificate and pull secret." + _ALL_NODES,
)
_OTHER_DRIVER = (
    "Move to a driver release that supports this kernel",
    Risk.DESTRUCTIVE,
    "The headers and the compiler are there: this release does not know the kernel. Set a later release of the same "
    "branch, or boot the kernel that it was made for; precompiled drivers avoid the build."
    + _ALL_NODES
    + _GPU_PODS,
)
RESTARTS_RUNTIME = (
    " It restarts the container runtime: running containers go on, but no pod of the node can be started or looked "
    "into for some seconds, and where systemd is reloaded with it, a container that has its GPUs from the legacy hook "
    "loses them (`Failed to initialize NVML: Unknown Error`) until its pod is made anew."
)
_RESET = (
    "Free the GPUs of everything that has them open, then let the MIG manager try again",
    Risk.DESTRUCTIVE,
    "A MIG mode change resets the GPUs, which any client prevents: besides pods also the kernel module nvidia_drm, "
    "nvidia-persistenced, a display server and monitoring." + _GPU_PODS,
)

REPAIRS = {
    "image-pull": (
        "Correct the image or the access to its registry",
        Risk.DISRUPTIVE,
        "A tag must exist for the node's OS version, and the node must reach the registry. A change in the "
        "ClusterPolicy restarts this component on every node.",
    ),
    "registry-unreachable": _REGISTRY,
    "registry-refuses-access": _REGISTRY,
    "registry-certificate-untrusted": _REGISTRY,
    "registry-rate-limited": _REGISTRY,
    "precompiled-driver-image-missing": (
        "Use a driver that is built on the node, or a kernel that a precompiled driver exists for",
        Risk.DESTRUCTIVE,
        "Set driver.usePrecompiled to false and a full driver version, or pin the node's kernel to one whose image is "
        "published." + _ALL_NODES + _GPU_PODS,
    ),
    "driver-image-missing-for-os": (
        "Set a driver version that is published for the node's operating system",
        Risk.DISRUPTIVE,
        "The operator appends the operating system that feature discovery found. Where no image exists for it, install "
        "the driver on the host and set driver.enabled to false." + _ALL_NODES,
    ),
    "driver-image-not-found": (
        "Set a driver version that is published",
        Risk.DISRUPTIVE,
        "The registry has no image of this name and tag." + _ALL_NODES,
    ),
    "plugin-on-node-without-gpu": (
        "Keep the plugin off nodes without GPUs",
        Risk.DISRUPTIVE,
        "A node selector on feature.node.kubernetes.io/pci-10de.present restarts the plugin on all nodes: for some "
        "seconds they take no new GPU pods.",
    ),
    "driver-library-mismatch": (
        "Reload the kernel modules, or reboot the drained node",
        Risk.DESTRUCTIVE,
        "User-space and kernel driver differ, typically after an unattended package upgrade on the host. Either way "
        "the GPU pods of the node have to leave first and lose what they have not saved.",
    ),
    "mig-mode-change-reset-blocked": _RESET,
    "mig-mode-needs-reset": _RESET,
    "mig-profile-not-supported": (
        "Choose a MIG configuration that the node's GPUs support",
        Risk.DISRUPTIVE,
        "The MIG manager restarts the device plugin of the node when it applies it.",
    ),
    "mig-config-unknown": (
        "Choose a MIG configuration that the MIG manager's file names",
        Risk.DISRUPTIVE,
        "The MIG manager restarts the device plugin of the node when it applies it.",
    ),
    "mig-strategy-mismatch": (
        "Give all GPUs of the node one MIG layout, or use the strategy `mixed`",
        Risk.DESTRUCTIVE,
        "With `mixed` the resource names change, and workloads must ask for nvidia.com/mig-<profile>."
        + _GPU_PODS,
    ),
    "driver-build-no-headers-for-kernel": (
        "Give the driver container the headers of the running kernel",
        Risk.DISRUPTIVE,
        "No kernel headers for the running kernel could be found: use precompiled drivers, give the driver container "
        "its package repository (driver.repoConfig), or update the kernel, which needs a reboot.",
    ),
    "driver-build-packages-unreachable": (
        "Let the driver container reach its package sources",
        Risk.DISRUPTIVE,
        "It needs DNS and the distribution's repository, a proxy (driver.env) or a mirror (driver.repoConfig); "
        "precompiled drivers need none." + _ALL_NODES,
    ),
    "driver-build-no-entitlement": (
        "Give the node its subscription",
        Risk.DISRUPTIVE,
        "Kernel packages of this distribution are only handed out with an entitlement; precompiled drivers need none.",
    ),
    "driver-release-incompatible-with-kernel": _OTHER_DRIVER,
    "driver-module-not-loaded": _OTHER_DRIVER,
    "driver-needs-open-kernel-modules": (
        "Set the kind of kernel modules that the node's GPUs need",
        Risk.DESTRUCTIVE,
        "driver.kernelModuleType `auto` chooses it by GPU." + _ALL_NODES + _GPU_PODS,
    ),
    "gpu-not-supported-by-driver": (
        "Set a driver branch that supports the node's GPUs",
        Risk.DESTRUCTIVE,
        "Old GPUs need an old branch, new ones a new one; NVIDIADriver resources give each group of nodes its own."
        + _GPU_PODS,
    ),
    "nouveau-loaded": (
        "Keep nouveau from loading, and reboot the drained node",
        Risk.DESTRUCTIVE,
        "`blacklist nouveau` and `options nouveau modeset=0` in /etc/modprobe.d, then a new initramfs."
        + _GPU_PODS,
    ),
    "driver-in-use": (
        "Move the GPU pods off this node",
        Risk.DESTRUCTIVE,
        "Processes still use the old driver; their pods lose what they have not saved.",
    ),
    "driver-upgrade-eviction-blocked": (
        "Move the pods that block the upgrade away",
        Risk.DESTRUCTIVE,
        "They are named in the log: bare pods, pods with local storage, or a disruption budget that allows none to go. "
        "They lose what they have not saved.",
    ),
    "driver-upgrade-stuck": (
        "Finish what the upgrade waits for",
        Risk.DESTRUCTIVE,
        "The state in the node's label says what: a drain, the end of jobs, or the new driver pod."
        + _GPU_PODS,
    ),
    "driver-not-loaded": (
        "Bring the driver up",
        Risk.DISRUPTIVE,
        "The container runtime finds no loaded driver on the node: the driver pod, or without "
        "driver.enabled the host's own driver, is first.",
    ),
    "driver-already-running": (
        "Let one driver manage the node",
        Risk.DISRUPTIVE,
        "A driver on the host or a second driver pod is there already: with a host driver set driver.enabled to false."
        + _ALL_NODES,
    ),
    "secure-boot-rejects-driver": (
        "Enrol the key, or use signed drivers",
        Risk.DISRUPTIVE,
        "Secure Boot refuses an unsigned module. Enrolling a key needs a reboot.",
    ),
    "toolkit-cannot-configure-runtime": (
        "Give the toolkit the runtime's configuration file and socket",
        Risk.DISRUPTIVE,
        "k3s, RKE2, MicroK8s and k0s keep them elsewhere: CONTAINERD_CONFIG and CONTAINERD_SOCKET in toolkit.env; a "
        "read-only host needs CDI." + RESTARTS_RUNTIME + _ALL_NODES,
    ),
    "nvidia-runtime-not-configured": (
        "Have the toolkit set up the runtime that the node uses",
        Risk.DISRUPTIVE,
        "The handler `nvidia` must stand in the configuration that the container runtime reads: CONTAINERD_CONFIG in "
        "toolkit.env names it." + RESTARTS_RUNTIME + _ALL_NODES,
    ),
    "toolkit-binaries-missing": (
        "Have the toolkit install its programs again, or take its runtime out of the configuration",
        Risk.DISRUPTIVE,
        "The container runtime is configured to call programs of the toolkit that are not on the node, as after the "
        "operator was removed or its directory was cleaned." + RESTARTS_RUNTIME,
    ),
    "device-symlinks-failed": (
        "Switch the validator's links under /dev/char off",
        Risk.DISRUPTIVE,
        "DISABLE_DEV_CHAR_SYMLINK_CREATION=true in validator.driver.env, where the GPU is too new for the validator's "
        "list or the node's cgroup driver does not need the links." + _ALL_NODES,
    ),
    "peermem-module-not-loaded": (
        "Load the network driver before the GPU driver",
        Risk.DESTRUCTIVE,
        "nvidia_peermem needs the RDMA network driver to be there first: then the GPU driver is loaded again."
        + _GPU_PODS,
    ),
    "network-driver-not-ready": (
        "Bring the RDMA network driver up first",
        Risk.DISRUPTIVE,
        "With driver.rdma.enabled the GPU driver waits for it: install it, or set useHostMofed." + _ALL_NODES,
    ),
    "port-already-in-use": (
        "End the other program that listens on this port, or choose another one",
        Risk.DISRUPTIVE,
        "A second exporter on the node's network has it, often one that was installed on its own."
        + _ALL_NODES,
    ),
    "component-out-of-memory": (
        "Raise the component's memory limit",
        Risk.DISRUPTIVE,
        "Its container is ended at its own limit, which grows with GPUs, MIG instances and pods."
        + _ALL_NODES,
    ),
    "inotify-limit-reached": (
        "Raise fs.inotify.max_user_instances on the node",
        Risk.DISRUPTIVE,
        "Many watchers of one user share the limit. A sysctl raises it at once and disturbs nothing; what sets the "
        "node up must keep it over a reboot.",
    ),
    "device-plugin-config-invalid": (
        "Name a configuration that the plugin's ConfigMap has",
        Risk.DISRUPTIVE,
        "The node label nvidia.com/device-plugin.config names a key of the ConfigMap that the ClusterPolicy names.",
    ),
    "dcgm-host-engine-unreachable": (
        "Let the exporter reach its host engine",
        Risk.DISRUPTIVE,
        "A NetworkPolicy, or an engine that does not run: without dcgm.enabled the exporter runs one of its own."
        + _ALL_NODES,
    ),
    "dcgm-profiling-failed": (
        "Give the profiling counters one user",
        Risk.DISRUPTIVE,
        "A profiler or a second DCGM on the node holds them, or the GPU has none: leave the DCGM_FI_PROF fields out."
        + _ALL_NODES,
    ),
    "gpu-lost": (
        "Reboot the drained node, and have the board checked",
        Risk.DESTRUCTIVE,
        "A GPU that NVML calls lost answers nobody, and keeps the plugin from handing out the others."
        + _GPU_PODS,
    ),
    "disk-full": (
        "Free disk space on the node",
        Risk.DISRUPTIVE,
        "The driver is unpacked and built there; unused images are the kubelet's to remove.",
    ),
    "fabric-manager-not-running": (
        "Start the fabric manager of the driver's own version",
        Risk.DISRUPTIVE,
        "On NVSwitch systems CUDA waits for it; the driver container brings it along.",
    ),
}
"""Cause or way of failing -> what to do, what that may cost, why."""
