"""Sums over roll-ups are those over the hours, whatever is rolled up, asked for, priced, relabelled or filled later."""

from collections import defaultdict
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from diagnostics import tasks, usage
from diagnostics.models import (
    STATES,
    Price,
    TeamRule,
    UsageHour,
    UsageRollup,
    Workload,
)
from diagnostics.snapshot import State
from diagnostics.stretches import Piece
from diagnostics.usage import Grouping, Within
from diagnostics.usage.prices import PriceLine, money, price_of
from diagnostics.usage.rollups import forget
from diagnostics.usage.teams import By, Owner, Rule, team_of
from tests.usage.hours import DAY, HOUR, LONG_AGO, MODELS, MONDAY, SPAN_H, Ledger
from tests.usage.scene import BASE, MIN, Scene, at

pytestmark = pytest.mark.django_db

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


moments = st.integers(0, SPAN_H)
rows = st.tuples(
    st.integers(0, SPAN_H - 1),
    st.integers(0, 4),
    st.integers(0, 2),
    st.sampled_from([*State]),
    st.integers(1, 10**12),
    st.sampled_from([0, 0, 10**5, 10**13]),
    st.booleans(),
    st.booleans(),
)
prices = st.tuples(
    st.sampled_from(["*", "*A100*"]), st.integers(1, 9), st.none() | moments, st.none() | moments
)
rules = st.tuples(
    st.sampled_from([*By]), st.sampled_from(["", "t1", "space-*"]), st.sampled_from(["", "red", "blue"])
)
actions = st.lists(
    st.one_of(
        st.tuples(st.just("roll"), st.floats(0, SPAN_H)),
        st.tuples(st.just("write"), rows),
        st.tuples(st.just("price"), prices),
        st.tuples(st.just("rule"), rules),
        st.tuples(st.just("relabel"), st.tuples(st.integers(0, 4), st.sampled_from(["t0", "t1", "new"]))),
    ),
    max_size=8,
)


