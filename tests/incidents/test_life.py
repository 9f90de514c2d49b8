"""How incidents open, stay, close and come back."""

from datetime import timedelta

import msgspec
import pytest

from diagnostics.findings import Diagnosis, Severity
from diagnostics.models import Incident
from tests.builders import owner, pod
from tests.incidents.timeline import (
    CODE,
    POLL,
    Timeline,
    exempted,
    failed,
    finding,
    partial,
    skipped,
    unjudged,
)

pytestmark = pytest.mark.django_db

Status = Incident.Status


def test_opens_after_as_many_polls_as_the_rule_holds(timeline: Timeline) -> None:
    first = timeline.poll([finding()])
    assert timeline.states() == {"train": Status.PENDING}
    assert first.held == frozenset()

    second = timeline.poll([finding()])
    assert timeline.states() == {"train": Status.OPEN}
    assert second.held == {finding().id}
    assert (second.opened, second.reopened, second.resolved) == (1, 0, 0)
    assert timeline.events() == ["opened"]


def test_opens_at_once_without_holding_time(timeline: Timeline) -> None:
    timeline.poll([finding(code="GPU101")])

    assert timeline.states() == {"train": Status.OPEN}


def test_holds_two_polls_where_a_rule_is_not_in_the_catalogue(timeline: Timeline) -> None:
    timeline.poll([finding(code="GPU999")])
    assert timeline.states() == {"train": Status.PENDING}

    timeline.poll([finding(code="GPU999")])
    assert timeline.states() == {"train": Status.OPEN}


def test_forgets_what_was_gone_before_it_opened(timeline: Timeline) -> None:
    timeline.poll([finding()])
    timeline.poll()
    assert timeline.states() == {}

    timeline.poll([finding()])
    assert timeline.states() == {"train": Status.PENDING}


def test_stays_open_and_shows_the_latest_finding(timeline: Timeline) -> None:
    opened = timeline.open()
    timeline.poll([finding(gpus=4, title="train wastes 4 GPUs", waste_gpus=None)])

    incident = timeline.incident()
    assert incident.opened_at is not None
    assert (incident.gpus, incident.title, incident.waste_gpus) == (4, "train wastes 4 GPUs", None)
    assert incident.last_seen == timeline.at
    assert incident.opened_at == opened.opened_at
    assert incident.first_seen == incident.opened_at - POLL
    assert timeline.events() == ["opened"]


def test_keeps_the_whole_finding_and_says_that_it_is_held(timeline: Timeline) -> None:
    timeline.open()

    assert timeline.incident().latest_finding == msgspec.structs.replace(finding(), held=True)


def test_closes_after_two_polls_that_do_not_find_it(timeline: Timeline) -> None:
    timeline.open()
    timeline.poll()
    assert timeline.states() == {"train": Status.OPEN}

    assert timeline.poll().resolved == 1
    incident = timeline.incident()
    assert incident.status == Status.RESOLVED
    assert incident.resolved_at == timeline.at
    assert incident.last_seen < incident.resolved_at
    assert timeline.events() == ["opened", "resolved"]


def test_does_not_close_when_it_is_found_in_between(timeline: Timeline) -> None:
    timeline.open()
    for found in ([], [finding()], [], [finding()], []):
        timeline.poll(found)

    assert timeline.states() == {"train": Status.OPEN}


def test_reopens_what_returns_within_a_day(timeline: Timeline) -> None:
    opened = timeline.open()
    timeline.poll()
    timeline.poll()
    timeline.poll([finding()], after=timedelta(hours=23))
    assert timeline.states() == {"train": Status.RESOLVED}, "not before its holding time"

    assert timeline.poll([finding()]).reopened == 1
    incident = timeline.incident()
    assert incident.pk == opened.pk
    assert incident.status == Status.OPEN
    assert (incident.reopened_count, incident.reopened_at) == (1, timeline.at)
    assert (incident.resolved_at, incident.resolution) == (None, "")
    assert timeline.events() == ["opened", "resolved", "reopened"]


def test_what_flickers_after_it_was_resolved_stays_resolved(timeline: Timeline) -> None:
    timeline.open()
    for found in ([], [], [finding()], [], [finding()], []):
        timeline.poll(found)

    assert timeline.states() == {"train": Status.RESOLVED}
    assert timeline.events() == ["opened", "resolved"]


