"""What the polls say after somebody has checked a fix off."""

import pytest

from diagnostics.findings import Diagnosis, Subject
from diagnostics.incidents.follow_up import check_step
from diagnostics.incidents.steps import ShownStep
from diagnostics.incidents.verification import Sight, verification
from diagnostics.models import Cluster, User
from diagnostics.snapshot import Source
from tests.builders import owner, pod, statuses
from tests.incidents.timeline import Timeline, exempted, failed, finding, partial, skipped, unjudged

pytestmark = pytest.mark.django_db

FIX = ShownStep("0123456789abcdef", 2, "fix", "Give them back")
LOOK = ShownStep("fedcba9876543210", 1, "diagnose", "Look")


def words(timeline: Timeline) -> str:
    last = Cluster.objects.get().last_taken_at
    return verification(timeline.incident(), last).words


def test_says_poll_by_poll_how_sure_it_is(timeline: Timeline) -> None:
    timeline.open()
    said = [words(timeline)]
    for _ in range(4):
        timeline.poll()
        said.append(words(timeline))

    assert said == [
        "seen by the last poll",
        "not seen by 1 of 3 polls yet",
        "not seen by 2 of 3 polls yet",
        "verified: the last 3 polls no longer see it",
        "verified: the last 3 polls no longer see it",
    ]


def test_begins_again_when_it_is_seen_in_between(timeline: Timeline) -> None:
    timeline.open()
    for found in ([], [finding()], []):
        timeline.poll(found)

    assert words(timeline) == "not seen by 1 of 3 polls yet"


@pytest.mark.parametrize(
    "blind", [skipped(), failed(), partial(), unjudged()], ids=["skip", "fail", "part", "unj"]
)
def test_a_rule_that_could_not_look_neither_verifies_nor_refutes(
    timeline: Timeline, blind: Diagnosis
) -> None:
    timeline.open()
    timeline.poll()
    timeline.poll(blind)
    assert words(timeline) == "not evaluated"

    timeline.poll()
    assert words(timeline) == "not seen by 2 of 3 polls yet"
    timeline.poll(blind)
    assert words(timeline) == "not evaluated"
    timeline.poll()
    assert words(timeline).startswith("verified")


def test_incomplete_data_resolve_in_time_but_verify_nothing(timeline: Timeline) -> None:
    timeline.open()
    timeline.pods = (pod(root=owner("Job", "train")),)
    for _ in range(12):
        timeline.poll(partial())

    assert timeline.incident().is_resolved
    assert words(timeline) == "not evaluated"


def test_what_flickers_after_it_was_verified_is_seen(timeline: Timeline) -> None:
    timeline.open()
    for found in ([], [], [], [finding()]):
        timeline.poll(found)

    assert timeline.incident().is_resolved
    assert words(timeline) == "seen by the last poll"


def test_nothing_is_known_before_a_poll(timeline: Timeline) -> None:
    assert verification(timeline.open(), None).sight is Sight.NOT_EVALUATED


def test_a_verified_incident_is_not_written_again(timeline: Timeline) -> None:
    timeline.open()
    for _ in range(3):
        timeline.poll()
    verified = timeline.incident()
    timeline.poll()

    assert timeline.incident().judged_at == verified.judged_at != timeline.at


def test_a_fix_that_was_checked_off_is_verified_by_the_third_poll(timeline: Timeline, user: User) -> None:
    check_step(timeline.open().pk, user, FIX)
    for _ in range(5):
        timeline.poll()

    assert timeline.events() == ["opened", "step checked", "resolved", "fix verified"]


def test_without_a_checked_off_fix_no_outcome_is_noted(timeline: Timeline, user: User) -> None:
    check_step(timeline.open().pk, user, LOOK)
    for found in ([], [], [], [finding()], [finding()]):
        timeline.poll(found)

    assert timeline.events() == ["opened", "step checked", "resolved", "reopened"]


def test_a_step_that_is_checked_off_afterwards_tried_nothing(timeline: Timeline, user: User) -> None:
    incident = timeline.open()
    timeline.poll()
    timeline.poll()
    check_step(incident.pk, user, FIX)
    timeline.poll()

    assert timeline.events() == ["opened", "resolved", "step checked"]


@pytest.mark.parametrize(("clear", "was_verified"), [(2, False), (3, True)])
def test_a_fix_has_failed_when_the_trouble_is_back_within_a_day(
    timeline: Timeline, user: User, clear: int, was_verified: bool
) -> None:
    check_step(timeline.open().pk, user, FIX)
    for _ in range(clear):
        timeline.poll()
    for _ in range(2):
        timeline.poll([finding(cause="hung")])

    event = timeline.incident().events.get(kind="fix failed")
    assert event.data == {"cause": "nothing-runs", "was_verified": was_verified}
    assert timeline.incident().fix_status == ""


def test_an_exemption_is_no_fix(timeline: Timeline, user: User) -> None:
    check_step(timeline.open().pk, user, FIX)
    for found in (exempted(), [], [], [], [finding()], [finding()]):
        timeline.poll(found)

    assert timeline.events() == ["opened", "step checked", "resolved", "reopened"]


def train(timeline: Timeline) -> None:
    """The Job's finding, about a pod of it."""
    timeline.pods = (pod(root=owner("Job", "train")),)
    for _ in range(2):
        timeline.poll([finding(pods=("research/train-0",))])


def test_what_ended_because_its_pods_are_gone_is_not_called_verified(timeline: Timeline) -> None:
    train(timeline)
    timeline.pods = (pod("other-0"),)
    timeline.poll()
    said = [words(timeline)]
    for _ in range(3):
        timeline.poll()
        said.append(words(timeline))

    assert said == ["not seen by 1 of 3 polls yet", *["resolved: its pods are gone"] * 3]
    assert timeline.incident().resolution == "its pods are gone"


def test_what_ended_with_its_pods_says_so(timeline: Timeline) -> None:
    train(timeline)
    timeline.pods = (pod(root=owner("Job", "train"), phase="Succeeded"),)
    for _ in range(3):
        timeline.poll()

    assert words(timeline) == "resolved: its pods have ended"


@pytest.mark.parametrize("name", ["train-0", "train-1"])
def test_what_is_no_longer_seen_of_pods_that_run_is_verified(timeline: Timeline, name: str) -> None:
    train(timeline)
    timeline.pods = (pod(name, root=owner("Job", "train")),)
    for _ in range(3):
        timeline.poll()

    assert timeline.incident().resolution == "not found by 2 polls in a row"
    assert words(timeline).startswith("verified")


def test_pods_that_could_not_be_read_are_not_gone(timeline: Timeline) -> None:
    train(timeline)
    timeline.pods, timeline.sources = (), statuses(partial=[Source.PODS])
    for _ in range(3):
        timeline.poll()

    assert timeline.incident().resolution == "not found by 2 polls in a row"


def test_pods_that_a_node_no_longer_has_do_not_end_its_trouble(timeline: Timeline) -> None:
    of = finding(subject=Subject("Node", "train"), pods=("research/train-0",))
    for found in ([of], [of], [], []):
        timeline.poll(found)

    assert timeline.incident().resolution == "not found by 2 polls in a row"


def test_a_checked_off_fix_that_took_the_pods_away_is_verified(timeline: Timeline, user: User) -> None:
    train(timeline)
    check_step(timeline.incident().pk, user, FIX)
    timeline.pods = ()
    for _ in range(3):
        timeline.poll()

    assert words(timeline).startswith("verified")
    assert timeline.incident().resolution == "its pods are gone"
