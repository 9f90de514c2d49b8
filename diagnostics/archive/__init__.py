"""What is kept of the snapshots: the latest, the cluster at time T, its events, and the history for the next poll."""

from datetime import timedelta
from typing import NamedTuple

from diagnostics.archive import event_hours, excerpts, parts, past, samples, tiers
from diagnostics.archive.event_hours import events
from diagnostics.archive.parts import latest
from diagnostics.archive.tiers import Moment, at, moments
from diagnostics.collect.windows import RecentSamples
from diagnostics.limits import Limits
from diagnostics.models import Cluster, StoredPicture
from diagnostics.picture import drawn, dumps
from diagnostics.snapshot import Past, Snapshot, Source, stored

__all__ = ["Moment", "Packed", "at", "earlier", "events", "latest", "moments", "packed", "publish"]


class Packed(NamedTuple):
    """What a poll leaves, ready to be written: packing takes longer than writing, and no lock is held meanwhile."""

    cluster_pk: int
    """Which cluster was asked: its earlier samples are among these, and its archive is what patches need."""
    seen: Snapshot
    parts: dict[int, bytes]
    """Empty when there is nothing in it: the last snapshot stays, with its age, instead of an empty one. So with the
    next three."""
    picture: tuple[bytes, bytes] | None
    """For pages: devices, workloads."""
    entry: tiers.Entry | None
    past: bytes | None
    event_hours: tuple[event_hours.Hour, ...]
    samples: samples.Entry | None
    """None where Prometheus keeps them."""


def packed(
    cluster: Cluster, snapshot: Snapshot, recent: RecentSamples | None, limits: Limits | None = None
) -> Packed:
    """The snapshot, as the latest and for the archive, and what the next poll is to know."""
    has_content = any(snapshot.source(source).state.is_usable for source in (Source.NODES, Source.PODS))
    encoded = stored.encoded(snapshot) if has_content else None
    return Packed(
        cluster.pk,
        snapshot,
        parts.split(snapshot, encoded) if encoded is not None else {},
        dumps(drawn(snapshot, limits)) if has_content else None,
        tiers.entry(cluster, snapshot, encoded) if has_content else None,
        past.pack(snapshot) if has_content else None,
        tuple(event_hours.changed_hours(cluster, snapshot.events, snapshot.taken_at)),
        samples.entry(recent, snapshot.taken_at) if recent is not None else None,
    )


def publish(cluster: Cluster, kept: Packed) -> None:
    """Make this the cluster's latest snapshot, unless nothing is in it, and add it to the archive; after the incidents
    are recorded, in the same transaction.

    If it is another cluster that answered, its samples begin with the next poll.
    """
    if kept.cluster_pk != cluster.pk:
        kept = packed(cluster, kept.seen, None)._replace(picture=kept.picture)
    taken_at, version = kept.seen.taken_at, kept.seen.server_version[:60]
    if version and version != cluster.server_version:
        cluster.server_version = version
        cluster.save(update_fields=["server_version"])
    if kept.samples is not None:
        samples.keep(cluster, kept.samples)
    if kept.parts:
        parts.keep(cluster, kept.seen, kept.parts)
    if kept.picture is not None:
        devices, workloads = kept.picture
        StoredPicture.objects.bulk_create(
            [StoredPicture(cluster=cluster, taken_at=taken_at, devices=devices, workloads=workloads)],
            update_conflicts=True,
            unique_fields=["cluster"],
            update_fields=["taken_at", "devices", "workloads"],
        )
    if kept.entry is not None:
        tiers.keep(cluster, taken_at, kept.entry)
    if kept.past is not None:
        past.keep(cluster, kept.past)
    event_hours.keep(cluster, kept.event_hours)
    excerpts.keep(cluster, kept.seen)


def earlier(cluster: Cluster, xid_recent: timedelta) -> tuple[Past, RecentSamples]:
    """What the next poll may know of those before it: their history, and what they measured.

    Both are empty at first; the samples stay so where Prometheus keeps them. What cannot be read costs the history,
    not the poll.
    """
    return past.known(cluster, xid_recent), samples.known(cluster)
