"""Whatever is missing of a cluster's picture, no rule fails, and nothing is concluded from what is not there."""

import pytest

from diagnostics.rules import diagnose
from diagnostics.simulator.faults import CATALOGUE
from diagnostics.snapshot import SourceState
from tests.rules.degraded import Part, degraded, parts_of, with_its_states, without
from tests.simulated import ROOMY, seen

SEEDS = 850
"""Of a healthy cluster; of one with every fault, which takes longer to judge, BROKEN."""
BROKEN = 150
MANY = pytest.mark.timeout(600)
"""Some ten seconds of one core; much longer where many things run on it."""
FIRST = 20261130
"""Others than these can be tried: nothing depends on them."""


@pytest.fixture(scope="module")
def parts() -> list[Part]:
    return parts_of(seen())


@MANY
def test_a_healthy_cluster_of_which_something_is_missing_yields_no_finding(parts: list[Part]) -> None:
    for seed in range(FIRST, FIRST + SEEDS):
        diagnosis = diagnose(degraded(seen(), parts, seed))
        assert diagnosis.failed == (), seed
        assert diagnosis.findings == (), seed


@MANY
def test_a_healthy_cluster_without_any_one_field_yields_no_finding(parts: list[Part]) -> None:
    for part in parts:
        diagnosis = diagnose(with_its_states(without(seen(), part)))
        assert diagnosis.failed == (), str(part)
        assert diagnosis.findings == (), str(part)


@MANY
def test_no_rule_fails_on_a_cluster_with_every_fault_of_which_something_is_missing() -> None:
    whole = seen(*CATALOGUE, nodes=ROOMY)
    parts = parts_of(whole)
    for seed in range(FIRST, FIRST + BROKEN):
        assert diagnose(degraded(whole, parts, seed)).failed == (), seed


@MANY
def test_no_rule_fails_on_every_fault_without_any_one_field() -> None:
    whole = seen(*CATALOGUE, nodes=ROOMY)
    for part in parts_of(whole):
        assert diagnose(with_its_states(without(whole, part))).failed == (), str(part)


def test_what_is_missing_is_said(parts: list[Part]) -> None:
    """The snapshots that these tests rest on do lack things, of every kind, and the diagnosis says so."""
    less = [degraded(seen(), parts, seed) for seed in range(FIRST, FIRST + 150)]
    lost = {s.name for one in less for s in one.sources if s.state is not SourceState.OK}
    assert lost == {s.name for s in seen().sources}
    assert sum(bool(d.skipped) for d in map(diagnose, less)) > 10
    assert any(one.gpus != seen().gpus and one.gpus for one in less)
