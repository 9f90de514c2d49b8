"""Means and peaks of each GPU by the hour, from the polls that are archived."""

from datetime import date, datetime, timedelta
from typing import Any

import pytest

from diagnostics.archive import tiers
from diagnostics.archive.rollups import Level, hourly, roll_up
from diagnostics.models import ArchivedSnapshot, ArchiveState, Cluster, MetricDay, Node
from diagnostics.snapshot import Metrics
from tests.builders import GIB, NOW, gpu, node, pod, snapshot

pytestmark = pytest.mark.django_db

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
INTERVAL = 10 * MINUTE
LATER = NOW + timedelta(days=30)
DAY = date(2026, 6, 1)
SLOT = gpu().slot


@pytest.fixture
def cluster() -> Cluster:
    return Cluster.objects.create(slug="prod", name="Production")


@pytest.fixture
def row(cluster: Cluster) -> Node:
    return Node.objects.create(cluster=cluster, name="gpu-1", first_seen=NOW, last_seen=NOW)


def polled(cluster: Cluster, at: datetime, **metrics: Any) -> None:
    one = gpu(metrics=Metrics(sampled_at=at, **metrics) if metrics else None, window=None)
    shot = snapshot(node(), pod(), one, taken_at=at)
    tiers.keep(cluster, at, tiers.entry(cluster, shot))


def test_an_hour_is_rolled_up_when_a_later_one_has_begun(cluster: Cluster, row: Node) -> None:
    for minutes in range(0, 60, 10):
        polled(cluster, NOW + minutes * MINUTE, utilization_ratio=minutes / 100, power_w=100.0 + minutes)
    assert roll_up(cluster, INTERVAL, LATER) == 0
    assert hourly(row, DAY) == []
    polled(cluster, NOW + HOUR, utilization_ratio=1.0)
    assert roll_up(cluster, INTERVAL, LATER) == 1
    (hour,) = hourly(row, DAY)
    assert (hour.slot, hour.hour, hour.coverage_ratio) == (SLOT, NOW, 1.0)
    assert (hour.utilization_ratio, hour.power_w) == (Level(0.25, 0.5), Level(125.0, 150.0))
    assert (hour.memory_used_bytes, hour.temperature_c) == (None, None)


def test_missing_samples_lower_the_coverage_and_never_the_mean(cluster: Cluster, row: Node) -> None:
    polled(cluster, NOW, memory_used_bytes=10.0 * GIB)
    polled(cluster, NOW + 10 * MINUTE)
    polled(cluster, NOW + 20 * MINUTE, memory_used_bytes=20.0 * GIB, temperature_c=61.5)
    polled(cluster, NOW + HOUR)
    roll_up(cluster, INTERVAL, LATER)
    (hour,) = hourly(row, DAY)
    assert hour.coverage_ratio == pytest.approx(2 / 6, abs=0.001)
    assert hour.memory_used_bytes == Level(15.0 * GIB, 20.0 * GIB)
    assert hour.temperature_c == Level(61.5, 61.5)


def test_a_device_without_samples_has_no_hour(cluster: Cluster, row: Node) -> None:
    polled(cluster, NOW)
    polled(cluster, NOW + HOUR)
    assert roll_up(cluster, INTERVAL, LATER) == 1
    assert hourly(row, DAY) == []


def test_hours_add_up_to_a_day_and_days_are_apart(cluster: Cluster, row: Node) -> None:
    for hour in range(14):
        polled(cluster, NOW + hour * HOUR, utilization_ratio=hour / 100)
    assert roll_up(cluster, INTERVAL, LATER) == 13
    assert [h.hour for h in hourly(row, DAY)] == [NOW + hour * HOUR for hour in range(12)]
    assert [h.utilization_ratio for h in hourly(row, DAY + timedelta(days=1))] == [Level(0.12, 0.12)]
    assert MetricDay.objects.count() == 2


def test_it_goes_on_where_it_was(cluster: Cluster, row: Node) -> None:
    for hour in range(5):
        polled(cluster, NOW + hour * HOUR, utilization_ratio=0.5)
    assert roll_up(cluster, INTERVAL, LATER, most_hours=3) == 3
    assert roll_up(cluster, INTERVAL, LATER) == 1
    assert roll_up(cluster, INTERVAL, LATER) == 0
    assert len(hourly(row, DAY)) == 4


def test_the_same_hour_again_is_the_same(cluster: Cluster, row: Node) -> None:
    for minutes in (0, 10, 60):
        polled(cluster, NOW + minutes * MINUTE, utilization_ratio=0.5)
    roll_up(cluster, INTERVAL, LATER)
    once = hourly(row, DAY)
    ArchiveState.objects.update(rolled_up_to=None)
    roll_up(cluster, INTERVAL, LATER)
    assert hourly(row, DAY) == once


def test_a_roll_up_that_breaks_leaves_the_hour_to_the_next(
    cluster: Cluster, row: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    for minutes in (0, 60):
        polled(cluster, NOW + minutes * MINUTE, utilization_ratio=0.5)

    def breaks(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(MetricDay.objects, "bulk_create", breaks)
        with pytest.raises(KeyboardInterrupt):
            roll_up(cluster, INTERVAL, LATER)
    assert roll_up(cluster, INTERVAL, LATER) == 1


def test_damaged_polls_and_days_cost_themselves(cluster: Cluster, row: Node) -> None:
    for minutes in (0, 10, 20, 60, 120):
        polled(cluster, NOW + minutes * MINUTE, utilization_ratio=minutes / 100)
    ArchivedSnapshot.objects.filter(taken_at=NOW + 10 * MINUTE).update(data=b"damaged")
    roll_up(cluster, INTERVAL, LATER, most_hours=1)
    assert [h.utilization_ratio for h in hourly(row, DAY)] == [Level(0.1, 0.2)]
    MetricDay.objects.update(data=b"damaged")
    assert hourly(row, DAY) == []
    roll_up(cluster, INTERVAL, LATER)
    assert [h.hour for h in hourly(row, DAY)] == [NOW + HOUR]


def test_a_damaged_base_costs_its_hour(cluster: Cluster, row: Node) -> None:
    for minutes in (0, 10, 60, 120):
        polled(cluster, NOW + minutes * MINUTE, utilization_ratio=0.5)
    ArchivedSnapshot.objects.filter(taken_at=NOW).update(data=b"damaged")
    assert roll_up(cluster, INTERVAL, LATER) == 2
    assert [h.hour for h in hourly(row, DAY)] == [NOW + HOUR]


def test_polls_of_a_clock_that_ran_ahead_wait(cluster: Cluster, row: Node) -> None:
    polled(cluster, NOW + 20 * HOUR, utilization_ratio=1.0)
    for hour in range(3):
        polled(cluster, NOW + hour * HOUR, utilization_ratio=0.5)
    assert roll_up(cluster, INTERVAL, NOW + 2 * HOUR) == 2
    assert len(hourly(row, DAY)) == 2


def test_a_node_that_nobody_recorded_is_left_out(cluster: Cluster) -> None:
    for minutes in (0, 60):
        polled(cluster, NOW + minutes * MINUTE, utilization_ratio=0.5)
    assert roll_up(cluster, INTERVAL, LATER) == 1
    assert not MetricDay.objects.exists()
