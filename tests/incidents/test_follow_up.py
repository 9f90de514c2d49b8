"""What people do about incidents: each act once, each as an event, and none lost to a poll that writes meanwhile."""

from collections.abc import Callable

import pytest

from diagnostics.fixes import Fix
from diagnostics.incidents import follow_up
from diagnostics.incidents.follow_up import LONGEST_COMMENT, Refused
from diagnostics.incidents.recording import _Poll
from diagnostics.incidents.steps import ShownStep, checked, shown_steps, signed, unsigned
from diagnostics.models import IncidentEvent, User
from tests.incidents.timeline import Timeline, finding
from tests.pages.stored import step

pytestmark = pytest.mark.django_db

FIX = ShownStep("0123456789abcdef", 1, "fix", "Give them back")


def standing(timeline: Timeline) -> list[str]:
    return list(checked(timeline.incident().events.select_related("actor").order_by("pk")))


def test_what_is_done_twice_counts_once(timeline: Timeline, user: User) -> None:
    pk = timeline.open().pk
    acts: list[Callable[[], bool]] = [
        lambda: follow_up.acknowledge(pk, user),
        lambda: follow_up.assign(pk, user, user),
        lambda: follow_up.comment(pk, user, "on it", 0),
        lambda: follow_up.check_step(pk, user, FIX),
        lambda: follow_up.uncheck_step(pk, user, FIX),
        lambda: follow_up.assign(pk, user, None),
        lambda: follow_up.unacknowledge(pk, user),
    ]

    assert [act() for act in acts for _ in range(2)] == [True, False] * len(acts)
    assert timeline.events() == [
        "opened",
        "acknowledged",
        "assigned",
        "commented",
        "step checked",
        "step taken back",
        "assigned",
        "unacknowledged",
    ]
    incident = timeline.incident()
    assert (incident.status, incident.assignee, incident.fix_status) == ("open", None, "")


def test_a_poll_keeps_what_people_did(timeline: Timeline, user: User) -> None:
    pk = timeline.open().pk
    follow_up.acknowledge(pk, user)
    follow_up.assign(pk, user, user)
    follow_up.check_step(pk, user, FIX)
    timeline.poll([finding(gpus=7)])

    incident = timeline.incident()
    assert incident.gpus == 7
    assert (incident.status, incident.assignee, incident.fix_status) == ("acknowledged", user, "checked")


def test_an_assignment_made_while_a_poll_is_worked_on_is_kept(
    timeline: Timeline, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the database locks: a poll never writes who is assigned."""
    pk = timeline.open().pk
    reconcile = _Poll.reconcile

    def meanwhile(self: _Poll) -> None:
        reconcile(self)
        follow_up.assign(pk, user, user)

    monkeypatch.setattr(_Poll, "reconcile", meanwhile)
    timeline.poll([finding()])

    assert timeline.incident().assignee == user


@pytest.mark.parametrize("act", [follow_up.acknowledge, follow_up.unacknowledge])
def test_what_is_resolved_cannot_be_acknowledged(timeline: Timeline, user: User, act: object) -> None:
    pk = timeline.open().pk
    timeline.poll()
    timeline.poll()

    with pytest.raises(Refused, match="It is resolved"):
        act(pk, user)  # type: ignore[operator]
    assert timeline.events() == ["opened", "resolved"]


def test_what_is_resolved_can_still_be_commented(timeline: Timeline, user: User) -> None:
    pk = timeline.open().pk
    timeline.poll()
    timeline.poll()

    assert follow_up.comment(pk, user, "the riser was loose", 0)


def test_nobody_is_assigned_who_may_not_sign_in(timeline: Timeline, user: User) -> None:
    gone = User.objects.create_user("gone", is_active=False)

    with pytest.raises(Refused, match="may not sign in"):
        follow_up.assign(timeline.open().pk, user, gone)


@pytest.mark.parametrize(("text", "why"), [(" \r\n ", "words"), ("x" * (LONGEST_COMMENT + 1), "4,001")])
def test_a_comment_has_words_but_not_too_many(timeline: Timeline, user: User, text: str, why: str) -> None:
    pk = timeline.open().pk
    with pytest.raises(Refused, match=why):
        follow_up.comment(pk, user, text, 0)

    assert follow_up.comment(pk, user, "x" * LONGEST_COMMENT, 0)


def test_the_same_words_count_again_once_their_author_has_seen_them(timeline: Timeline, user: User) -> None:
    pk = timeline.open().pk
    other = User.objects.create_user("other")
    assert follow_up.comment(pk, user, "again", 0)
    assert follow_up.comment(pk, other, "again", 0)
    seen = IncidentEvent.objects.latest("pk").pk

    assert not follow_up.comment(pk, user, "again", 0)
    assert follow_up.comment(pk, user, "again", seen)


@pytest.mark.parametrize(
    "text", ["a\x00b", "\u202egnp.exe", "<b>{{ x }}%s</b>", "\ud800".encode("utf-8", "replace").decode()]
)
def test_any_words_can_be_kept(timeline: Timeline, user: User, text: str) -> None:
    follow_up.comment(timeline.open().pk, user, text, 0)

    assert IncidentEvent.objects.get(kind="commented").data["text"] == text.replace("\x00", "\ufffd")


def test_what_was_checked_off_before_it_came_back_does_not_count(timeline: Timeline, user: User) -> None:
    pk = timeline.open().pk
    follow_up.check_step(pk, user, FIX)
    for found in ([], [], [finding()], [finding()]):
        timeline.poll(found)
    assert standing(timeline) == []

    assert follow_up.check_step(pk, user, FIX)
    assert standing(timeline) == [FIX.digest]


def test_a_fix_counts_as_tried_while_one_of_its_steps_stands(timeline: Timeline, user: User) -> None:
    pk = timeline.open().pk
    second = FIX._replace(digest="f" * 16)
    follow_up.check_step(pk, user, FIX)
    follow_up.check_step(pk, user, second)
    follow_up.uncheck_step(pk, user, FIX)
    assert timeline.incident().fix_status == "checked"

    follow_up.uncheck_step(pk, user, second)
    assert timeline.incident().fix_status == ""


def test_a_step_is_known_by_all_that_it_says() -> None:
    one, other = step(command="kubectl cordon gpu-1"), step(command="kubectl cordon gpu-2")
    before = shown_steps(Fix("Fix", (one, other, one)))
    after = shown_steps(Fix("Fix", (other, step(), one)))

    assert len({shown.digest for shown in before}) == 3
    assert after[0].digest == before[1].digest
    assert after[2].digest == before[0].digest
    assert after[1].digest not in {shown.digest for shown in before}


def test_a_step_comes_back_only_as_it_was_shown() -> None:
    text = signed(7, FIX)

    assert unsigned(7, text) == FIX
    assert unsigned(8, text) is None
    assert unsigned(7, text[:-1]) is None
    assert unsigned(7, "") is None