@given(
    st.lists(rows, min_size=1, max_size=40), actions, st.lists(moments, min_size=2, max_size=2), st.booleans()
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_sums_are_those_of_the_hours(
    hours: list[Any], steps: list[Any], span: list[int], is_narrow: bool
) -> None:
    for model in (Price, TeamRule, UsageRollup):
        model.objects.all().delete()
    ledger, through = Ledger(), 0.0
    for row in hours:
        ledger.add(*row[:6], is_gap=row[6], is_backfilled=row[7])
    start, end = sorted(MONDAY + hour * HOUR for hour in span)
    within = Within(team="t1") if is_narrow else ANYBODY
    for step, what in steps:
        if step == "roll":
            through = max(through, what)
            ledger.complete(through)
            ledger.roll_up()
        elif step == "write":  # as back-filling does
            ledger.add(*what[:6], is_gap=what[6], is_backfilled=what[7])
            forget(ledger.cluster, [MONDAY + what[0] * HOUR])
        elif step == "price":
            pattern, price, since, until = what
            Price.objects.create(
                pattern=pattern,
                per_gpu_hour=price,
                valid_from=None if since is None else MONDAY + since * HOUR,
                valid_to=None if until is None else MONDAY + until * HOUR,
            )
        elif step == "rule":
            by, pattern, team = what
            TeamRule.objects.create(
                by=by, key="" if by == By.NAMESPACE else "team", pattern=pattern, team=team
            )
        else:
            who, label = what
            Workload.objects.filter(pk=ledger.workloads[who].pk).update(labels={"team": label})
            ledger.roll_up()
    assert_exact(ledger, start, end, within)


@pytest.fixture
def ledger() -> Ledger:
    """Three days, every hour of which two workloads work and one idles."""
    ledger = Ledger()
    for hour in range(72):
        ledger.later(hour, 0, 0, State.EFFECTIVE, 1000 + hour, 0)
        ledger.later(hour, 1, 1, State.IDLE_HELD, 500 + hour, 500 + hour)
        ledger.later(hour, 2, 0, State.FREE, 300, 0)
    ledger.write()
    ledger.complete(70.9)
    return ledger


def places(ledger: Ledger) -> tuple[int, int]:
    """Numbers of days and hours that are rolled up."""
    made = UsageRollup.objects.filter(cluster=ledger.cluster)
    days = made.filter(hour=UsageRollup.WHOLE_DAY).count()
    return days, made.count() - days


def test_only_final_hours_are_rolled_up_and_days_when_they_are_over(ledger: Ledger) -> None:
    assert ledger.roll_up() == 70 + 2
    assert places(ledger) == (2, 70)
    assert ledger.roll_up() == 0
    ledger.complete(72)
    assert ledger.roll_up() == 2 + 1
    assert places(ledger) == (3, 72)


def test_what_is_rolled_up_is_read_instead_of_its_hours(ledger: Ledger) -> None:
    before = usage.sums(ledger.cluster, MONDAY, MONDAY + 70 * HOUR, Grouping.TEAM)
    ledger.roll_up()
    first, last = ledger.cluster.usagehour_set.order_by("hour").values_list("pk", flat=True)[0:2]
    ledger.cluster.usagehour_set.exclude(pk__in=[first, last]).filter(hour__lt=MONDAY + 69 * HOUR).delete()
    assert usage.sums(ledger.cluster, MONDAY, MONDAY + 70 * HOUR, Grouping.TEAM) == before


def test_a_run_out_of_time_is_taken_up_by_the_next_newest_hours_first(ledger: Ledger) -> None:
    left = iter(range(5))
    assert usage.roll_up(ledger.cluster, LONG_AGO, is_over=lambda: next(left, None) is None) <= 6
    hours = UsageRollup.objects.filter(cluster=ledger.cluster).order_by("day", "hour")
    assert [(row.day.day, row.hour) for row in hours][-1] == (3, 21)
    assert places(ledger)[0] == 0
    ledger.roll_up()
    assert places(ledger) == (2, 70)


def test_days_that_are_kept_no_longer_are_not_rolled_up_again(ledger: Ledger) -> None:
    usage.roll_up(ledger.cluster, MONDAY + HOUR)
    assert places(ledger) == (1, 46)


def test_filling_takes_away_the_hours_that_it_writes_to_and_their_day(ledger: Ledger) -> None:
    ledger.roll_up()
    forget(ledger.cluster, [MONDAY + 3 * HOUR, MONDAY + 69 * HOUR])
    assert places(ledger) == (1, 68)
    ledger.roll_up()
    assert places(ledger) == (2, 70)


def test_another_cluster_keeps_its_roll_ups(ledger: Ledger) -> None:
    other = Ledger()
    other.add(0, 0, 0, State.EFFECTIVE, 7, 0)
    other.complete(1.5)
    other.roll_up()
    ledger.roll_up()
    forget(ledger.cluster, [MONDAY])
    assert places(other) == (0, 1)
    assert_exact(other, MONDAY, MONDAY + DAY)


@pytest.mark.parametrize("field", ["totals", "owners", "lines"])
@pytest.mark.parametrize("data", [b"", b"no roll-up"])
def test_a_roll_up_that_cannot_be_read_is_passed_over(ledger: Ledger, field: str, data: bytes) -> None:
    ledger.roll_up()
    UsageRollup.objects.filter(cluster=ledger.cluster).update(**{field: data})
    assert_exact(ledger, MONDAY, MONDAY + 72 * HOUR)


def test_a_new_label_rule_counts_at_once_and_reaches_the_roll_ups_later(ledger: Ledger) -> None:
    ledger.roll_up()
    TeamRule.objects.create(by=By.LABEL, key="team")
    assert_exact(ledger, MONDAY, MONDAY + 72 * HOUR)
    with CaptureQueriesContext(connection) as slow:
        usage.sums(ledger.cluster, MONDAY, MONDAY + 48 * HOUR, Grouping.TEAM)
    assert ledger.roll_up() == 72
    with CaptureQueriesContext(connection) as fast:
        usage.sums(ledger.cluster, MONDAY, MONDAY + 48 * HOUR, Grouping.TEAM)
    assert (len(slow), len(fast)) == (6, 4)
    assert_exact(ledger, MONDAY, MONDAY + 72 * HOUR)


def test_a_workload_that_changes_its_label_takes_its_past_along(ledger: Ledger) -> None:
    TeamRule.objects.create(by=By.LABEL, key="team")
    ledger.roll_up()
    Workload.objects.filter(name="job-1").update(labels={"team": "other"})
    assert ledger.roll_up() == 72
    names = {group.name for group in usage.sums(ledger.cluster, MONDAY, MONDAY + DAY, Grouping.TEAM).groups}
    assert names == {("t0",), ("other",), None}
    assert_exact(ledger, MONDAY, MONDAY + 72 * HOUR)


def test_a_team_has_its_workloads(ledger: Ledger) -> None:
    TeamRule.objects.create(by=By.LABEL, key="team")
    ledger.roll_up()
    for within in (Within(team="t1"), Within(namespace="space-0"), Within("t0", "space-0"), Within(team="x")):
        assert_exact(ledger, MONDAY, MONDAY + 72 * HOUR, within)
    of_one = usage.sums(ledger.cluster, MONDAY, MONDAY + DAY, Grouping.WORKLOAD, within=Within(team="t1"))
    assert [group.name for group in of_one.groups] == [("Job", "space-1", "job-1")]


def test_some_of_the_groups_are_handed_out_and_all_are_counted(ledger: Ledger) -> None:
    ledger.roll_up()
    for by in (Grouping.WORKLOAD, Grouping.NAMESPACE):
        every = usage.sums(ledger.cluster, MONDAY, MONDAY + 72 * HOUR, by)
        part = usage.sums(ledger.cluster, MONDAY, MONDAY + 72 * HOUR, by, skip=1, most=1)
        assert part.groups == every.groups[1:2]
        assert (part.group_count, part.whole) == (3, every.whole)


def test_those_who_waste_most_come_first_with_how_they_do_it(ledger: Ledger) -> None:
    ledger.add(3, 3, 0, State.HUNG, 10**6, 10**6)
    ledger.add(3, 3, 0, State.STUCK, 10, 10)
    Price.objects.create(pattern="*H100*", per_gpu_hour=Decimal(36))
    ledger.roll_up()
    summary = usage.summary(ledger.cluster, MONDAY, MONDAY + 72 * HOUR, usage.Asked(Grouping.TEAM), top=5)
    first, second = summary.savings
    assert first.workload == ledger.workloads[3].pk
    assert list(first.states.items()) == [(State.HUNG, 10**6), (State.STUCK, 10)]
    assert first.name == ("Job", "space-1", "job-3")
    assert (first.wasted, first.unpriced_ms) == ({}, 10**6 + 10)
    wasted_ms = sum(500 + hour for hour in range(72))
    assert (second.workload, second.waste_ms) == (ledger.workloads[1].pk, wasted_ms)
    assert second.wasted == {"USD": Decimal(36) * wasted_ms / 3_600_000}
    assert summary.ledger.unpriced_models == (MODELS[0],)


def test_an_endless_span_is_read_no_further_than_the_ledger_reaches(ledger: Ledger) -> None:
    ledger.roll_up()
    start, end = datetime(1, 1, 2, tzinfo=UTC), datetime(9998, 1, 1, tzinfo=UTC)
    every = usage.sums(ledger.cluster, start, end, Grouping.STATE)
    assert (every.start, every.end) == (start, end)
    assert every.whole == usage.sums(ledger.cluster, MONDAY, MONDAY + 72 * HOUR, Grouping.STATE).whole


def test_a_span_of_many_pieces_is_one_look(ledger: Ledger) -> None:
    """Every other hour is not rolled up, and the price changes in between."""
    ledger.roll_up()
    forget(ledger.cluster, [MONDAY + hour * HOUR for hour in range(0, 70, 2)])
    Price.objects.create(pattern="*", per_gpu_hour=2, valid_to=MONDAY + 31 * HOUR)
    Price.objects.create(pattern="*", per_gpu_hour=3, valid_from=MONDAY + 31 * HOUR)
    with CaptureQueriesContext(connection) as queries:
        usage.sums(ledger.cluster, MONDAY, MONDAY + 72 * HOUR, Grouping.STATE)
    assert len(queries) == 4
    assert_exact(ledger, MONDAY, MONDAY + 72 * HOUR)


@pytest.mark.parametrize("by", [Grouping.TEAM, Grouping.NAMESPACE, Grouping.WORKLOAD])
def test_nobody_can_be_left_out_of_the_groups_but_not_of_the_whole(ledger: Ledger, by: Grouping) -> None:
    every = usage.sums(ledger.cluster, MONDAY, MONDAY + 72 * HOUR, by)
    held = usage.summary(ledger.cluster, MONDAY, MONDAY + 72 * HOUR, usage.Asked(by, is_held=True)).ledger
    assert {group.name for group in every.groups} - {group.name for group in held.groups} == {None}
    assert (held.group_count, held.whole) == (every.group_count - 1, every.whole)


def test_what_back_filling_finds_is_in_the_sums_whatever_was_rolled_up() -> None:
    scene = Scene()
    for minute in (0, 1, 3, 5, 300, 302, 360):
        scene.poll(minute, {"gpu-1/a": "busy"})
    assert usage.roll_up(scene.cluster, at(-3000)) == 6
    gap = usage.sums(scene.cluster, at(0), at(360), Grouping.TEAM)
    assert gap.unobserved_ms > 0
    device = scene.device("gpu-1/a")
    pieces = [
        Piece(BASE + 60 * MIN, BASE + 120 * MIN, State.IDLE_HELD, (scene.workloads["blue"],), 0.0, False)
    ]
    usage.fill(scene.cluster, BASE + 30 * MIN, BASE + 200 * MIN, {device.pk: pieces})
    filled = usage.sums(scene.cluster, at(0), at(360), Grouping.TEAM)
    assert filled.backfilled_ms == 60 * MIN
    assert filled.total_ms == gap.total_ms
    assert {group.name: group.waste_ms for group in filled.groups}["team-blue",] == 60 * MIN
    usage.roll_up(scene.cluster, at(-3000))
    assert usage.sums(scene.cluster, at(0), at(360), Grouping.TEAM) == filled


def test_the_hourly_task_rolls_up(ledger: Ledger) -> None:
    with time_machine.travel(MONDAY + 71 * HOUR, tick=False):
        tasks.retain(ledger.cluster.pk)
    assert places(ledger) == (2, 70)


def test_a_changed_rule_is_rolled_up_by_a_task_of_its_own(ledger: Ledger) -> None:
    ledger.roll_up()
    TeamRule.objects.create(by=By.LABEL, key="team")
    with time_machine.travel(MONDAY + 71 * HOUR, tick=False):
        tasks.roll_up_usage()
    assert set(UsageRollup.objects.values_list("keys", flat=True)) == {'[["label","team"]]'}


@pytest.fixture
def june() -> Ledger:
    """A month and a day, with a line in each hour of some of its days."""
    ledger = Ledger()
    for day in (0, 1, 13, 29, 30):
        for hour in range(24 * day, 24 * day + 24):
            ledger.later(hour, day % 3, 0, State.EFFECTIVE, 1000 + hour, 0)
            ledger.later(hour, 3, 1, State.INEFFECTIVE, 500 + hour, hour)
    ledger.write()
    ledger.complete(31 * 24)
    assert ledger.roll_up() == 31 * 24 + 31 + 1
    return ledger


def test_a_month_is_read_instead_of_its_days(june: Ledger) -> None:
    before = usage.sums(june.cluster, MONDAY, MONDAY + 31 * DAY, Grouping.WORKLOAD)
    month = UsageRollup.objects.get(cluster=june.cluster, hour=UsageRollup.WHOLE_MONTH)
    june.cluster.usage_rollups.filter(day__month=6).exclude(pk=month.pk).delete()
    june.cluster.usagehour_set.filter(hour__gte=MONDAY + HOUR, hour__lt=MONDAY + 30 * DAY).delete()
    assert usage.sums(june.cluster, MONDAY, MONDAY + 31 * DAY, Grouping.WORKLOAD) == before
    month.delete()
    assert usage.sums(june.cluster, MONDAY, MONDAY + 31 * DAY, Grouping.WORKLOAD) != before


def test_a_month_stands_for_nothing_but_itself(june: Ledger) -> None:
    """Not for a part of it, not where a price changes in it, not when one of its hours was written to."""
    assert_exact(june, MONDAY, MONDAY + 31 * DAY)
    assert_exact(june, MONDAY + HOUR, MONDAY + 31 * DAY)
    assert_exact(june, MONDAY, MONDAY + 30 * DAY - HOUR)
    Price.objects.create(pattern="*", per_gpu_hour=2, valid_from=MONDAY + 13 * DAY)
    assert_exact(june, MONDAY, MONDAY + 31 * DAY)
    june.add(14 * 24 - 1, 4, 0, State.HUNG, 77, 77)
    forget(june.cluster, [MONDAY + 14 * DAY - HOUR])
    assert_exact(june, MONDAY, MONDAY + 30 * DAY)
    assert june.roll_up() == 3, "the hour, its day and its month"
    assert_exact(june, MONDAY, MONDAY + 30 * DAY)


def test_a_workload_that_changes_its_label_takes_its_months_along(june: Ledger) -> None:
    TeamRule.objects.create(by=By.LABEL, key="team")
    june.roll_up()
    Workload.objects.filter(name="job-3").update(labels={"team": "other"}, last_seen=MONDAY + 31 * DAY)
    june.roll_up()
    assert_exact(june, MONDAY, MONDAY + 31 * DAY)
    june.cluster.usagehour_set.filter(hour__gte=MONDAY + HOUR, hour__lt=MONDAY + 30 * DAY).delete()
    found = usage.sums(june.cluster, MONDAY, MONDAY + 30 * DAY, Grouping.TEAM)
    assert ("other",) in {group.name for group in found.groups}
