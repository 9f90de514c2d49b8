"""Recorded cases of pods that wait get their right cause, also with names, numbers, order and versions changed."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnostics.findings import Finding
from diagnostics.limits import Limits
from diagnostics.rules import catalogue, engine
from tests.corpus import waiting_mutations as mutations
from tests.corpus.waiting_pictures import waiting_picture

CASES: dict[str, dict[str, Any]] = {
    path.stem: yaml.safe_load(path.read_text())
    for path in sorted((Path(__file__).parents[2] / "corpus" / "pending").glob("*.yaml"))
}
MUTATIONS = (
    mutations.scaled, mutations.renamed, mutations.reordered, mutations.of_another_version,
    mutations.of_another_resource, mutations.among_more_nodes,
)  # fmt: skip
RULES = tuple(rule for rule in catalogue() if rule.family == "scheduling")


def findings(kind: str, text: str) -> list[Finding]:
    outcome = engine.run(RULES, waiting_picture(kind, text), Limits())
    assert outcome.failed == ()
    return list(outcome.findings)


def judged(case: dict[str, Any], text: str) -> list[str]:
    """Causes of what is found, without the rules that rightly see the same besides."""
    return [f.cause for f in findings(case["kind"], text) if f.slug not in case.get("also", ())]


def expected(case: dict[str, Any]) -> list[str]:
    return [] if case["cause"] == "none" else [case["cause"]]


@pytest.mark.parametrize("name", CASES)
def test_a_recorded_case_gets_its_cause(name: str) -> None:
    case = CASES[name]
    assert judged(case, case["input"]) == expected(case)


@pytest.mark.parametrize("name", CASES)
@given(seed=st.integers(min_value=0, max_value=2**32))
@settings(max_examples=60, deadline=None)
def test_a_changed_case_keeps_its_cause(name: str, seed: int) -> None:
    case, random = CASES[name], Random(seed)
    text = case["input"]
    for mutation in MUTATIONS:
        if random.random() < 0.7:
            text = mutation(text, random)
    assert judged(case, text) == expected(case), text


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if c["cause"] != "none"])
def test_a_case_shows_its_evidence_and_reads_before_it_changes(name: str) -> None:
    found = findings(CASES[name]["kind"], CASES[name]["input"])
    waits = next(f for f in found if f.cause == CASES[name]["cause"])
    assert all(e.source for e in waits.evidence)
    assert waits.fix.steps[0].kind == "diagnose"


def test_mutations_do_change_the_cases() -> None:
    for name, case in CASES.items():
        text = case["input"]
        for mutation in MUTATIONS:
            text = mutation(text, Random(7))
        assert text != case["input"], name


def decisive(name: str, old: str, new: str) -> list[str]:
    case = CASES[name]
    assert old in case["input"]
    return judged(case, case["input"].replace(old, new))


def test_one_decisive_fact_changes_the_answer() -> None:
    """The twins of the cases: what makes each of them another case."""
    assert decisive(
        "crash_loop_holds_last_gpu", "0/1   CrashLoopBackOff   nvidia.com/gpu: 1   restarts 212",
        "1/1   Running            nvidia.com/gpu: 1",
    ) == ["no-capacity"]  # fmt: skip
    assert decisive("two_containers_ask", "# node: nvidia.com/gpu: 1", "# node: nvidia.com/gpu: 2") == [
        "fits-now"
    ]
    single = "- name: digits-container\n    resources: {limits: {nvidia.com/gpu: 1}}"
    assert decisive("two_containers_ask", single, "- name: digits-container\n    resources: {}") == [
        "fits-now"
    ]
    assert decisive(
        "affinity_to_a_helper",
        "1 node(s) didn't match pod affinity rules, ",
        "1 node(s) were unschedulable, ",
    ) != ["affinity-excludes-gpu-node"]
    assert decisive("quota_of_cpu", "exceeded quota", "exceeded patience") == []
    assert decisive("cpu_pod_and_its_volume", " ; asks for: cpu 500m, memory 1Gi", "") == [
        "volume-in-another-zone"
    ]
