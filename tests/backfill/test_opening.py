"""Which spans are to be filled, and when."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from diagnostics import usage
from diagnostics.backfill import due, find_gaps
from diagnostics.clusters import DeclaredCluster, DeclaredPrometheus
from diagnostics.limits import Thresholds
from diagnostics.models import Backfill, Cluster, Workload
from tests.backfill.past import polled

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 6, 20, 12, 0, tzinfo=UTC)
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
USUAL: dict[str, Any] = {"interval": MINUTE, "thresholds": Thresholds()}
TAIL = 32 * MINUTE


@pytest.fixture
def cluster(settings: Any) -> Cluster:
    settings.CLUSTERS = {"lab": DeclaredCluster(prometheus=DeclaredPrometheus(url="http://127.0.0.1:9"))}
    return polled("lab", NOW)


def spans() -> list[tuple[datetime, datetime]]:
    return sorted(Backfill.objects.values_list("start", "end"))


def opened(
    cluster: Cluster, now: datetime = NOW, reach: timedelta = 30 * DAY
) -> list[tuple[datetime, datetime]]:
    find_gaps(cluster, now, reach=reach, **USUAL)
    return spans()


def test_a_first_poll_opens_the_month_before_it(cluster: Cluster) -> None:
    assert opened(cluster) == [(NOW - 30 * DAY, NOW - TAIL), (NOW - TAIL, NOW)]


def test_what_was_opened_is_not_opened_again(cluster: Cluster) -> None:
    month = opened(cluster)
    for later in (MINUTE, DAY, 29 * DAY, 40 * DAY):
        assert opened(cluster, NOW + later) == month


def test_it_is_opened_only_as_far_back_as_the_site_wants(cluster: Cluster) -> None:
    assert opened(cluster, reach=timedelta()) == []
    assert opened(cluster, reach=3 * DAY)[0][0] == NOW - 3 * DAY


def test_nothing_is_opened_before_a_poll_was_recorded(cluster: Cluster) -> None:
    Workload.objects.all().delete()
    assert opened(cluster) == []


def test_nothing_is_opened_without_a_prometheus(cluster: Cluster, settings: Any) -> None:
    settings.CLUSTERS = {"lab": DeclaredCluster()}
    assert opened(cluster) == []


def test_the_newest_span_that_can_be_judged_comes_first(cluster: Cluster) -> None:
    opened(cluster)
    first = due(cluster, NOW, **USUAL)
    assert first is not None
    assert first.end == NOW - TAIL
    later = due(cluster, NOW + TAIL, **USUAL)
    assert later is not None
    assert later.end == NOW


def test_one_span_of_a_cluster_is_filled_at_a_time(cluster: Cluster) -> None:
    opened(cluster)
    row = Backfill.objects.first()
    assert row is not None
    row.status = Backfill.Status.RUNNING
    row.save()
    assert due(cluster, row.updated_at + MINUTE, **USUAL) is None
    assert due(cluster, row.updated_at + 6 * MINUTE, **USUAL) == row


def test_a_failure_is_tried_again_after_a_while(cluster: Cluster) -> None:
    row = Backfill.objects.create(
        cluster=cluster, start=NOW - DAY, end=NOW - TAIL, done_from=NOW - TAIL, attempts=3
    )
    assert due(cluster, row.updated_at + 7 * MINUTE, **USUAL) is None
    assert due(cluster, row.updated_at + 8 * MINUTE, **USUAL) == row


def test_what_polls_could_not_see_is_found(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    hour = timedelta(hours=1)
    gaps = [
        (NOW - 9 * hour, NOW - 7 * hour),
        (NOW - 5 * hour, NOW - 5 * hour + MINUTE),
        (NOW - hour, NOW - TAIL),
    ]
    monkeypatch.setattr(usage, "gaps", lambda *args: gaps)
    Backfill.objects.create(
        cluster=cluster, start=NOW - 10 * hour, end=NOW - 8 * hour, done_from=NOW, status=Backfill.Status.DONE
    )
    Workload.objects.update(first_seen=NOW - 40 * DAY)
    find_gaps(cluster, NOW, reach=30 * DAY, **USUAL)
    find_gaps(cluster, NOW, reach=30 * DAY, **USUAL)
    assert spans()[1:] == [(NOW - 8 * hour, NOW - 7 * hour)]
