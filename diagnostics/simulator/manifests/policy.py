"""Quotas, limit ranges, network policies, endpoints, classes of runtime and priority, disruption budgets."""

from collections import Counter
from collections.abc import Iterable

from diagnostics.simulator.classes import PRIORITIES, RUNTIMES
from diagnostics.simulator.identity import uuid_of
from diagnostics.simulator.manifests import metadata as meta
from diagnostics.simulator.timestamps import DAY
from diagnostics.simulator.workloads import Json, SimPod, Workload
from diagnostics.simulator.world import World

LIMITS = {"type": "Container", "max": {"memory": "1500Gi"}, "min": {"cpu": "10m"}}
"""Of every namespace with a quota."""


def quotas(world: World) -> list[Json]:
    """What is used follows from the pods."""
    found = []
    for namespace, hard in sorted(world.quotas.items()):
        used = _used(p for p in world.pods if p.namespace == namespace and p.state.holds)
        status = {"hard": hard, "used": {name: str(used.get(name, 0)) for name in hard}}
        body = _object(world, "ResourceQuota", "team", namespace)
        found.append(body | {"spec": {"hard": hard}, "status": status})
    return found


def _used(pods: Iterable[SimPod]) -> Counter[str]:
    used: Counter[str] = Counter()
    for pod in pods:
        template = pod.workload.template
        used["pods"] += 1
        used[f"requests.{template.device_resource}"] += template.device_count
        used["requests.cpu"] += int(template.cpu_cores)
    return used


def limit_ranges(world: World) -> list[Json]:
    return [
        _object(world, "LimitRange", "containers", namespace) | {"spec": {"limits": [LIMITS]}}
        for namespace in sorted(world.quotas)
    ]


def runtime_classes(world: World) -> list[Json]:
    return [_object(world, "RuntimeClass", name) | {"handler": name} for name in RUNTIMES]


def priority_classes(world: World) -> list[Json]:
    return [
        _object(world, "PriorityClass", name) | {"value": value, "preemptionPolicy": policy}
        for name, (value, policy) in PRIORITIES.items()
    ]


def network_policies(world: World) -> list[Json]:
    """Only the gateway may call the model servers of its namespace."""
    peers = [{"podSelector": {"matchLabels": {"app": "gateway"}}}]
    return [
        _object(world, "NetworkPolicy", w.name, w.namespace)
        | {
            "spec": {
                "podSelector": {"matchLabels": {"app": w.name}},
                "ingress": [{"from": peers, "ports": [{"protocol": "TCP", "port": w.service_port}]}],
                "policyTypes": ["Ingress"],
            }
        }
        for w in world.workloads
        if w.namespace == "serving" and w.service_port
    ]


def endpoint_slices(world: World) -> list[Json]:
    """One a Service: its pods that have an address, headless ones also while they are not ready."""
    members: dict[str, list[SimPod]] = {}
    for pod in world.pods:
        if pod.node and pod.state.holds:
            members.setdefault(pod.workload.uid, []).append(pod)
    return [_slice(world, w, members.get(w.uid, [])) for w in world.workloads if w.service_port]


def _slice(world: World, workload: Workload, pods: list[SimPod]) -> Json:
    body = _object(world, "EndpointSlice", workload.name, workload.namespace)
    body["metadata"]["labels"] = {"kubernetes.io/service-name": workload.name}
    is_headless = workload.kind in ("Job", "StatefulSet")
    return body | {
        "addressType": "IPv4",
        "endpoints": [_endpoint(pod, is_headless=is_headless) for pod in pods] or None,
        "ports": [
            {"name": "rdzv" if is_headless else "http", "port": workload.service_port, "protocol": "TCP"}
        ],
    }


def _endpoint(pod: SimPod, *, is_headless: bool) -> Json:
    is_ready = pod.state.is_ready and pod.state.deleted is None
    return {
        "addresses": [pod.address],
        "conditions": {
            "ready": is_ready or is_headless,
            "serving": is_ready,
            "terminating": pod.state.deleted is not None,
        },
        "nodeName": pod.node,
        "targetRef": {"kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
    }


def budgets(world: World) -> list[Json]:
    """One for each server of several replicas: all but one must stay."""
    ready: Counter[str] = Counter(p.workload.uid for p in world.pods if p.state.is_ready)
    found = []
    for w in world.workloads:
        if w.kind != "Deployment" or w.namespace != "serving" or w.replicas < 2:
            continue
        healthy, wanted = ready[w.uid], w.replicas - 1
        status = {"disruptionsAllowed": max(0, healthy - wanted), "currentHealthy": healthy}
        status |= {"desiredHealthy": wanted, "expectedPods": w.replicas, "observedGeneration": 1}
        spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": w.name}}}
        body = _object(world, "PodDisruptionBudget", w.name, w.namespace)
        found.append(body | {"spec": spec, "status": status})
    return found


def _object(world: World, kind: str, name: str, namespace: str = "") -> Json:
    uid = uuid_of(world.config.seed, kind, namespace, name)
    return {"metadata": meta.metadata(name, namespace, uid, world.before(40 * DAY), 0)}
