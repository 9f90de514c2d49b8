"""Workloads whose pods a quota keeps from being made."""

from typing import Any

import pytest

from diagnostics.snapshot import (
    Event,
    OwnerKey,
    Workload,
)
from tests.builders import ago, event
from tests.rules.scheduling.waiting import hit, hits

REFUSED = (
    'Error creating: pods "train-x" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=8, '
    "used: requests.nvidia.com/gpu=0, limited: requests.nvidia.com/gpu=4"
)


def refused(message: str = REFUSED, **fields: Any) -> Event:
    return event("FailedCreate", message, name="train", **({"kind": "Job"} | fields))


def job(kind: str = "Job", **fields: Any) -> Workload:
    defaults: dict[str, Any] = {"namespace": "research", "name": "train", "replicas": 1, "spec": {"a": 1}}
    return Workload(kind=kind, **(defaults | fields))


def test_a_quota_is_reported_for_the_workload_since_no_pod_exists() -> None:
    found = hit(refused(), workloads=(job(),))

    assert found.cause == "quota"
    assert (found.subject.kind, found.subject.name) == ("Job", "train")
    assert found.title.startswith("Not a GPU shortage")
    assert found.gpus == 8


def test_a_quota_is_reported_for_the_top_of_the_owner_chain() -> None:
    deployment = OwnerKey("Deployment", "research", "web", "apps/v1", "d")
    made_by = job(kind="ReplicaSet", owners=(deployment,), replicas=3)

    found = hit(refused(kind="ReplicaSet"), workloads=(made_by,))

    assert (found.subject.kind, found.subject.name) == ("Deployment", "web")


def test_a_quota_on_cpu_is_reported_for_a_gpu_workload_only() -> None:
    on_cpu = refused(
        "pods is forbidden: exceeded quota: medium, requested: limits.cpu=1, used: limits.cpu=2, limited: x"
    )

    assert hit(on_cpu, workloads=(job(),)).cause == "quota"
    assert hits(on_cpu, workloads=(job(spec={}),)) == []


@pytest.mark.parametrize("fields", [{"replicas": 0}, {"is_suspended": True}])
def test_ignores_an_old_refusal_of_a_workload_that_lacks_no_pod(fields: dict[str, Any]) -> None:
    assert hits(refused(), workloads=(job(**fields),)) == []


def test_ignores_a_fresh_refusal() -> None:
    assert hits(refused(first_at=ago(minutes=2)), workloads=(job(),)) == []
