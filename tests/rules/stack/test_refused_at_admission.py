"""GPU209: pods that a kubelet refused, with the reason; those that were replaced or refused long ago stay silent."""

from typing import Any

import pytest

from diagnostics.findings import Finding
from diagnostics.fixes import Risk, StepKind
from diagnostics.rules import diagnose
from diagnostics.snapshot import Condition, Pod, Source
from tests.builders import ago, container, node, owner, pod, snapshot

AWAY = (
    "Pod was rejected: Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. "
    "Requested: 1, Available: 0, which is unexpected"
)
OUT_OF = (
    "Pod was rejected: Node didn't have enough resource: nvidia.com/gpu, requested: 1, used: 0, capacity: 0"
)


def refused(name: str = "infer-0", message: str = AWAY, minutes: float = 10, **fields: Any) -> Pod:
    """A pod that the kubelet of gpu-1 refused `minutes` ago."""
    defaults: dict[str, Any] = {
        "phase": "Failed",
        "reason": "UnexpectedAdmissionError",
        "message": message,
        "created_at": ago(minutes=minutes),
        "started_at": ago(minutes=minutes),
        "conditions": (),
        "containers": (container(state="", running_since=None, is_ready=False),),
    }
    return pod(name, **(defaults | fields))


def findings(*parts: Any, **fields: Any) -> list[Finding]:
    found = diagnose(snapshot(*parts, **fields)).findings
    return [f for f in found if f.slug == "refused-at-admission"]


NEW_NODE = node(created_at=ago(minutes=12), conditions=(Condition("Ready", "True", since=ago(minutes=11)),))


@pytest.mark.parametrize("message", [AWAY, OUT_OF, ""])
def test_a_pod_that_came_before_the_plugin_is_told_from_a_lack_of_gpus(message: str) -> None:
    reason = "OutOfnvidia.com/gpu" if message != AWAY else "UnexpectedAdmissionError"
    (finding,) = findings(NEW_NODE, refused(message=message, reason=reason))
    assert finding.cause == "pod-bound-before-device-plugin-ready"
    assert (finding.subject.kind, finding.gpus) == ("Pod", 1)


def test_a_reboot_is_as_good_as_a_new_node() -> None:
    booted = node(conditions=(Condition("Ready", "True", since=ago(minutes=9)),))
    message = (
        "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu"
    )
    assert findings(booted, refused(message=message))[0].cause == "pod-bound-before-device-plugin-ready"


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (AWAY, "device-plugin-was-restarting"),
        (
            "Allocate failed due to cannot allocate unregistered device nvidia.com/gpu",
            "device-plugin-was-restarting",
        ),
        (
            "Allocate failed due to rpc error: code = Unknown desc = request for nvidia.com/gpu: invalid request: "
            "maximum request size for shared resources is 1; found 10, which is unexpected",
            "shared-replica-request-gt-1",
        ),
        (
            "Allocate failed due to device plugin GetPreferredAllocation rpc failed with err: rpc error: code = "
            "Unknown desc = error creating nvml.Device 3: nvml: GPU is lost",
            "lost-gpu-blocks-allocation",
        ),
        (
            "Allocate failed due to device plugin GetPreferredAllocation; unable to get device link information: "
            "error calling nvml.Init",
            "device-plugin-lost-driver",
        ),
        (
            "Allocate failed due to previously allocated devices are no longer healthy; cannot allocate unhealthy "
            "devices nvidia.com/gpu",
            "allocated-device-unhealthy",
        ),
    ],
)
def test_an_old_nodes_refusal_is_named_by_its_message(message: str, cause: str) -> None:
    assert findings(node(), refused(message=message))[0].cause == cause


def test_gpus_that_somebody_else_has_are_told() -> None:
    message = "Node didn't have enough resource: nvidia.com/gpu, requested: 1, used: 8, capacity: 8"
    (finding,) = findings(node(), refused(message=message, reason="OutOfnvidia.com/gpu"))
    assert finding.cause == "gpus-given-away-before"


def test_a_topology_policy_that_refuses_is_told() -> None:
    (finding,) = findings(node(), refused(message="", reason="TopologyAffinityError"))
    assert finding.cause == "topology-not-aligned"


def test_a_node_that_offers_nothing_is_the_cause() -> None:
    bare = node(allocatable={"nvidia.com/gpu": 0.0})
    assert findings(bare, refused())[0].cause == "devices-unavailable-on-node"


def test_pods_of_one_owner_make_one_finding() -> None:
    job = owner()
    pods = [refused(f"train-{i}", root=job, owners=(job,), minutes=10 + i) for i in range(3)]
    (finding,) = findings(node(), *pods)
    assert (finding.subject.kind, finding.subject.name, len(finding.pods)) == ("Job", "train", 3)


def test_a_pod_that_was_replaced_is_left_alone() -> None:
    job = owner()
    old = refused("train-a", root=job, owners=(job,))
    fields: dict[str, Any] = {
        "root": job,
        "owners": (job,),
        "created_at": ago(minutes=8),
        "started_at": ago(minutes=8),
    }
    assert not findings(node(), old, pod("train-b", **fields))
    assert not findings(node(), old, pod("train-b", phase="Succeeded", **fields))


def test_one_that_waits_replaces_it_unless_it_is_refused_again_and_again() -> None:
    job = owner()
    waits = pod("train-z", root=job, owners=(job,), phase="Pending", node=None, started_at=None,
                created_at=ago(minutes=1))  # fmt: skip
    pods = [refused(f"train-{i}", root=job, owners=(job,), minutes=2 + i) for i in range(3)]
    assert not findings(node(), pods[0], waits)
    assert findings(node(), *pods, waits)


def test_other_failures_are_left_alone() -> None:
    assert not findings(node(), refused(reason="Evicted", message="The node was low on resource: memory."))
    assert not findings(node(), refused(reason="OutOfcpu", message="Node didn't have enough resource: cpu"))
    assert not findings(node(), refused(containers=(container(gpus=0),)))
    assert not findings(node(), refused(minutes=60 * 12))
    assert not findings(node(), pod())


def test_a_bare_pods_manifest_is_to_be_kept() -> None:
    (finding,) = findings(node(), refused())
    (anew,) = [s for s in finding.fix.steps if s.kind is StepKind.RESTORE]
    assert "keep its manifest" in anew.why
    assert anew.command == "kubectl delete pod -n research infer-0"
    assert finding.fix.steps[0].risk is Risk.READ_ONLY


def test_without_nodes_the_message_alone_speaks() -> None:
    (finding,) = findings(refused(), without=[Source.NODES])
    assert finding.cause == "device-plugin-was-restarting"


def test_without_pods_it_does_not_look() -> None:
    assert "GPU209" in {s.code for s in diagnose(snapshot(node(), without=[Source.PODS])).skipped}
