"""The pods that make GPUs usable on a node (driver, toolkit, device plugin, …), and how to tell them. Pure."""

from diagnostics.snapshot import Pod

COMPONENTS: dict[str, str] = {
    "nvidia-driver-daemonset": "driver",
    "nvidia-vgpu-manager-daemonset": "vGPU manager",
    "nvidia-container-toolkit-daemonset": "container toolkit",
    "nvidia-operator-validator": "validator",
    "nvidia-cuda-validator": "CUDA validator",
    "nvidia-device-plugin-daemonset": "device plugin",
    "nvidia-device-plugin-ds": "device plugin",
    "nvidia-device-plugin": "device plugin",
    "nvidia-gpu-device-plugin": "device plugin",
    "nvidia-dra-driver-kubelet-plugin": "DRA plugin",
    "nvidia-device-plugin-validator": "device plugin validator",
    "nvidia-device-plugin-mps-control-daemon": "MPS control daemon",
    "nvidia-dcgm": "DCGM host engine",
    "nvidia-dcgm-exporter": "DCGM exporter",
    "dcgm-exporter": "DCGM exporter",
    "gpu-feature-discovery": "feature discovery",
    "nvidia-mig-manager": "MIG manager",
    "nvidia-node-status-exporter": "node status exporter",
    "node-feature-discovery": "node feature discovery",
    "gpu-operator": "GPU operator",
}
"""Value of the pod's label -> component, in the order in which they wait for each other (GPU operator states).

The first failing one explains the others: the toolkit waits for the driver, all the rest for the toolkit.
"""

ORDER = {label: number for number, label in enumerate(COMPONENTS)}
_LABELS = ("app", "app.kubernetes.io/name", "name", "k8s-app", "app.kubernetes.io/component")


def component_label(pod: Pod) -> str | None:
    """Which operator component `pod` is, as a key of COMPONENTS; None for any other pod.

    Matched by label, since names differ (OpenShift driver DaemonSets carry the OS version, GKE has its own).
    """
    if pod.labels.get("app.kubernetes.io/component") == "nvidia-driver":
        return "nvidia-driver-daemonset"
    values = (pod.labels.get(key, "") for key in _LABELS)
    return next((value for value in values if value in COMPONENTS), None)


def is_component_of_node(pod: Pod) -> bool:
    """A component that serves the node it runs on, not a controller that happens to run there."""
    return any(o.kind in {"DaemonSet", "ClusterPolicy"} for o in pod.owners) or not pod.owners
