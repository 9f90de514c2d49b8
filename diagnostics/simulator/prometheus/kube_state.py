"""What kube-state-metrics says of the simulated cluster, made from the objects of its API.

Names and labels are those of its documentation (docs/metrics), as far as GPU clusters are looked at with them.
"""

from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from typing import Any

from diagnostics.simulator.manifests.controllers import controllers
from diagnostics.simulator.manifests.nodes import node_object
from diagnostics.simulator.manifests.pods import pod_object
from diagnostics.simulator.prometheus.series import Labels, labels_of
from diagnostics.simulator.workloads import SimPod, Workload
from diagnostics.simulator.world import World

TARGET = {"job": "kube-state-metrics", "instance": "10.244.0.30:8080"}
METRICS = frozenset(
    {
        "kube_job_owner",
        "kube_node_spec_unschedulable",
        "kube_node_status_allocatable",
        "kube_node_status_capacity",
        "kube_node_status_condition",
        "kube_pod_container_resource_requests",
        "kube_pod_container_status_restarts_total",
        "kube_pod_container_status_waiting_reason",
        "kube_pod_created",
        "kube_pod_deletion_timestamp",
        "kube_pod_info",
        "kube_pod_owner",
        "kube_pod_start_time",
        "kube_pod_status_phase",
        "kube_pod_status_ready",
        "kube_replicaset_owner",
    }
)
PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
_SUFFIXES = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "m": 0.001, "k": 1e3, "M": 1e6, "G": 1e9}


Line = tuple[str, Labels, float]
"""One sample: name, labels, value."""


def lines(world: World) -> Iterator[Line]:
    """All of one moment."""
    for pod in world.pods:
        yield from _pod_lines(pod)
    for workload in world.workloads:
        yield from _workload_lines(workload)
    for node in world.nodes.values():
        yield from _of_node(node_object(world, node))


@lru_cache(maxsize=800)
def _pod_lines(pod: SimPod) -> tuple[Line, ...]:
    return tuple(_of_pod(pod_object(pod)))


def _of_pod(pod: dict[str, Any]) -> Iterator[Line]:
    meta, spec, status = pod["metadata"], pod["spec"], pod["status"]
    me = {"namespace": meta["namespace"], "pod": meta["name"], "uid": meta["uid"]}
    node = spec.get("nodeName", "")
    for container in spec["containers"]:
        for name, amount in container["resources"].get("requests", {}).items():
            asked = {"container": container["name"], "node": node, **_resource(name)}
            yield _line("kube_pod_container_resource_requests", _number(amount), **me, **asked)
    for phase in PHASES:
        yield _line("kube_pod_status_phase", float(status["phase"] == phase), **me, phase=phase)
    yield _line("kube_pod_info", 1, **me, node=node)
    yield _line("kube_pod_created", _seconds(meta["creationTimestamp"]), **me)
    if "startTime" in status:
        yield _line("kube_pod_start_time", _seconds(status["startTime"]), **me)
    if "deletionTimestamp" in meta:
        yield _line("kube_pod_deletion_timestamp", _seconds(meta["deletionTimestamp"]), **me)
    yield _line("kube_pod_owner", 1, **me, **_owner(meta))
    for condition in status.get("conditions", []):
        if condition["type"] == "Ready":
            for wanted in ("true", "false", "unknown"):
                is_so = float(condition["status"].lower() == wanted)
                yield _line("kube_pod_status_ready", is_so, **me, condition=wanted)
    for container in status.get("containerStatuses", []):
        named = me | {"container": container["name"]}
        yield _line("kube_pod_container_status_restarts_total", container["restartCount"], **named)
        if reason := container.get("state", {}).get("waiting", {}).get("reason"):
            yield _line("kube_pod_container_status_waiting_reason", 1, **named, reason=reason)


def _owner(meta: dict[str, Any]) -> dict[str, str]:
    owner = next(iter(meta.get("ownerReferences", [])), None)
    if owner is None:
        return {"owner_kind": "<none>", "owner_name": "<none>", "owner_is_controller": "<none>"}
    return {"owner_kind": owner["kind"], "owner_name": owner["name"], "owner_is_controller": "true"}


@lru_cache(maxsize=800)
def _workload_lines(workload: Workload) -> tuple[Line, ...]:
    found = controllers([workload], ())
    of_sets = [("kube_replicaset_owner", "replicaset", one["metadata"]) for one in found["replicasets"]]
    of_jobs = [("kube_job_owner", "job_name", one["metadata"]) for one in found["jobs"]]
    return tuple(
        _line(metric, 1, namespace=meta["namespace"], **{label: meta["name"]}, **_owner(meta))
        for metric, label, meta in (*of_sets, *of_jobs)
    )


def _of_node(node: dict[str, Any]) -> Iterator[Line]:
    name = node["metadata"]["name"]
    yield _line("kube_node_spec_unschedulable", float(node["spec"].get("unschedulable", False)), node=name)
    for kind in ("capacity", "allocatable"):
        for resource, amount in node["status"][kind].items():
            yield _line(f"kube_node_status_{kind}", _number(amount), node=name, **_resource(resource))
    for condition in node["status"]["conditions"]:
        for status in ("true", "false", "unknown"):
            is_so = float(condition["status"].lower() == status)
            told = {"condition": condition["type"], "status": status}
            yield _line("kube_node_status_condition", is_so, node=name, **told)


@lru_cache(maxsize=8_000)
def _labels(pairs: Labels) -> Labels:
    """The same object for the same labels."""
    return labels_of(dict(pairs) | TARGET)


def _line(name: str, value: float, **labels: str) -> Line:
    return (name, _labels(tuple(labels.items())), float(value))


def _resource(name: str) -> dict[str, str]:
    """As kube-state-metrics spells and counts a resource."""
    unit = {"cpu": "core", "memory": "byte", "ephemeral-storage": "byte"}.get(name, "integer")
    spelled = "".join(letter if letter.isalnum() else "_" for letter in name)
    return {"resource": spelled, "unit": unit}


def _number(amount: str) -> float:
    """A quantity such as `64Gi` or `500m`."""
    for suffix, factor in _SUFFIXES.items():
        if amount.endswith(suffix):
            return float(amount.removesuffix(suffix)) * factor
    return float(amount)


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
