"""The rows of the last polls' samples: one each, read together, and only as many as a window needs."""

from datetime import UTC, datetime, timedelta

import pytest
from pytest_django import DjangoAssertNumQueries

from diagnostics.archive import samples
from diagnostics.collect.windows import RecentSamples, extended
from diagnostics.models import Cluster, RecentSamplesRow
from diagnostics.snapshot import Metrics
from tests.builders import gpu

NOW = datetime(2026, 11, 3, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
MEASURED = gpu(metrics=Metrics(utilization_ratio=0.5))

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster() -> Cluster:
    return Cluster.objects.create(slug="prod", name="prod")


def polled(cluster: Cluster, *moments: datetime) -> RecentSamples:
    """What the last of these polls knows."""
    *earlier, moment = moments
    if earlier:
        polled(cluster, *earlier)
    recent = extended(samples.known(cluster), [MEASURED], moment)
    entry = samples.entry(recent, moment)
    if entry is not None:
        samples.keep(cluster, entry)
    return recent


def test_keeps_what_each_poll_measured(cluster: Cluster) -> None:
    recent = polled(cluster, *(NOW + number * MINUTE for number in range(3)))
    assert samples.known(cluster) == recent


def test_lets_go_what_no_window_needs(cluster: Cluster) -> None:
    polled(cluster, *(NOW + number * MINUTE for number in range(0, 60, 5)))
    kept = RecentSamplesRow.objects.order_by("taken_at").values_list("taken_at", flat=True)
    assert list(kept) == [NOW + number * MINUTE for number in range(20, 60, 5)]


def test_a_poll_repeated_for_the_same_moment_counts_once(cluster: Cluster) -> None:
    polled(cluster, NOW, NOW)
    assert RecentSamplesRow.objects.count() == 1


def test_a_poll_too_late_to_count_leaves_no_row(cluster: Cluster) -> None:
    polled(cluster, NOW, NOW - 90 * MINUTE)
    assert [poll.at for poll in samples.known(cluster).polls] == [NOW]


def test_a_damaged_row_costs_the_samples_of_its_poll_only(cluster: Cluster) -> None:
    polled(cluster, *(NOW + number * MINUTE for number in range(3)))
    RecentSamplesRow.objects.filter(taken_at=NOW + MINUTE).update(data=b"damaged")
    assert [poll.at for poll in samples.known(cluster).polls] == [NOW, NOW + 2 * MINUTE]


def test_knows_nothing_of_other_clusters(cluster: Cluster) -> None:
    polled(cluster, NOW)
    other = Cluster.objects.create(slug="other", name="other")
    assert samples.known(other) == RecentSamples()


def test_writes_no_more_than_what_is_new(
    cluster: Cluster, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    recent = polled(cluster, *(NOW + number * MINUTE for number in range(5)))
    entry = samples.entry(recent, NOW + 4 * MINUTE)
    assert entry is not None
    with django_assert_num_queries(2):
        samples.keep(cluster, entry)
