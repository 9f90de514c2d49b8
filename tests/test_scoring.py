"""Precision and recall of rules, counted over scenes."""

from tests.bench.rules import Scene, Score, scored

JOB, OTHER, NOTHING = ("Job", "research", "train"), ("Job", "research", "other"), ("", "", "")


def scene(rule: str = "", *found: tuple[str, tuple[str, str, str]], also: tuple[str, ...] = ()) -> Scene:
    return Scene("scene", rule, JOB if rule else NOTHING, frozenset(also), found)


def test_a_fault_that_its_rule_names_is_found() -> None:
    score = scored([scene("idle-gpu", ("idle-gpu", JOB))])["idle-gpu"]
    assert (score.precision, score.recall) == (1.0, 1.0)


def test_a_fault_that_is_not_named_costs_recall() -> None:
    score = scored([scene("idle-gpu", ("idle-gpu", JOB)), scene("idle-gpu")])["idle-gpu"]
    assert (score.precision, score.recall) == (1.0, 0.5)


def test_another_subject_is_neither_found_nor_right() -> None:
    score = scored([scene("idle-gpu", ("idle-gpu", OTHER))])["idle-gpu"]
    assert (score.precision, score.recall) == (0.0, 0.0)


def test_what_a_twin_does_not_list_is_wrong_and_what_it_lists_is_not() -> None:
    scores = scored([scene("", ("idle-gpu", JOB), ("oom-killed", JOB), also=("oom-killed",))])
    assert scores["idle-gpu"].precision == 0.0
    assert scores["oom-killed"] == Score()


def test_without_a_fault_there_is_no_recall() -> None:
    assert scored([])["idle-gpu"].recall is None
