"""Pods of the GPU stack that restarted, or were replaced, on nodes with GPUs."""

from datetime import UTC, datetime

from diagnostics.models import ChangeKind
from diagnostics.operator_components import component_label
from diagnostics.snapshot import Pod, Snapshot, Source, SourceState
from diagnostics.storable import storable_text
from diagnostics.topology.changes import Changes
from diagnostics.topology.nodes import Nodes

LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


def note_restarts(snapshot: Snapshot, nodes: Nodes, changes: Changes) -> None:
    """Compare each component's pod on each node with the one that was there; no look while pods are missing."""
    if snapshot.source(Source.PODS).state is not SourceState.OK:
        return
    present: dict[str, dict[str, Pod]] = {}
    for pod in snapshot.pods:
        if pod.node is None or not pod.owners or pod.owners[0].kind != "DaemonSet" or pod.is_finished:
            continue
        component = component_label(pod)
        if component is None or pod.node not in nodes.seen:
            continue
        on_node = present.setdefault(pod.node, {})
        other = on_node.get(component)
        if other is None or _age_key(other) < _age_key(pod):
            on_node[component] = pod
    for name, pods in present.items():
        _compare(nodes, name, pods, changes)


def _age_key(pod: Pod) -> tuple[bool, datetime, str]:
    """During a roll-out two pods of a component are there: the one that stays, then the younger, counts."""
    return pod.deletion_at is None, pod.created_at or LONG_AGO, pod.uid


def _compare(nodes: Nodes, name: str, pods: dict[str, Pod], changes: Changes) -> None:
    seen = nodes.seen[name]
    now = {
        component: [
            storable_text(pod.uid or pod.name, 60),
            storable_text(pod.key, 600),
            sum(c.restarts for c in pod.containers),
        ]
        for component, pod in pods.items()
    }
    earlier = seen.row.operator_pods
    if not (nodes.is_first or seen.is_quiet):
        for component, (uid, key, restarts) in now.items():
            was = earlier.get(component)
            if was is not None and (was[0] != uid or was[2] < restarts):
                before, after = _described(was[1], was[2]), _described(key, restarts)
                changes.add(
                    ChangeKind.OPERATOR_POD_RESTARTED, seen.row, f"{component} on {name}", before, after
                )
    nodes.assign(seen.row, operator_pods=earlier | now)


def _described(key: object, restarts: object) -> str:
    return f"{key}, {restarts} restart" + ("" if restarts == 1 else "s")
