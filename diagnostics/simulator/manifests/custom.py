"""Custom resources: the jobs of operators with what their controllers make of them, and queues with what waits."""

from collections.abc import Iterable, Sequence

from diagnostics.simulator.identity import hex_of, uuid_of
from diagnostics.simulator.manifests import metadata as meta
from diagnostics.simulator.manifests.pods import template_spec
from diagnostics.simulator.operator_jobs import KINDS, child_job, child_uid, pod_group, spec_of
from diagnostics.simulator.timestamps import rfc3339, seconds
from diagnostics.simulator.workloads import Json, SimPod, Workload
from diagnostics.simulator.world import World

GPU = "nvidia.com/gpu"
FLAVOR = "h100"
KUEUE, VOLCANO, NATIVE = (
    "kueue.x-k8s.io/v1beta1",
    "scheduling.volcano.sh/v1beta1",
    "scheduling.k8s.io/v1alpha2",
)
Key = tuple[str, str]
"""Plural and API version."""


def custom(world: World) -> dict[Key, list[Json]]:
    """Every custom object that there is."""
    found: dict[Key, list[Json]] = {}
    for workload, pods in _members(world.workloads, world.pods):
        kind = KINDS[workload.kind]
        status = {"conditions": [_condition("Created", True, "Created", workload)]}
        spec = spec_of(workload, _template(workload))
        found.setdefault((kind.plural, kind.api_version), []).append(_of(workload, spec, status))
        if workload.kind == "VolcanoJob":
            found.setdefault(("podgroups", VOLCANO), []).append(_volcano_group(workload, pods))
    for key, one in world.custom:
        found.setdefault(key, []).append(one)
    return found


def children(world: World) -> dict[str, list[Json]]:
    """Jobs and StatefulSets that the operators' controllers make, by plural."""
    found: dict[str, list[Json]] = {"jobs": [], "statefulsets": []}
    for workload, pods in _members(world.workloads, world.pods):
        ready = sum(pod.state.is_ready for pod in pods)
        if workload.kind == "JobSet":
            spec: Json = {"parallelism": workload.replicas, "completions": workload.replicas}
            spec |= {"completionMode": "Indexed", "suspend": False, "template": _template(workload)}
            found["jobs"].append(
                _child(workload, "Job", child_job(workload), spec, {"active": len(pods), "ready": ready})
            )
        if workload.kind == "LeaderWorkerSet":
            groups = workload.replicas // workload.group_size
            sizes = [(workload.name, groups)]
            sizes += [(f"{workload.name}-{g}", workload.group_size - 1) for g in range(groups)]
            for name, size in sizes:
                spec = {"replicas": size, "serviceName": workload.name, "template": _template(workload)}
                found["statefulsets"].append(_child(workload, "StatefulSet", name, spec, {"replicas": size}))
    return found


def cluster_queue(world: World, name: str, gpus: int, used: int, stop: str = "") -> None:
    """A Kueue ClusterQueue with one flavour; a LocalQueue of the same name belongs to it. `stop`: its stop policy."""
    quota = {"name": GPU, "nominalQuota": str(gpus)}
    groups = [{"coveredResources": [GPU], "flavors": [{"name": FLAVOR, "resources": [quota]}]}]
    usage = [{"name": FLAVOR, "resources": [{"name": GPU, "total": str(used), "borrowed": "0"}]}]
    spec: Json = {"namespaceSelector": {}, "queueingStrategy": "BestEffortFIFO", "resourceGroups": groups}
    active = {"type": "Active", "status": "True", "reason": "Ready", "message": "Can admit new workloads"}
    if stop:
        spec["stopPolicy"] = stop
        active |= {
            "status": "False",
            "reason": "Stopped",
            "message": "Can't admit new workloads: is stopped.",
        }
    status = {"conditions": [active], "flavorsReservation": usage, "flavorsUsage": usage}
    world.custom.append((("clusterqueues", KUEUE), _bare(world, "ClusterQueue", name, "", spec, status)))


def local_queue(world: World, namespace: str, name: str) -> None:
    """Of the ClusterQueue of the same name."""
    spec, status = {"clusterQueue": name}, {"pendingWorkloads": 0}
    world.custom.append((("localqueues", KUEUE), _bare(world, "LocalQueue", name, namespace, spec, status)))


