"""Rolling updates for which no GPU is free, and those that need none or find one."""

from typing import Any

import pytest

from diagnostics.fixes import Risk, StepKind, steps
from diagnostics.fixes.rolling import old_pod_first
from diagnostics.placement import update_hangs
from diagnostics.snapshot import Snapshot, Workload
from tests.builders import node, owner, pod, snapshot

SERVER = owner("Deployment", "server")
HELD = pod("server-1", gpus=4, root=SERVER)


def cluster(*parts: Any, replicas: int = 1, **strategy: Any) -> Snapshot:
    """A Deployment of pods with 4 GPUs; one of them, and a neighbour, fill the only node."""
    spec = {"strategy": strategy, "template": {}} if strategy else {"template": {}}
    deployment = Workload(
        kind="Deployment",
        namespace="research",
        name="server",
        api_version="apps/v1",
        replicas=replicas,
        spec=spec,
    )
    return snapshot(node(), HELD, pod("neighbour", gpus=4), *parts, workloads=(deployment,))


def test_one_replica_and_no_free_gpu_hang() -> None:
    assert update_hangs(HELD, cluster())
    assert update_hangs(
        HELD, cluster(type="RollingUpdate", rollingUpdate={"maxSurge": 1, "maxUnavailable": 0})
    )


def test_a_share_of_unavailable_pods_is_rounded_down() -> None:
    assert update_hangs(HELD, cluster(replicas=3))
    assert not update_hangs(HELD, cluster(replicas=4))


@pytest.mark.parametrize(
    "strategy",
    [
        {"type": "Recreate"},
        {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}},
        {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "0%", "maxUnavailable": "0%"}},
    ],
)
def test_an_update_that_ends_an_old_pod_first_does_not_hang(strategy: dict[str, Any]) -> None:
    assert not update_hangs(HELD, cluster(**strategy))


def test_a_free_place_ends_the_worry_and_a_cordoned_one_does_not() -> None:
    assert not update_hangs(HELD, cluster(node("gpu-2")))
    assert update_hangs(HELD, cluster(node("gpu-2", unschedulable=True)))


def test_nothing_is_claimed_of_other_owners_or_of_what_was_not_read() -> None:
    assert not update_hangs(pod("x", gpus=4, root=owner("StatefulSet", "server")), cluster())
    assert not update_hangs(HELD, snapshot(node(), HELD, pod("neighbour", gpus=4)))


def test_the_old_pod_is_let_go_before_the_first_change() -> None:
    look, change = steps.describe_pod(HELD), steps.cordon("gpu-1")

    found = old_pod_first([look, change], HELD, cluster())

    assert [step.kind for step in found] == [StepKind.DIAGNOSE, StepKind.FIX, StepKind.FIX]
    assert found[1].risk is Risk.SAFE
    assert "kubectl patch deployment -n research --type=merge" in found[1].command
    assert old_pod_first([look, change], HELD, cluster(type="Recreate")) == (look, change)
