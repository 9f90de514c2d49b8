"""GPU208: a MIG layout that failed or does not come to an end, with the reason; a young change is left alone."""

from datetime import timedelta
from typing import Any

import pytest

from diagnostics.collect.past import past_after
from diagnostics.findings import Diagnosis, Finding
from diagnostics.fixes import Risk, StepKind
from diagnostics.rules import diagnose
from diagnostics.snapshot import Node, Past, Pod, Source
from tests.builders import NOW, ago, node, pod, snapshot
from tests.rules.stack.operator_pods import component, crashing, said, well

MANAGER = "nvidia-mig-manager"
BLOCKED = (
    "The following GPUs could not be reset:\n  GPU 00000000:01:00.0: In use by another client\n"
    "FATA[0008] Error applying MIG configuration with hooks: error resetting all GPUs: exit status 255"
)


def mig_node(state: str, config: str = "all-1g.10gb", **labels: str) -> Node:
    return node(labels={"nvidia.com/mig.config": config, "nvidia.com/mig.config.state": state} | labels)


def look(host: Node, *pods: Pod, log: str = "", **fields: Any) -> Diagnosis:
    manager = next((p for p in pods if MANAGER in p.name), None)
    told = said(manager, log) if manager else ()
    return diagnose(snapshot(host, *pods, signals=told, **fields))


def findings(*args: Any, **fields: Any) -> list[Finding]:
    return [f for f in look(*args, **fields).findings if f.slug == "mig-not-applied"]


def manager() -> Pod:
    return well(MANAGER, "nvidia-mig-manager")


def test_a_reset_that_is_blocked_is_named_and_no_workload_blamed() -> None:
    (finding,) = findings(mig_node("failed"), manager(), log=BLOCKED)
    assert finding.cause == "mig-mode-change-reset-blocked"
    told = {e.label: e.value for e in finding.evidence}
    assert told["Pods that hold its GPUs"].startswith("none")
    assert "nvidia_drm" in finding.summary
    risks = [s.risk.rank for s in finding.fix.steps if s.kind is StepKind.FIX]
    assert risks == sorted(risks)


def test_pods_that_hold_the_gpus_are_named_and_moved_last() -> None:
    holder = pod("train-0")
    (finding,) = findings(mig_node("failed"), manager(), holder, log=BLOCKED)
    assert any("research/train-0" in e.value for e in finding.evidence)
    ends = [s for s in finding.fix.steps if s.command == "kubectl delete pod -n research train-0"]
    assert [s.risk for s in ends] == [Risk.DESTRUCTIVE]


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (
            'level=fatal msg="Error selecting config: selected mig-config not present: all-9g"',
            "mig-config-unknown",
        ),
        (
            "error attempting multiple config orderings: all orderings failed",
            "mig-profile-not-supported",
        ),
        ("MIG mode is in pending enable state for GPU 00000000:07:00.0", "mig-mode-needs-reset"),
        ("something else", "mig-config-failed"),
    ],
)
def test_the_manager_says_why(log: str, cause: str) -> None:
    assert findings(mig_node("failed"), manager(), log=log)[0].cause == cause


@pytest.mark.parametrize(
    ("product", "config", "cause"),
    [
        ("NVIDIA-H100-80GB-HBM3", "all-1g.5gb", "mig-profile-not-supported"),
        ("NVIDIA-L40S", "all-1g.10gb", "mig-profile-not-supported"),
        ("NVIDIA-H200", "all-1g.18gb", "mig-config-failed"),
        ("NVIDIA-H200", "team-layout", "mig-config-failed"),
        ("Some-New-Model", "all-1g.99gb", "mig-config-failed"),
    ],
)
def test_a_layout_that_the_model_does_not_have_is_told_without_a_log(
    product: str, config: str, cause: str
) -> None:
    host = mig_node("failed", config, **{"nvidia.com/gpu.product": product})
    assert findings(host)[0].cause == cause


def test_a_young_change_is_left_alone_and_an_old_one_is_not() -> None:
    host = mig_node("pending")
    assert not findings(host, manager(), past=Past(mig_pending={"gpu-1": ago(minutes=5)}))
    (finding,) = findings(host, manager(), past=Past(mig_pending={"gpu-1": ago(minutes=40)}))
    assert finding.cause == "mig-config-stuck"
    assert "for 40 min" in finding.title


def test_the_log_dates_a_change_that_no_poll_saw_begin() -> None:
    started = 'level=info msg="Updating to MIG config: all-1g.10gb"'
    old, young = (f"2026-06-01T11:{minute}:00.000000000Z {started}" for minute in ("20", "55"))
    assert findings(mig_node("pending"), manager(), log=old)
    assert not findings(mig_node("pending"), manager(), log=young)


def test_a_pending_change_of_unknown_age_is_not_judged() -> None:
    diagnosis = look(mig_node("pending"), manager())
    assert not [f for f in diagnosis.findings if f.slug == "mig-not-applied"]
    assert [u.subject.name for u in diagnosis.unjudged if u.code == "GPU208"] == ["gpu-1"]


def test_polls_remember_since_when_a_change_is_pending() -> None:
    first = past_after(snapshot(mig_node("pending")), timedelta(hours=24))
    assert first.mig_pending == {"gpu-1": NOW}
    later = snapshot(mig_node("pending"), taken_at=NOW + timedelta(minutes=30), past=first)
    assert past_after(later, timedelta(hours=24)).mig_pending == {"gpu-1": NOW}
    assert past_after(snapshot(mig_node("success"), past=first), timedelta(hours=24)).mig_pending == {}


def test_an_applied_layout_and_a_node_without_mig_are_well() -> None:
    assert not findings(mig_node("success"), manager())
    assert not findings(node(), manager())


def test_a_manager_that_crashes_is_the_cause_and_the_layout_its_symptom() -> None:
    failing = component(MANAGER, crashing("nvidia-mig-manager", "8 clients are using the GPU"))
    diagnosis = look(mig_node("failed"), failing)
    by_slug = {f.slug: f for f in diagnosis.findings}
    assert by_slug["mig-not-applied"].caused_by == (by_slug["operator-component-failing"].id,)


def test_without_nodes_it_does_not_look() -> None:
    assert "GPU208" in {s.code for s in diagnose(snapshot(without=[Source.NODES])).skipped}
