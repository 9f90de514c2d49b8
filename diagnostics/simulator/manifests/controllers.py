"""Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs and CronJobs, with the statuses their pods give them."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from diagnostics.simulator.identity import uuid_of
from diagnostics.simulator.manifests import metadata as meta
from diagnostics.simulator.manifests.pods import template_labels, template_spec
from diagnostics.simulator.operator_stack import COMPONENTS
from diagnostics.simulator.timestamps import HOUR, rfc3339, seconds
from diagnostics.simulator.workloads import Json, SimPod, Workload

_OPERANDS = {c.name for c in COMPONENTS}
_KINDS = {
    "Deployment": ("deployments", "apps/v1"),
    "StatefulSet": ("statefulsets", "apps/v1"),
    "DaemonSet": ("daemonsets", "apps/v1"),
    "Job": ("jobs", "batch/v1"),
}


def controllers(workloads: Iterable[Workload], pods: Iterable[SimPod]) -> dict[str, list[Json]]:
    """Objects by resource name."""
    members: dict[str, list[SimPod]] = {}
    for pod in pods:
        members.setdefault(pod.workload.uid, []).append(pod)
    found: dict[str, list[Json]] = {n: [] for n in ("deployments", "replicasets", "cronjobs")}
    found |= {n: [] for n in ("statefulsets", "daemonsets", "jobs")}
    for workload in workloads:
        if workload.kind not in _KINDS:
            continue
        resource, api_version = _KINDS[workload.kind]
        own = members.get(workload.uid, [])
        body, status = _SHAPES[workload.kind](workload, own)
        found[resource].append(_object(workload, api_version, body, status))
        if workload.kind == "Deployment":
            found["replicasets"].append(_replica_set(workload, own))
        if workload.cron_schedule:
            found["cronjobs"].append(_cron_job(workload))
    return found


def _object(workload: Workload, api_version: str, spec: Json, status: Json) -> Json:
    annotations = dict(workload.annotations)
    if workload.kind == "Deployment":
        annotations["deployment.kubernetes.io/revision"] = "1"
    if workload.kind == "DaemonSet":
        annotations["deprecated.daemonset.template.generation"] = "1"
    labels = template_labels(workload) if workload.kind == "Job" else dict(workload.template.labels)
    maker = "gpu-operator" if workload.kind == "DaemonSet" else "kubectl-client-side-apply"
    metadata = meta.metadata(
        workload.name,
        workload.namespace,
        workload.uid,
        workload.created,
        status,
        generation=1,
        labels=labels,
        annotations=annotations,
    )
    if workload.kind == "DaemonSet" and workload.name in _OPERANDS:
        uid = uuid_of(workload.seed, "ClusterPolicy")
        metadata["ownerReferences"] = meta.owner("nvidia.com/v1", "ClusterPolicy", "cluster-policy", uid)
    if workload.cron_schedule:
        name = workload.name.rsplit("-", 1)[0]
        metadata["ownerReferences"] = meta.owner("batch/v1", "CronJob", name, _cron_uid(workload))
    own = meta.field_set({"metadata": {"labels": labels, "annotations": annotations}, "spec": spec})
    metadata["managedFields"] = [
        meta.managed(maker, api_version, workload.created, own),
        meta.managed(
            "kube-controller-manager",
            api_version,
            workload.created + seconds(8),
            meta.field_set({"status": status}),
            "status",
        ),
    ]
    return {"metadata": metadata, "spec": spec, "status": status}


def _template(workload: Workload) -> Json:
    metadata: Json = {
        "labels": template_labels(workload) if workload.kind == "Job" else workload.template.labels
    }
    if workload.template.annotations:
        metadata["annotations"] = workload.template.annotations
    return {"metadata": metadata, "spec": template_spec(workload)}


def _ready(pods: Sequence[SimPod]) -> int:
    return sum(p.state.is_ready and p.state.deleted is None for p in pods)


def _selector(workload: Workload) -> Json:
    return {"matchLabels": {"app": workload.template.labels["app"]}}


def _deployment(workload: Workload, pods: Sequence[SimPod]) -> tuple[Json, Json]:
    spec = {
        "replicas": workload.replicas,
        "selector": _selector(workload),
        "template": _template(workload),
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
    }
    ready = _ready(pods)
    is_available = ready * 4 >= workload.replicas * 3
    words = ("MinimumReplicasAvailable", "Deployment has minimum availability.")
    if not is_available:
        words = ("MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    done = f'ReplicaSet "{workload.replica_set}" has successfully progressed.'
    conditions = [
        _progress("Available", is_available, workload.created + seconds(90), *words),
        _progress("Progressing", True, workload.created, "NewReplicaSetAvailable", done),
    ]
    counts = {"replicas": len(pods), "updatedReplicas": len(pods), "readyReplicas": ready}
    counts |= {"availableReplicas": ready, "unavailableReplicas": len(pods) - ready}
    return spec, {"observedGeneration": 1} | {k: v for k, v in counts.items() if v} | {
        "terminatingReplicas": 0,
        "conditions": conditions,
    }


def _progress(kind: str, is_true: bool, moment: datetime, reason: str, message: str) -> Json:
    return {
        "type": kind,
        "status": "True" if is_true else "False",
        "lastUpdateTime": rfc3339(moment),
        "lastTransitionTime": rfc3339(moment),
        "reason": reason,
        "message": message,
    }


def _replica_set(workload: Workload, pods: Sequence[SimPod]) -> Json:
    labels = template_labels(workload)
    count = {"replicas": len(pods), "fullyLabeledReplicas": len(pods), "readyReplicas": _ready(pods)}
    count["availableReplicas"] = _ready(pods)
    status = {k: v for k, v in count.items() if v or k == "replicas"} | {"observedGeneration": 1}
    template = {"metadata": {"labels": labels}, "spec": template_spec(workload)}
    spec = {"replicas": workload.replicas, "selector": {"matchLabels": labels}, "template": template}
    metadata = meta.metadata(
        workload.replica_set,
        workload.namespace,
        workload.replica_set_uid,
        workload.created,
        status,
        generation=1,
        labels=labels,
        annotations={
            "deployment.kubernetes.io/desired-replicas": str(workload.replicas),
            "deployment.kubernetes.io/revision": "1",
        },
    )
    metadata["ownerReferences"] = meta.owner("apps/v1", "Deployment", workload.name, workload.uid)
    tree = meta.field_set({"metadata": {"labels": labels}, "spec": spec})
    metadata["managedFields"] = [
        meta.managed("kube-controller-manager", "apps/v1", workload.created, tree),
    ]
    return {"metadata": metadata, "spec": spec, "status": status}


def _stateful_set(workload: Workload, pods: Sequence[SimPod]) -> tuple[Json, Json]:
    spec = {
        "replicas": workload.replicas,
        "selector": _selector(workload),
        "template": _template(workload),
        "serviceName": workload.name,
        "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "revisionHistoryLimit": 10,
    }
    revision = f"{workload.name}-{workload.template_hash}"
    counts = {"replicas": len(pods), "readyReplicas": _ready(pods), "currentReplicas": len(pods)}
    counts["updatedReplicas"] = len(pods)
    return spec, {"observedGeneration": 1} | {k: v for k, v in counts.items() if v} | {
        "currentRevision": revision,
        "updateRevision": revision,
        "collisionCount": 0,
        "availableReplicas": _ready(pods),
    }


def _daemon_set(workload: Workload, pods: Sequence[SimPod]) -> tuple[Json, Json]:
    spec = {
        "selector": _selector(workload),
        "template": _template(workload),
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
        "revisionHistoryLimit": 10,
    }
    ready = _ready(pods)
    status = {
        "currentNumberScheduled": len(pods),
        "numberMisscheduled": 0,
        "desiredNumberScheduled": workload.replicas,
        "numberReady": ready,
        "observedGeneration": 1,
        "updatedNumberScheduled": len(pods),
        "numberAvailable": ready,
        "numberUnavailable": len(pods) - ready,
    }
    return spec, {k: v for k, v in status.items() if v or k in ("numberMisscheduled", "numberReady")}


def _job(workload: Workload, pods: Sequence[SimPod]) -> tuple[Json, Json]:
    spec = {
        "parallelism": workload.replicas,
        "completions": workload.replicas,
        "backoffLimit": 6,
        "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": workload.uid}},
        "manualSelector": False,
        "template": _template(workload),
        "completionMode": "Indexed" if workload.is_indexed else "NonIndexed",
        "suspend": workload.is_suspended,
        "podReplacementPolicy": "TerminatingOrFailed",
    }
    phases = [p.state.phase for p in pods]
    active = sum(ph in ("Pending", "Running", "Unknown") for ph in phases)
    counts = {"active": active, "succeeded": phases.count("Succeeded"), "failed": phases.count("Failed")}
    status: Json = {"startTime": rfc3339(workload.created)} | {k: v for k, v in counts.items() if v}
    if pods and counts["succeeded"] == workload.replicas:
        end = max(p.state.exit.finished for p in pods if p.state.exit) + seconds(1)
        words = {"reason": "CompletionsReached", "message": "Reached expected number of succeeded pods"}
        times = {"lastProbeTime": rfc3339(end), "lastTransitionTime": rfc3339(end)}
        status["conditions"] = [
            {"type": t, "status": "True"} | times | words for t in ("SuccessCriteriaMet", "Complete")
        ]
        status["completionTime"] = rfc3339(end)
    return spec, status | {"terminating": 0, "uncountedTerminatedPods": {}, "ready": _ready(pods)}


def _cron_uid(workload: Workload) -> str:
    return uuid_of(workload.seed, "CronJob", workload.namespace, workload.name)


def _cron_job(workload: Workload) -> Json:
    name = workload.name.rsplit("-", 1)[0]
    spec = {
        "schedule": workload.cron_schedule,
        "concurrencyPolicy": "Forbid",
        "suspend": False,
        "jobTemplate": {"metadata": {}, "spec": {"template": _template(workload)}},
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    }
    status = {"lastScheduleTime": rfc3339(workload.created)}
    created = workload.created - 90 * 24 * HOUR
    metadata = meta.metadata(name, workload.namespace, _cron_uid(workload), created, status, generation=1)
    tree = meta.field_set({"spec": spec})
    metadata["managedFields"] = [meta.managed("kubectl-client-side-apply", "batch/v1", created, tree)]
    return {"metadata": metadata, "spec": spec, "status": status}


_SHAPES = {
    "Deployment": _deployment,
    "StatefulSet": _stateful_set,
    "DaemonSet": _daemon_set,
    "Job": _job,
}
