"""What is known of the cluster now, for reading its past: names of nodes, boards and owners, and collective jobs."""

from collections import defaultdict
from datetime import UTC, datetime

from diagnostics import archive
from diagnostics.archive import tiers
from diagnostics.collect.history import Cluster as KnownCluster
from diagnostics.collect.history import Known
from diagnostics.models import Allocation, Cluster, Device, Node, Workload
from diagnostics.snapshot import Node as SnapshotNode
from diagnostics.snapshot import OwnerKey, Snapshot
from diagnostics.snapshot.stored import UnreadableSnapshot
from diagnostics.topology.slots import REST

_NONE = Snapshot(taken_at=datetime(1970, 1, 1, tzinfo=UTC))


def known_cluster(cluster: Cluster, since: datetime) -> KnownCluster:
    """From the latest snapshot, the one at `since`, and the rows; pods that ended before `since` are left out."""
    latest = _latest(cluster)
    then = tiers.at(cluster, since) or _NONE
    nodes = {name: SnapshotNode(name=name) for name in _names(cluster)}
    nodes |= {node.name: node for node in latest.nodes}
    devices = Device.objects.filter(cluster=cluster).exclude(slot__endswith=REST)
    rows = list(devices.values_list("slot", "uuid", "node__name", "removed_at"))
    return KnownCluster(
        nodes=nodes,
        slots=frozenset(slot for slot, _, _, removed_at in rows if removed_at is None),
        node_by_uuid={uuid: node for _, uuid, node, _ in rows if uuid},
        owners=_owners(cluster, latest, since),
        workloads=(*then.workloads, *latest.workloads),
        gangs=(*then.gangs, *latest.gangs),
    )


def _latest(cluster: Cluster) -> Snapshot:
    try:
        found = archive.latest(cluster)
    except UnreadableSnapshot:
        found = None
    return found or _NONE


def _names(cluster: Cluster) -> list[str]:
    return list(Node.objects.filter(cluster=cluster).values_list("name", flat=True))


def _owners(cluster: Cluster, latest: Snapshot, since: datetime) -> Known:
    pods, by_uid = {}, {}
    held = Allocation.objects.filter(cluster=cluster).exclude(ended_at__lt=since)
    fields = ("pod", "pod_uid", "is_backfilled", "workload__kind", "workload__namespace", "workload__name")
    for pod, uid, is_backfilled, kind, namespace, name in held.values_list(*fields).iterator():
        root = pods[f"{namespace}/{pod}"] = OwnerKey(kind, namespace, name)
        if uid and not is_backfilled:
            by_uid[uid] = root
    for seen in latest.pods:
        if seen.root is not None and seen.gpus:
            pods[seen.key] = seen.root
            if seen.uid:
                by_uid[seen.uid] = seen.root
    roots: dict[str, list[OwnerKey]] = defaultdict(list)
    rows = Workload.objects.filter(cluster=cluster).exclude(kind="")
    for kind, namespace, name in rows.values_list("kind", "namespace", "name").iterator():
        roots[namespace].append(OwnerKey(kind, namespace, name))
    return Known(
        pods=pods, by_uid=by_uid, roots={namespace: tuple(found) for namespace, found in roots.items()}
    )
