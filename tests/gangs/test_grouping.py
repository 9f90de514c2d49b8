"""Which pods are one gang, and how many there should be."""

from typing import Any

import pytest

from diagnostics.gangs import gangs_of
from diagnostics.snapshot import OwnerKey, Pod, Workload
from tests.builders import container, owner, pending_pod, pod

TORCHRUN = ("torchrun", "--nnodes=4", "train.py")


def member(name: str, root: OwnerKey | None = None, command: tuple[str, ...] = (), **fields: Any) -> Pod:
    spec = fields.pop("containers", (container(gpus=2, command=command, env=fields.pop("env", {})),))
    return pod(name, root=root or owner(), containers=spec, **fields)


def members(count: int, *command: str, root: OwnerKey | None = None, **fields: Any) -> list[Pod]:
    return [member(f"train-{i}", root, command, **fields) for i in range(count)]


def workload(kind: str = "Job", name: str = "train", **fields: Any) -> Workload:
    return Workload(kind=kind, namespace="research", name=name, spec={"template": {}}, **fields)


def test_pods_of_one_job_with_torchrun_are_a_gang() -> None:
    (gang,) = gangs_of(members(4, *TORCHRUN), [workload(replicas=4)])

    assert (gang.kind, gang.name, gang.size) == ("Job", "train", 4)
    assert gang.members == tuple(f"research/train-{i}" for i in range(4))
    assert "torchrun" in gang.collective


def test_a_statefulset_with_torchrun_is_a_gang() -> None:
    assert len(gangs_of(members(2, *TORCHRUN, root=owner("StatefulSet")), [])) == 1


@pytest.mark.parametrize("kind", ["StatefulSet", "Deployment", "Job"])
def test_an_owner_alone_is_no_gang(kind: str) -> None:
    assert gangs_of(members(4, "python", "serve.py", root=owner(kind)), []) == ()


def test_an_indexed_job_of_shards_is_no_gang() -> None:
    pods = members(4, "python", "shard.py")

    assert gangs_of(pods, [workload(replicas=4, is_indexed=True)]) == ()


def test_servers_that_start_local_ranks_are_no_gang() -> None:
    root = owner("Deployment", "server")

    assert gangs_of(members(3, "torchrun", "--nproc-per-node=2", "serve.py", root=root), []) == ()


def test_a_job_with_a_bare_launcher_is_a_gang() -> None:
    assert len(gangs_of(members(3, "torchrun", "train.py"), [])) == 1


def test_one_gpu_pod_is_no_gang() -> None:
    assert gangs_of(members(1, *TORCHRUN), [workload(replicas=1)]) == ()


def test_a_lone_pod_of_a_larger_job_is_a_gang() -> None:
    (gang,) = gangs_of(members(1, *TORCHRUN), [workload(replicas=4)])

    assert gang.size == 4


def test_finished_pods_are_no_members() -> None:
    done = member("train-9", None, TORCHRUN, phase="Succeeded")

    (gang,) = gangs_of([*members(2, *TORCHRUN), done], [])

    assert done.key not in gang.members


def test_pods_without_gpus_are_no_members() -> None:
    launcher = member("launcher", containers=(container(gpus=0, command=("mpirun", "--hostfile", "h")),))
    root = OwnerKey("MPIJob", "research", "mpi", "kubeflow.org/v2beta1")
    labels = {"training.kubeflow.org/job-name": "mpi"}

    (gang,) = gangs_of([launcher, *members(2, "sshd", root=root, labels=labels)], [])

    assert gang.kind == "MPIJob"
    assert len(gang.members) == 2


def test_a_pytorchjob_is_a_gang_whatever_its_command() -> None:
    root = OwnerKey("PyTorchJob", "research", "bert", "kubeflow.org/v1", "u")
    labels = {"training.kubeflow.org/job-name": "bert"}
    pods = members(3, "python", "train.py", root=root, labels=labels, env={"PET_NNODES": "4"})

    (gang,) = gangs_of(pods, [])

    assert (gang.kind, gang.api_version, gang.size) == ("PyTorchJob", "kubeflow.org/v1", 4)


def test_a_jobset_adds_up_its_jobs() -> None:
    labels = {"jobset.sigs.k8s.io/jobset-name": "dlrm"}
    jobset = OwnerKey("JobSet", "research", "dlrm", "jobset.x-k8s.io/v1alpha2", "u")
    jobs = [workload(name=f"dlrm-workers-{i}", replicas=2, owners=(jobset,)) for i in range(2)]

    (gang,) = gangs_of(members(2, root=jobset, labels=labels), jobs)

    assert (gang.kind, gang.name, gang.size) == ("JobSet", "dlrm", 4)