def test_what_returns_later_is_a_new_incident(timeline: Timeline) -> None:
    old = timeline.open()
    timeline.poll()
    timeline.poll()
    timeline.poll([finding()], after=timedelta(hours=25))
    timeline.poll([finding()])

    assert [i.status for i in Incident.objects.order_by("pk")] == [Status.RESOLVED, Status.OPEN]
    assert Incident.objects.order_by("pk")[0].pk == old.pk


def test_an_acknowledged_incident_stays_so_until_it_closes(timeline: Timeline) -> None:
    timeline.open()
    Incident.objects.update(status=Status.ACKNOWLEDGED)
    timeline.poll([finding()])
    assert timeline.states() == {"train": Status.ACKNOWLEDGED}

    timeline.poll()
    timeline.poll()
    timeline.poll([finding()])
    timeline.poll([finding()])
    assert timeline.states() == {"train": Status.OPEN}, "whoever looked after it thinks that it is over"


@pytest.mark.parametrize(
    "blind", [skipped(), failed(), partial(), unjudged()], ids=["skip", "fail", "part", "unj"]
)
def test_what_was_not_looked_for_neither_counts_nor_resets(timeline: Timeline, blind: Diagnosis) -> None:
    timeline.poll([finding()])
    for _ in range(5):
        timeline.poll(blind)
    assert timeline.states() == {"train": Status.PENDING}

    timeline.poll([finding()])
    assert timeline.states() == {"train": Status.OPEN}

    timeline.poll()
    for _ in range(5):
        timeline.poll(blind)
    assert timeline.states() == {"train": Status.OPEN}

    timeline.poll()
    assert timeline.states() == {"train": Status.RESOLVED}


def test_incomplete_data_that_show_the_subject_resolve_in_time(timeline: Timeline) -> None:
    """Else one malformed object would keep every incident of the cluster open for ever."""
    timeline.open()
    timeline.pods = (pod(root=owner("Job", "train")),)
    for _ in range(9):
        timeline.poll(partial())
    assert timeline.states() == {"train": Status.OPEN}
    timeline.poll(partial())
    assert timeline.states() == {"train": Status.RESOLVED}


def test_incomplete_data_without_the_subject_are_given_up_after_a_day(timeline: Timeline) -> None:
    timeline.open()
    for _ in range(23):
        timeline.poll(partial(), after=timedelta(hours=1))
    assert timeline.states() == {"train": Status.OPEN}
    for _ in range(2):
        timeline.poll(partial(), after=timedelta(hours=1))
    assert timeline.states() == {"train": Status.RESOLVED}


def test_what_is_found_in_incomplete_data_counts(timeline: Timeline) -> None:
    timeline.poll(partial(finding()))
    timeline.poll(partial(finding()))

    assert timeline.states() == {"train": Status.OPEN}


def test_a_rule_that_could_not_look_does_not_keep_the_others_open(timeline: Timeline) -> None:
    timeline.poll([finding("one"), finding("two", code="GPU101")])
    timeline.poll([finding("one"), finding("two", code="GPU101")])
    for _ in range(2):
        timeline.poll(skipped(CODE))

    assert timeline.states() == {"one": Status.OPEN, "two": Status.RESOLVED}


def test_an_exemption_resolves_at_once_and_says_why(timeline: Timeline) -> None:
    timeline.open()
    timeline.poll(exempted(reason="warm standby"))

    incident = timeline.incident()
    assert incident.status == Status.RESOLVED
    assert incident.resolution == "exempt: warm standby"
    assert incident.events.last().data["reason"] == "exempt: warm standby"  # type: ignore[union-attr]


def test_an_exemption_ends_what_was_pending(timeline: Timeline) -> None:
    timeline.poll([finding()])
    timeline.poll(exempted())

    assert timeline.states() == {}


def test_notes_when_severity_or_cause_change(timeline: Timeline) -> None:
    timeline.open()
    timeline.poll([finding(severity=Severity.CRITICAL)])
    timeline.poll([finding(severity=Severity.CRITICAL, cause="hung")])
    timeline.poll([finding(severity=Severity.CRITICAL, cause="hung", title="other words")])

    incident = timeline.incident()
    assert (incident.severity, incident.severity_rank, incident.cause) == ("critical", 0, "hung")
    assert [(e.kind, e.data) for e in incident.events.all()][1:] == [
        ("severity changed", {"from": "warning", "to": "critical"}),
        ("cause changed", {"from": "nothing-runs", "to": "hung"}),
    ]


def test_clusters_do_not_touch_each_other(timeline: Timeline) -> None:
    timeline.open()
    other = Timeline(slug="staging", identity="another")
    other.poll()
    other.poll()

    assert timeline.states() == {"train": Status.OPEN}
