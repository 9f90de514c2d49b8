"""What kube-state-metrics would have said of the simulated cluster: its metrics, made from the objects of the API.

Only what back-filling asks for. A Job over several pods is told as a PyTorchJob: that is how a cluster of which nobody
knows the pods' commands shows that they work together.
"""

from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from typing import Any

from diagnostics.quantities import quantity
from diagnostics.simulator.manifests.nodes import node_object
from diagnostics.simulator.manifests.pods import pod_object
from diagnostics.simulator.workloads import SimPod
from diagnostics.simulator.world import World

TARGET = 'job="kube-state-metrics",instance="10.0.0.9:8080"'
PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
Line = tuple[str, str, float]
"""Name, labels without the target's, value."""


def lines(world: World) -> Iterator[Line]:
    """Every series at one moment."""
    for pod in world.pods:
        yield from _pod_lines(pod)
    for workload in world.workloads:
        if workload.kind == "Deployment":
            yield (
                "kube_replicaset_owner",
                _labels(
                    namespace=workload.namespace,
                    replicaset=workload.replica_set,
                    owner_kind="Deployment",
                    owner_name=workload.name,
                ),
                1,
            )
    for node in world.nodes.values():
        yield from _node_lines(node_object(world, node))


@lru_cache(maxsize=20_000)
def _pod_lines(pod: SimPod) -> tuple[Line, ...]:
    found = pod_object(pod)
    gpus = [c["resources"].get("limits", {}) for c in found["spec"]["containers"]]
    is_gpu = any(name.startswith("nvidia.com/") for limits in gpus for name in limits)
    return tuple(_of_pod(found, is_gpu=is_gpu))


def _of_pod(pod: dict[str, Any], *, is_gpu: bool) -> Iterator[Line]:
    meta, spec, status = pod["metadata"], pod["spec"], pod["status"]
    me = {"namespace": meta["namespace"], "pod": meta["name"], "uid": meta["uid"]}
    for container in spec["containers"]:
        for name, amount in container["resources"].get("requests", {}).items():
            asked = _labels(
                **me,
                container=container["name"],
                node=spec.get("nodeName", ""),
                resource=name.replace("nvidia.com/", "nvidia_com_").replace("-", "_").replace(".", "_"),
            )
            yield "kube_pod_container_resource_requests", asked, quantity(amount)
    for phase in PHASES if is_gpu else (status["phase"],):
        yield "kube_pod_status_phase", _labels(**me, phase=phase), float(status["phase"] == phase)
    if not is_gpu:
        return
    yield "kube_pod_info", _labels(**me, node=spec.get("nodeName", "")), 1
    yield "kube_pod_created", _labels(**me), _seconds(meta["creationTimestamp"])
    if "startTime" in status:
        yield "kube_pod_start_time", _labels(**me), _seconds(status["startTime"])
    if "deletionTimestamp" in meta:
        yield "kube_pod_deletion_timestamp", _labels(**me), _seconds(meta["deletionTimestamp"])
    owner = next(iter(meta.get("ownerReferences", [])), {"kind": "<none>", "name": "<none>"})
    words = [word for c in spec["containers"] for word in (*c.get("command", ()), *c.get("args", ()))]
    kind = "PyTorchJob" if owner["kind"] == "Job" and "--nnodes" in " ".join(words) else owner["kind"]
    owned = _labels(**me, owner_kind=kind, owner_name=owner["name"], owner_is_controller="true")
    yield "kube_pod_owner", owned, 1
    for condition in status.get("conditions", []):
        if condition["type"] == "Ready":
            is_so = float(condition["status"] == "True")
            yield "kube_pod_status_ready", _labels(**me, condition="true"), is_so
    for container in status.get("containerStatuses", []):
        named = me | {"container": container["name"]}
        yield "kube_pod_container_status_restarts_total", _labels(**named), container["restartCount"]
        if reason := container.get("state", {}).get("waiting", {}).get("reason"):
            yield "kube_pod_container_status_waiting_reason", _labels(**named, reason=reason), 1


def _node_lines(node: dict[str, Any]) -> Iterator[Line]:
    name = node["metadata"]["name"]
    yield "kube_node_spec_unschedulable", _labels(node=name), float(node["spec"].get("unschedulable", False))
    for kind in ("capacity", "allocatable"):
        for resource, amount in node["status"][kind].items():
            if not resource.startswith(("cpu", "memory", "nvidia.com/")):
                continue
            spelled = resource.replace("nvidia.com/", "nvidia_com_").replace("-", "_").replace(".", "_")
            yield f"kube_node_status_{kind}", _labels(node=name, resource=spelled), quantity(amount)
    for condition in node["status"]["conditions"]:
        if condition["type"] == "Ready":
            for status in ("true", "false", "unknown"):
                labels = _labels(node=name, condition="Ready", status=status)
                yield "kube_node_status_condition", labels, float(condition["status"].lower() == status)


def _labels(**labels: str) -> str:
    return ",".join(f'{name}="{value}"' for name, value in labels.items() if value)


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
