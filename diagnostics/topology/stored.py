"""The rows behind a snapshot as they are, for a poll that comes too late to change them."""

from diagnostics.models import Cluster, Device, Node, Workload
from diagnostics.snapshot import Snapshot
from diagnostics.topology.known import Known


def as_stored(cluster: Cluster, snapshot: Snapshot) -> Known:
    """Known rows of what the snapshot shows; what has no row is left out."""
    slots = {gpu.slot for gpu in snapshot.gpus}
    nodes = {
        row.name: row for row in Node.objects.filter(cluster=cluster) if row.name in snapshot.node_by_name
    }
    live = Device.objects.filter(cluster=cluster, removed_at__isnull=True)
    owners = {
        (row.kind, row.namespace, row.name): row.pk
        for row in Workload.objects.filter(cluster=cluster).only("kind", "namespace", "name")
    }
    nobody = owners.pop(("", "", ""), None)
    if nobody is None:
        at = snapshot.taken_at
        nobody = Workload.objects.create(cluster=cluster, first_seen=at, last_seen=at).pk
    return Known(nodes, {row.slot: row for row in live if row.slot in slots}, owners, nobody)
