"""GPU202: what the operator says of itself, where no component is seen to fail."""

from typing import Any

import pytest

from diagnostics.findings import Finding
from diagnostics.rules import diagnose
from diagnostics.snapshot import Condition, OperatorResource
from tests.builders import ago, node, snapshot
from tests.rules.stack.operator_pods import component, crashing, well


def policy(reason: str, *, minutes: float = 40, **fields: Any) -> OperatorResource:
    ready = Condition("Ready", "False", reason, f"{reason} happened", ago(minutes=minutes))
    defaults: dict[str, Any] = {
        "kind": "ClusterPolicy", "name": "cluster-policy", "api_version": "nvidia.com/v1", "state": "notReady",
        "conditions": (ready,), "created_at": ago(days=3),
    }  # fmt: skip
    return OperatorResource(**(defaults | fields))


def findings(*parts: Any, policies: tuple[OperatorResource, ...]) -> list[Finding]:
    found = diagnose(snapshot(node(), *parts, operator_resources=policies)).findings
    return [f for f in found if f.slug == "operator-component-failing"]


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("OperandNotReady", "operand-not-ready"),
        ("ReconcileFailed", "operator-reconcile-failed"),
        ("ConflictingNodeSelector", "conflicting-node-selector"),
    ],
)
def test_a_policy_that_is_not_ready_is_told_by_its_reason(reason: str, cause: str) -> None:
    (finding,) = findings(policies=(policy(reason),))
    assert (finding.cause, finding.subject.kind) == (cause, "ClusterPolicy")
    assert f"{reason} happened" in {e.value for e in finding.evidence}


def test_a_component_that_fails_explains_the_policy_and_shows_it() -> None:
    driver = component("nvidia-driver-daemonset", crashing("nvidia-driver-ctr"))
    (finding,) = findings(driver, policies=(policy("OperandNotReady"),))
    assert finding.subject.kind == "Node"
    said = next(e.value for e in finding.evidence if e.label == "ClusterPolicy cluster-policy")
    assert said == "notReady: OperandNotReady happened"


def test_a_fault_of_its_own_is_told_beside_a_component_that_fails() -> None:
    driver = component("nvidia-driver-daemonset", crashing("nvidia-driver-ctr"))
    found = findings(driver, policies=(policy("ReconcileFailed"),))
    assert {f.subject.kind for f in found} == {"Node", "ClusterPolicy"}


def test_an_error_counts_before_what_it_brings_about() -> None:
    error = Condition("Error", "True", "ReconcileFailed", "no", ago(hours=1))
    ready = Condition("Ready", "False", "OperandNotReady", "", ago(hours=1))
    assert findings(policies=(policy("", conditions=(ready, error)),))[0].cause == "operator-reconcile-failed"


def test_a_second_policy_is_only_mentioned() -> None:
    good = policy("", state="ready", conditions=(Condition("Ready", "True", "Reconciled"),))
    second = policy("", name="other", state="ignored", conditions=())
    (finding,) = findings(policies=(good, second))
    assert (finding.cause, finding.severity, finding.subject.name) == (
        "second-cluster-policy",
        "info",
        "other",
    )


def test_a_ready_policy_a_young_one_and_one_without_gpu_nodes_are_well() -> None:
    nodes = Condition("Ready", "True", "NoGPUNodes", "", ago(days=1))
    assert not findings(
        well("nvidia-driver-daemonset", "x"), policies=(policy("", state="ready", conditions=()),)
    )
    assert not findings(policies=(policy("OperandNotReady", minutes=3),))
    assert not findings(policies=(policy("", state="ready", conditions=(nodes,)),))
    assert not findings(policies=())
