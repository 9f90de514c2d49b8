"""The latest snapshot of each cluster in the database, and the metrics that the next poll needs."""

import logging
from datetime import datetime, timedelta
from typing import NamedTuple

from diagnostics.collect import windows
from diagnostics.collect.past import past_after
from diagnostics.collect.windows import RecentSamples
from diagnostics.models import Cluster, RecentSamplesRow, StoredSnapshot
from diagnostics.snapshot import Past, Snapshot, Source, stored

log = logging.getLogger(__name__)


class Packed(NamedTuple):
    """What a poll leaves, ready to be written: packing takes longer than writing, and no lock is held meanwhile."""

    cluster_pk: int
    """Which cluster was asked: its earlier samples are among these."""
    taken_at: datetime
    server_version: str
    snapshot: bytes | None
    """None when there is nothing in it: the last picture stays, with its age, instead of an empty one."""
    samples: bytes | None
    """None where Prometheus keeps them."""


def packed(cluster: Cluster, snapshot: Snapshot, recent: RecentSamples | None) -> Packed:
    """The snapshot, and the samples that the next poll makes windows of."""
    has_content = any(snapshot.source(source).state.is_usable for source in (Source.NODES, Source.PODS))
    return Packed(
        cluster.pk,
        snapshot.taken_at,
        snapshot.server_version,
        stored.dumps(snapshot) if has_content else None,
        windows.encode(recent) if recent is not None else None,
    )


def publish(cluster: Cluster, kept: Packed) -> None:
    """Make this the cluster's latest snapshot, unless nothing is in it, and its latest samples.

    If it is another cluster that answered, its samples begin with the next poll.
    """
    if kept.server_version and kept.server_version != cluster.server_version:
        cluster.server_version = kept.server_version[:60]
        cluster.save(update_fields=["server_version"])
    if kept.samples is not None and kept.cluster_pk == cluster.pk:
        RecentSamplesRow.objects.update_or_create(
            cluster=cluster, defaults={"taken_at": kept.taken_at, "data": kept.samples}
        )
    if kept.snapshot is not None:
        StoredSnapshot.objects.update_or_create(
            cluster=cluster,
            defaults={"taken_at": kept.taken_at, "format": stored.VERSION, "data": kept.snapshot},
        )


def latest(cluster: Cluster) -> Snapshot | None:
    """The latest snapshot with something in it; None before the first. Raises UnreadableSnapshot."""
    row = StoredSnapshot.objects.filter(cluster=cluster).first()
    return None if row is None else stored.loads(bytes(row.data))


def earlier(cluster: Cluster, xid_recent: timedelta) -> tuple[Past, RecentSamples]:
    """What the next poll may know of those before it: their history, and what they measured.

    Both are empty at first; the samples stay so where Prometheus keeps them. A snapshot that cannot be read costs the
    history, not the poll.
    """
    try:
        last = latest(cluster)
    except stored.UnreadableSnapshot:
        log.warning("%s: the last snapshot cannot be read, its history is lost", cluster.slug)
        last = None
    row = RecentSamplesRow.objects.filter(cluster=cluster).first()
    return (
        Past() if last is None else past_after(last, xid_recent),
        RecentSamples() if row is None else windows.decode(bytes(row.data)),
    )
