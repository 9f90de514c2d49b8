"""Rows of the root owners that hold GPUs or ask for them, and the row that stands for nobody."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

from diagnostics.models import Cluster, Workload
from diagnostics.snapshot import Pod, Snapshot, Source, SourceState
from diagnostics.storable import storable_text
from diagnostics.topology.known import OwnerName
from diagnostics.topology.rows import TOUCH_AFTER, is_old, write

RECENT = 3 * TOUCH_AFTER
"""Rows last seen within this are loaded in one go; those of older ones are looked up by name."""
MOST_BYTES = 4096
"""Labels and annotations kept of one workload, in all."""
LONGEST_VALUE = 256
"""Bytes: a team's name is short; what is longer configures some controller."""
OF_ONE_POD = frozenset(
    {
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/controller-uid",
        "batch.kubernetes.io/job-completion-index",
        "controller-revision-hash",
        "controller-uid",
        "job-completion-index",
        "leaderworkerset.sigs.k8s.io/group-index",
        "leaderworkerset.sigs.k8s.io/group-key",
        "leaderworkerset.sigs.k8s.io/worker-index",
        "pod-template-generation",
        "pod-template-hash",
        "statefulset.kubernetes.io/pod-name",
        "training.kubeflow.org/replica-index",
    }
)
"""Labels that differ between the pods or revisions of one workload."""
NOBODY: OwnerName = ("", "", "")

type Words = tuple[dict[str, str], dict[str, str]]
"""Labels and annotations."""


class _Row(NamedTuple):
    pk: int
    labels: dict[str, str]
    annotations: dict[str, str]
    last_seen: datetime


class Workloads(NamedTuple):
    """Primary keys of the owners of one snapshot."""

    keys: dict[OwnerName, int]
    by_pod: dict[str, int]
    """Key of a pod -> primary key of its owner's row."""
    nobody: int
    is_first: bool
    """This poll is the cluster's first."""


def owner_of(pod: Pod) -> OwnerName:
    """Its root owner; a bare pod is its own."""
    root = pod.root
    return ("Pod", pod.namespace, pod.name) if root is None else (root.kind, root.namespace, root.name)


def record(cluster: Cluster, snapshot: Snapshot) -> Workloads:
    """Insert the owners that are new, and update those whose labels are others: at most five queries."""
    at = snapshot.taken_at
    members: dict[OwnerName, list[Pod]] = {}
    for pod in _with_gpus(snapshot):
        members.setdefault(owner_of(pod), []).append(pod)
    columns = {owner: _columns(owner) for owner in members}
    rows = _rows(cluster, at, {*columns.values(), NOBODY})
    is_first = NOBODY not in rows
    is_complete = snapshot.source(Source.WORKLOADS).state is SourceState.OK
    written: dict[OwnerName, Workload] = {}
    for owner, name in columns.items():
        row = rows.get(name)
        words = _words(owner, members[owner], snapshot, row)
        if row is not None and not is_complete and owner not in snapshot.workload_by_key:
            words = (row.labels, row.annotations)  # unread this time: what it said last stays
        if row is None or words != (row.labels, row.annotations):
            written[name] = _row(cluster, name, words, row, at)
    if is_first:
        written[NOBODY] = _row(cluster, NOBODY, ({}, {}), None, at)
    write(list(written.values()), ["labels", "annotations", "last_seen"])
    seen = [rows[name] for name in (*columns.values(), NOBODY) if name in rows]
    if any(is_old(row.last_seen, at) for row in seen):
        Workload.objects.filter(pk__in=[row.pk for row in seen]).update(last_seen=at)
    pks = {name: row.pk for name, row in rows.items()} | {name: row.pk for name, row in written.items()}
    keys = {owner: pks[name] for owner, name in columns.items()}
    by_pod = {pod.key: keys[owner] for owner, pods in members.items() for pod in pods}
    return Workloads(keys, by_pod, pks[NOBODY], is_first)


def _with_gpus(snapshot: Snapshot) -> Iterator[Pod]:
    holders = snapshot.gpus_by_pod
    return (pod for pod in snapshot.pods if (pod.gpus and not pod.is_finished) or pod.key in holders)


def _columns(owner: OwnerName) -> OwnerName:
    kind, namespace, name = owner
    return storable_text(kind, 80) or "unknown", storable_text(namespace, 253), storable_text(name, 253)


def _rows(cluster: Cluster, at: datetime, wanted: set[OwnerName]) -> dict[OwnerName, _Row]:
    fields = ("kind", "namespace", "name", *_Row._fields)
    of_cluster = Workload.objects.filter(cluster=cluster).values_list(*fields)
    found = {row[:3]: _Row(*row[3:]) for row in of_cluster.filter(last_seen__gte=at - RECENT)}
    missing = wanted - found.keys()
    if missing:
        kinds, namespaces, names = (set(parts) for parts in zip(*missing, strict=True))
        older = of_cluster.filter(kind__in=kinds, namespace__in=namespaces, name__in=names)
        found |= {row[:3]: _Row(*row[3:]) for row in older}
    return {name: row for name, row in found.items() if name in wanted}


def _row(cluster: Cluster, name: OwnerName, words: Words, row: _Row | None, at: datetime) -> Workload:
    kind, namespace, own = name
    found = Workload(
        cluster=cluster,
        kind=kind,
        namespace=namespace,
        name=own,
        labels=words[0],
        annotations=words[1],
        first_seen=at,
        last_seen=at,
    )
    if row is not None:
        found.pk, found._state.adding = row.pk, False
    return found


def _words(owner: OwnerName, pods: list[Pod], snapshot: Snapshot, row: _Row | None) -> Words:
    """Labels of the workload over those of its pods; annotations of the workload, or of a pod where it was not read.

    The first pod by name speaks for all, so that the answer stays the same from poll to poll.
    """
    pod = min(pods, key=lambda pod: pod.name)
    workload = snapshot.workload_by_key.get(owner)
    labels = {key: value for key, value in pod.labels.items() if key not in OF_ONE_POD}
    if workload is not None:
        labels |= workload.labels
    annotations = pod.annotations if workload is None else workload.annotations
    if row is not None and labels == row.labels and annotations == row.annotations:
        return row.labels, row.annotations
    left = MOST_BYTES
    kept_labels, left = _small(labels, left)
    kept_annotations, left = _small(annotations, left)
    return kept_labels, kept_annotations


def _small(words: Mapping[str, str], left: int) -> tuple[dict[str, str], int]:
    kept: dict[str, str] = {}
    for key in sorted(words):
        value = words[key]
        if len(value) > LONGEST_VALUE:
            continue
        size = _bytes(key) + _bytes(value)
        if size <= left:
            kept[storable_text(key)] = storable_text(value)
            left -= size
    return kept, left


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))
