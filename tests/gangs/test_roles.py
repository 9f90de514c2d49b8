"""How many pods a job's spec wants, and where in it the templates stand."""

from typing import Any

import pytest

from diagnostics.gangs import fewest_pods, gang_size, gangs_of, pods_wanted, roles_of
from diagnostics.snapshot import OwnerKey, PodGroup, Workload
from tests.builders import container, owner, pod

GPU: dict[str, Any] = {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 4}}}]}}
CPU: dict[str, Any] = {"spec": {"containers": [{"name": "launcher"}]}}
VOLCANO = "batch.volcano.sh/v1alpha1"

SPECS: list[tuple[str, str, dict[str, Any], int, int]] = [
    ("Job", "batch/v1", {"parallelism": 8, "template": GPU}, 8, 8),
    ("StatefulSet", "apps/v1", {"replicas": 3, "template": GPU}, 3, 3),
    (
        "Job",
        VOLCANO,
        {"tasks": [{"name": "m", "template": CPU}, {"name": "w", "replicas": 4, "template": GPU}]},
        5,
        4,
    ),
    (
        "PyTorchJob",
        "kubeflow.org/v1",
        {"pytorchReplicaSpecs": {"Master": {"template": GPU}, "Worker": {"replicas": 3, "template": GPU}}},
        4,
        4,
    ),
    (
        "MPIJob",
        "kubeflow.org/v2beta1",
        {"mpiReplicaSpecs": {"Launcher": {"template": CPU}, "Worker": {"replicas": 2, "template": GPU}}},
        3,
        2,
    ),
    (
        "JobSet",
        "jobset.x-k8s.io/v1alpha2",
        {"replicatedJobs": [{"replicas": 2, "template": {"spec": {"parallelism": 4, "template": GPU}}}]},
        8,
        8,
    ),
    (
        "LeaderWorkerSet",
        "leaderworkerset.x-k8s.io/v1",
        {"replicas": 3, "leaderWorkerTemplate": {"size": 4, "workerTemplate": GPU}},
        12,
        4,
    ),
    (
        "LeaderWorkerSet",
        "leaderworkerset.x-k8s.io/v1",
        {"leaderWorkerTemplate": {"size": 4, "leaderTemplate": CPU, "workerTemplate": GPU}},
        4,
        3,
    ),
    (
        "RayCluster",
        "ray.io/v1",
        {
            "headGroupSpec": {"template": CPU},
            "workerGroupSpecs": [{"replicas": 2, "numOfHosts": 2, "template": GPU}],
        },
        5,
        4,
    ),
    (
        "RayJob",
        "ray.io/v1",
        {"rayClusterSpec": {"workerGroupSpecs": [{"replicas": 2, "template": GPU}]}},
        2,
        2,
    ),
]


@pytest.mark.parametrize(("kind", "version", "spec", "pods", "gpu_pods"), SPECS)
def test_pods_and_gpu_pods_of_a_spec(
    kind: str, version: str, spec: dict[str, Any], pods: int, gpu_pods: int
) -> None:
    assert pods_wanted(kind, version, spec) == pods
    assert gang_size(kind, version, spec) == gpu_pods


@pytest.mark.parametrize(("kind", "version", "spec", "pods", "gpu_pods"), SPECS)
def test_each_template_is_found_again_at_its_path(
    kind: str, version: str, spec: dict[str, Any], pods: int, gpu_pods: int
) -> None:
    for role in roles_of(kind, version, spec):
        at: Any = spec
        for step in role.path:
            at = at[step]
        assert at == role.template


@pytest.mark.parametrize(
    "kind", ["PyTorchJob", "JobSet", "LeaderWorkerSet", "RayJob", "MPIJob", "TrainJob", "Job"]
)
@pytest.mark.parametrize("junk", [None, [], "x", 5, True, {"a": []}, [5], [{"template": 7}]])
def test_junk_has_no_gpu_pods_and_raises_nothing(kind: str, junk: Any) -> None:
    keys = (
        "pytorchReplicaSpecs", "mpiReplicaSpecs", "replicatedJobs", "leaderWorkerTemplate", "rayClusterSpec",
        "tasks", "trainer", "template", "replicas", "runPolicy",
    )  # fmt: skip
    spec = dict.fromkeys(keys, junk)
    assert gang_size(kind, VOLCANO, spec) is None
    fewest_pods(kind, VOLCANO, spec)
    pods_wanted(kind, VOLCANO, spec)


