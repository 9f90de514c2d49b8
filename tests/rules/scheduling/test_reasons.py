"""Pods that wait for GPUs and for which no GPU is lacking, or nobody can tell."""

import pytest
import yaml

from diagnostics.findings import Confidence, Severity
from diagnostics.snapshot import (
    Condition,
    Event,
    Source,
    Taint,
    Toleration,
    Volume,
)
from tests.builders import ago, container, node, pending_pod, pod
from tests.rules.scheduling.waiting import SILENT, TAINT, hit


def test_a_taint_is_computed_though_the_message_names_none() -> None:
    message = "0/1 nodes are available: 1 node(s) had untolerated taint(s)."

    found = hit(node(taints=(TAINT,)), pending_pod(message=message))

    assert found.cause == "untolerated-taint"
    assert found.title.startswith("Not a GPU shortage")
    assert "nvidia.com/gpu=present:NoSchedule" in found.title


def test_the_patch_for_a_taint_keeps_the_tolerations_that_are_there() -> None:
    dedicated = Taint("dedicated", "NoSchedule", "foundation")
    tolerated = pending_pod(tolerations=(Toleration("nvidia.com/gpu", "Exists"),))

    found = hit(node(taints=(TAINT, dedicated)), tolerated)

    manifest = next(yaml.safe_load(step.manifest) for step in found.fix.steps if step.manifest)
    assert [t["key"] for t in manifest["spec"]["tolerations"]] == ["nvidia.com/gpu", "dedicated"]


def test_a_selector_that_matches_no_node() -> None:
    found = hit(node(), pending_pod(node_selector={"nvidia.com/gpu.product": "NVIDIA-H200"}))

    assert found.cause == "selector-matches-no-node"
    assert "NVIDIA-A100-SXM4-80GB" in str(found.evidence)


def test_a_cordoned_node() -> None:
    found = hit(node(unschedulable=True), pending_pod())

    assert found.cause == "node-cordoned"
    assert "gpu-1" in found.title


def test_a_node_that_is_not_ready() -> None:
    assert hit(node(conditions=(Condition("Ready", "Unknown"),)), pending_pod()).cause == "node-not-ready"


def test_free_gpus_without_cpu_are_stranded() -> None:
    greedy = pod("greedy", containers=(container(requests={"nvidia.com/gpu": 1.0, "cpu": 62.0}),))

    found = hit(node(), greedy, pending_pod())

    assert found.cause == "cpu-or-memory-stranded"
    assert "Not a GPU shortage" in found.title


def test_cpu_stays_short_though_gpus_came_free() -> None:
    small = pod("small", containers=(container(requests={"nvidia.com/gpu": 1.0, "cpu": 1.0}),))
    big = pod("big", containers=(container(requests={"nvidia.com/gpu": 7.0, "cpu": 50.0}),))
    wants = (container(requests={"nvidia.com/gpu": 1.0, "cpu": 20.0}, state=""),)
    message = "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient nvidia.com/gpu."

    assert (
        hit(node(), small, big, pending_pod(message=message, containers=wants)).cause
        == "cpu-or-memory-stranded"
    )


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("node(s) didn't match pod anti-affinity rules", "anti-affinity"),
        ("node(s) didn't satisfy existing pods anti-affinity rules", "anti-affinity"),
        ("node(s) didn't match pod affinity rules", "affinity-excludes-gpu-node"),
        ("node(s) didn't match pod topology spread constraints", "topology-spread"),
    ],
)
def test_refusals_that_come_after_the_resources(reason: str, cause: str) -> None:
    message = f"0/4 nodes are available: 1 {reason}, 3 Insufficient nvidia.com/gpu. preemption: 0/4."

    found = hit(node(), pending_pod(message=message))

    assert found.cause == cause
    assert found.title.startswith("Not a GPU shortage")


@pytest.mark.parametrize(
    ("message", "cause", "words"),
    [
        (
            '0/8 nodes are available: persistentvolumeclaim "data" not found. not found',
            "volume-claim-missing", "does not exist",
        ),
        (
            "0/8 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
            "volume-claim-unbound", "not bound",
        ),
        (
            "0/8 nodes are available: 3 node(s) didn't match PersistentVolume's node affinity.",
            "volume-in-another-zone", "reach",
        ),
        (
            "0/8 nodes are available: 3 node(s) didn't find available persistent volumes to bind.",
            "no-volume-to-bind", "finds no",
        ),
    ],
)  # fmt: skip
def test_volumes_are_no_gpu_shortage(message: str, cause: str, words: str) -> None:
    volumes = (Volume("d", "persistentVolumeClaim", "data"),)

    found = hit(node(), pending_pod(message=message, volumes=volumes))

    assert found.cause == cause
    assert words in found.title
    assert "data" in found.title
    assert message in found.summary


def test_a_dead_provisioner_leaves_only_a_nomination_and_events_of_the_claim() -> None:
    volumes = (Volume("d", "persistentVolumeClaim", "data"),)
    said = Event(
        namespace="research",
        kind="PersistentVolumeClaim",
        name="data",
        reason="ExternalProvisioning",
        message="Waiting for a volume to be created",
        first_at=ago(minutes=20),
    )

    found = hit(node(), said, pending_pod(volumes=volumes, nominated_node="gpu-1", **SILENT))

    assert found.cause == "volume-provisioner-silent"
    assert "provisioner" in found.title


def test_a_nominated_pod_waits_for_those_that_it_preempts() -> None:
    found = hit(node(), pod(gpus=8), pending_pod(nominated_node="gpu-1"))

    assert found.cause == "waiting-for-preemption"
    assert found.severity is Severity.INFO


def test_a_scheduling_gate() -> None:
    found = hit(node(), pending_pod(scheduling_gates=("kueue.x-k8s.io/admission",), **SILENT))

    assert found.cause == "scheduling-gate"
    assert "kueue.x-k8s.io/admission" in found.title
    assert found.severity is Severity.INFO


def test_a_scheduler_that_says_nothing() -> None:
    found = hit(node(), pending_pod(scheduler="volcano", **SILENT))

    assert found.cause == "no-scheduler"
    assert "volcano" in found.title
    assert found.confidence is Confidence.HIGH


def test_without_events_silence_is_less_sure() -> None:
    found = hit(node(), pending_pod(scheduler="volcano", **SILENT), without={Source.EVENTS})

    assert found.confidence is Confidence.MEDIUM


def test_a_claim_that_does_not_exist() -> None:
    found = hit(node(), pending_pod(resource_claims=("gpu",), **SILENT))

    assert found.cause == "claim-missing"


def test_a_claim_that_cannot_be_allocated_is_not_called_anything_else() -> None:
    message = "0/5 nodes are available: 5 cannot allocate all claims. still not schedulable, preemption: 0/5."

    found = hit(pending_pod(message=message, gpus=16))

    assert found.cause == "claim-not-allocatable"
    assert "Not a GPU shortage" not in found.title
