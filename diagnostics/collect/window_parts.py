"""Windows out of samples: the same arithmetic for Prometheus's answers and for samples that we kept ourselves."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import msgspec

from diagnostics.collect.dcgm_metrics import WINDOW_FIELDS
from diagnostics.snapshot import Stat, Window, XidSeen

FIELD_COVERAGE_MIN = 0.8
"""A metric with fewer samples than this share of the best covered one is left out of the window: its collection
began or paused in between, and what it shows is not what the device did all the time (ours)."""


class Covered(msgspec.Struct, frozen=True, gc=False):
    """A metric's smallest, mean and largest value, and how many samples they come from."""

    min: float
    mean: float
    max: float
    count: int


def of_values(values: Iterable[float]) -> Covered | None:
    """Statistics of plain values; None without any."""
    kept = list(values)
    if not kept:
        return None
    return Covered(min(kept), sum(kept) / len(kept), max(kept), len(kept))


def in_succession(first: Covered, second: Covered) -> Covered:
    """Two pieces of one series, one after the other (the exporter's pod was replaced, for example)."""
    count = first.count + second.count
    mean = (first.mean * first.count + second.mean * second.count) / count
    return Covered(min(first.min, second.min), mean, max(first.max, second.max), count)


def at_once(first: Covered, second: Covered) -> Covered:
    """Two series of one device for the same time: the larger of each, as for single samples."""
    return Covered(
        max(first.min, second.min),
        max(first.mean, second.mean),
        max(first.max, second.max),
        max(first.count, second.count),
    )


def growth_of(values: Iterable[float]) -> float | None:
    """By how much a counter rose, oldest value first; None with fewer than two.

    Where it falls, the driver was loaded anew and it began at 0 (as Prometheus's `increase`).
    """
    kept = list(values)
    if len(kept) < 2:
        return None
    return sum(after - before if after >= before else after for before, after in pairwise(kept))


def window_from(
    stats: Mapping[str, Covered],
    interval_s: float,
    span: timedelta,
    xids: tuple[XidSeen, ...] = (),
    growth: Mapping[str, float] | None = None,
) -> Window:
    """The window over `span`; `interval_s`: seconds from one sample to the next, when none is missing; `growth`:
    one of COUNTERS -> by how much it rose.

    `coverage_ratio` is that of the least covered metric in it.
    """
    best = max((s.count for s in stats.values()), default=0)
    kept = {f: s for f, s in stats.items() if f in WINDOW_FIELDS and s.count >= FIELD_COVERAGE_MIN * best}
    least = min((s.count for s in kept.values()), default=0)
    found: dict[str, Any] = {field: Stat(s.min, s.mean, s.max) for field, s in kept.items()}
    found |= {f"{field}_grown": rise for field, rise in (growth or {}).items()}
    return Window(
        span=span,
        coverage_ratio=min(1.0, least * interval_s / span.total_seconds()),
        xids=xids,
        **found,
    )


def xids_of(gauge: Iterable[tuple[datetime, int]]) -> tuple[XidSeen, ...]:
    """Xids from the course of a device's gauge ("last Xid since DCGM started"; 0: none), oldest sample first.

    A change to a code happened between two samples: `last_at` is the later of them. A code that stands from the
    first sample on happened at an unknown time before: `standing_since` is that sample. It is forgotten when the
    gauge goes back to 0, because then DCGM or the GPU was started anew. A repeat of the same code cannot be seen.
    """
    found: dict[int, XidSeen] = {}
    before: int | None = None
    for at, code in gauge:
        if code == before:
            continue
        if code == 0:
            found = {c: seen for c, seen in found.items() if seen.last_at is not None}
        elif before is None:
            found[code] = XidSeen(code=code, standing_since=at)
        else:
            found[code] = XidSeen(code=code, last_at=at)
        before = code
    return tuple(found[code] for code in sorted(found))


def with_counts(
    xids: Iterable[XidSeen], counts: Mapping[int, Iterable[tuple[datetime, int]]], step: timedelta
) -> tuple[XidSeen, ...]:
    """`xids` joined with the exporter's own counts per code: (time, Xids within its sliding window), only times
    at which there were some, oldest first; `step`: distance of two times without a gap.

    `last_at` becomes the last time at which a count rose, up to one step after the Xid. A count that stands from
    the first time on proves a Xid of the minutes before: that time is taken, which is a little late.
    """
    found = {seen.code: seen for seen in xids}
    for code, course in counts.items():
        before, last_seen, last_at, total = 0, None, None, 0
        for at, count in course:
            if last_seen is not None and at - last_seen > step * 1.5:
                before = 0
            if count > before:
                last_at, total = at, total + count - before
            before, last_seen = count, at
        if last_at is None or code == 0:
            continue
        known = found.get(code, XidSeen(code=code))
        latest = max(filter(None, (known.last_at, last_at)))
        found[code] = msgspec.structs.replace(known, last_at=latest, count=total)
    return tuple(found[code] for code in sorted(found))
