"""Which cause explains the failing components of a node: what they say, their images, and what else is known of it."""

from dataclasses import dataclass

from diagnostics.findings import Confidence
from diagnostics.operator_components import COMPONENTS, component_label
from diagnostics.rules.stack.failures import Failure, failure_of
from diagnostics.rules.stack.image_pull import pull_cause
from diagnostics.rules.stack.said import NOT_INJECTED, NOT_USED
from diagnostics.snapshot import Node, Pod, Snapshot
from diagnostics.states import FRESH_FOR
from diagnostics.text import printable

DRIVERS = {"driver", "vGPU manager"}
_PROOFS = DRIVERS | {"validator"}
"""Components that are not ready without a loaded driver."""
_NFD = "feature.node.kubernetes.io/"
_HARDWARE = (
    "nvidia.com/gpu.present",
    f"{_NFD}pci-10de.present",
    f"{_NFD}pci-0302_10de.present",
    f"{_NFD}pci-0300_10de.present",
)


@dataclass(frozen=True)
class Cause:
    """A cause with what is to be said of it."""

    slug: str
    short: str = ""
    """For the title; empty: how the pod fails says enough."""
    words: str = ""
    """A sentence for the summary."""
    confidence: Confidence | None = None
    """None: as certain as the failure itself."""


_TOLD: dict[str, tuple[str, str]] = {
    "driver-build-no-headers-for-kernel": (
        "no kernel headers for the node's kernel",
        "The driver container finds no headers for the running kernel in its package sources, so it cannot build the "
        "kernel modules.",
    ),
    "driver-build-packages-unreachable": (
        "its package sources cannot be reached",
        "The driver container cannot reach the package sources that it takes kernel headers from.",
    ),
    "driver-build-no-entitlement": (
        "no entitlement for its package sources",
        "The package sources of the distribution need an entitlement, which the driver container does not have.",
    ),
    "driver-release-incompatible-with-kernel": (
        "this driver release does not build for the node's kernel",
        "The kernel's headers are there: this driver release does not compile or load with it, or with its "
        "compiler.",
    ),
    "precompiled-driver-image-missing": (
        "no precompiled driver image for the node's kernel",
        "Precompiled drivers are made for single kernels, and none is published for this one.",
    ),
    "driver-image-missing-for-os": (
        "no driver image for this version and operating system",
        "The operator adds the node's operating system to the driver version, and no such image is published.",
    ),
    "secure-boot-rejects-driver": (
        "Secure Boot refuses the kernel module",
        "The kernel only loads modules that are signed with a key that it knows.",
    ),
    "nouveau-loaded": (
        "the nouveau driver holds the GPUs",
        "The kernel has loaded nouveau, and two drivers cannot have one device.",
    ),
    "driver-needs-open-kernel-modules": (
        "these GPUs need the other kind of kernel modules",
        "Newer GPUs only work with the open kernel modules, older ones only with the proprietary ones.",
    ),
    "gpu-not-supported-by-driver": (
        "this driver release does not support these GPUs",
        "The driver release is too new or too old for the GPU model of the node.",
    ),
    "driver-in-use": (
        "the old driver is still in use",
        "Something still uses the driver that is to be replaced.",
    ),
    "driver-upgrade-eviction-blocked": (
        "pods cannot be moved away for the driver upgrade",
        "The driver is only replaced once the node's GPU pods are gone, and some of them may not be evicted.",
    ),
    "toolkit-cannot-configure-runtime": (
        "it cannot configure the container runtime",
        "The container runtime's configuration cannot be written or the runtime not be restarted, so that no container "
        "gets the driver.",
    ),
    "nvidia-runtime-not-configured": (
        "the container runtime knows no NVIDIA runtime",
        "The container runtime of the node has no handler of that name: the toolkit has not set it up, or in another "
        "file than the runtime reads.",
    ),
    "driver-library-mismatch": (
        "kernel module and library of the driver differ",
        "The loaded kernel module is of another version than the driver's libraries, as after an upgrade without a "
        "reload.",
    ),
    "mig-mode-change-reset-blocked": (
        "the GPUs cannot be reset for the MIG change",
        "A change of the MIG mode needs a reset of the GPUs, which something that has them open prevents.",
    ),
    "mig-strategy-mismatch": (
        "the node's MIG layout does not fit its MIG strategy",
        "The strategy `single` takes one profile on all GPUs of a node.",
    ),
    "inotify-limit-reached": (
        "the node has no inotify watches left",
        "The limit on inotify instances or open files of the node is reached.",
    ),
    "plugin-on-node-without-gpu": (
        "the node has no NVIDIA hardware",
        "Feature discovery finds no NVIDIA device on the node: the plugin has nothing to do there.",
    ),
}
"""Cause -> short words for the title, and a sentence."""
_LOADED = "The node's driver is loaded, as its metrics show. "
_EMPTY_HANDED = (
    "The container was started by the runtime class {name}, so that the class and its handler are there: NVIDIA's "
    "runtime behind it handed over none of the driver's libraries, as with a wrong driver root or CDI specification "
    "in the configuration that the container toolkit writes."
)
_NOT_HANDED = (
    "The container was started without NVIDIA's runtime, which hands over the driver's libraries: the runtime is not "
    "the node's default, and the pod's runtime class does not ask for it."
)


