"""What an incident has cost since it opened: by the ledger where its subject is a workload, else by an estimate."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from itertools import pairwise

from django.db.models import Case, IntegerField, Sum, Value, When

from diagnostics.models import Cluster, Device, Incident, IncidentEvent, UsageHour
from diagnostics.usage.mapping import price_lines
from diagnostics.usage.prices import PriceLine, boundaries, ceiled, floored, money, price_of
from diagnostics.usage.weights import HOUR_MS

NO_WORKLOADS = frozenset({"Node", "GPU"})
"""Kinds of subjects that hold no GPUs themselves."""
MOST_NODES = 50
"""Nodes that are asked for their GPUs' models."""
Kind = IncidentEvent.Kind


class Basis(StrEnum):
    LEDGER = "ledger"
    """All that the workload wasted meanwhile, in full hours, whatever the reason."""
    ESTIMATE = "estimate"
    """What it wastes now, times how long it has been open."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class Cost:
    basis: Basis
    since: datetime | None
    through: datetime | None
    """The ledger's last final moment, or the last poll that saw it."""
    gpu_hours: float | None = None
    """Wasted; None where that is not known."""
    unobserved_gpu_hours: float = 0.0
    """Nobody looked meanwhile: not in `gpu_hours`."""
    money: tuple[tuple[str, Decimal], ...] = ()
    """(currency, amount), unrounded; empty where no price is known."""
    unpriced_gpu_hours: float = 0.0
    """Of `gpu_hours`, on models without a known price: not in the money."""


def open_spans(
    opened_at: datetime | None, events: Iterable[IncidentEvent], end: datetime
) -> list[tuple[datetime, datetime]]:
    """When an incident was open, from `opened_at` up to `end`; by its events, the oldest first."""
    spans = []
    begun = opened_at
    for event in events:
        if event.kind == Kind.REOPENED:
            begun = event.at
        elif event.kind == Kind.RESOLVED and begun is not None:
            spans.append((begun, event.at))
            begun = None
    if begun is not None:
        spans.append((begun, max(begun, end)))
    return spans


def cost_of(
    cluster: Cluster,
    incident: Incident,
    spans: Sequence[tuple[datetime, datetime]],
    nodes: Sequence[str],
    complete_through: datetime | None,
) -> Cost:
    """At most two queries. `spans` as of `open_spans`; `nodes`: names of those that it touches; `complete_through`:
    of the cluster's ledger.
    """
    if not spans:
        return Cost(basis=Basis.UNKNOWN, since=None, through=None)
    start, end = spans[0][0], spans[-1][1]
    is_workload = False
    if incident.subject_kind not in NO_WORKLOADS and complete_through and complete_through > start:
        until = min(complete_through, ceiled(end)) if incident.is_resolved else complete_through
        is_workload = True
        found = _from_ledger(cluster, incident, floored(start), until, price_lines(cluster))
        if found is not None:
            return found
    if incident.waste_gpus is None:
        return Cost(basis=Basis.UNKNOWN, since=start, through=end)
    seconds = sum((stop - begun).total_seconds() for begun, stop in spans)
    gpu_hours = incident.waste_gpus * seconds / 3600
    # A workload that the ledger should know but does not: what it ran on is not known either.
    line = None if is_workload else _one_price(cluster, nodes, end)
    return Cost(
        basis=Basis.ESTIMATE,
        since=start,
        through=end,
        gpu_hours=gpu_hours,
        money=((line.currency, line.per_gpu_hour * Decimal(gpu_hours)),) if line else (),
        unpriced_gpu_hours=0.0 if line else gpu_hours,
    )


def _from_ledger(
    cluster: Cluster, incident: Incident, since: datetime, until: datetime, prices: list[PriceLine]
) -> Cost | None:
    """None where the ledger does not know the workload at that time. One query."""
    cuts = boundaries(prices, since, ceiled(until))
    of = UsageHour.objects.filter(
        cluster=cluster,
        workload__kind=incident.subject_kind,
        workload__namespace=incident.subject_namespace,
        workload__name=incident.subject_name,
        hour__gte=since,
        hour__lt=ceiled(until),
    )
    # Prices change at full hours alone: between two cuts a model has one price.
    whens = [When(hour__lt=stop, then=Value(at)) for at, (_, stop) in enumerate(pairwise(cuts))]
    period = Case(*whens, default=Value(0), output_field=IntegerField())
    rows = list(
        of.annotate(period=period)
        .values("model__name", "period", "is_gap")
        .annotate(all_ms=Sum("gpu_ms"), all_waste_ms=Sum("waste_ms"))
        .order_by()
    )
    if not rows:
        return None
    wasted = unobserved = unpriced = 0
    costs: dict[str, Decimal] = defaultdict(Decimal)
    for row in rows:
        if row["is_gap"]:
            unobserved += row["all_ms"]
            continue
        wasted += row["all_waste_ms"]
        line = price_of(row["model__name"], cuts[row["period"]], prices)
        if line is None:
            unpriced += row["all_waste_ms"]
        elif row["all_waste_ms"]:
            costs[line.currency] += money(row["all_waste_ms"], line)
    return Cost(
        basis=Basis.LEDGER,
        since=since,
        through=until,
        gpu_hours=wasted / HOUR_MS,
        unobserved_gpu_hours=unobserved / HOUR_MS,
        money=tuple(sorted(costs.items())),
        unpriced_gpu_hours=unpriced / HOUR_MS,
    )


def _one_price(cluster: Cluster, nodes: Sequence[str], at: datetime) -> PriceLine | None:
    """What a GPU-hour on these nodes costs, if that is one price; None where it is several, or none is known."""
    prices = price_lines(cluster)
    if not prices or not nodes:
        return None
    devices = Device.objects.filter(
        cluster=cluster, node__name__in=list(nodes[:MOST_NODES]), removed_at__isnull=True
    )
    lines = {price_of(model, at, prices) for model in devices.values_list("model", flat=True).distinct()}
    return lines.pop() if len(lines) == 1 else None
