"""People and polls at the same time: nothing is lost, and nothing counts twice."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event
from typing import Any

import pytest
from django.db import connection

from diagnostics.incidents import follow_up
from diagnostics.incidents.recording import _Poll
from diagnostics.incidents.steps import ShownStep
from diagnostics.models import IncidentEvent, User
from tests.incidents.timeline import Timeline, finding

pytestmark = pytest.mark.django_db(transaction=True)

FIX = ShownStep("0123456789abcdef", 1, "fix", "Give them back")
WITHIN_S = 20


def closing(act: Callable[[], Any]) -> Callable[[], Any]:
    """`act`, for a thread of its own: it leaves no connection behind."""

    def run() -> Any:
        try:
            return act()
        finally:
            connection.close()

    return run


def test_a_poll_that_is_being_written_does_not_undo_what_somebody_does_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timeline = Timeline()
    user = User.objects.create_user("sre")
    pk = timeline.open().pk
    has_read, write = Event(), _Poll.write

    def late(self: _Poll) -> None:
        """The poll has read everything; somebody comes and goes, or waits."""
        has_read.set()
        time.sleep(0.3)
        write(self)

    monkeypatch.setattr(_Poll, "write", late)

    def people() -> None:
        assert has_read.wait(WITHIN_S)
        follow_up.acknowledge(pk, user)
        follow_up.assign(pk, user, user)
        follow_up.check_step(pk, user, FIX)

    with ThreadPoolExecutor(2) as threads:
        poll = threads.submit(closing(lambda: timeline.poll([finding(gpus=5)])))
        acts = threads.submit(closing(people))
        poll.result(WITHIN_S)
        acts.result(WITHIN_S)

    incident = timeline.incident()
    assert incident.gpus == 5
    assert (incident.status, incident.assignee, incident.fix_status) == ("acknowledged", user, "checked")


@pytest.mark.parametrize("act", ["acknowledge", "check", "comment"])
def test_a_form_that_is_sent_twice_at_once_counts_once(act: str) -> None:
    timeline = Timeline()
    user = User.objects.create_user("sre")
    pk = timeline.open().pk
    acts: dict[str, Callable[[], bool]] = {
        "acknowledge": lambda: follow_up.acknowledge(pk, user),
        "check": lambda: follow_up.check_step(pk, user, FIX),
        "comment": lambda: follow_up.comment(pk, user, "on it", 0),
    }
    together = Barrier(2)

    def send() -> bool:
        together.wait(WITHIN_S)
        return acts[act]()

    with ThreadPoolExecutor(2) as threads:
        both = [threads.submit(closing(send)) for _ in range(2)]
        assert sorted(one.result(WITHIN_S) for one in both) == [False, True]

    assert IncidentEvent.objects.exclude(kind="opened").count() == 1
