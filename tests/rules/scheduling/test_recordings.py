"""What a real API server answered, read by the real client, and what the scheduling rules say of it.

Recorded objects are minutes old: the clock is moved on by half an hour.
"""

import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from diagnostics.collect import Target, take_snapshot
from diagnostics.findings import Diagnosis, Finding
from diagnostics.rules import diagnose
from tests.fakes.replay import RECORDINGS, replaying

LATER = timedelta(minutes=30)
Diagnose = Callable[[str], Diagnosis]


@pytest.fixture(scope="module")
def diagnosed(tmp_path_factory: pytest.TempPathFactory) -> Diagnose:
    """The diagnosis of a recorded scenario, half an hour after it was recorded; read once per module."""

    @cache
    def of(scenario: str) -> Diagnosis:
        return _diagnosis(scenario, tmp_path_factory.mktemp("kube") / "config", LATER)

    return of


def _diagnosis(scenario: str, kubeconfig: Path, later: timedelta) -> Diagnosis:
    index: dict[str, Any] = json.loads((RECORDINGS / scenario / "index.json").read_text())
    now = datetime.fromisoformat(index["recordedAt"]) + later
    with replaying(scenario) as served:
        target = Target(name="lab", kubeconfig=served.kubeconfig(kubeconfig))
        return diagnose(take_snapshot(target, clock=lambda: now, correct_skew=False).snapshot)


def findings(diagnosis: Diagnosis, slug: str) -> dict[str, Finding]:
    """Findings of one rule by the subject's name."""
    assert not diagnosis.failed
    return {finding.subject.name: finding for finding in diagnosis.findings if finding.slug == slug}


def facts(finding: Finding) -> str:
    return "\n".join(f"{fact.label}: {fact.value}" for fact in finding.evidence)


PENDING = {
    "affinity-mismatch": ("selector-matches-no-node", "topology.kubernetes.io/zone"),
    "amd-gpu": ("no-such-resource", "amd.com/gpu"),
    "anti-affinity-1": ("anti-affinity", ""),
    "batch-waiting": ("lower-priority-cannot-preempt", "lab/preemptor 4 (priority 100000)"),
    "cpu-stranded": ("cpu-or-memory-stranded", "cpu"),
    "dedicated-taint": ("untolerated-taint", "dedicated=foundation:NoSchedule"),
    "fragmented": ("fragmented", "a100-01 1"),
    "gated": ("scheduling-gate", "kueue.x-k8s.io/admission"),
    "mig-slice": ("no-such-resource", "nvidia.com/mig-1g.10gb"),
    "needs-cordoned-node": ("node-cordoned", "a100-cordoned"),
    "no-such-scheduler": ("no-scheduler", "volcano"),
    "pvc-missing": ("volume-claim-missing", "imagenet-2012"),
    "pvc-no-such-class": ("storage-class-missing", "lustre-fast"),
    "pvc-unbound-immediate": ("volume-provisioner-silent", "nfs.csi.example.com"),
    "pvc-wffc-no-pv": ("no-volume-to-bind", "wffc-local"),
    "pvc-wffc-provisioner-dead": ("volume-provisioner-silent", "disk.csi.example.com"),
    "pvc-zone-conflict": ("volume-in-another-zone", "dataset-zone-b"),
    "selector-mismatch": ("selector-matches-no-node", "NVIDIA-H200"),
    "sixteen-gpus": ("larger-than-any-node", "16"),
    "untolerated-taint": ("untolerated-taint", "nvidia.com/gpu=present:NoSchedule"),
    "over-quota": ("namespace-resource-quota-exceeded", "requests.nvidia.com/gpu=4"),
    "over-quota-job": ("namespace-resource-quota-exceeded", "requests.nvidia.com/gpu=8"),
}
SHORTAGES = {
    "amd-gpu", "batch-waiting", "fragmented", "mig-slice", "sixteen-gpus",
}  # fmt: skip


def test_every_pending_pod_has_a_finding_and_nothing_else_has(diagnosed: Diagnose) -> None:
    assert findings(diagnosed("pending"), "pending-gpu-pod").keys() == PENDING.keys()


@pytest.mark.parametrize("name", PENDING)
def test_each_pending_pod_has_its_reason(name: str, diagnosed: Diagnose) -> None:
    cause, said = PENDING[name]

    finding = findings(diagnosed("pending"), "pending-gpu-pod")[name]

    assert finding.cause == cause
    assert said in finding.title + facts(finding)
    assert finding.title.startswith("Not a GPU shortage") is (name not in SHORTAGES)


