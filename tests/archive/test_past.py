"""What the next poll is told, without reading a snapshot for it."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from diagnostics import archive
from diagnostics.models import ArchiveState, Cluster, Incident, IncidentEvent, StoredSnapshot
from diagnostics.snapshot import Past, Snapshot, XidSeen
from tests.builders import NOW, ago, gpu, node, pod, snapshot, window

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster.objects.create(slug="prod", name="Production")


def polled(cluster: Cluster, *parts: Any, **fields: Any) -> None:
    archive.publish(cluster, archive.packed(cluster, snapshot(node(), pod(), *parts, **fields), None))


def opened(cluster: Cluster, kind: str, name: str, *times: timedelta, code: str = "GPU101") -> None:
    incident = Incident.objects.create(
        cluster=cluster,
        fingerprint=f"{code}{name[-10:]}",
        code=code,
        subject_kind=kind,
        subject_name=name,
        severity_rank=0,
        finding={},
        first_seen=NOW,
        last_seen=NOW,
        status=Incident.Status.RESOLVED,
    )
    for number, before in enumerate(times):
        event = IncidentEvent.Kind.REOPENED if number else IncidentEvent.Kind.OPENED
        IncidentEvent.objects.create(incident=incident, at=NOW - before, kind=event)
        IncidentEvent.objects.create(incident=incident, at=NOW - before, kind=IncidentEvent.Kind.RESOLVED)


def test_before_the_first_poll_nothing_is_known(cluster: Cluster) -> None:
    assert archive.earlier(cluster, DAY)[0] == Past()


def test_activity_memory_and_fitted_gpus_are_handed_on(cluster: Cluster) -> None:
    held = gpu(holders=("research/train-0",))
    polled(cluster, held)
    past = archive.earlier(cluster, DAY)[0]
    assert past.taken_at == NOW
    assert past.last_active == {held.slot: NOW}
    assert past.fitted == {"gpu-1": 1}
    assert past.memory_peaks.keys() == {"Pod/research/train-0"}


def test_xids_are_as_old_as_the_site_wants_them(cluster: Cluster) -> None:
    seen = (XidSeen(code=79, last_at=ago(hours=30)), XidSeen(code=31, last_at=ago(hours=2)))
    broken = gpu(metrics=None, window=window(xids=seen))
    polled(cluster, broken)
    assert [x.code for x in archive.earlier(cluster, DAY)[0].xids[broken.slot]] == [31]
    assert [x.code for x in archive.earlier(cluster, 2 * DAY)[0].xids[broken.slot]] == [79, 31]
    assert archive.earlier(cluster, timedelta(hours=1))[0].xids == {}


def test_incidents_of_a_node_and_its_gpus_are_counted_over_thirty_days(cluster: Cluster) -> None:
    polled(cluster)
    opened(cluster, "Node", "gpu-1", 1 * DAY, 2 * DAY)
    opened(cluster, "GPU", "gpu-1/00000000:10:00.0", 29 * DAY, 31 * DAY)
    opened(cluster, "GPU", "gpu-2/00000000:10:00.0", 3 * DAY)
    opened(cluster, "Job", "train", 3 * DAY)
    opened(Cluster.objects.create(slug="lab", name="Lab"), "Node", "gpu-1", 1 * DAY)
    assert archive.earlier(cluster, DAY)[0].incidents == {"gpu-1": 3, "gpu-2": 1}


def test_one_failure_that_several_rules_see_is_counted_once(cluster: Cluster) -> None:
    polled(cluster)
    opened(cluster, "GPU", "gpu-1/00000000:10:00.0", 2 * DAY, DAY)
    opened(cluster, "GPU", "gpu-1/00000000:10:00.0", 2 * DAY - timedelta(minutes=5), code="GPU107")
    opened(cluster, "Node", "gpu-1", 2 * DAY - timedelta(hours=5), code="GPU109")
    assert archive.earlier(cluster, DAY)[0].incidents == {"gpu-1": 2}


def test_what_is_no_failure_of_hardware_is_not_counted(cluster: Cluster) -> None:
    polled(cluster)
    opened(cluster, "Node", "gpu-1", 1 * DAY, code="GPU307")
    opened(cluster, "Node", "gpu-1", 2 * DAY, code="GPU202")
    opened(cluster, "Node", "gpu-1", 3 * DAY, code="GPU108")
    assert archive.earlier(cluster, DAY)[0].incidents == {}


def test_a_poll_that_saw_nothing_forgets_nothing(cluster: Cluster) -> None:
    polled(cluster, gpu())
    archive.publish(cluster, archive.packed(cluster, Snapshot(taken_at=NOW + timedelta(minutes=1)), None))
    assert archive.earlier(cluster, DAY)[0].taken_at == NOW


def test_damage_costs_the_history_alone(cluster: Cluster) -> None:
    polled(cluster, gpu())
    ArchiveState.objects.update(past=b"damaged")
    assert archive.earlier(cluster, DAY)[0] == Past()


def test_no_snapshot_is_read_for_it(cluster: Cluster) -> None:
    polled(cluster, gpu())
    with CaptureQueriesContext(
        connection,
    ) as queries:
        archive.earlier(cluster, DAY)
    assert not [q for q in queries if StoredSnapshot._meta.db_table in q["sql"]]
