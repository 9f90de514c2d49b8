"""What an incident was about when it opened, came back and was resolved: a snapshot of its subject alone."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from django.db.models import Q

from diagnostics.models import Cluster, Excerpt, Incident
from diagnostics.snapshot import Gang, OwnerKey, Past, Pod, Snapshot, stored
from diagnostics.snapshot.stored import UnreadableSnapshot

MOST_BYTES = 50_000
"""Of one excerpt."""
_MOST = {"pods": 512, "nodes": 128, "gpus": 1024, "events": 500, "signals": 200}
"""Of each kind before anything is packed; the subject's own come first."""
_CUTS = ((1_000, 200), (300, 60), (253, 20), (253, 8), (64, 2))
"""(longest text, most items of a list), tried in turn until it is small enough."""
_MOST_KEYS = 64
"""Of a mapping; no object of ours has as many fields."""
_DEEPEST = 12


class _About(NamedTuple):
    """What belongs to a subject."""

    pods: list[Pod]
    nodes: list[str]
    gangs: list[Gang]


def excerpt_of(snapshot: Snapshot, incident: Incident) -> tuple[bytes, bool]:
    """The incident's subject, its nodes with their GPUs, gang, pods, workload and events, as `snapshot.stored`; and
    whether something was left out or cut short to keep it within 50 KB.
    """
    part, is_cut = _part(snapshot, _about(snapshot, incident), incident)
    data = stored.dumps(part)
    if len(data) <= MOST_BYTES:
        return data, is_cut
    tree = msgspec.to_builtins(part)
    for longest, most in _CUTS:
        data = stored.dumps(msgspec.convert(_cut(tree, longest, most), Snapshot, strict=False))
        if len(data) <= MOST_BYTES:
            return data, True
    bare = Snapshot(taken_at=snapshot.taken_at, cluster_id=snapshot.cluster_id[:100])
    return stored.dumps(bare), True


def keep(cluster: Cluster, snapshot: Snapshot) -> None:
    """Excerpts of all that opened, came back or was resolved at this poll; after `incidents.record`, in the same
    transaction. One takes about a millisecond, and in the steady state there are none.
    """
    at = snapshot.taken_at
    moved = cluster.incidents.filter(Q(opened_at=at) | Q(reopened_at=at) | Q(resolved_at=at))
    rows = []
    for incident in moved:
        data, is_cut = excerpt_of(snapshot, incident)
        rows.append(Excerpt(incident=incident, at=at, moment=_moment(incident, at), is_cut=is_cut, data=data))
    Excerpt.objects.bulk_create(rows)


def read(excerpt: Excerpt) -> Snapshot | None:
    """The snapshot in it; None where it cannot be read."""
    try:
        return stored.loads(bytes(excerpt.data))
    except UnreadableSnapshot:
        return None


def _moment(incident: Incident, at: datetime) -> str:
    if incident.resolved_at == at:
        return "resolved"
    return "reopened" if incident.reopened_at == at else "opened"


def _about(snapshot: Snapshot, incident: Incident) -> _About:
    kind, namespace, name = incident.subject_kind, incident.subject_namespace, incident.subject_name
    if kind in ("Node", "GPU"):
        node = name.partition("/")[0]
        here = snapshot.pods_by_node.get(node, [])
        holders = {
            key for gpu in snapshot.gpus_by_node.get(node, []) if gpu.slot == name for key in gpu.holders
        }
        # The GPU's holders first, then whatever holds others, then the operator's and the rest.
        pods = sorted(here, key=lambda pod: (pod.key not in holders, not pod.holds_gpus))
        return _About(pods, [node], [])
    gangs = [g for g in snapshot.gangs if (g.kind, g.namespace, g.name) == (kind, namespace, name)]
    members = {key for gang in gangs for key in gang.members}
    pods = [pod for pod in snapshot.pods if pod.key in members or _is_of(pod, kind, namespace, name)]
    pods.sort(key=lambda pod: pod.is_ready)
    mine = {pod.key for pod in pods}
    gangs = gangs or [gang for gang in snapshot.gangs if not mine.isdisjoint(gang.members)]
    return _About(pods, list(dict.fromkeys(pod.node for pod in pods if pod.node)), gangs)


def _is_of(pod: Pod, kind: str, namespace: str, name: str) -> bool:
    if pod.namespace != namespace:
        return False
    root = pod.root or OwnerKey("Pod", pod.namespace, pod.name)
    if (kind, name) in ((root.kind, root.name), ("Pod", pod.name)):
        return True
    return any((owner.kind, owner.name) == (kind, name) for owner in pod.owners)


def _part(snapshot: Snapshot, about: _About, incident: Incident) -> tuple[Snapshot, bool]:
    """The snapshot of these alone, each kind cut to `_MOST`; and whether any was."""
    whole: dict[str, list[Any]] = {
        "pods": about.pods,
        "nodes": [snapshot.node_by_name[n] for n in about.nodes if n in snapshot.node_by_name],
        "gpus": [gpu for node in about.nodes for gpu in snapshot.gpus_by_node.get(node, [])],
        "events": _events(snapshot, about, incident),
        "signals": [s for pod in about.pods for s in snapshot.signals_by_pod.get(pod.key, [])],
    }
    kept: dict[str, Any] = {name: tuple(items[: _MOST[name]]) for name, items in whole.items()}
    roots = {(p.root.kind, p.root.namespace, p.root.name) for p in kept["pods"] if p.root}
    roots.add((incident.subject_kind, incident.subject_namespace, incident.subject_name))
    slots = {gpu.slot for gpu in kept["gpus"]}
    part = Snapshot(
        taken_at=snapshot.taken_at,
        cluster_id=snapshot.cluster_id,
        cluster=snapshot.cluster,
        server_version=snapshot.server_version,
        sources=snapshot.sources,
        gangs=tuple(about.gangs),
        workloads=tuple(w for w in snapshot.workloads if (w.kind, w.namespace, w.name) in roots),
        logs_read=tuple(pod.key for pod in kept["pods"] if pod.key in set(snapshot.logs_read)),
        past=Past(xids={slot: xids for slot, xids in snapshot.past.xids.items() if slot in slots}),
        **kept,
    )
    return part, any(len(items) > _MOST[name] for name, items in whole.items())


def _events(snapshot: Snapshot, about: _About, incident: Incident) -> list[Any]:
    """Those of the subject, its pods and nodes, the newest first."""
    objects = [("Pod", pod.namespace, pod.name) for pod in about.pods]
    objects += [("Node", namespace, node) for node in about.nodes for namespace in ("", "default")]
    objects.append((incident.subject_kind, incident.subject_namespace, incident.subject_name))
    found = [e for key in dict.fromkeys(objects) for e in snapshot.events_by_object.get(key, [])]
    found.sort(key=lambda e: e.last_at or e.first_at or datetime.min.replace(tzinfo=snapshot.taken_at.tzinfo))
    return found[::-1]


def _cut(value: Any, longest: int, most: int, depth: int = 0) -> Any:
    """Plain values with long texts, long lists and large mappings cut; equal names stay equal."""
    match value:
        case str():
            return value if len(value) <= longest else value[: longest - 1] + "…"
        case dict():
            if depth > _DEEPEST:
                return {}
            return {_cut(key, longest, most): _cut(v, longest, most, depth + 1) for key, v in _first(value)}
        case list() | tuple():
            return [] if depth > _DEEPEST else [_cut(v, longest, most, depth + 1) for v in value[:most]]
    return value


def _first(value: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    return list(value.items())[:_MOST_KEYS]
