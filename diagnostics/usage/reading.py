"""What the ledger says, line by line, and how far and how well it is known."""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from django.db.models import QuerySet

from diagnostics.models import STATES, Cluster, LedgerState, StateInterval, UsageHour
from diagnostics.snapshot import State
from diagnostics.usage import ledger as ledgers
from diagnostics.usage.intervals import Interval
from diagnostics.usage.moments import from_ms, to_ms


class Hour(NamedTuple):
    """GPU-milliseconds of one workload in one state on one model in one hour."""

    hour: datetime
    workload: int
    model: str
    state: State
    is_gap: bool
    is_backfilled: bool
    gpu_ms: int
    waste_ms: int


def hours(
    cluster: Cluster, start: datetime, end: datetime, *, workloads: list[int] | None = None
) -> Iterator[Hour]:
    """The ledger's lines whose hour begins in [start, end), oldest first; only those of `workloads` if given."""
    rows = _rows(cluster, start, end)
    if workloads is not None:
        rows = rows.filter(workload__in=workloads)
    fields = ("hour", "workload", "model__name", "state", "is_gap", "is_backfilled", "gpu_ms", "waste_ms")
    for hour, workload, model, state, *rest in rows.order_by("hour", "pk").values_list(*fields).iterator():
        yield Hour(hour, workload, model, STATES[state], *rest)


def complete_through(cluster: Cluster) -> datetime | None:
    """Everything before is final; None before the first poll."""
    return LedgerState.objects.filter(cluster=cluster).values_list("complete_through", flat=True).first()


def open_stays(cluster: Cluster) -> dict[int, Interval]:
    """Primary key of each device -> its present stay, as far as it is final: no row holds it until it ends."""
    ledger = LedgerState.objects.filter(cluster=cluster).first()
    if ledger is None or ledger.complete_through is None:
        return {}
    books = ledgers.opened(ledger, to_ms(ledger.complete_through))
    return {device: entry.open for device, entry in books.entries.items() if entry.open is not None}


def gaps(cluster: Cluster, start: datetime, end: datetime) -> list[tuple[datetime, datetime]]:
    """Spans of [start, end) in which at least one device was not observed, joined, oldest first."""
    first, last = to_ms(start), to_ms(end)
    rows = StateInterval.objects.filter(cluster=cluster, is_gap=True, start_ms__lt=last, end_ms__gt=first)
    spans = set(rows.values_list("start_ms", "end_ms").distinct())
    spans |= {(stay.start, stay.end) for stay in open_stays(cluster).values() if stay.is_gap}
    joined: list[list[int]] = []
    for begin, stop in sorted((max(first, begin), min(last, stop)) for begin, stop in spans):
        if begin >= stop:
            continue
        if joined and begin <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], stop)
        else:
            joined.append([begin, stop])
    return [(from_ms(begin), from_ms(stop)) for begin, stop in joined]


def _rows(cluster: Cluster, start: datetime, end: datetime) -> QuerySet[UsageHour]:
    return UsageHour.objects.filter(cluster=cluster, hour__gte=start, hour__lt=end)