def kueue_workload(
    world: World, workload: Workload, queue: str, refused: str = "", *, is_active: bool = True
) -> None:
    """What Kueue keeps of a job: admitted, or refused in its words; not active: somebody took it out of the queue."""
    requests = {"requests": workload.template.requests()}
    template = {"spec": {"containers": [{"name": "main", "resources": requests}]}}
    spec: Json = {
        "active": is_active,
        "queueName": queue,
        "podSets": [{"name": "main", "count": workload.replicas, "template": template}],
    }
    status: Json = {"conditions": [_condition("QuotaReserved", False, "Pending", workload, refused)]}
    if not is_active:
        evicted = _condition("Evicted", True, "Deactivated", workload, "The workload is deactivated")
        status["conditions"].append(evicted)
    if not refused:
        said = (
            ("QuotaReserved", f"Quota reserved in ClusterQueue {queue}"),
            ("Admitted", "The workload is admitted"),
        )
        status = {
            "admission": {"clusterQueue": queue},
            "conditions": [_condition(kind, True, kind, workload, text) for kind, text in said],
        }
    kind = KINDS.get(workload.kind)
    version, owner = (kind.api_version, kind.kind) if kind else ("batch/v1", workload.kind)
    name = f"{owner.lower()}-{workload.name}-{hex_of(5, workload.uid)}"
    one = _bare(world, "Workload", name, workload.namespace, spec, status)
    one["metadata"]["creationTimestamp"] = rfc3339(workload.created)
    one["metadata"]["ownerReferences"] = meta.owner(version, owner, workload.name, workload.uid)
    world.custom.append((("workloads", KUEUE), one))


def volcano_queue(world: World, name: str, state: str = "Open", *, most: int = 0, used: int = 0) -> None:
    """`most`: GPUs that it may use; 0: as many as there are."""
    spec: Json = {"weight": 1, "reclaimable": True} | ({"capability": {GPU: str(most)}} if most else {})
    status = {"state": state, "allocated": {GPU: str(used)}}
    world.custom.append((("queues", VOLCANO), _bare(world, "Queue", name, "", spec, status)))


def native_group(world: World, namespace: str, name: str, least: int) -> None:
    spec = {"schedulingPolicy": {"gang": {"minCount": least}}, "disruptionMode": "Pod"}
    world.custom.append((("podgroups", NATIVE), _bare(world, "PodGroup", name, namespace, spec, {})))


def _members(workloads: Iterable[Workload], pods: Iterable[SimPod]) -> list[tuple[Workload, list[SimPod]]]:
    found: dict[str, tuple[Workload, list[SimPod]]] = {w.uid: (w, []) for w in workloads if w.kind in KINDS}
    for pod in pods:
        if pod.workload.uid in found:
            found[pod.workload.uid][1].append(pod)
    return list(found.values())


def _template(workload: Workload) -> Json:
    return {"metadata": {"labels": workload.template.labels}, "spec": template_spec(workload)}


def _of(workload: Workload, spec: Json, status: Json) -> Json:
    metadata = meta.metadata(
        workload.name,
        workload.namespace,
        workload.uid,
        workload.created,
        status,
        generation=1,
        labels=workload.labels,
        annotations=workload.annotations,
    )
    fields = meta.field_set({"spec": spec})
    version = KINDS[workload.kind].api_version
    metadata["managedFields"] = [meta.managed("kubectl-create", version, workload.created, fields)]
    return {"metadata": metadata, "spec": spec, "status": status}


def _child(workload: Workload, kind: str, name: str, spec: Json, status: Json) -> Json:
    uid = child_uid(workload, kind, name)
    metadata = meta.metadata(name, workload.namespace, uid, workload.created + seconds(1), status)
    own = KINDS[workload.kind]
    metadata["ownerReferences"] = meta.owner(own.api_version, own.kind, workload.name, workload.uid)
    return {"metadata": metadata, "spec": spec, "status": status}


def _bare(world: World, kind: str, name: str, namespace: str, spec: Json, status: Json) -> Json:
    uid = uuid_of(world.config.seed, kind, namespace, name)
    created = world.before(seconds(3600))
    return {
        "metadata": meta.metadata(name, namespace, uid, created, status, generation=1),
        "spec": spec,
        "status": status,
    }


def _volcano_group(workload: Workload, pods: Sequence[SimPod]) -> Json:
    """Its phase follows from the pods: none yet, some without a node, or all placed."""
    waiting = [pod for pod in pods if not pod.node]
    amount = str(workload.replicas * workload.template.device_count)
    spec = {"minMember": workload.replicas, "minResources": {GPU: amount}, "queue": workload.queue}
    status: Json = {"phase": "Pending" if not pods else "Inqueue" if waiting else "Running"}
    if waiting:
        text = waiting[0].state.unscheduled_message
        status["conditions"] = [_condition("Unschedulable", True, "NotEnoughResources", workload, text)]
    uid = uuid_of(workload.seed, "PodGroup", workload.namespace, workload.name)
    metadata = meta.metadata(pod_group(workload), workload.namespace, uid, workload.created, status)
    own = KINDS[workload.kind]
    metadata["ownerReferences"] = meta.owner(own.api_version, own.kind, workload.name, workload.uid)
    return {"metadata": metadata, "spec": spec, "status": status}


def _condition(kind: str, is_true: bool, reason: str, workload: Workload, message: str = "") -> Json:
    return {
        "type": kind,
        "status": "True" if is_true else "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": rfc3339(workload.created + seconds(5)),
    }