def test_the_schedulers_own_words_are_quoted(diagnosed: Diagnose) -> None:
    finding = findings(diagnosed("pending"), "pending-gpu-pod")["pvc-zone-conflict"]

    assert "3 node(s) didn't match PersistentVolume's node affinity" in finding.summary


def test_a_scattered_job_is_the_only_finding_about_placement(diagnosed: Diagnose) -> None:
    found = findings(diagnosed("scattered"), "scattered-job")

    assert found.keys() == {"gpt-ddp"}
    finding = found["gpt-ddp"]
    assert (finding.subject.kind, finding.cause) == ("StatefulSet", "scheduler-spread")
    assert "4 pods on 4 hosts in 2 racks, 1 host would hold them" in finding.title
    assert "possible now, pods per host: a100-01 2 and a100-02 2" in facts(finding)
    assert not findings(diagnosed("scattered"), "pending-gpu-pod")
    assert not findings(diagnosed("scattered"), "stuck-holder")
    assert not findings(diagnosed("scattered"), "partial-gang")


def test_a_partial_gang_tells_holders_from_those_that_wait(diagnosed: Diagnose) -> None:
    diagnosis = diagnosed("partial-gang")
    (finding,) = findings(diagnosis, "partial-gang").values()

    assert (finding.subject.kind, finding.subject.name) == ("Job", "vit-huge")
    assert finding.cause == "members-pending"
    assert "5 of 8 members run, and hold 20 GPUs" in finding.title
    said = facts(finding)
    assert all(f"vit-huge-{i}-" in said.split("running: ")[1].split("\n")[0] for i in (0, 1, 2, 3, 6))
    assert all(re.search(rf"^does not run: vit-huge-{i}-\w+: no node", said, re.M) for i in (4, 5, 7))
    assert finding.waste_gpus == 20


def test_the_pods_that_wait_explain_the_partial_gang(diagnosed: Diagnose) -> None:
    diagnosis = diagnosed("partial-gang")
    (pending,) = findings(diagnosis, "pending-gpu-pod").values()
    (partial,) = findings(diagnosis, "partial-gang").values()

    assert (pending.cause, pending.gpus) == ("no-capacity", 12)
    (one_by_one,) = findings(diagnosis, "no-gang-scheduling").values()
    assert set(partial.caused_by) == {pending.id, one_by_one.id}
    assert pending.caused_by == ()


def test_zombies_that_hold_gpus_are_named_and_finished_pods_are_not(diagnosed: Diagnose) -> None:
    found = findings(diagnosed("zombies"), "stuck-holder")

    assert {name: (finding.cause, finding.gpus) for name, finding in found.items()} == {
        "lost-0": ("unknown-node-lost", 2),
        "lost-1": ("unknown-node-lost", 2),
        "notebook-kim": ("process-does-not-end", 4),
        "ranker": ("unknown-node-lost", 4),
    }


def test_the_pod_that_waits_is_explained_by_those_that_hold_what_it_needs(diagnosed: Diagnose) -> None:
    diagnosis = diagnosed("zombies")
    stuck = findings(diagnosis, "stuck-holder")
    (waiting,) = findings(diagnosis, "pending-gpu-pod").values()

    assert waiting.subject.name == "bert-finetune"
    assert waiting.cause == "held-by-stuck-pods"
    assert set(waiting.caused_by) == {stuck[name].id for name in ("lost-0", "lost-1", "notebook-kim")}


def test_pods_that_wait_for_sick_nodes_are_explained_by_them(diagnosed: Diagnose) -> None:
    diagnosis = diagnosed("gpu-operator")
    found = findings(diagnosis, "pending-gpu-pod")

    assert {name: (f.cause, f.nodes) for name, f in found.items()} == {
        "wants-8-more": ("gpus-unavailable-on-node", ("dgx-03",)),
        "wants-new-node": ("gpus-unavailable-on-node", ("new-01",)),
    }
    by_id = {finding.id: finding for finding in diagnosis.findings}
    for finding in found.values():
        assert finding.caused_by
        assert all(set(by_id[cause].nodes) & set(finding.nodes) for cause in finding.caused_by)


