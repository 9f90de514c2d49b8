"""The pod templates inside a job's spec: how many pods each stands for, and where in the spec it is.

Field names as the APIs document them: batch/v1 Job, batch.volcano.sh/v1alpha1 Job, kubeflow.org/v1 PyTorchJob and its
like, kubeflow.org/v2beta1 MPIJob, trainer.kubeflow.org TrainJob, jobset.x-k8s.io/v1alpha2 JobSet,
leaderworkerset.x-k8s.io/v1 LeaderWorkerSet, ray.io/v1. A spec of another shape has no roles; nothing is raised.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from diagnostics.snapshot import GPU_RESOURCE_PREFIXES

REPLICA_SPECS = {
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "MPIJob": "mpiReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
}
_RAY_SPECS = {"RayJob": "rayClusterSpec", "RayService": "rayClusterConfig"}

Path = tuple[str | int, ...]


class Role(msgspec.Struct, frozen=True):
    """One pod template of a spec."""

    name: str
    count: int
    """Pods of it at once; of a LeaderWorkerSet, pods in one group."""
    template: Mapping[str, Any]
    """`metadata` and `spec` of the pods; empty where the kind takes it from elsewhere (TrainJob)."""
    path: Path = ()
    """From the spec to the template."""

    @property
    def asks_for_gpus(self) -> bool:
        spec = _dict(self.template.get("spec"))
        containers = [*_dicts(spec.get("containers")), *_dicts(spec.get("initContainers"))]
        resources = [_dict(container.get("resources")) for container in containers]
        names = [n for r in resources for part in ("limits", "requests") for n in _dict(r.get(part))]
        return any(str(name).startswith(GPU_RESOURCE_PREFIXES) for name in names)


def roles_of(kind: str, api_version: str, spec: Mapping[str, Any]) -> tuple[Role, ...]:
    """The roles of one object, in the order of its spec; none for a kind or a shape that is not known."""
    if kind == "Job" and api_version.startswith("batch.volcano.sh/"):
        return tuple(_tasks(spec))
    if kind in REPLICA_SPECS:
        return tuple(_replica_specs(spec, REPLICA_SPECS[kind]))
    if kind in _RAY_SPECS:
        inner = _RAY_SPECS[kind]
        return tuple(_ray(_dict(spec.get(inner)), (inner,)))
    make = _MAKERS.get(kind)
    return tuple(make(spec)) if make is not None else ()


def pods_wanted(kind: str, api_version: str, spec: Mapping[str, Any]) -> int | None:
    """Pods that a spec wants at once, over all roles and groups; None where it has no roles."""
    roles = roles_of(kind, api_version, spec)
    groups = (_count(spec.get("replicas"), 1) or 0) if kind == "LeaderWorkerSet" else 1
    return sum(role.count for role in roles) * groups if roles else None


def gang_size(kind: str, api_version: str, spec: Mapping[str, Any]) -> int | None:
    """Pods with GPUs in one gang of this spec; None where no template asks for GPUs, or none is in the spec."""
    roles = [role for role in roles_of(kind, api_version, spec) if role.asks_for_gpus]
    return sum(role.count for role in roles) if roles else None


def fewest_pods(kind: str, api_version: str, spec: Mapping[str, Any]) -> int | None:
    """Pods with which the job starts by its own words (minAvailable, elastic minimum); None where it says nothing."""
    if kind == "Job" and api_version.startswith("batch.volcano.sh/"):
        return _count(spec.get("minAvailable"))
    if kind in REPLICA_SPECS:
        policy = _dict(_dict(spec.get("runPolicy")).get("schedulingPolicy"))
        least = _count(policy.get("minAvailable"))
        return least if least is not None else _count(_dict(spec.get("elasticPolicy")).get("minReplicas"))
    return None


def _tasks(spec: Mapping[str, Any]) -> Iterator[Role]:
    for index, task in enumerate(_dicts(spec.get("tasks"))):
        path: Path = ("tasks", index, "template")
        yield Role(
            str(task.get("name", "")), _count(task.get("replicas"), 1) or 0, _dict(task.get("template")), path
        )


def _replica_specs(spec: Mapping[str, Any], key: str) -> Iterator[Role]:
    for name, part in _dict(spec.get(key)).items():
        role = _dict(part)
        yield Role(
            str(name),
            _count(role.get("replicas"), 1) or 0,
            _dict(role.get("template")),
            (key, name, "template"),
        )


def _replicated_jobs(spec: Mapping[str, Any]) -> Iterator[Role]:
    for index, job in enumerate(_dicts(spec.get("replicatedJobs"))):
        inner = _dict(_dict(job.get("template")).get("spec"))
        each = _count(inner.get("parallelism"), 1) or 0
        count = each * (_count(job.get("replicas"), 1) or 0)
        path: Path = ("replicatedJobs", index, "template", "spec", "template")
        yield Role(str(job.get("name", "")), count, _dict(inner.get("template")), path)


def _leader_and_workers(spec: Mapping[str, Any]) -> Iterator[Role]:
    """Without a template of its own the leader is made from the workers'."""
    whole = _dict(spec.get("leaderWorkerTemplate"))
    size = _count(whole.get("size"), 1) or 0
    workers = _dict(whole.get("workerTemplate"))
    leader = _dict(whole.get("leaderTemplate"))
    if leader:
        yield Role("leader", min(1, size), leader, ("leaderWorkerTemplate", "leaderTemplate"))
        size -= 1
    yield Role("worker", max(0, size), workers, ("leaderWorkerTemplate", "workerTemplate"))


def _ray(spec: Mapping[str, Any], above: Path) -> Iterator[Role]:
    head = _dict(spec.get("headGroupSpec"))
    if head:
        yield Role("head", 1, _dict(head.get("template")), (*above, "headGroupSpec", "template"))
    for index, group in enumerate(_dicts(spec.get("workerGroupSpecs"))):
        count = (_count(group.get("replicas"), 0) or 0) * (_count(group.get("numOfHosts"), 1) or 1)
        path: Path = (*above, "workerGroupSpecs", index, "template")
        yield Role(str(group.get("groupName", "")), count, _dict(group.get("template")), path)


def _ray_cluster(spec: Mapping[str, Any]) -> Iterator[Role]:
    return _ray(spec, ())


def _trainer(spec: Mapping[str, Any]) -> Iterator[Role]:
    """The template is that of a runtime, which the cluster keeps elsewhere."""
    nodes = _count(_dict(spec.get("trainer")).get("numNodes"))
    if nodes is not None:
        yield Role("trainer", nodes, {})


def _parallel(spec: Mapping[str, Any]) -> Iterator[Role]:
    return _plain(spec, "parallelism")


def _replicated(spec: Mapping[str, Any]) -> Iterator[Role]:
    return _plain(spec, "replicas")


def _plain(spec: Mapping[str, Any], key: str) -> Iterator[Role]:
    if "template" in spec:
        yield Role("", _count(spec.get(key), 1) or 0, _dict(spec["template"]), ("template",))


_MAKERS: dict[str, Callable[[Mapping[str, Any]], Iterator[Role]]] = {
    "RayCluster": _ray_cluster,
    "JobSet": _replicated_jobs,
    "LeaderWorkerSet": _leader_and_workers,
    "TrainJob": _trainer,
    "Job": _parallel,
    "Deployment": _replicated,
    "StatefulSet": _replicated,
    "ReplicaSet": _replicated,
}


def _count(value: Any, missing: int | None = None) -> int | None:
    if value is None:
        return missing
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
