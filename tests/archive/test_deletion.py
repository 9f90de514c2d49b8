"""What is kept for long enough goes, in batches, and nothing else."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from diagnostics.archive import deletion
from diagnostics.archive.deletion import delete_expired
from diagnostics.models import (
    Allocation,
    Cluster,
    Device,
    EventHour,
    GpuModel,
    Incident,
    IncidentEvent,
    MetricDay,
    Node,
    Observation,
    StateInterval,
    TopologyChange,
    UsageHour,
    UsageRollup,
    Workload,
)
from diagnostics.retention import Retention
from tests.builders import NOW

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
OLD, YOUNG = NOW - 397 * DAY, NOW - 395 * DAY


@pytest.fixture
def cluster() -> Cluster:
    return Cluster.objects.create(slug="prod", name="Production")


def observations(cluster: Cluster, number: int) -> None:
    Observation.objects.bulk_create(
        Observation(cluster=cluster, taken_at=OLD - i * DAY, started_at=OLD, finished_at=OLD, status="ok")
        for i in range(number)
    )


def incident(cluster: Cluster, name: str, status: str, resolved: bool = True) -> Incident:
    found = Incident.objects.create(
        cluster=cluster, fingerprint=name, status=status, severity_rank=0, finding={},
        first_seen=OLD, last_seen=OLD, opened_at=OLD, resolved_at=OLD if resolved else None,
    )  # fmt: skip
    IncidentEvent.objects.create(incident=found, at=OLD, kind=IncidentEvent.Kind.OPENED)
    return found


def test_each_kind_goes_after_its_time(cluster: Cluster) -> None:
    model = GpuModel.objects.create(name="H100")
    seen = {"first_seen": OLD}
    holder = Workload.objects.create(cluster=cluster, kind="Job", name="old", last_seen=OLD, **seen)
    busy = Workload.objects.create(cluster=cluster, kind="Job", name="busy", last_seen=NOW, **seen)
    Workload.objects.create(cluster=cluster, last_seen=OLD, **seen)
    there = Node.objects.create(cluster=cluster, name="there", last_seen=NOW, **seen)
    gone = Node.objects.create(cluster=cluster, name="gone", last_seen=OLD, removed_at=OLD, **seen)
    Device.objects.create(cluster=cluster, node=gone, slot="gone/0", last_seen=OLD, removed_at=OLD, **seen)
    device = Device.objects.create(cluster=cluster, node=there, slot="there/0", last_seen=NOW, **seen)
    for at in (OLD, YOUNG):
        EventHour.objects.create(cluster=cluster, hour=at, data=b"")
        MetricDay.objects.create(node=there, day=at.date(), data=b"")
        Observation.objects.create(cluster=cluster, taken_at=at, started_at=at, finished_at=at, status="ok")
        ms = int(at.timestamp() * 1000)
        StateInterval.objects.create(cluster=cluster, device=device, start_ms=ms - 1, end_ms=ms, state=2)
        UsageHour.objects.create(
            cluster=cluster, hour=at, workload=holder if at == OLD else busy, model=model, state=2
        )
        packed = dict.fromkeys(("totals", "owners", "lines"), b"")
        UsageRollup.objects.create(cluster=cluster, day=at.date(), hour=UsageRollup.WHOLE_DAY, **packed)
        TopologyChange.objects.create(cluster=cluster, node=there, at=at, kind="cordoned")
        Allocation.objects.create(cluster=cluster, workload=busy, node=there, started_at=OLD, ended_at=at)
    Allocation.objects.create(cluster=cluster, workload=busy, node=there, started_at=OLD)
    deleted = delete_expired(cluster, Retention(), NOW)
    assert deleted == {
        **{"events": 1, "metrics": 1, "observations": 1, "states": 1, "usage": 1},
        **{"usage roll-ups": 1, "topology": 4, "workloads": 1},
    }
    for kept in (EventHour, MetricDay, Observation, StateInterval, UsageHour, UsageRollup, TopologyChange):
        assert kept.objects.count() == 1, kept
    assert Allocation.objects.count() == 2
    assert {w.name for w in Workload.objects.all()} == {"busy", ""}
    assert [n.name for n in Node.objects.all()] == ["there"]
    assert delete_expired(cluster, Retention(), NOW) == {}


def test_open_incidents_stay_and_resolved_ones_go_with_their_events(cluster: Cluster) -> None:
    incident(cluster, "resolved", Incident.Status.RESOLVED)
    incident(cluster, "open", Incident.Status.OPEN, resolved=False)
    incident(cluster, "looked-at", Incident.Status.ACKNOWLEDGED, resolved=False)
    assert delete_expired(cluster, Retention(), NOW) == {"incidents": 1}
    assert {i.fingerprint for i in Incident.objects.all()} == {"open", "looked-at"}
    assert IncidentEvent.objects.count() == 2


def test_another_cluster_loses_nothing(cluster: Cluster) -> None:
    observations(Cluster.objects.create(slug="lab", name="Lab"), 3)
    assert delete_expired(cluster, Retention(), NOW) == {}


def test_a_run_is_bounded_and_the_next_goes_on(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    observations(cluster, 25)
    monkeypatch.setattr(deletion, "BATCH", 4)
    monkeypatch.setattr(deletion, "MOST_ROWS", 10)
    assert [delete_expired(cluster, Retention(), NOW) for _ in range(4)] == [
        {"observations": 10},
        {"observations": 10},
        {"observations": 5},
        {},
    ]


def test_a_batch_is_a_transaction_of_its_own(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    observations(cluster, 6)
    monkeypatch.setattr(deletion, "BATCH", 2)
    with CaptureQueriesContext(connection) as queries:
        delete_expired(cluster, Retention(), NOW)
    deletes = [q for q in queries if q["sql"].startswith("DELETE") and "observation" in q["sql"]]
    assert len(deletes) == 3


def test_a_run_ends_when_its_time_is_over(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    observations(cluster, 6)
    monkeypatch.setattr(deletion, "BATCH", 2)
    delete_expired(cluster, Retention(), NOW, is_over=lambda: Observation.objects.count() <= 4)
    assert Observation.objects.count() == 4
