"""Sums over roll-ups are those over the hours, whatever is rolled up, asked for, priced, relabelled or filled later."""

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
    Price,
    TeamRule,
    UsageRollup,
    Workload,
)
from diagnostics.snapshot import State
from diagnostics.stretches import Piece
from diagnostics.usage import Grouping, Within
from diagnostics.usage.rollups import forget
from diagnostics.usage.teams import By
from tests.usage.adding_up import ANYBODY, assert_exact
from tests.usage.hours import DAY, HOUR, LONG_AGO, MODELS, MONDAY, SPAN_H, Ledger
from tests.usage.scene import BASE, MIN, Scene, at

pytestmark = pytest.mark.django_db

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
