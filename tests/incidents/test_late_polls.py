"""A poll counts once, and only in order."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from diagnostics.findings import Diagnosis
from diagnostics.models import Cluster, Incident, IncidentEvent
from tests.builders import NOW
from tests.incidents.timeline import Timeline, finding, skipped

pytestmark = pytest.mark.django_db

POLLS = st.lists(
    st.one_of(
        st.sets(st.sampled_from(["one", "two"])).map(
            lambda names: Diagnosis(findings=tuple(finding(name) for name in sorted(names)))
        ),
        st.just(skipped()),
    ),
    max_size=12,
)


def stored() -> list[dict[str, Any]]:
    """Everything that polls write, without primary keys."""
    incidents = Incident.objects.order_by("fingerprint", "first_seen").values()
    events = IncidentEvent.objects.order_by("at", "incident__fingerprint", "pk").values("at", "kind", "data")
    rows = [*incidents, *events]
    return [{k: v for k, v in row.items() if k not in {"id", "cluster_id"}} for row in rows]


def test_a_repeated_poll_changes_nothing() -> None:
    timeline = Timeline()
    timeline.poll([finding()])

    assert timeline.poll_at(timeline.at, [finding()]).is_late
    assert timeline.states() == {"train": Incident.Status.PENDING}


def test_a_late_poll_changes_nothing() -> None:
    timeline = Timeline()
    timeline.open()

    assert timeline.poll_at(timeline.at - timedelta(seconds=30)).is_late
    assert timeline.poll_at(timeline.at - timedelta(seconds=20)).is_late
    assert timeline.states() == {"train": Incident.Status.OPEN}


def test_polls_go_on_after_a_clock_that_ran_ahead_was_set_right() -> None:
    timeline = Timeline()
    timeline.open()
    ahead = timeline.at + timedelta(days=1)
    timeline.poll_at(ahead, [finding()])

    right = ahead - timedelta(days=1) + timedelta(minutes=1)
    assert not timeline.poll_at(right).is_late
    assert not timeline.poll_at(right + timedelta(minutes=1)).is_late
    assert timeline.states() == {"train": Incident.Status.RESOLVED}


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(polls=POLLS, again=st.lists(st.integers(min_value=0, max_value=11), max_size=8))
def test_repeats_in_any_order_leave_what_each_poll_alone_leaves(
    polls: list[Diagnosis], again: list[int]
) -> None:
    Cluster.objects.all().delete()
    plain = Timeline()
    for poll in polls:
        plain.poll(poll)
    expected = stored()

    Cluster.objects.all().delete()
    disturbed = Timeline()
    for number, poll in enumerate(polls, start=1):
        disturbed.poll(poll)
        for earlier in (n for n in again if n < number):
            assert disturbed.poll_at(NOW + (earlier + 1) * timedelta(seconds=60), polls[earlier]).is_late

    assert stored() == expected


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(polls=POLLS)
def test_every_timeline_opens_before_it_resolves_and_alternates(polls: list[Diagnosis]) -> None:
    Cluster.objects.all().delete()
    timeline = Timeline()
    for poll in polls:
        timeline.poll(poll)

    for incident in Incident.objects.shown():
        kinds = list(incident.events.values_list("kind", flat=True))
        assert kinds[0] == "opened"
        assert set(kinds[1::2]) <= {"resolved"}
        assert set(kinds[2::2]) <= {"reopened"}
        assert incident.is_resolved == (kinds[-1] == "resolved")