def test_each_replica_of_a_leaderworkerset_is_a_gang() -> None:
    name = {"leaderworkerset.sigs.k8s.io/name": "llm"}
    size = {"leaderworkerset.sigs.k8s.io/size": "2"}
    root = OwnerKey("LeaderWorkerSet", "research", "llm", "leaderworkerset.x-k8s.io/v1")
    leaders = [member(f"llm-{i}", root, labels=name, annotations=size) for i in range(2)]
    workers = [
        member(
            f"llm-{i}-1",
            owner("StatefulSet", f"llm-{i}"),
            labels=name | {"leaderworkerset.sigs.k8s.io/group-index": str(i)},
            annotations=size,
        )
        for i in range(2)
    ]

    gangs = gangs_of([*leaders, *workers], [])

    assert [g.members for g in gangs] == [
        ("research/llm-0", "research/llm-0-1"),
        ("research/llm-1", "research/llm-1-1"),
    ]
    assert {(g.kind, g.name, g.size) for g in gangs} == {("LeaderWorkerSet", "llm", 2)}


def test_a_leader_without_gpus_does_not_count_into_the_size() -> None:
    labels = {"leaderworkerset.sigs.k8s.io/name": "llm", "leaderworkerset.sigs.k8s.io/group-index": "0"}
    size = {"leaderworkerset.sigs.k8s.io/size": "3"}
    leader = member("llm-0", labels=labels, annotations=size, containers=(container(gpus=0),))

    (gang,) = gangs_of([leader, *members(2, labels=labels, annotations=size)], [])

    assert gang.size == 2


def test_volcano_says_what_it_waits_for() -> None:
    root = OwnerKey("Job", "research", "moe", "batch.volcano.sh/v1alpha1", "u")
    message = "pod group is not ready, 8 Pending, 8 minAvailable; Pending: 3 Unschedulable"
    pods = [
        pending_pod(
            f"moe-{i}", message, root=root, labels={"volcano.sh/job-name": "moe"}, scheduler="volcano"
        )
        for i in range(2)
    ]

    (gang,) = gangs_of(pods, [])

    assert (gang.system, gang.min_available, gang.gang_scheduler) == ("Volcano", 8, "volcano")


def test_volcanos_own_group_around_a_deployment_is_no_gang() -> None:
    notes = {"scheduling.k8s.io/group-name": "podgroup-0b1c"}
    root = owner("Deployment", "server")

    assert gangs_of(members(3, "serve", root=root, annotations=notes, scheduler="volcano"), []) == ()


def test_a_native_pod_group_of_bare_pods_is_a_gang() -> None:
    pods = [pod(f"bert-{i}", pod_group="bert") for i in range(2)]

    (gang,) = gangs_of(pods, [])

    assert (gang.kind, gang.name, gang.gang_scheduler) == ("PodGroup", "bert", "native")


def test_a_pod_group_under_one_owner_is_known_by_the_owner() -> None:
    pods = members(2, labels={"scheduling.x-k8s.io/pod-group": "pg"})

    (gang,) = gangs_of(pods, [workload(replicas=2)])

    assert (gang.kind, gang.name, gang.gang_scheduler) == ("Job", "train", "coscheduling")


def test_kueue_counts_plain_pods_of_a_group() -> None:
    pods = [
        pod(
            f"p-{i}",
            labels={"kueue.x-k8s.io/pod-group-name": "g"},
            annotations={"kueue.x-k8s.io/pod-group-total-count": "3"},
        )
        for i in range(2)
    ]

    (gang,) = gangs_of(pods, [])

    assert (gang.size, gang.gang_scheduler) == (3, "kueue")


def test_yunikorn_task_groups_give_the_minimum() -> None:
    notes = {"yunikorn.apache.org/task-groups": '[{"name": "w", "minMember": 4}]'}
    pods = [pod(f"y-{i}", labels={"applicationId": "app-1"}, annotations=notes) for i in range(2)]

    (gang,) = gangs_of(pods, [])

    assert (gang.min_available, gang.gang_scheduler) == (4, "yunikorn")


def test_unreadable_numbers_leave_the_size_unknown() -> None:
    notes = {"yunikorn.apache.org/task-groups": "not json"}
    pods = [pod(f"y-{i}", labels={"applicationId": "app-1"}, annotations=notes) for i in range(2)]

    (gang,) = gangs_of(pods, [])

    assert (gang.size, gang.min_available) == (None, None)


def test_an_elastic_job_can_start_with_its_minimum() -> None:
    (gang,) = gangs_of(members(2, "torchrun", "--nnodes=2:8", "train.py"), [workload(replicas=8)])

    assert (gang.size, gang.min_available) == (8, 2)


def test_two_namespaces_are_two_gangs() -> None:
    here = members(2, *TORCHRUN)
    there = [member(f"train-{i}", owner(namespace="other"), TORCHRUN, namespace="other") for i in range(2)]

    assert len(gangs_of([*here, *there], [])) == 2
