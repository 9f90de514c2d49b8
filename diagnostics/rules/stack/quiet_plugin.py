"""A device plugin that runs and is ready, and offers nothing though NVIDIA hardware is there: the quietest failure.

With `failOnInitError` false it does not end where it finds no driver; with MIG on and no instances it waits for ever.
"""

from diagnostics.operator_components import COMPONENTS, component_label
from diagnostics.rules.stack.component_cause import has_hardware
from diagnostics.rules.stack.failures import Failure
from diagnostics.rules.stack.said import cause_of
from diagnostics.snapshot import Container, Pod, Snapshot, gpu_resources


def offers_nothing(snapshot: Snapshot, pod: Pod) -> Failure | None:
    """The failure of a ready plugin whose log says why its node, which has NVIDIA hardware, offers no GPU."""
    node = snapshot.node_by_name.get(pod.node or "")
    if (
        node is None
        or COMPONENTS[component_label(pod) or "gpu-operator"] != "device plugin"
        or not pod.is_ready
    ):
        return None
    if gpu_resources(node.allocatable) or has_hardware(node) is not True:
        return None
    cause, line = cause_of(snapshot.signals_by_pod.get(pod.key, ()))
    if cause is None:
        return None
    container = next((c for c in pod.containers if not c.is_init), Container(name=""))
    return Failure(container, "nothing-offered", "", line, cause, is_victim=False)
