"""Workloads whose pods the API server refuses to make."""

from typing import Any

import pytest

from diagnostics.findings import Hit
from diagnostics.snapshot import Condition, Event, OwnerKey, Policy, Workload
from diagnostics.snapshot.policy import LimitRange, PriorityClass, ResourceQuota, RuntimeClass
from tests.builders import ago, event, pod
from tests.rules.scheduling.waiting import hit, hits

REFUSED = (
    'Error creating: pods "train-x" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=8, '
    "used: requests.nvidia.com/gpu=0, limited: requests.nvidia.com/gpu=4"
)


def refused(message: str = REFUSED, **fields: Any) -> Event:
    return event(fields.pop("reason", "FailedCreate"), message, name="train", **({"kind": "Job"} | fields))


def job(kind: str = "Job", **fields: Any) -> Workload:
    defaults: dict[str, Any] = {"namespace": "research", "name": "train", "replicas": 1, "spec": {"a": 1}}
    return Workload(kind=kind, **(defaults | fields))


def test_a_quota_is_reported_for_the_workload_since_no_pod_exists() -> None:
    found = hit(refused(), workloads=(job(),))

    assert found.cause == "namespace-resource-quota-exceeded"
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

    assert hit(on_cpu, workloads=(job(),)).cause == "namespace-resource-quota-exceeded"
    assert hits(on_cpu, workloads=(job(spec={}),)) == []


@pytest.mark.parametrize("fields", [{"replicas": 0}, {"is_suspended": True}])
def test_ignores_an_old_refusal_of_a_workload_that_lacks_no_pod(fields: dict[str, Any]) -> None:
    assert hits(refused(), workloads=(job(**fields),)) == []


def test_ignores_a_fresh_refusal() -> None:
    assert hits(refused(first_at=ago(minutes=2)), workloads=(job(),)) == []


def said(found: Hit) -> str:
    return "\n".join(f"{fact.label}: {fact.value}" for fact in found.evidence)


def test_the_quota_itself_is_evidence_where_it_could_be_read() -> None:
    counts = {"requests.nvidia.com/gpu": 4.0, "pods": 9.0}
    quota = ResourceQuota(namespace="research", name="gpus", hard=counts, used=counts | {"pods": 1.0})

    found = hit(refused(), workloads=(job(),), policy=Policy(quotas=(quota,)))

    assert "used now: requests.nvidia.com/gpu: 4 of 4" in said(found)
    assert "used now: pods" not in said(found)


