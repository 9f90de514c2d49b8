"""Why a node does not offer the GPUs that it has: what its device plugin's pod, its log and the node's amounts say."""

from diagnostics.findings import Evidence
from diagnostics.operator_components import COMPONENTS, component_label
from diagnostics.rules.stack.component_cause import reporting
from diagnostics.rules.stack.failures import failure_of
from diagnostics.snapshot import GPU_RESOURCE_PREFIXES, LogSignal, Node, Pod, Snapshot
from diagnostics.text import counted, listed, printable

UNHEALTHY_OR_GONE = "devices-unhealthy-or-plugin-gone"
NOT_REGISTERED = "plugin-not-registered"
UNHEALTHY = "unhealthy-device"


def why_lost(
    snapshot: Snapshot, node: Node, *, all_lost: bool, upgrading: bool
) -> tuple[str, str, list[Evidence]]:
    """(cause, what it means, evidence). Of a plugin that is gone the kubelet keeps the capacity for five minutes
    (`endpointStopGracePeriod`, kubernetes/kubernetes pkg/kubelet/cm/devicemanager), and longer in older releases."""
    plugins = [p for p in snapshot.pods_by_node.get(node.name, []) if _is_plugin(p)]
    evidence = [Evidence("Device plugin", _state(plugins), source="pods of the node")] if plugins else []
    if upgrading:
        return "driver-upgrade-running", "A driver upgrade is running on it.", evidence
    sick = [
        s
        for p in plugins
        for s in snapshot.signals_by_pod.get(p.key, [])
        if s.signal == "plugin-device-unhealthy"
    ]
    if sick:
        evidence.append(
            Evidence("The plugin said", printable(sick[-1].line, 300), source="log of the plugin")
        )
    if not all_lost or sick:
        return UNHEALTHY, _taken_out(sick), evidence
    if any(amount > 0 for name, amount in node.capacity.items() if name.startswith(GPU_RESOURCE_PREFIXES)):
        if any(failure_of(p) is not None for p in plugins):
            meaning, driver = _not_registered(snapshot, node)
            return NOT_REGISTERED, meaning, evidence + driver
        meaning = (
            "Capacity counts all GPUs, allocatable those that the device plugin calls healthy: either all are marked "
            "unhealthy, or the plugin has gone. Pods do not lower allocatable: nobody has used them up."
        )
        return UNHEALTHY_OR_GONE, meaning, evidence
    meaning, driver = _not_registered(snapshot, node)
    return NOT_REGISTERED, meaning, evidence + driver


def _not_registered(snapshot: Snapshot, node: Node) -> tuple[str, list[Evidence]]:
    """The driver is named as a possible cause only where nothing shows that it is loaded."""
    if count := reporting(snapshot, node.name):
        words = f"loaded: {counted(count, 'GPU')} of the node report metrics"
        return "The device plugin is not registered with the kubelet.", [
            Evidence("Driver", words, source="DCGM")
        ]
    return "The device plugin is not registered with the kubelet, or the driver is not up.", []


def _taken_out(sick: list[LogSignal]) -> str:
    codes = sorted({int(s.numbers["xid_code"]) for s in sick if "xid_code" in s.numbers})
    after = f" after Xid {listed([str(code) for code in codes])}" if codes else ""
    return f"The device plugin took them out as unhealthy{after}; it never puts one back by itself."


def _is_plugin(pod: Pod) -> bool:
    label = component_label(pod)
    return label is not None and COMPONENTS[label] == "device plugin" and not pod.is_finished


def _state(plugins: list[Pod]) -> str:
    return listed([f"{p.name} is {'ready' if p.is_ready else 'not ready'}" for p in plugins], 3)