def test_operator_pods_hold_no_gpus(diagnosed: Diagnose) -> None:
    assert not findings(diagnosed("gpu-operator"), "stuck-holder")


def test_crash_loops_and_pods_that_never_become_ready_hold_gpus(diagnosed: Diagnose) -> None:
    found = findings(diagnosed("oom-inference"), "stuck-holder")

    assert {name: finding.cause for name, finding in found.items()} == {
        "whisper": "crash-loop",
        "sdxl": "not-ready",
    }


def test_a_healthy_cluster_is_left_alone(diagnosed: Diagnose) -> None:
    assert [f for f in diagnosed("healthy").findings if f.code.startswith("GPU3")] == []


OPERATORS = {
    ("partial-gang", "bert-pretrain"): "members-failing",
    ("partial-gang", "dlrm"): "members-failing",
    ("partial-gang", "deepseek"): "members-pending",
    ("no-gang-scheduling", "deepseek"): "no-gang-scheduling",
    ("pending-gpu-pod", "moe-train"): "gang-does-not-fit",
    ("pending-gpu-pod", "detr-b"): "kueue-inadmissible",
    ("pending-gpu-pod", "deepseek"): "no-capacity",
    ("stuck-holder", "bert-pretrain"): "crash-loop",
}


def causes_of(diagnosis: Diagnosis) -> dict[tuple[str, str], str]:
    """(rule, subject's name) -> cause, of all scheduling rules."""
    assert not diagnosis.failed
    return {(f.slug, f.subject.name): f.cause for f in diagnosis.findings if f.code.startswith("GPU3")}


def test_jobs_of_operators_have_their_troubles_and_no_others(diagnosed: Diagnose) -> None:
    assert causes_of(diagnosed("operators")) == OPERATORS


def test_a_volcano_gang_that_does_not_fit_is_counted_as_a_whole(diagnosed: Diagnose) -> None:
    finding = findings(diagnosed("operators"), "pending-gpu-pod")["moe-train"]

    assert (finding.subject.api_version, finding.gpus) == ("batch.volcano.sh/v1alpha1", 32)
    said = facts(finding)
    assert "gang scheduler: volcano" in said
    assert "pods that must start together: 8" in said


def test_a_suspended_job_is_told_with_kueues_words(diagnosed: Diagnose) -> None:
    finding = findings(diagnosed("operators"), "pending-gpu-pod")["detr-b"]

    assert "request > maximum capacity (8 > 4)" in facts(finding)
    assert finding.pods == ()


def test_a_native_gang_that_does_not_fit_and_a_group_that_is_missing(diagnosed: Diagnose) -> None:
    assert causes_of(diagnosed("native-gang")) == {
        ("pending-gpu-pod", "vit-huge"): "gang-does-not-fit",
        ("pending-gpu-pod", "stray"): "pod-group-missing",
    }


def test_nothing_is_late_at_the_moment_of_the_recording(tmp_path: Path) -> None:
    diagnosis = _diagnosis("pending", tmp_path / "config", timedelta())

    assert findings(diagnosis, "pending-gpu-pod") == {}


CLAIMS = {
    "pending-no-claim": ("claim-missing", "not-there"),
    "pending-no-template": ("claim-template-missing", "not-there"),
    "pending-no-class": ("device-class-missing", "gpu.amd.com"),
    "pending-sixteen": ("larger-than-any-node", "16 devices"),
    "pending-extended-16": ("larger-than-any-node", "16 devices"),
    "pending-big-memory": ("device-memory-too-small", "80 GiB"),
    # Both would fit beside the pod that was evicted, but for the tainted device: their four GPUs share a NUMA node.
    "train-3": ("device-tainted", "h100-03/gpu-7"),
    "train-4": ("device-tainted", "h100-03/gpu-7"),
}


def test_each_claim_that_waits_has_its_reason_and_nothing_else_is_found_but_the_tainted_device(
    diagnosed: Diagnose,
) -> None:
    diagnosis = diagnosed("dra")
    found = findings(diagnosis, "pending-gpu-pod")

    assert {name: finding.cause for name, finding in found.items()} == {n: c for n, (c, _) in CLAIMS.items()}
    for name, (_, said) in CLAIMS.items():
        assert said in found[name].title
    others = {(f.slug, f.cause, f.subject.name) for f in diagnosis.findings if f.slug != "pending-gpu-pod"}
    assert others == {("fewer-gpus-than-fitted", "device-tainted", "h100-03")}
