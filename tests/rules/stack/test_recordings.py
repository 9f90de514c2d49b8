"""The recorded cluster of the GPU Operator's states: what its description says is found, and nothing more."""

import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from diagnostics.collect import Target, take_snapshot
from diagnostics.findings import Diagnosis
from diagnostics.rules import diagnose
from tests.fakes.replay import RECORDINGS, replaying

FOUND = {
    ("operator-component-failing", "dgx-02", "driver-image-missing-for-os"),
    ("device-plugin-waiting", "dgx-02", "device-plugin-waits-behind-driver"),
    ("fewer-gpus-than-fitted", "dgx-02", "driver-or-plugin-not-up"),
    ("operator-component-failing", "dgx-03", "nvidia-runtime-injects-no-driver"),
    ("fewer-gpus-than-fitted", "dgx-03", "plugin-not-registered"),
    ("fewer-gpus-than-fitted", "dgx-04", "unhealthy-device"),
    ("operator-component-failing", "dgx-05", "mig-mode-change-reset-blocked"),
    ("mig-not-applied", "dgx-05", "mig-mode-change-reset-blocked"),
    ("nvml-failing", "dgx-06", "driver-library-mismatch"),
    ("operator-component-failing", "dgx-06", "driver-library-mismatch"),
    ("fewer-gpus-than-fitted", "dgx-06", "devices-unhealthy-or-plugin-gone"),
    ("fewer-gpus-than-fitted", "new-01", "node-not-managed"),
}
ROOTS = {
    "dgx-02": "operator-component-failing",
    "dgx-03": "operator-component-failing",
    "dgx-04": "reported-unhealthy",
    "dgx-05": "operator-component-failing",
    "dgx-06": "nvml-failing",
    "new-01": "fewer-gpus-than-fitted",
}
"""Sick node -> the rule whose finding is the one root there."""


@pytest.fixture(scope="module")
def diagnosis(tmp_path_factory: pytest.TempPathFactory) -> Diagnosis:
    """Half an hour after it was recorded: the objects are minutes old."""
    index = json.loads((RECORDINGS / "gpu-operator" / "index.json").read_text())
    now = datetime.fromisoformat(index["recordedAt"]) + timedelta(minutes=30)
    kubeconfig: Path = tmp_path_factory.mktemp("kube") / "config"
    with replaying("gpu-operator") as served:
        target = Target(name="lab", kubeconfig=served.kubeconfig(kubeconfig))
        return diagnose(take_snapshot(target, clock=lambda: now, correct_skew=False).snapshot)


def test_each_sick_node_is_found_by_its_cause_and_the_well_ones_are_left_alone(diagnosis: Diagnosis) -> None:
    stack = {(f.slug, f.subject.name, f.cause) for f in diagnosis.findings if f.code.startswith("GPU2")}
    assert stack == FOUND
    assert not {name for _, name, _ in stack} & {"dgx-01", "l4-01", "mig-01", "cpu-01", "cpu-02"}
    assert diagnosis.failed == ()


def test_each_sick_node_has_one_root_and_all_else_follows_from_it(diagnosis: Diagnosis) -> None:
    roots = [f for f in diagnosis.findings if not f.caused_by]
    assert {f.nodes[0]: f.slug for f in roots} == ROOTS
    assert len(roots) == len(ROOTS)


def test_only_the_device_that_is_marked_and_waiting_pods_are_found_besides(diagnosis: Diagnosis) -> None:
    others = [f for f in diagnosis.findings if not f.code.startswith("GPU2")]
    assert {f.slug for f in others} == {"reported-unhealthy", "pending-gpu-pod"}
    assert all(f.caused_by for f in others if f.slug == "pending-gpu-pod")


def test_the_policy_stands_beside_the_components_and_is_no_finding_of_its_own(diagnosis: Diagnosis) -> None:
    failing = [f for f in diagnosis.findings if f.slug == "operator-component-failing"]
    assert {f.subject.kind for f in failing} == {"Node"}
    for finding in failing:
        said = next(e.value for e in finding.evidence if e.label == "ClusterPolicy cluster-policy")
        assert said.startswith("notReady: states not ready")
