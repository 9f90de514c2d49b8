"""What the cluster is made of, who held what from when to when, and what changed: the rows behind a snapshot.

`record` compares each poll with the rows that it finds and writes what differs: a fixed number of queries, whatever
the size of the cluster.
"""

from diagnostics.models import Cluster
from diagnostics.models.cluster import LATE_AT_MOST
from diagnostics.snapshot import Snapshot
from diagnostics.topology import workloads
from diagnostics.topology.allocations import Allocations
from diagnostics.topology.changes import Changes
from diagnostics.topology.devices import Devices
from diagnostics.topology.known import Known
from diagnostics.topology.nodes import Nodes
from diagnostics.topology.operators import note_restarts
from diagnostics.topology.stored import as_stored

__all__ = ["Known", "record"]


def record(cluster: Cluster, snapshot: Snapshot) -> Known:
    """Bring the cluster's nodes, devices, workloads and allocations up to date; append what changed.

    To be called in a transaction. A source that failed or came in part removes and ends nothing: what it does not show
    stays. The first poll changes nothing, since to it everything is new. A poll that comes late (older than the last
    one) is not recorded: it gets the rows as they are.
    """
    last = cluster.last_taken_at
    if last is not None and last - LATE_AT_MOST <= snapshot.taken_at < last:
        return as_stored(cluster, snapshot)
    changes = Changes(cluster, snapshot.taken_at)
    owners = workloads.record(cluster, snapshot)
    nodes = Nodes(cluster, snapshot, changes, owners)
    devices = Devices(cluster, snapshot, nodes)
    devices.compare(changes)
    note_restarts(snapshot, nodes, changes)
    nodes.write()
    devices.write()
    by_slot = devices.by_slot()
    Allocations(cluster, snapshot, nodes, by_slot, owners).record()
    changes.write()
    rows = {name: seen.row for name, seen in nodes.seen.items()}
    return Known(rows, by_slot, owners.keys, owners.nobody)
