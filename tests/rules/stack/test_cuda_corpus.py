"""Recorded cases of CUDA against driver, runtime and fabric get their cause, also when they are changed."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnostics.limits import Limits
from diagnostics.rules import engine
from tests.corpus import cuda_mutations
from tests.corpus.cuda_pictures import picture
from tests.rules.stack.failing_cuda import RULES

CASES: dict[str, dict[str, Any]] = {
    path.stem: yaml.safe_load(path.read_text())
    for path in sorted((Path(__file__).parents[2] / "corpus" / "cuda").glob("*.yaml"))
}
MUTATIONS = {"events": cuda_mutations.EVENTS, "log": cuda_mutations.LOG, "manifest": cuda_mutations.MANIFEST}


def causes(kind: str, text: str, **how: bool) -> list[str]:
    outcome = engine.run(RULES, picture(kind, text, **how), Limits())
    assert outcome.failed == ()
    return [f.cause for f in outcome.findings]


def test_the_cases_are_there() -> None:
    assert len(CASES) >= 4


@pytest.mark.parametrize("name", CASES)
def test_a_recorded_case_gets_its_cause_and_nothing_more(name: str) -> None:
    case = CASES[name]
    assert causes(case["kind"], case["input"]) == [case["cause"]]
    assert causes(case["kind"], case["input"], asks=False) == [case["cause"]]


@pytest.mark.parametrize("name", CASES)
@given(seed=st.integers(min_value=0, max_value=2**32))
@settings(max_examples=60, deadline=None)
def test_a_changed_case_keeps_its_cause(name: str, seed: int) -> None:
    case, random = CASES[name], Random(seed)
    text = case["input"]
    for mutation in MUTATIONS[case["kind"]]:
        if random.random() < 0.7:
            text = mutation(text, random)
    assert causes(case["kind"], text, asks=random.random() < 0.5) == [case["cause"]], text


def test_mutations_do_change_the_cases() -> None:
    for name, case in CASES.items():
        text = case["input"]
        for mutation in MUTATIONS[case["kind"]]:
            text = mutation(text, Random(7))
        assert text != case["input"], name


def decisive(name: str, old: str, new: str) -> list[str]:
    case = CASES[name]
    assert old in case["input"]
    return causes(case["kind"], case["input"].replace(old, new))


def test_one_decisive_fact_changes_the_answer() -> None:
    """The twins of the cases: what makes each of them another case, or none."""
    assert (
        decisive("image_newer_than_driver", "requirement error: unsatisfied condition: cuda>=12.8", "") == []
    )
    assert decisive("image_newer_than_driver", "cuda>=12.8", "arch>=9.0") == ["gpu-too-old-for-image"]
    assert decisive("uses_gpu_unrequested", 'image: "nvidia/cuda"', 'image: "busybox"') == []
    hidden = 'image: "nvidia/cuda"\n    env: [{name: NVIDIA_VISIBLE_DEVICES, value: void}]'
    assert decisive("uses_gpu_unrequested", 'image: "nvidia/cuda"', hidden) == []
    asked = 'image: "nvidia/cuda"\n    resources: {limits: {nvidia.com/gpu: 1}}'
    assert decisive("uses_gpu_unrequested", 'image: "nvidia/cuda"', asked) == []
