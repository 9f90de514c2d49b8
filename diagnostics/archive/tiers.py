"""The cluster at time T: what each poll adds to the archive, and how it is found again.

The first snapshot of an hour is stored whole, those after it as patches of it: so what is kept for a month or for
13 months needs no other, and thinning takes patches before the base that they need.
"""

import logging
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from diagnostics.archive import patches
from diagnostics.archive.patches import Base
from diagnostics.models import ArchivedSnapshot, Cluster, Tier
from diagnostics.snapshot import Snapshot
from diagnostics.snapshot.stored import VERSION, UnreadableSnapshot

MOST_DAMAGED = 120
"""Rows in succession that may be unreadable before `at` gives up: two hours of polls."""

log = logging.getLogger(__name__)


class Entry(NamedTuple):
    """A row of the archive, ready to be written."""

    tier: str
    base_pk: int | None
    data: bytes


class Moment(NamedTuple):
    """One archived snapshot."""

    taken_at: datetime
    tier: str


def entry(cluster: Cluster, snapshot: Snapshot, encoded: bytes | None = None) -> Entry:
    """`snapshot` packed against the whole one of its hour, or whole where there is none that can be read.

    `encoded`: what `stored.encoded` makes of it, where that is there already.
    """
    hour = snapshot.taken_at.replace(minute=0, second=0, microsecond=0)
    day = hour.replace(hour=0)
    of_today = ArchivedSnapshot.objects.filter(
        cluster=cluster, base=None, taken_at__gte=day, taken_at__lt=day + timedelta(days=1)
    )
    whole = of_today.filter(taken_at__gte=hour, taken_at__lte=snapshot.taken_at).order_by("-taken_at").first()
    if whole is not None:
        try:
            return Entry(Tier.POLL, whole.pk, patches.pack(snapshot, Base.of(bytes(whole.data)), encoded))
        except UnreadableSnapshot as error:
            log.warning("%s: archive of %s: %s", cluster, whole.taken_at, error)
    tier = Tier.HOUR if of_today.filter(tier=Tier.DAY).exists() else Tier.DAY
    return Entry(tier, None, patches.pack(snapshot, None, encoded))


def keep(cluster: Cluster, taken_at: datetime, packed: Entry) -> None:
    """Add the row; one of the same moment stays as it is, since others may be patches of it."""
    row = ArchivedSnapshot(
        cluster=cluster,
        taken_at=taken_at,
        tier=packed.tier,
        base_id=packed.base_pk,
        format=VERSION,
        data=packed.data,
    )
    ArchivedSnapshot.objects.bulk_create([row], ignore_conflicts=True)


def at(cluster: Cluster, moment: datetime) -> Snapshot | None:
    """The cluster as it was at `moment`: the nearest archived snapshot that is not later; its `taken_at` says when.

    Metrics and windows are rounded (`measured.STEPS`). None where nothing is kept of that time or before.
    """
    return read_at(cluster, moment, _snapshot)


def _snapshot(data: bytes, base: bytes | None) -> Snapshot:
    return patches.unpack(data, None if base is None else Base.of(base))


def read_at[T](cluster: Cluster, moment: datetime, read: Callable[[bytes, bytes | None], T]) -> T | None:
    """What `read` makes of the bytes of the row of `moment` and of its base.

    Rows for which it raises UnreadableSnapshot are passed over.
    """
    rows = ArchivedSnapshot.objects.filter(cluster=cluster, taken_at__lte=moment).order_by("-taken_at")
    for row in rows.defer("data")[:MOST_DAMAGED]:
        try:
            return read(bytes(row.data), None if row.base_id is None else _data(row.base_id))
        except UnreadableSnapshot as error:
            log.warning("%s: archive of %s: %s", cluster, row.taken_at, error)
    return None


def moments(cluster: Cluster, start: datetime, end: datetime) -> list[Moment]:
    """What is archived from `start` up to but not including `end`, oldest first."""
    rows = ArchivedSnapshot.objects.filter(cluster=cluster, taken_at__gte=start, taken_at__lt=end)
    return [Moment(*row) for row in rows.order_by("taken_at").values_list("taken_at", "tier")]


def samples_of(cluster: Cluster, start: datetime, end: datetime) -> Iterator[patches.Sampled]:
    """What the GPUs measured at each poll from `start` to before `end`; what cannot be read is left out."""
    rows = ArchivedSnapshot.objects.filter(cluster=cluster, taken_at__gte=start, taken_at__lt=end)
    bases: dict[int, Base | None] = {}
    for row in rows.order_by("taken_at").iterator(chunk_size=10):
        try:
            if row.base_id is not None and row.base_id not in bases:
                # One hour's whole snapshot is all that is held at a time.
                bases = {row.base_id: _base(row.base_id)}
            base = None if row.base_id is None else bases[row.base_id]
            if row.base_id is None or base is not None:
                yield patches.sampled(bytes(row.data), base)
        except UnreadableSnapshot as error:
            log.warning("%s: archive of %s: %s", cluster, row.taken_at, error)


def _base(pk: int) -> Base | None:
    try:
        return Base.of(_data(pk))
    except UnreadableSnapshot:
        return None


def _data(pk: int) -> bytes:
    """Empty where the row is gone since: read as damaged."""
    data = ArchivedSnapshot.objects.filter(pk=pk).values_list("data", flat=True).first()
    return b"" if data is None else bytes(data)