def test_a_train_job_names_its_nodes_and_no_template() -> None:
    spec = {"trainer": {"numNodes": 4}}
    assert pods_wanted("TrainJob", "trainer.kubeflow.org/v1alpha1", spec) == 4
    assert gang_size("TrainJob", "trainer.kubeflow.org/v1alpha1", spec) is None


def test_the_least_that_a_job_starts_with() -> None:
    assert fewest_pods("Job", VOLCANO, {"minAvailable": 3}) == 3
    assert fewest_pods("Job", "batch/v1", {"minAvailable": 3}) is None
    policy = {"runPolicy": {"schedulingPolicy": {"minAvailable": 4}}, "elasticPolicy": {"minReplicas": 2}}
    assert fewest_pods("PyTorchJob", "kubeflow.org/v1", policy) == 4
    assert fewest_pods("PyTorchJob", "kubeflow.org/v1", {"elasticPolicy": {"minReplicas": 2}}) == 2


def test_a_pod_group_object_says_the_least_number_of_members() -> None:
    pods = [
        pod(f"w-{i}", root=owner(), annotations={"scheduling.k8s.io/group-name": "g"}, scheduler="volcano")
        for i in range(2)
    ]
    group = PodGroup(system="volcano", namespace="research", name="g", min_member=4)
    (gang,) = gangs_of(pods, [], [group])
    assert (gang.size, gang.min_available) == (4, 4)


def test_a_launcher_without_gpus_counts_in_the_group_and_not_in_the_gang() -> None:
    root = OwnerKey("MPIJob", "research", "train", "kubeflow.org/v2beta1", "uid")
    labels = {"scheduling.x-k8s.io/pod-group": "g", "training.kubeflow.org/job-name": "train"}
    workers = [pod(f"w-{i}", root=root, labels=labels) for i in range(4)]
    launcher = pod("launcher", root=root, labels=labels, containers=(container(gpus=0),))
    group = PodGroup(system="coscheduling", namespace="research", name="g", min_member=5)
    (gang,) = gangs_of([*workers, launcher], [], [group])
    assert (gang.size, gang.min_available) == (4, 4)


def test_each_group_of_a_leader_worker_set_is_a_gang_of_its_own_size() -> None:
    root = OwnerKey("LeaderWorkerSet", "research", "llm", "leaderworkerset.x-k8s.io/v1", "uid")
    pods = [
        pod(
            f"llm-{group}-{worker}",
            root=root,
            labels={
                "leaderworkerset.sigs.k8s.io/name": "llm",
                "leaderworkerset.sigs.k8s.io/group-index": str(group),
            },
        )
        for group in range(2)
        for worker in range(3)
    ]
    spec = {"replicas": 2, "leaderWorkerTemplate": {"size": 4, "workerTemplate": GPU}}
    lws = Workload(kind="LeaderWorkerSet", namespace="research", name="llm", api_version="v1", spec=spec)
    found = gangs_of(pods, [lws])
    assert [(g.size, len(g.members)) for g in found] == [(4, 3), (4, 3)]


def test_bare_pods_of_a_group_are_not_said_to_talk_to_each_other() -> None:
    pods = [pod(f"a-{i}", pod_group="g") for i in range(2)]
    (gang,) = gangs_of(pods, [], [PodGroup(system="native", namespace="research", name="g", min_member=2)])
    assert gang.only_starts_together
    talking = [
        pod(f"a-{i}", pod_group="g", containers=(container(command=("torchrun", "--nnodes=2", "t.py")),))
        for i in range(2)
    ]
    (gang,) = gangs_of(talking, [])
    assert not gang.only_starts_together
