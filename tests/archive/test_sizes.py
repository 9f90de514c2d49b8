"""What is kept is shown with its size now and at the whole retention."""

from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command

from diagnostics import archive
from diagnostics.archive.sizes import Size, sizes
from diagnostics.models import ArchivedSnapshot, Cluster, Incident, IncidentEvent, Observation
from diagnostics.retention import Retention
from tests.builders import NOW, event, gpu, node, pod, snapshot

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster.objects.create(slug="prod", name="Production")


def polled(cluster: Cluster, minutes: int) -> None:
    at = NOW + minutes * MINUTE
    shot = snapshot(node(), pod(), gpu(), event("Failed", last_at=at), taken_at=at)
    archive.publish(cluster, archive.packed(cluster, shot, None))


def by_kind(cluster: Cluster) -> dict[str, Size]:
    return {size.kind: size for size in sizes(cluster, Retention(), MINUTE)}


def test_an_empty_cluster_takes_nothing(cluster: Cluster) -> None:
    found = by_kind(cluster)
    assert {size.rows for size in found.values()} == {0}
    assert {size.bytes_now for size in found.values()} == {0}
    assert found["snapshots poll"].bytes_then is None, "nothing is known of one yet"


def test_snapshots_are_foretold_by_the_size_of_one_and_their_number(cluster: Cluster) -> None:
    for minutes in range(61):
        polled(cluster, minutes)
    found = by_kind(cluster)
    polls, hours, days = (found[f"snapshots {tier}"] for tier in ("poll", "hour", "day"))
    assert (polls.rows, hours.rows, days.rows) == (59, 1, 1)
    for size, number in ((polls, 1440), (hours, 720), (days, 396)):
        assert size.bytes_now
        assert size.bytes_then == pytest.approx(size.bytes_now / size.rows * number, rel=0.01)


def test_what_grows_with_time_is_foretold_by_its_span(cluster: Cluster) -> None:
    Observation.objects.bulk_create(
        Observation(cluster=cluster, taken_at=NOW + i * MINUTE, started_at=NOW, finished_at=NOW, status="ok")
        for i in range(1441)
    )
    size = by_kind(cluster)["observations"]
    assert size.rows == 1441
    assert size.bytes_now is not None
    assert size.bytes_now > 1441 * 50
    assert size.bytes_then == pytest.approx(size.bytes_now * 396)


def test_two_clusters_share_a_table_by_what_they_packed(cluster: Cluster) -> None:
    other = Cluster.objects.create(slug="lab", name="Lab")
    polled(cluster, 0)
    ArchivedSnapshot.objects.create(cluster=other, taken_at=NOW, tier="day", format=1, data=b"x" * 200_000)
    assert (by_kind(other)["snapshots day"].bytes_now or 0) > 20 * (
        by_kind(cluster)["snapshots day"].bytes_now or 0
    )


def test_records_without_packed_data_are_shared_by_rows(cluster: Cluster) -> None:
    for slug, number in (("prod", 1), ("lab", 3)):
        owner, _ = Cluster.objects.get_or_create(slug=slug, defaults={"name": slug})
        trouble = Incident.objects.create(
            cluster=owner, severity_rank=0, finding={}, first_seen=NOW, last_seen=NOW, fingerprint=slug
        )
        for _ in range(number):
            IncidentEvent.objects.create(incident=trouble, at=NOW, kind="opened", data={"severity": "info"})
    size = by_kind(cluster)["events of incidents"]
    others = {s.kind: s for s in sizes(Cluster.objects.get(slug="lab"), Retention(), MINUTE)}[
        "events of incidents"
    ]
    assert size.bytes_now
    assert others.bytes_now == pytest.approx(3 * size.bytes_now, abs=2)


def test_the_command_shows_it(cluster: Cluster, settings: Any) -> None:
    settings.RETENTION = Retention()
    polled(cluster, 0)
    out = StringIO()
    call_command("retention", stdout=out)
    lines = out.getvalue().splitlines()
    assert lines[0] == "prod:"
    assert next(line for line in lines if "observations" in line).split()[1:3] == ["0", "396"]
    assert lines[-1].split()[0] == "all"


def test_the_command_deletes_when_asked(cluster: Cluster, settings: Any) -> None:
    settings.RETENTION = Retention()
    old = NOW - 4000 * DAY
    Observation.objects.create(cluster=cluster, taken_at=old, started_at=old, finished_at=old, status="ok")
    out = StringIO()
    call_command("retention", "--delete", stdout=out)
    assert "observations: 1 row deleted" in out.getvalue()
    assert not Observation.objects.exists()
