"""What the labels of a GPU series say: which device, on which node, held by which pod."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from diagnostics.snapshot.pci import pci_address

Labels = Mapping[str, str]

_HOST_LABELS = ("Hostname", "hostname", "node", "kubernetes_node", "nodename")
_EXPORTER = "dcgm-exporter"
_EXPORTER_NAMESPACES = frozenset({"gpu-operator", "nvidia-gpu-operator", "gke-managed-system"})

DEVICE_LABELS = ("UUID", "uuid", "gpu", "device", "pci_bus_id", "GPU_I_ID", *_HOST_LABELS, "instance")
"""What `device_key` reads."""
OWNER_LABELS = (
    "exported_pod", "exported_namespace", "exported_container",
    "pod_name", "pod_namespace", "container_name",
    "pod", "namespace", "container",
)  # fmt: skip
"""What `owner_of` reads."""
IDENTITY_LABELS = (
    *DEVICE_LABELS, *OWNER_LABELS,
    "modelName", "model_name", "GPU_I_PROFILE", "DCGM_FI_DRIVER_VERSION", "DCGM_FI_SYSTEM_DRIVER_VERSION",
)  # fmt: skip
"""Everything that a reading takes from labels: an aggregation that keeps these loses nothing."""


class DeviceKey(NamedTuple):
    """One device within one answer; `host` is the best node hint, which need not be the node's name."""

    host: str
    device: str
    """UUID of the board, else its PCI address, else `gpu <index>`."""
    instance: str
    """MIG GPU instance id; empty for the whole board."""


def model_name(text: str) -> str:
    """With dashes for blanks, as `nvidia.com/gpu.product` and `--replace-blanks-in-model-name` spell it."""
    return "-".join(text.split())


def index_of(labels: Labels) -> int | None:
    """DCGM's index of the board on its node, from `gpu="3"`, else from `device="nvidia3"`."""
    for text in (labels.get("gpu", ""), labels.get("device", "").removeprefix("nvidia")):
        if text.isascii() and text.isdigit() and len(text) < 6:
            return int(text)
    return None


def driver_of(labels: Labels) -> str | None:
    """Driver version, from either name of the label."""
    return labels.get("DCGM_FI_DRIVER_VERSION") or labels.get("DCGM_FI_SYSTEM_DRIVER_VERSION") or None


def device_key(labels: Labels, node: str | None = None) -> DeviceKey | None:
    """The device that a series is about; None where no label names one. `node`: the one scraped, if known."""
    device = labels.get("UUID") or labels.get("uuid") or pci_address(labels.get("pci_bus_id", ""))
    if not device:
        index = index_of(labels)
        if index is None:
            return None
        device = f"gpu {index}"
    host = node or next(_hosts(labels), "")
    return DeviceKey(host, device, labels.get("GPU_I_ID", ""))


def node_hints(labels: Labels, node: str | None = None) -> tuple[str, ...]:
    """Candidates for the node's name, best first, each once.

    The Hostname label is the node's name only where NODE_NAME is set for the exporter, else the exporter
    pod's name; `instance` is an address of the node or of that pod; the name of that pod comes last.
    """
    hints = [node] if node else []
    hints.extend(_hosts(labels))
    if is_exporter(labels.get("namespace", ""), labels.get("pod", ""), labels.get("container", "")):
        hints.append(labels.get("pod", ""))
    return tuple(dict.fromkeys(filter(None, hints)))


def owner_of(labels: Labels) -> str | None:
    """`namespace/name` of the pod that holds the device; None where the series names none but the exporter's.

    Prometheus moves the exporter's labels aside (`exported_pod`) where its target has some of the same name,
    and fills `pod` with the exporter's pod where the exporter names none: `pod` alone proves nothing. Under
    `--use-old-namespace` the labels are `pod_name` and `pod_namespace`; very old versions left them empty.
    """
    namespace = labels.get("exported_namespace") or labels.get("pod_namespace") or labels.get("namespace", "")
    pod = labels.get("exported_pod") or labels.get("pod_name")
    if pod:
        container = labels.get("exported_container") or labels.get("container_name", "")
        own = _EXPORTER in pod or _EXPORTER in container
    else:
        pod = labels.get("pod", "")
        own = is_exporter(namespace, pod, labels.get("container", ""))
    return None if own or not pod or not namespace else f"{namespace}/{pod}"


def is_exporter(namespace: str, pod: str, container: str) -> bool:
    """Whether a pod is dcgm-exporter, or lives where nothing but the operator's own pods do."""
    return _EXPORTER in pod or _EXPORTER in container or namespace in _EXPORTER_NAMESPACES


def _hosts(labels: Labels) -> Iterator[str]:
    for name in _HOST_LABELS:
        if host := labels.get(name):
            yield host
    if instance := labels.get("instance", ""):
        host, _, port = instance.rpartition(":")
        yield (host if port.isdigit() and host else instance).strip("[]")
