"""Roll-ups read as lines over a span."""

from datetime import date, timedelta

import pytest
from pytest_django import DjangoAssertNumQueries

from diagnostics.archive import courses, rollups
from diagnostics.archive.courses import Grid, grid_until, stored
from diagnostics.models import Cluster, MetricDay, Node
from tests.builders import NOW
from tests.pages.history import DAY, HOUR, hours, node_row

pytestmark = pytest.mark.django_db

SLOTS = ["gpu-1/00000000:10:00.0", "gpu-1/00000000:11:00.0"]
SLOT = SLOTS[0]
TODAY = NOW.date()


@pytest.fixture
def cluster() -> Cluster:
    return Cluster.objects.create(slug="prod", name="Production")


@pytest.fixture
def row(cluster: Cluster) -> Node:
    return node_row(cluster)


def utilization(cluster: Cluster, grid: Grid) -> list[float | None]:
    return stored(cluster, SLOTS, grid).lines[SLOT]["utilization_ratio"].means


@pytest.mark.parametrize(
    ("step", "start", "end"),
    [
        (HOUR, "2026-05-31 12:00", "2026-06-01 12:00"),
        (6 * HOUR, "2026-05-31 18:00", "2026-06-01 18:00"),
        (DAY, "2026-06-01 00:00", "2026-06-02 00:00"),
    ],
)
def test_hours_end_with_the_last_full_one_and_longer_steps_with_the_one_that_runs(
    step: timedelta, start: str, end: str
) -> None:
    grid = grid_until(NOW + timedelta(minutes=20), DAY, step)

    assert (f"{grid.start:%Y-%m-%d %H:%M}", f"{grid.end:%Y-%m-%d %H:%M}") == (start, end)


def test_each_hour_stands_at_its_step(cluster: Cluster, row: Node) -> None:
    hours(row, SLOTS, TODAY - DAY)
    hours(row, SLOTS, TODAY, missing=range(2, 24))

    found = stored(cluster, SLOTS, Grid(NOW - 14 * HOUR, HOUR, 14))

    line = found.lines[SLOT]["utilization_ratio"]
    known = [mean is not None for mean in line.means]
    assert known == [True, True, True, True, *[False] * 10]
    assert line.means[2] == pytest.approx(0.5, abs=0.001)
    assert line.peaks[2] == pytest.approx(0.55, abs=0.001)
    assert line.peaks[9] is None


def test_a_longer_step_is_the_mean_of_its_hours_and_their_highest(cluster: Cluster, row: Node) -> None:
    hours(row, SLOTS, TODAY, missing=range(6, 24))
    grid = Grid(NOW.replace(hour=0), 6 * HOUR, 4)
    by_hour = utilization(cluster, Grid(NOW.replace(hour=0), HOUR, 6))

    found = stored(cluster, SLOTS, grid).lines[SLOT]["utilization_ratio"]

    known = [mean for mean in by_hour if mean is not None]
    assert found.means == [pytest.approx(sum(known) / 6), None, None, None]
    assert found.peaks[0] == pytest.approx(1.1 * max(known), abs=0.001)


def test_hours_that_are_known_in_part_count_for_less(cluster: Cluster, row: Node) -> None:
    stored_day = hours(row, SLOTS, TODAY, missing=range(2, 24))
    _cover(stored_day, [1000, 250])
    first, second, *_ = utilization(cluster, Grid(NOW.replace(hour=0), HOUR, 24))
    assert first is not None
    assert second is not None

    (mean,) = utilization(cluster, Grid(NOW.replace(hour=0), DAY, 1))

    assert mean == pytest.approx((first * 1000 + second * 250) / 1250)


def _cover(row: MetricDay, coverage: list[int]) -> None:
    days = rollups._read(row)
    for columns in days.values():
        columns["coverage"][: len(coverage)] = coverage
    row.data = rollups._packed(days)
    row.save()


def test_only_the_slots_that_were_asked_for_are_told(cluster: Cluster, row: Node) -> None:
    hours(row, SLOTS, TODAY)

    assert set(stored(cluster, [SLOT], grid_until(NOW, DAY, HOUR)).lines) == {SLOT}


def test_another_clusters_node_of_the_same_name_is_another(cluster: Cluster, row: Node) -> None:
    hours(row, SLOTS, TODAY)
    other = Cluster.objects.create(slug="other", name="other")

    assert stored(other, SLOTS, grid_until(NOW, DAY, HOUR)).lines == {}


def test_a_damaged_day_is_missing(cluster: Cluster, row: Node) -> None:
    hours(row, SLOTS, TODAY)
    MetricDay.objects.create(node=row, day=TODAY - DAY, data=b"nonsense")

    assert utilization(cluster, grid_until(NOW, DAY, HOUR))[0] is None


def test_too_many_days_are_cut_at_the_old_end(
    cluster: Cluster, row: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    for days in range(4):
        hours(row, SLOTS, TODAY - days * DAY)
    monkeypatch.setattr(courses, "MOST_NODE_DAYS", 2)

    found = stored(cluster, SLOTS, grid_until(NOW, 4 * DAY, DAY))

    assert found.begins.date() == date(2026, 5, 31)
    assert [mean is not None for mean in found.lines[SLOT]["power_w"].means] == [False, False, True, True]


@pytest.mark.parametrize("days", [1, 30])
def test_it_takes_one_query(
    cluster: Cluster, row: Node, days: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(days):
        hours(row, SLOTS, TODAY - number * DAY)

    with django_assert_num_queries(1):
        stored(cluster, SLOTS, grid_until(NOW, 30 * DAY, DAY))
