"""Jobs of operators and queues as the simulated API serves them: consistent with their pods."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from diagnostics.simulator.cluster_state import ClusterState, StateStore
from diagnostics.simulator.config import WorldConfig
from diagnostics.simulator.discovery import RESOURCES, Resource

NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
Json = dict[str, Any]


def state(*faults: str) -> ClusterState:
    return StateStore(WorldConfig(faults=faults)).at(NOW)


def resource(name: str, group: str) -> Resource:
    return next(r for r in RESOURCES if (r.name, r.group) == (name, group))


def objects(of: ClusterState, name: str, group: str = "") -> list[Json]:
    return [msgspec.json.decode(item.body) for item in of.items(resource(name, group))]


def pods_of(of: ClusterState, owner: str, kind: str) -> list[Json]:
    return [
        pod
        for pod in objects(of, "pods")
        if any((o["kind"], o["name"]) == (kind, owner) for o in pod["metadata"].get("ownerReferences", ()))
    ]


def test_a_healthy_cluster_serves_the_kinds_and_holds_none_of_them() -> None:
    healthy = state()
    assert not [r for r in RESOURCES if r.is_custom and healthy.items(r)]


def test_a_pytorch_job_owns_a_master_and_workers_as_its_spec_says() -> None:
    cluster = state("no-gang-scheduling")
    (job,) = objects(cluster, "pytorchjobs", "kubeflow.org")

    specs = job["spec"]["pytorchReplicaSpecs"]
    assert {role: part["replicas"] for role, part in specs.items()} == {"Master": 1, "Worker": 1}
    pods = pods_of(cluster, "policy-ddp", "PyTorchJob")
    assert [pod["metadata"]["name"] for pod in pods] == [
        "policy-ddp-master-0", "policy-ddp-worker-0",
    ]  # fmt: skip
    assert {o["uid"] for pod in pods for o in pod["metadata"]["ownerReferences"]} == {job["metadata"]["uid"]}


def test_a_volcano_job_has_a_pod_group_that_its_pods_name() -> None:
    cluster = state("gang-does-not-fit")
    (job,) = objects(cluster, "jobs", "batch.volcano.sh")
    (group,) = objects(cluster, "podgroups", "scheduling.volcano.sh")

    assert job["spec"]["minAvailable"] == group["spec"]["minMember"] == 4
    assert group["spec"]["minResources"] == {"nvidia.com/gpu": "12"}
    assert group["status"]["phase"] == "Inqueue"
    named = {
        p["metadata"]["annotations"]["scheduling.k8s.io/group-name"]
        for p in pods_of(cluster, "grasp-train", "Job")
    }
    assert named == {group["metadata"]["name"]}
    (queue,) = objects(cluster, "queues", "scheduling.volcano.sh")
    assert queue["metadata"]["name"] == group["spec"]["queue"]


def test_sets_own_their_pods_through_jobs_and_stateful_sets() -> None:
    cluster = state("whole-sets")
    (job_set,) = objects(cluster, "jobsets", "jobset.x-k8s.io")
    (groups,) = objects(cluster, "leaderworkersets", "leaderworkerset.x-k8s.io")

    child = next(j for j in objects(cluster, "jobs", "batch") if j["metadata"]["name"] == "dlrm-workers-0")
    assert child["metadata"]["ownerReferences"][0]["uid"] == job_set["metadata"]["uid"]
    assert len(pods_of(cluster, "dlrm-workers-0", "Job")) == child["spec"]["parallelism"]
    size = groups["spec"]["leaderWorkerTemplate"]["size"]
    leaders = pods_of(cluster, "deepseek", "StatefulSet")
    assert len(leaders) == groups["spec"]["replicas"]
    for leader in leaders:
        assert len(pods_of(cluster, leader["metadata"]["name"], "StatefulSet")) == size - 1


@pytest.mark.parametrize(
    ("slug", "reserved"), [("kueue-inadmissible", "False"), ("kueue-on-one-node", "True")]
)
def test_kueue_tells_of_each_job_whether_it_is_admitted(slug: str, reserved: str) -> None:
    cluster = state(slug)
    (workload,) = objects(cluster, "workloads", "kueue.x-k8s.io")
    (local,) = objects(cluster, "localqueues", "kueue.x-k8s.io")

    assert workload["spec"]["queueName"] == local["metadata"]["name"]
    said = {c["type"]: c["status"] for c in workload["status"]["conditions"]}
    assert said["QuotaReserved"] == reserved
    owner = workload["metadata"]["ownerReferences"][0]
    assert bool(pods_of(cluster, owner["name"], owner["kind"])) is (reserved == "True")


def test_a_suspended_job_has_no_pods() -> None:
    cluster = state("kueue-inadmissible")
    job = next(j for j in objects(cluster, "jobs", "batch") if j["metadata"]["name"] == "clip-train")
    assert job["spec"]["suspend"] is True
    assert not pods_of(cluster, "clip-train", "Job")
