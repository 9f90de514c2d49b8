"""What is noted about a poll: here, what rules found and did not raise."""

from datetime import timedelta

import pytest

from diagnostics.findings import Diagnosis, Exempted, Subject
from diagnostics.models import Cluster, Observation
from diagnostics.observations import EXEMPTED_KEPT, Stages, publish, publish_broken
from diagnostics.snapshot import Snapshot, Source, SourceState, SourceStatus
from tests.builders import NOW, snapshot

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster() -> Cluster:
    return Cluster.objects.create(slug="prod", name="Production", identity="1")


def exempted(code: str, *names: str, reason: str = "warm standby") -> Diagnosis:
    return Diagnosis(exempted=tuple(Exempted(code, Subject("Job", name, "ml"), reason) for name in names))


def noted(cluster: Cluster, minute: int, diagnosis: Diagnosis, what: Snapshot | None = None) -> Observation:
    taken_at = NOW + timedelta(minutes=minute)
    seen = what or snapshot(taken_at=taken_at)
    return publish(cluster, seen, diagnosis, Stages(), {})


def test_what_is_exempted_is_kept_by_rule_with_its_reason(cluster: Cluster) -> None:
    diagnosis = Diagnosis(exempted=exempted("GPU501", "a").exempted + exempted("GPU403", "a", "b").exempted)

    noted(cluster, 0, diagnosis)

    one, two = Observation.objects.get().exempted
    assert one == {
        "code": "GPU501",
        "count": 1,
        "kept": [{"kind": "Job", "namespace": "ml", "name": "a", "reason": "warm standby"}],
    }
    assert (two["code"], two["count"], [kept["name"] for kept in two["kept"]]) == ("GPU403", 2, ["a", "b"])


def test_of_many_some_are_kept_and_all_counted(cluster: Cluster) -> None:
    noted(cluster, 0, exempted("GPU501", *(f"j{i}\x00" for i in range(1000)), reason="why\x00 " * 1000))

    (group,) = Observation.objects.get().exempted
    assert (group["count"], len(group["kept"])) == (1000, EXEMPTED_KEPT)
    assert group["kept"][0]["name"] == "j0\ufffd"
    assert len(group["kept"][0]["reason"]) == 300


def test_only_the_last_poll_that_judged_keeps_it(cluster: Cluster) -> None:
    first = noted(cluster, 0, exempted("GPU501", "a"))
    second = noted(cluster, 1, exempted("GPU501", "b"))
    lost = tuple(SourceStatus(name=source, state=SourceState.FAILED) for source in Source)
    noted(cluster, 2, Diagnosis(), Snapshot(taken_at=NOW + timedelta(minutes=2), sources=lost))
    publish_broken(cluster, NOW + timedelta(minutes=3), ValueError("odd"), Stages())

    for poll in (first, second):
        poll.refresh_from_db()
    assert first.exempted == []
    assert second.exempted[0]["kept"][0]["name"] == "b"

    noted(cluster, 4, Diagnosis())

    assert not Observation.objects.exclude(exempted=[]).exists()


def test_another_cluster_keeps_its_own(cluster: Cluster) -> None:
    other = Cluster.objects.create(slug="lab", name="Lab", identity="2")
    noted(other, 0, exempted("GPU501", "a"))

    noted(cluster, 1, Diagnosis())

    assert Observation.objects.get(cluster=other).exempted
