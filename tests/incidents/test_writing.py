"""What is written: in few queries, whole or not at all, events for ever, texts as they come."""

import math
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from diagnostics.incidents.recording import _Poll
from diagnostics.models import Cluster, Incident, IncidentEvent
from diagnostics.models.incident_event import AppendOnlyError
from tests.incidents.timeline import Timeline, exempted, finding

pytestmark = pytest.mark.django_db


def queries_of_a_busy_poll(size: int) -> int:
    """Queries of a poll in which `size` incidents each open, stay, close, are forgotten and get a cause."""
    Cluster.objects.all().delete()
    timeline = Timeline()
    groups = {
        name: [f"{name}-{number}" for number in range(size)] for name in ("new", "stay", "close", "forget")
    }
    before = [finding(name) for name in groups["stay"] + groups["close"]]
    timeline.poll(before)
    timeline.poll([*before, *(finding(name) for name in groups["forget"])])
    timeline.poll([finding(name) for name in groups["stay"]])
    causes = tuple(finding(name).id for name in groups["stay"])
    now = [finding(name, code="GPU101", caused_by=causes[:2]) for name in groups["new"]]
    with CaptureQueriesContext(
        connection,
    ) as captured:
        timeline.poll([*now, *(finding(name) for name in groups["stay"])])
    assert Incident.objects.filter(status="open").count() == 2 * size
    assert Incident.objects.filter(status="resolved").count() == size
    assert Incident.causes.through.objects.count() == size * min(size, 2)
    return len(captured)


def test_the_number_of_queries_does_not_grow_with_the_incidents() -> None:
    assert queries_of_a_busy_poll(120) == queries_of_a_busy_poll(2) <= 15


def test_symptoms_hang_under_their_cause_as_long_as_it_is_said() -> None:
    timeline = Timeline()
    cause, symptom = finding("cause", code="GPU101"), finding("symptom", code="GPU101")
    explained = finding("symptom", code="GPU101", caused_by=(cause.id, "0123456789abcdef"))
    timeline.poll([cause, explained])
    assert [i.subject_name for i in timeline.incident("cause").symptoms.all()] == ["symptom"]

    timeline.poll([cause, symptom])
    assert not timeline.incident("symptom").causes.exists()


def test_only_one_incident_of_a_fingerprint_is_alive() -> None:
    timeline = Timeline()
    incident = timeline.open()
    incident.pk = None
    incident._state.adding = True

    with pytest.raises(IntegrityError), transaction.atomic():
        incident.save()


def test_a_poll_that_breaks_half_way_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Any) -> None:
        raise RuntimeError

    timeline = Timeline()
    monkeypatch.setattr(_Poll, "_write_causes", broken)
    with pytest.raises(RuntimeError):
        timeline.poll([finding()])
    monkeypatch.undo()

    assert timeline.states() == {}
    assert not timeline.poll_at(timeline.at, [finding()]).is_late


def test_events_are_never_rewritten() -> None:
    timeline = Timeline()
    event = timeline.open().events.get()

    for rewrite in (
        event.save,
        event.delete,
        lambda: IncidentEvent.objects.update(kind="resolved"),
        IncidentEvent.objects.all().delete,
        lambda: IncidentEvent.objects.bulk_update([event], ["kind"]),
    ):
        with pytest.raises(AppendOnlyError):
            rewrite()
    assert timeline.events() == ["opened"]


def test_a_cluster_can_be_removed_with_all_its_history() -> None:
    timeline = Timeline()
    timeline.open()
    timeline.cluster.delete()

    assert not Incident.objects.exists()
    assert not IncidentEvent.objects.exists()


def test_hostile_texts_are_kept_as_they_are() -> None:
    hostile = "<script>alert(1)</script>\x1b[31m \"'%s{0}\n\u202e" + "x" * 5000
    timeline = Timeline()
    timeline.poll([finding(hostile, code="GPU101", title=hostile, cause=hostile)])

    incident = Incident.objects.get()
    assert incident.title == hostile
    assert incident.latest_finding.subject.name == hostile
    assert incident.subject_name == hostile[:600]


def test_what_a_database_cannot_hold_does_not_cost_the_rest() -> None:
    timeline = Timeline()
    timeline.poll(
        [
            finding("nul\x00", code="GPU101", title="a\x00b", waste_gpus=math.nan),
            finding("rest", code="GPU101"),
        ]
    )

    assert set(timeline.states()) == {"nul\ufffd", "rest"}
    assert Incident.objects.get(subject_name="nul\ufffd").waste_gpus is None


def test_a_reason_may_be_hostile_too() -> None:
    timeline = Timeline()
    timeline.open()
    timeline.poll(exempted(reason="\x00" + "why " * 1000))

    assert timeline.incident().resolution.startswith("exempt: \ufffdwhy why")
