"""Recorded cases of memory trouble get their right cause, also with names, numbers, order and versions changed."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnostics.findings import Finding
from diagnostics.limits import Limits
from diagnostics.rules import engine
from tests.corpus import mutations
from tests.corpus.pictures import picture
from tests.rules.memory.failing_pods import RULES

CASES: dict[str, dict[str, Any]] = {
    path.stem: yaml.safe_load(path.read_text())
    for path in sorted((Path(__file__).parents[2] / "corpus").glob("*.yaml"))
}
Mutation = Callable[[str, Random], str]

PROSE: tuple[Mutation, ...] = (mutations.wrapped, mutations.among_ranks, mutations.noisy)
MUTATIONS: dict[str, tuple[Mutation, ...]] = {
    "log": (mutations.scaled, mutations.renamed, mutations.reordered, *PROSE),
    "metrics": (
        mutations.scaled,
        mutations.renamed,
        mutations.reordered,
        mutations.among_ranks,
        mutations.noisy,
    ),
    "events": (mutations.renamed, mutations.reordered),
    "describe": (mutations.renamed, mutations.reordered),
}
"""By kind; each applies whether or not there is something for it to change."""
OWN: dict[str, tuple[Mutation, ...]] = {
    "oom_weights_fill_card": (
        mutations.scaled, mutations.of_another_torch, mutations.renamed, mutations.other_units, *PROSE,
    ),
    "oom_segment_split": (
        mutations.scaled, mutations.keys_reordered, mutations.reordered, mutations.wrapped, mutations.noisy,
    ),
}  # fmt: skip


def findings(kind: str, text: str) -> list[Finding]:
    outcome = engine.run(RULES, picture(kind, text), Limits())
    assert outcome.failed == ()
    return list(outcome.findings)


def causes(kind: str, text: str) -> list[str]:
    return [f.cause for f in findings(kind, text)]


def expected(case: dict[str, Any]) -> list[str]:
    return [] if case["cause"] == "none" else [case["cause"]]


@pytest.mark.parametrize("name", CASES)
def test_a_recorded_case_gets_its_cause(name: str) -> None:
    case = CASES[name]
    assert causes(case["kind"], case["input"]) == expected(case)


@pytest.mark.parametrize("name", CASES)
@given(seed=st.integers(min_value=0, max_value=2**32))
@settings(max_examples=60, deadline=None)
def test_a_changed_case_keeps_its_cause(name: str, seed: int) -> None:
    case, random = CASES[name], Random(seed)
    text = case["input"]
    for mutation in OWN.get(name, MUTATIONS[case["kind"]]):
        if random.random() < 0.7:
            text = mutation(text, random)
    assert causes(case["kind"], text) == expected(case), text


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if c["cause"] != "none"])
def test_a_case_shows_its_evidence_and_reads_before_it_changes(name: str) -> None:
    (finding,) = findings(CASES[name]["kind"], CASES[name]["input"])
    assert all(e.source for e in finding.evidence)
    assert finding.fix.steps[0].kind == "diagnose"
    assert {s.kind for s in finding.fix.steps} == {"diagnose", "fix", "verify", "escalate"}


@pytest.mark.parametrize(
    ("name", "words"), [("processes_pile_up", "5144 MiB"), ("oom_segment_split", "11643387904")]
)
def test_a_deciding_listing_is_among_the_evidence(name: str, words: str) -> None:
    (finding,) = findings(CASES[name]["kind"], CASES[name]["input"])
    assert words in next(e.value for e in finding.evidence if e.label == "decided by")


def test_mutations_do_change_the_cases() -> None:
    for name, case in CASES.items():
        text = case["input"]
        for mutation in OWN.get(name, MUTATIONS[case["kind"]]):
            text = mutation(text, Random(7))
        assert text != case["input"], name


@given(seed=st.integers(min_value=0, max_value=2**32))
@settings(max_examples=60, deadline=None)
def test_a_message_cut_in_the_middle_of_words_keeps_its_cause(seed: int) -> None:
    case, random = CASES["oom_weights_fill_card"], Random(seed)
    text = mutations.cut(mutations.scaled(case["input"], random), random)
    assert causes(case["kind"], text) == expected(case), text


def decisive(name: str, old: str, new: str) -> list[str]:
    case = CASES[name]
    assert old in case["input"]
    return causes(case["kind"], case["input"].replace(old, new))


def test_one_decisive_fact_changes_the_answer() -> None:
    """The twins of the cases: what makes each of them another case."""
    assert decisive("oom_weights_fill_card", "Process 3909982 has 44.34", "Process 3909982 has 24.34") == [
        "model-exceeds-gpu-memory"
    ]
    assert decisive("oom_weights_fill_card", "43.67 GiB is", "23.67 GiB is") == [
        "gpu-memory-held-by-other-process"
    ]
    assert decisive("oom_weights_fill_card", "335.07 MiB", "17.20 GiB") != ["model-exceeds-gpu-memory"]
    assert decisive("oom_segment_split", "'active_allocated'", "'inactive'") == ["unknown"]
    assert decisive("mig_slice_too_small", "22649242112", "2264924211") == ["unknown"]
    assert decisive("liveness_probe_wrong_path", "Liveness probe failed", "Readiness probe failed") != [
        "liveness-probe-misconfigured"
    ]
    assert decisive("deepspeed_return_code_minus_9", "(optimizer offload to cpu)", "") == []
    assert decisive("init_container_oomkilled", "OOMKilled", "Completed") == []
