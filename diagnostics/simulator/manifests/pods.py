"""Pods as the API server shows them, with status, devices and managed fields."""

from functools import lru_cache
from typing import Any

import msgspec

from diagnostics.simulator import operator_jobs
from diagnostics.simulator.classes import PRIORITIES
from diagnostics.simulator.identity import suffix
from diagnostics.simulator.manifests import metadata as meta
from diagnostics.simulator.manifests.pod_status import status_of
from diagnostics.simulator.timestamps import rfc3339, seconds
from diagnostics.simulator.workloads import Json, SimPod, Workload

_AUTOMATIC_TOLERATIONS = [
    {"key": f"node.kubernetes.io/{k}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for k in ("not-ready", "unreachable")
]
_DAEMON_TOLERATIONS = [
    {"key": f"node.kubernetes.io/{k}", "operator": "Exists", "effect": "NoExecute"}
    for k in ("not-ready", "unreachable")
] + [
    {"key": f"node.kubernetes.io/{k}", "operator": "Exists", "effect": "NoSchedule"}
    for k in ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")
]
_TOKEN_SOURCES = [
    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    {
        "downwardAPI": {
            "items": [
                {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
            ]
        }
    },
]
_TERMINATION = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": "IfNotPresent",
}


@lru_cache(maxsize=40_000)
def encoded_pod(pod: SimPod) -> bytes:
    return msgspec.json.encode(pod_object(pod))


def template_spec(workload: Workload) -> Json:
    """The pod spec that the controller's template has, defaults filled in by the server."""
    template = workload.template
    spec: Json = {"volumes": template.volumes} if template.volumes else {}
    if template.init_containers:
        spec["initContainers"] = [c | _TERMINATION for c in template.init_containers]
    spec["containers"] = [c | _TERMINATION for c in template.containers]
    spec |= {
        "restartPolicy": template.restart_policy,
        "terminationGracePeriodSeconds": template.grace_seconds,
        "dnsPolicy": "ClusterFirst",
    }
    if template.node_selector:
        spec["nodeSelector"] = template.node_selector
    spec |= {"securityContext": {}, "schedulerName": "default-scheduler"}
    if template.tolerations:
        spec["tolerations"] = template.tolerations
    return spec | template.more


def template_labels(workload: Workload) -> dict[str, str]:
    """Labels of the template as its direct owner has it."""
    labels = dict(workload.template.labels)
    match workload.kind:
        case "Deployment":
            labels["pod-template-hash"] = workload.template_hash
        case "Job":
            labels |= {
                "batch.kubernetes.io/controller-uid": workload.uid,
                "batch.kubernetes.io/job-name": workload.name,
                "controller-uid": workload.uid,
                "job-name": workload.name,
            }
    return labels


def pod_object(pod: SimPod) -> Json:
    workload, state = pod.workload, pod.state
    labels = template_labels(workload) | _own_labels(pod)
    metadata = meta.metadata(
        pod.name,
        pod.namespace,
        pod.uid,
        pod.created,
        state,
        generate_name=_generate_name(pod),
        generation=2 if state.deleted else 1,
        labels=dict(sorted(labels.items())),
        annotations=_annotations(pod),
    )
    if state.deleted:
        metadata["deletionTimestamp"] = rfc3339(state.deleted + seconds(state.grace_seconds))
        metadata["deletionGracePeriodSeconds"] = state.grace_seconds
    if workload.kind != "Pod":
        metadata["ownerReferences"] = _owner_of(pod)
    if workload.kind == "Job" and state.exit is None:
        metadata["finalizers"] = ["batch.kubernetes.io/job-tracking"]
    spec = _spec(pod)
    status = status_of(pod)
    metadata["managedFields"] = _managed(pod, status)
    return {"metadata": metadata, "spec": spec, "status": status}


def token_volume(pod: SimPod) -> str:
    return "kube-api-access-" + suffix(5, pod.uid, "token")


def _own_labels(pod: SimPod) -> dict[str, str]:
    labels = operator_jobs.labels_of(pod)
    if pod.node:
        labels |= {
            "topology.kubernetes.io/region": "eu-north-1",
            "topology.kubernetes.io/zone": "eu-north-1a",
        }
    workload = pod.workload
    match workload.kind:
        case "Job" if workload.is_indexed:
            labels["batch.kubernetes.io/job-completion-index"] = pod.key
        case "StatefulSet":
            labels |= {
                "apps.kubernetes.io/pod-index": pod.key,
                "controller-revision-hash": f"{workload.name}-{workload.template_hash}",
                "statefulset.kubernetes.io/pod-name": pod.name,
            }
        case "DaemonSet":
            labels |= {"controller-revision-hash": workload.template_hash, "pod-template-generation": "1"}
    return labels


def _annotations(pod: SimPod) -> dict[str, str]:
    annotations = dict(pod.workload.template.annotations) | operator_jobs.annotations_of(pod)
    if pod.workload.kind == "Job" and pod.workload.is_indexed:
        annotations["batch.kubernetes.io/job-completion-index"] = pod.key
    return annotations


def _generate_name(pod: SimPod) -> str:
    match pod.workload.kind:
        case "Pod":
            return ""
        case "StatefulSet":
            return f"{pod.workload.name}-"
        case "PyTorchJob" | "LeaderWorkerSet" | "VolcanoJob":
            return ""
    return pod.name[:-5]


def _owner_of(pod: SimPod) -> list[Json]:
    if pod.workload.kind in operator_jobs.KINDS:
        return meta.owner(*operator_jobs.owner_of(pod))
    return _owner(pod.workload)


def _owner(workload: Workload) -> list[Json]:
    match workload.kind:
        case "Deployment":
            return meta.owner("apps/v1", "ReplicaSet", workload.replica_set, workload.replica_set_uid)
        case "Job":
            return meta.owner("batch/v1", "Job", workload.name, workload.uid)
    return meta.owner("apps/v1", workload.kind, workload.name, workload.uid)


def _spec(pod: SimPod) -> Json:
    workload = pod.workload
    token = token_volume(pod)
    mount = {"name": token, "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    spec = template_spec(workload)
    spec["volumes"] = [
        *spec.get("volumes", []),
        {"name": token, "projected": {"sources": _TOKEN_SOURCES, "defaultMode": 420}},
    ]
    for key in ("initContainers", "containers"):
        if key in spec:
            spec[key] = [c | {"volumeMounts": [*c.get("volumeMounts", []), mount]} for c in spec[key]]
    if workload.kind == "Job" and workload.is_indexed:
        path = "metadata.labels['batch.kubernetes.io/job-completion-index']"
        index = {
            "name": "JOB_COMPLETION_INDEX",
            "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}},
        }
        spec["containers"][0]["env"] = [*spec["containers"][0].get("env", []), index]
        spec["hostname"] = f"{workload.name}-{pod.key}"
    if workload.kind == "StatefulSet":
        spec |= {"hostname": pod.name, "subdomain": workload.name}
    spec |= {"serviceAccountName": "default", "serviceAccount": "default"}
    if pod.node:
        spec["nodeName"] = pod.node
    is_daemon = workload.kind == "DaemonSet"
    if is_daemon:
        field = {"key": "metadata.name", "operator": "In", "values": [pod.node]}
        terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    more = _DAEMON_TOLERATIONS if is_daemon else _AUTOMATIC_TOLERATIONS
    spec["tolerations"] = [*workload.template.tolerations, *more]
    spec["priority"], policy = PRIORITIES.get(spec.get("priorityClassName", ""), (0, "PreemptLowerPriority"))
    return spec | {"enableServiceLinks": True, "preemptionPolicy": policy}


@lru_cache(maxsize=10_000)
def _creator_fields(workload: Workload) -> msgspec.Raw:
    """What the controller, or who made the bare pod, set; the same for every pod of a workload."""
    metadata: Json = {"labels": template_labels(workload)}
    if workload.template.annotations or (workload.kind == "Job" and workload.is_indexed):
        metadata["annotations"] = dict.fromkeys(workload.template.annotations, "") | {
            "batch.kubernetes.io/job-completion-index": ""
        }
    if workload.kind != "Pod":
        metadata |= {"generateName": "", "ownerReferences": _owner(workload)}
    spec = template_spec(workload) | {"enableServiceLinks": True}
    if workload.kind == "DaemonSet":
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}
    return msgspec.Raw(msgspec.json.encode(meta.field_set({"metadata": metadata, "spec": spec})))


@lru_cache(maxsize=10_000)
def _status_fields(keys: tuple[str, ...], address: str, has_reason: bool) -> msgspec.Raw:
    condition = dict.fromkeys(
        ("lastProbeTime", "lastTransitionTime", "observedGeneration", "status", "type"), ""
    )
    if has_reason:
        condition |= {"message": "", "reason": ""}
    kinds = ("ContainersReady", "Initialized", "PodReadyToStartContainers", "Ready")
    status: dict[str, Any] = dict.fromkeys(k for k in keys if k not in ("conditions", "qosClass"))
    status["conditions"] = [condition | {"type": t} for t in kinds]
    status["podIPs"] = [{"ip": address}]
    return msgspec.Raw(msgspec.json.encode(meta.field_set({"status": status})))


def _managed(pod: SimPod, status: Json) -> list[Json]:
    maker = "kubectl-create" if pod.workload.kind == "Pod" else "kube-controller-manager"
    entries = [meta.managed(maker, "v1", pod.created, _creator_fields(pod.workload))]
    if not pod.node:
        condition = {"type": "", "lastProbeTime": "", "lastTransitionTime": "", "message": "", "reason": ""}
        tree = meta.field_set(
            {"status": {"conditions": [condition | {"type": "PodScheduled", "status": ""}]}}
        )
        return [*entries, meta.managed("kube-scheduler", "v1", pod.created, tree, "status")]
    fields = _status_fields(tuple(status), pod.address, not pod.state.is_ready)
    changed = pod.state.changed or pod.created
    return [*entries, meta.managed("kubelet", "v1", changed, fields, "status")]
