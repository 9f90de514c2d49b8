"""The hourly task rolls up, then deletes, for every cluster that is kept."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from diagnostics import archive, tasks
from diagnostics.models import Cluster, MetricDay, Node, Observation
from tests.builders import gpu, node, pod, snapshot

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


def test_polls_older_than_a_day_become_metrics_before_they_go() -> None:
    cluster = Cluster.objects.create(slug="prod", name="Production")
    start = timezone.now().replace(minute=0, second=0, microsecond=0) - 30 * HOUR
    Node.objects.create(cluster=cluster, name="gpu-1", first_seen=start, last_seen=start)
    for minutes in (0, 1, 60, 61, 120):
        at = start + timedelta(minutes=minutes)
        archive.publish(cluster, archive.packed(cluster, snapshot(node(), pod(), gpu(), taken_at=at), None))
    tasks.retain(cluster.pk)
    # The last one's hour is not over.
    assert [m.taken_at - start for m in archive.moments(cluster, start, start + 9 * HOUR)] == [
        0 * HOUR,
        HOUR,
        2 * HOUR,
    ]
    assert MetricDay.objects.exists()


def test_a_cluster_that_is_gone_is_passed_over() -> None:
    tasks.retain(4711)


def test_clusters_that_are_declared_no_more_are_not_forgotten(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.CLUSTERS = {}
    cluster = Cluster.objects.create(slug="old", name="Old")
    sent: list[Any] = []
    monkeypatch.setattr(tasks.retain, "apply_async", lambda args, expires: sent.append((args, expires)))
    tasks.retain_all()
    assert sent == [((cluster.pk,), 3600.0)]
    old = timezone.now() - timedelta(days=500)
    Observation.objects.create(cluster=cluster, taken_at=old, started_at=old, finished_at=old, status="ok")
    tasks.retain(cluster.pk)
    assert not Observation.objects.exists()
