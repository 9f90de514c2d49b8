"""Sums made by adding up every hour on its own: what roll-ups have to come to."""

from collections import defaultdict
from datetime import datetime
from decimal import Decimal
from typing import Any

from diagnostics import usage
from diagnostics.models import (
    STATES,
    Price,
    TeamRule,
    UsageHour,
)
from diagnostics.usage import Grouping, Within
from diagnostics.usage.prices import PriceLine, money, price_of
from diagnostics.usage.teams import By, Owner, Rule, team_of
from tests.usage.hours import Ledger

ANYBODY = Within()


def expected(ledger: Ledger, start: datetime, end: datetime, by: Grouping, within: Within) -> Any:
    """Groups, unobserved and back-filled time, by adding up every hour on its own."""
    lines = [
        PriceLine(p.pattern, p.per_gpu_hour, p.currency, p.valid_from, p.valid_to)
        for p in Price.objects.all()
    ]
    rules = [Rule(By(r.by), r.key, r.pattern, r.team) for r in TeamRule.objects.all()]
    groups: dict[Any, Any] = defaultdict(lambda: [0, 0, 0, defaultdict(Decimal), defaultdict(lambda: (0, 0))])
    unobserved = backfilled = 0
    rows = UsageHour.objects.filter(cluster=ledger.cluster).select_related("workload", "model")
    for row in rows.filter(hour__gte=start, hour__lt=end):
        w, state = row.workload, STATES[row.state]
        if row.is_gap:
            unobserved += row.gpu_ms
            continue
        team = team_of(Owner(w.namespace, w.labels, w.annotations), rules)
        if within.is_any and (
            not w.kind or within.team not in {None, team} or within.namespace not in {None, w.namespace}
        ):
            continue
        backfilled += row.gpu_ms * row.is_backfilled
        name: Any = {
            Grouping.TEAM: (team,),
            Grouping.NAMESPACE: (w.namespace,),
            Grouping.WORKLOAD: (w.kind, w.namespace, w.name),
            Grouping.MODEL: (row.model.name,),
            Grouping.STATE: (state.value,),
        }[by]
        if not w.kind and by not in {Grouping.MODEL, Grouping.STATE}:
            name = None
        group = groups[name]
        group[0] += row.gpu_ms
        group[1] += row.waste_ms
        line = price_of(row.model.name, row.hour, lines)
        if line is None:
            group[2] += row.gpu_ms
        else:
            group[3][line.currency] += money(row.gpu_ms, line)
        spent = group[4][state]
        group[4][state] = (spent[0] + row.gpu_ms, spent[1] + row.waste_ms)
    return groups, unobserved, backfilled


def assert_exact(ledger: Ledger, start: datetime, end: datetime, within: Within = ANYBODY) -> None:
    for by in Grouping:
        groups, unobserved, backfilled = expected(ledger, start, end, by, within)
        found = usage.sums(ledger.cluster, start, end, by, within=within)
        assert (found.unobserved_ms, found.backfilled_ms) == (unobserved, backfilled)
        assert {group.name for group in found.groups} == set(groups)
        assert found.group_count == len(groups)
        for group in found.groups:
            gpu_ms, waste_ms, unpriced_ms, costs, states = groups[group.name]
            assert (group.gpu_ms, group.waste_ms, group.unpriced_ms) == (gpu_ms, waste_ms, unpriced_ms)
            assert {c: round(cost, 12) for c, cost in group.costs.items()} == {
                c: round(cost, 12) for c, cost in costs.items()
            }
            assert {state: tuple(spent) for state, spent in group.states.items()} == states
        assert found.whole.gpu_ms == sum(group.gpu_ms for group in found.groups)
        assert found.whole.waste_ms == sum(group.waste_ms for group in found.groups)