def cause_at(snapshot: Snapshot, failing: list[tuple[Pod, Failure]]) -> Cause:
    """The cause of one place's failures, the leading one first in `failing`.

    Another component on the node may say aloud what the first one fails of.
    """
    pod, failure = failing[0]
    component = COMPONENTS[component_label(pod) or "gpu-operator"]
    node = snapshot.node_by_name.get(pod.node or "")
    slug = None
    if failure.how == "image-pull":
        slug = pull_cause(failure.container, failure.message, node)
    slug = slug or next((f.signature for _, f in failing if f.signature and not f.is_victim), None)
    if slug == NOT_USED:
        return _not_used(snapshot, pod, node, component)
    if slug is None and component in DRIVERS and _is_upgrading(node):
        slug = "driver-upgrade-stuck"
    if slug is None and failure.how == "sandbox":
        slug = f"{component.lower().replace(' ', '-')}-sandbox"
    slug = slug or f"{component.lower().replace(' ', '-')}-{failure.how}"
    short, words = _TOLD.get(slug, ("", ""))
    return Cause(slug, short, words)


def reporting(snapshot: Snapshot, node: str | None) -> int:
    """GPUs of the node with a fresh sample: DCGM reads them through the driver."""
    gpus = snapshot.gpus_by_node.get(node or "", [])
    ages = [snapshot.age(gpu.metrics.sampled_at) for gpu in gpus if gpu.metrics]
    return sum(age is not None and age <= FRESH_FOR for age in ages)


def ready_components(snapshot: Snapshot, node: str | None) -> list[str]:
    """Names of the node's components that are ready, each once."""
    pods = snapshot.pods_by_node.get(node or "", [])
    return sorted({name for pod in pods if (name := _well(pod))})


def has_hardware(node: Node) -> bool | None:
    """Whether an NVIDIA device is fitted; None where feature discovery has said nothing of the node."""
    if any(node.labels.get(label) == "true" for label in _HARDWARE) or node.gpu_count_label:
        return True
    return False if any(label.startswith(f"{_NFD}kernel-") for label in node.labels) else None


def _not_used(snapshot: Snapshot, pod: Pod, node: Node | None, component: str) -> Cause:
    """A container without the driver's libraries; certain where the driver is known to be loaded."""
    if component == "device plugin" and node is not None and has_hardware(node) is False:
        short, words = _TOLD["plugin-on-node-without-gpu"]
        return Cause("plugin-on-node-without-gpu", short, words)
    short = "the container runtime hands it no driver"
    slug, words = NOT_USED, _NOT_HANDED
    if "nvidia" in (pod.runtime_class or ""):
        # Without the class its pod is refused, without the handler its sandbox fails: here a container ran.
        slug, words = NOT_INJECTED, _EMPTY_HANDED.format(name=printable(pod.runtime_class or "", 60))
    if reporting(snapshot, pod.node):
        return Cause(slug, short, _LOADED + words)
    if _PROOFS & set(ready_components(snapshot, pod.node)):
        return Cause(slug, short, words)
    return Cause(slug, short, f"{words} Nothing shows that a driver is loaded at all.", Confidence.MEDIUM)


def _is_upgrading(node: Node | None) -> bool:
    state = node.labels.get("nvidia.com/gpu-driver-upgrade-state", "") if node else ""
    return state not in {"", "upgrade-done", "upgrade-required"}


def _well(pod: Pod) -> str | None:
    label = component_label(pod)
    return COMPONENTS[label] if label and pod.is_ready and failure_of(pod) is None else None
