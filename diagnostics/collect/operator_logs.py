"""Which containers of the GPU Operator are worth reading: those that fail, and those that know why a node is not well.

A device plugin that finds no driver, and a MIG manager that cannot apply a layout, run on and only say so in their log.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta

from diagnostics.operator_components import COMPONENTS, ORDER, component_label
from diagnostics.snapshot import Container, Node, Pod, gpu_resources

MOST_PODS = 24
"""Operator pods that are read at most in one poll (ours): a driver that fails fails alike on every node."""
MOST_OF_NODE = 3
SETTLED_AFTER = timedelta(minutes=3)
"""A younger pod is starting."""
_MIG_STATES = {"failed", "pending", "rebooting"}


def operator_containers(
    pods: Iterable[Pod], nodes: Iterable[Node], now: datetime
) -> list[tuple[Pod, frozenset[str]]]:
    """Operator pods to read, each with the names of its containers, one node's after the other's.

    Of each node the first ones in the order in which the components wait for each other.
    """
    by_name = {node.name: node for node in nodes}
    by_node: dict[str, list[tuple[int, str, Pod, frozenset[str]]]] = defaultdict(list)
    for pod in pods:
        label = component_label(pod)
        if label is None or pod.phase == "Succeeded" or pod.deletion_at is not None or not pod.node:
            continue
        if pod.created_at is not None and now - pod.created_at < SETTLED_AFTER:
            continue
        names = _worth_reading(pod, COMPONENTS[label], by_name.get(pod.node))
        if names:
            by_node[pod.node].append((ORDER[label], pod.name, pod, names))
    found: list[tuple[Pod, frozenset[str]]] = []
    for place in range(MOST_OF_NODE):
        for node in sorted(by_node):
            rows = sorted(by_node[node], key=lambda row: row[:2])
            found += [(pod, names) for _, _, pod, names in rows[place : place + 1]]
    return found[:MOST_PODS]


def _worth_reading(pod: Pod, component: str, node: Node | None) -> frozenset[str]:
    unwell = frozenset(container.name for container in pod.containers if _has_log_of_failure(container))
    if unwell or node is None:
        return unwell
    own = frozenset(c.name for c in pod.containers if not c.is_init and c.state == "running")
    if component == "MIG manager" and node.labels.get("nvidia.com/mig.config.state") in _MIG_STATES:
        return own
    if component == "device plugin" and (not gpu_resources(node.allocatable) or is_short(node)):
        return own
    return frozenset()


def is_short(node: Node) -> bool:
    """Less of a GPU resource is allocatable than the kubelet counts, or than feature discovery saw fitted: the plugin's
    log says which GPU was given up."""
    if any(node.allocatable.get(name, 0.0) < amount for name, amount in gpu_resources(node.capacity).items()):
        return True
    whole = node.allocatable.get("nvidia.com/gpu", 0.0) / node.gpu_replicas
    has_mig = any("/mig-" in name for name in node.capacity)
    return not has_mig and whole < (node.gpu_count_label or 0)


def _has_log_of_failure(container: Container) -> bool:
    if container.state == "waiting":
        return container.restarts > 0 or container.last_terminated is not None
    if container.terminated is not None:
        return container.terminated.exit_code not in (0, None)
    if (
        container.restarts > 1
        and container.last_terminated is not None
        and container.last_terminated.exit_code
    ):
        return True  # between two crashes it may well be ready
    is_stuck_init = container.is_init and not container.is_sidecar
    return container.state == "running" and (is_stuck_init or not container.is_ready)
