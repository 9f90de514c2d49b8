"""What the ledger says: hours, sums with money, and how far and how well they are known."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from django.db.models import Min, Q, QuerySet, Sum

from diagnostics.models import (
    STATES,
    Cluster,
    LedgerState,
    Price,
    StateInterval,
    TeamRule,
    UsageHour,
    Workload,
)
from diagnostics.snapshot import State
from diagnostics.usage import ledger as ledgers
from diagnostics.usage.intervals import Interval
from diagnostics.usage.moments import from_ms, to_ms
from diagnostics.usage.prices import PriceLine, boundaries, ceiled, floored, money, price_of
from diagnostics.usage.teams import By, Owner, Rule, team_of


class Grouping(StrEnum):
    """What sums are made by."""

    TEAM = "team"
    NAMESPACE = "namespace"
    WORKLOAD = "workload"
    MODEL = "model"
    STATE = "state"


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


class Group(NamedTuple):
    """One line of a summary."""

    name: tuple[str, ...] | None
    """Of the team, namespace, model or state; kind, namespace and name of a workload. None: nobody's time."""
    gpu_ms: int
    waste_ms: int
    unpriced_ms: int
    """GPU-milliseconds of models without a known price: not in the money."""
    costs: dict[str, Decimal]
    """Currency -> money; empty when no price is known. Unrounded."""
    wasted: dict[str, Decimal]


class Ledger(NamedTuple):
    """A summary, and what it rests on."""

    start: datetime
    """Full hours, UTC: the span that was asked for, widened to them."""
    end: datetime
    begins: datetime | None
    """The first hour of the whole ledger: nothing is known of what was before; None while there is none."""
    complete_through: datetime | None
    """Everything before is final; None before the first poll."""
    groups: tuple[Group, ...]
    """Without unobserved time; most GPU-time first."""
    unobserved_ms: int
    backfilled_ms: int
    """Of the groups, how much was rebuilt from Prometheus."""

    @property
    def total_ms(self) -> int:
        """All time that devices existed, as far as the ledger knows: observed or not."""
        return self.unobserved_ms + sum(group.gpu_ms for group in self.groups)

    @property
    def currencies(self) -> list[str]:
        return sorted({currency for group in self.groups for currency in group.costs})


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


def sums(cluster: Cluster, start: datetime, end: datetime, by: Grouping) -> Ledger:
    """GPU-time and money of [start, end), widened to full hours; teams and prices as they are mapped now."""
    start, end = floored(start), ceiled(end)
    lines = price_lines(cluster)
    name_of = _names(cluster, by)
    groups: dict[tuple[str, ...] | None, _Sum] = defaultdict(_Sum)
    unobserved = backfilled = 0
    cuts = boundaries(lines, start, end)
    for since, until in pairwise(cuts):
        rows = _rows(cluster, since, until).values_list(
            "workload", "model__name", "state", "is_gap", "is_backfilled"
        )
        for *what, is_gap, is_backfilled, gpu_ms, waste_ms in rows.annotate(
            all_ms=Sum("gpu_ms"), all_waste_ms=Sum("waste_ms")
        ):
            line = _Line(*what)
            if is_gap:
                unobserved += gpu_ms
                continue
            backfilled += gpu_ms if is_backfilled else 0
            groups[name_of(line)].add(gpu_ms, waste_ms, price_of(line.model, since, lines))
    found = [one.group(name) for name, one in groups.items()]
    found.sort(key=lambda group: (-group.gpu_ms, group.name or ()))
    begins = UsageHour.objects.filter(cluster=cluster).aggregate(first=Min("hour"))["first"]
    return Ledger(start, end, begins, complete_through(cluster), tuple(found), unobserved, backfilled)


def price_lines(cluster: Cluster) -> list[PriceLine]:
    """The prices that concern the cluster."""
    rows = Price.objects.filter(Q(cluster=cluster) | Q(cluster=None)).order_by("pk")
    return [
        PriceLine(
            row.pattern,
            row.per_gpu_hour,
            row.currency,
            row.valid_from,
            row.valid_to,
            row.cluster_id is not None,
        )
        for row in rows
    ]


def team_rules(cluster: Cluster) -> list[Rule]:
    """The mapping that concerns the cluster, in its order."""
    rows = TeamRule.objects.filter(Q(cluster=cluster) | Q(cluster=None))
    return [Rule(By(row.by), row.key, row.pattern, row.team) for row in rows]


class _Sum:
    def __init__(self) -> None:
        self.gpu_ms = self.waste_ms = self.unpriced_ms = 0
        self.costs: dict[str, Decimal] = defaultdict(Decimal)
        self.wasted: dict[str, Decimal] = defaultdict(Decimal)

    def add(self, gpu_ms: int, waste_ms: int, line: PriceLine | None) -> None:
        self.gpu_ms += gpu_ms
        self.waste_ms += waste_ms
        if line is None:
            self.unpriced_ms += gpu_ms
            return
        self.costs[line.currency] += money(gpu_ms, line)
        self.wasted[line.currency] += money(waste_ms, line)

    def group(self, name: tuple[str, ...] | None) -> Group:
        return Group(name, self.gpu_ms, self.waste_ms, self.unpriced_ms, dict(self.costs), dict(self.wasted))


class _Line(NamedTuple):
    """What an aggregated line is of."""

    workload: int
    model: str
    state: int


NameOf = Callable[[_Line], tuple[str, ...] | None]


def _names(cluster: Cluster, by: Grouping) -> NameOf:
    if by is Grouping.MODEL:
        return lambda line: (line.model,)
    if by is Grouping.STATE:
        return lambda line: (STATES[line.state].value,)
    names = _workload_names(cluster, by)
    return lambda line: names.get(line.workload)


def _workload_names(cluster: Cluster, by: Grouping) -> dict[int, tuple[str, ...]]:
    """Primary key -> name of its group; nobody has none."""
    rows = Workload.objects.filter(cluster=cluster).exclude(kind="")
    if by is Grouping.NAMESPACE:
        return {pk: (namespace,) for pk, namespace in rows.values_list("pk", "namespace")}
    if by is Grouping.WORKLOAD:
        return {pk: tuple(name) for pk, *name in rows.values_list("pk", "kind", "namespace", "name")}
    rules = team_rules(cluster)
    found = rows.values_list("pk", "namespace", "labels", "annotations")
    return {
        pk: (team_of(Owner(namespace, labels or {}, annotations or {}), rules),)
        for pk, namespace, labels, annotations in found
    }


def _rows(cluster: Cluster, start: datetime, end: datetime) -> QuerySet[UsageHour]:
    return UsageHour.objects.filter(cluster=cluster, hour__gte=start, hour__lt=end)
