"""How often fixes have held."""

import pytest

from diagnostics.incidents.follow_up import check_step
from diagnostics.incidents.outcomes import Outcomes, outcomes
from diagnostics.incidents.steps import ShownStep
from diagnostics.models import User
from tests.incidents.timeline import CODE, Timeline, finding

pytestmark = pytest.mark.django_db

FIX = ShownStep("0123456789abcdef", 1, "fix", "Give them back")
CAUSE = "nothing-runs"


def tried(timeline: Timeline, user: User, name: str, *, comes_back_after: int | None = None) -> None:
    """An incident whose fix is checked off, that is then not seen; it may come back after so many polls."""
    check_step(timeline.open(name).pk, user, FIX)
    for _ in range(3 if comes_back_after is None else comes_back_after):
        timeline.poll()
    if comes_back_after is not None:
        timeline.poll([finding(name)])
        timeline.poll([finding(name)])


def test_says_nothing_before_there_are_five(user: User) -> None:
    timeline = Timeline()
    for number in range(4):
        tried(timeline, user, f"job-{number}")
    assert outcomes(CODE, CAUSE) == Outcomes(held=4, failed=0)
    assert outcomes(CODE, CAUSE).rate_ratio is None

    tried(timeline, user, "job-4")
    assert outcomes(CODE, CAUSE).rate_ratio == 1.0


def test_what_comes_back_has_failed_once_whether_or_not_it_was_verified(user: User) -> None:
    timeline = Timeline()
    tried(timeline, user, "held")
    tried(timeline, user, "soon", comes_back_after=2)
    tried(timeline, user, "later", comes_back_after=4)

    assert outcomes(CODE, CAUSE) == Outcomes(held=1, failed=2)


def test_counts_each_occurrence_by_itself(user: User) -> None:
    timeline = Timeline()
    tried(timeline, user, "train", comes_back_after=3)
    check_step(timeline.incident().pk, user, FIX)
    for _ in range(3):
        timeline.poll()

    assert outcomes(CODE, CAUSE) == Outcomes(held=1, failed=1)


def test_tells_rules_and_causes_apart_but_not_clusters(user: User) -> None:
    tried(Timeline(), user, "train")
    tried(Timeline(slug="other", identity="another"), user, "elsewhere")

    assert outcomes(CODE, CAUSE).total == 2
    assert outcomes(CODE, "another-cause").total == 0
    assert outcomes("GPU101", CAUSE).total == 0
