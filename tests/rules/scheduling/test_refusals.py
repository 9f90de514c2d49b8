"""The scheduler's words in parts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnostics.rules.scheduling.refusals import Word, parsed, refusal_of
from tests.builders import ago, event, pending_pod, snapshot


def test_items_are_counted_and_the_preemption_part_is_kept_apart() -> None:
    refusal = parsed(
        "0/12 nodes are available: 3 node(s) had untolerated taint(s), 4 Insufficient nvidia.com/gpu, 5 node(s) didn't "
        "match Pod's node affinity/selector. no new claims to deallocate, preemption: 0/12 nodes are available: "
        "4 No preemption victims found for incoming pod, 8 Preemption is not helpful for scheduling."
    )

    assert [(count, word) for count, word, _ in refusal.items] == [
        (3, Word.TAINT),
        (4, Word.GPU),
        (5, Word.SELECTOR),
    ]


def test_a_comma_inside_a_reason_does_not_split_it() -> None:
    refusal = parsed(
        "0/5 nodes are available: 1 node(s) had taint {a: b}, that the pod didn't tolerate, 4 Insufficient cpu."
    )

    assert [(count, word) for count, word, _ in refusal.items] == [(1, Word.TAINT), (4, Word.RESOURCE)]


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("Insufficient nvidia.com/gpu", Word.GPU),
        ("Insufficient nvidia.com/mig-1g.10gb", Word.GPU),
        ("Insufficient amd.com/gpu", Word.GPU),
        ("Insufficient nvidia.com/hostdev", Word.RESOURCE),
        ("Insufficient memory", Word.RESOURCE),
        ("Too many pods", Word.RESOURCE),
        ("node(s) were unschedulable", Word.CORDON),
        ("node(s) had untolerated taint {pool: serving}", Word.TAINT),
        ("node(s) didn't match node selector", Word.SELECTOR),
        ("node(s) didn't match pod anti-affinity rules", Word.ANTI_AFFINITY),
        ("node(s) didn't match pod affinity rules", Word.AFFINITY),
        ("node(s) didn't match pod topology spread constraints (missing required label)", Word.SPREAD),
        ("node(s) had volume node affinity conflict", Word.VOLUME),
        ("node(s) exceed max volume count", Word.VOLUME),
        ("node(s) didn't match PersistentVolume's node affinity", Word.VOLUME),
        ("cannot allocate all claims", Word.CLAIM),
        ("node(s) didn't have free ports for the requested pod ports", Word.PORTS),
        ("node(s) didn't satisfy plugin(s) [Custom]", Word.OTHER),
    ],
)
def test_each_reason_is_about_something(reason: str, word: Word) -> None:
    assert parsed(f"0/3 nodes are available: 3 {reason}.").items == ((3, word, reason),)


def test_a_text_without_a_count_is_one_item() -> None:
    refusal = parsed('0/8 nodes are available: persistentvolumeclaim "imagenet" not found. not found')

    assert [(count, word) for count, word, _ in refusal.items] == [(0, Word.VOLUME)]


def test_a_gang_scheduler_quotes_an_inner_message() -> None:
    refusal = parsed(
        "pod group is not ready, 8 Pending, 8 minAvailable; Pending: 3 Unschedulable, 5 Schedulable. Origin reason is "
        "w-7: 0/6 nodes are unavailable: 4 Insufficient nvidia.com/gpu, 2 node(s) had untolerated taint {pool: a}."
    )

    assert refusal.is_gang
    assert refusal.nodes_refused_for(Word.GPU) == 4


def test_the_condition_comes_before_events() -> None:
    waiting = pending_pod(message="0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")
    other = event("FailedScheduling", "0/1 nodes are available: 1 Insufficient cpu.", name="wait-0")

    refusal = refusal_of(waiting, snapshot(waiting, other))

    assert refusal is not None
    assert refusal.mentions(Word.GPU)
    assert "condition PodScheduled" in refusal.source


def test_the_last_event_speaks_where_the_condition_is_silent() -> None:
    waiting = pending_pod(conditions=())
    said = event("FailedScheduling", "0/1 nodes are available: 1 Insufficient cpu.", name="wait-0")

    refusal = refusal_of(waiting, snapshot(waiting, said))

    assert refusal is not None
    assert refusal.mentions(Word.RESOURCE)


@pytest.mark.parametrize("fields", [{"component": "karpenter"}, {"uid": "of-an-earlier-pod"}])
def test_events_of_others_are_not_its_schedulers_words(fields: dict[str, str]) -> None:
    waiting = pending_pod(conditions=())
    said = event("FailedScheduling", "no nodepool", name="wait-0", first_at=ago(minutes=1), **fields)

    assert refusal_of(waiting, snapshot(waiting, said)) is None


@given(st.text(max_size=300))
def test_any_message_is_read(message: str) -> None:
    parsed(message)
    parsed(f"0/3 nodes are available: {message}")
