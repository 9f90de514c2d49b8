"""Snapshots in the database: the latest of each cluster."""

from datetime import datetime
from typing import NamedTuple

from diagnostics.models import Cluster, StoredSnapshot
from diagnostics.snapshot import Past, Snapshot, Source, stored


class Packed(NamedTuple):
    """A snapshot ready to be written: packing takes longer than writing, and no lock is held meanwhile."""

    taken_at: datetime
    server_version: str
    data: bytes | None
    """None when there is nothing in it: the last picture stays, with its age, instead of an empty one."""


def packed(snapshot: Snapshot) -> Packed:
    is_worth_keeping = any(snapshot.source(source).state.is_usable for source in (Source.NODES, Source.PODS))
    data = stored.dumps(snapshot) if is_worth_keeping else None
    return Packed(snapshot.taken_at, snapshot.server_version, data)


def publish(cluster: Cluster, kept: Packed) -> None:
    """Make this the cluster's latest snapshot, unless nothing is in it."""
    if kept.server_version and kept.server_version != cluster.server_version:
        cluster.server_version = kept.server_version[:60]
        cluster.save(update_fields=["server_version"])
    if kept.data is not None:
        StoredSnapshot.objects.update_or_create(
            cluster=cluster,
            defaults={"taken_at": kept.taken_at, "format": stored.VERSION, "data": kept.data},
        )


def latest(cluster: Cluster) -> Snapshot | None:
    """The latest snapshot with something in it; None before the first. Raises UnreadableSnapshot."""
    row = StoredSnapshot.objects.filter(cluster=cluster).first()
    return None if row is None else stored.loads(bytes(row.data))


def past(cluster: Cluster) -> Past:  # noqa: ARG001
    """What the next poll may know of the earlier ones."""
    return Past()