@pytest.mark.parametrize(
    ("words", "cause", "name"),
    [
        ("exceeded quota: medium, requested: limits.cpu=1, used: limits.cpu=1500m, limited: limits.cpu=2",
         "namespace-resource-quota-exceeded", "medium"),
        ("exceeded quota: q, requested: pods=1,limits.memory=64Gi, used: pods=9,limits.memory=960Gi, limited: pods=50",
         "namespace-resource-quota-exceeded", "limits.memory=64Gi"),
        ("failed quota: team: must specify limits.cpu for: main; requests.memory for: main",
         "request-missing-for-quota", "limits.cpu for: main"),
        ("maximum memory usage per Container is 64Gi, but limit is 512Gi", "limit-range-violated", "64Gi"),
        ("[maximum nvidia.com/gpu usage per Pod is 2, but limit is 8, maximum cpu usage per Pod is 8, but limit is 64]",
         "limit-range-violated", "nvidia.com/gpu usage per Pod is 2, but limit is 8"),
        ("minimum cpu usage per Container is 100m. No request is specified", "limit-range-violated", "100m"),
        ("cpu max limit to request ratio per Container is 2, but provided ratio is 4.000000",
         "limit-range-violated", "ratio per Container is 2"),
        ("no PriorityClass with name training-urgent was found", "priority-class-missing", "training-urgent"),
        ('pod rejected: RuntimeClass "nvidia-legacy" not found', "runtime-class-missing", "nvidia-legacy"),
        ("insufficient quota to match these scopes: [{PriorityClass In [system-node-critical]}]",
         "priority-class-not-allowed", "system-node-critical"),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    ("kind", "reason", "head"),
    [
        ("Job", "FailedCreate", 'Error creating: pods "train-x" is forbidden: '),
        ("StatefulSet", "FailedCreate",
         'create Pod train-0 in StatefulSet train failed error: pods "train-0" is forbidden: '),
        ("PyTorchJob", "FailedCreatePod", 'Error creating: pods "train-worker-0" is forbidden: '),
        ("RayCluster", "FailedToCreateWorkerPod",
         'Failed to create worker Pod for the cluster research/train: pods "train-w" is forbidden: '),
    ],
)  # fmt: skip
def test_each_refusal_is_named_by_its_cause(
    words: str, cause: str, name: str, kind: str, reason: str, head: str
) -> None:
    found = hit(refused(head + words, kind=kind, reason=reason), workloads=(job(kind=kind),))

    assert found.cause == cause
    assert name in said(found)
    assert found.title.startswith("Not a GPU shortage")
    assert found.fix.steps[0].kind == "diagnose"


def test_classes_that_exist_are_named_beside_the_one_that_does_not() -> None:
    policy = Policy(
        runtime_classes=(RuntimeClass(name="nvidia"),),
        priority_classes=(PriorityClass(name="batch"),),
        limit_ranges=(LimitRange(namespace="research", name="bounds"),),
    )
    runtime = refused('pod rejected: RuntimeClass "nvidea" not found')
    priority = refused("no PriorityClass with name high was found")
    limit = refused("maximum cpu usage per Pod is 8, but limit is 64")

    assert "runtime classes that exist: nvidia" in said(hit(runtime, workloads=(job(),), policy=policy))
    assert "priority classes that exist: batch" in said(hit(priority, workloads=(job(),), policy=policy))
    assert "limit ranges of the namespace: bounds" in said(hit(limit, workloads=(job(),), policy=policy))


def test_a_runtime_class_that_was_made_since_is_no_reason_any_more() -> None:
    told = refused('pod rejected: RuntimeClass "nvidia" not found')
    made = Policy(runtime_classes=(RuntimeClass(name="nvidia"),))

    assert hit(told, workloads=(job(),)).cause == "runtime-class-missing"
    assert hits(told, workloads=(job(),), policy=made) == []


def test_who_names_nvidias_runtime_class_means_a_gpu_but_for_the_operators_own_pods() -> None:
    told = 'pod rejected: RuntimeClass "nvidia" not found'

    assert hit(refused(told), workloads=(job(spec={}),)).cause == "runtime-class-missing"
    assert hits(refused(told.replace("nvidia", "gvisor")), workloads=(job(spec={}),)) == []
    assert hits(refused(told, kind="DaemonSet"), workloads=(job("DaemonSet", spec={}),)) == []


def test_a_controller_that_was_not_read_asks_for_gpus_if_its_pods_do() -> None:
    """Custom resources whose controllers make pods themselves."""
    quota = refused("exceeded quota: q, requested: limits.cpu=8, used: limits.cpu=8, limited: limits.cpu=8",
                    kind="MPIJob")  # fmt: skip
    mine = OwnerKey("MPIJob", "research", "train", "kubeflow.org/v2beta1", "m")

    assert hits(quota) == []
    assert hits(quota, pod(gpus=0, owners=(mine,))) == []
    assert hit(quota, pod(owners=(mine,))).cause == "namespace-resource-quota-exceeded"


def test_a_condition_outlives_the_events() -> None:
    condition = Condition("ReplicaFailure", "True", "FailedCreate", REFUSED, ago(hours=9))
    healthy = Condition("ReplicaFailure", "False", "FailedCreate", REFUSED, ago(hours=9))

    found = hit(workloads=(job("ReplicaSet", conditions=(condition,)),))

    assert found.cause == "namespace-resource-quota-exceeded"
    assert "for 9 h" in found.title
    assert hits(workloads=(job("ReplicaSet", conditions=(healthy,)),)) == []


@pytest.mark.parametrize(
    "message",
    [
        "Error creating: Internal error occurred: failed calling webhook",
        'Error creating: pods "x" is forbidden: violates PodSecurity',
        'persistentvolumeclaims "data" not found',
        "",
    ],
)
def test_ignores_other_failures(message: str) -> None:
    assert hits(refused(message), workloads=(job(),)) == []
