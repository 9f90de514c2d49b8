"""What is free on each node, in the scheduler's arithmetic: allocatable minus what bound, unfinished pods ask for."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

from diagnostics.snapshot import Node, Past, Pod, Snapshot

ROUNDING = 1e-6
"""CPU is summed in fractions of a core."""
_NVIDIA_PCI = tuple(
    f"feature.node.kubernetes.io/{name}.present" for name in ("pci-10de", "pci-0302_10de", "pci-0300_10de")
)


class Scope(StrEnum):
    """Within what a request must find all of its GPUs."""

    HOST = "host"
    NVLINK = "nvlink domain"
    RACK = "rack"


class Room(msgspec.Struct, frozen=True):
    """One node, what is free on it, and who holds the rest."""

    node: Node
    free: dict[str, float]
    """Resource -> amount; `pods` counts pods. Negative where more is held than is allocatable."""
    holders: tuple[Pod, ...] = ()
    """Pods that count, those with GPUs first."""

    def lacks(self, requests: Mapping[str, float]) -> dict[str, float]:
        """Resource -> missing amount for one more pod; empty when it fits.

        A node that says nothing of CPU, memory or pods is not short of them; of a device it has none.
        """
        missing = {}
        for name, amount in {**requests, "pods": 1.0}.items():
            if name not in self.free and "/" not in name and not name.startswith("hugepages-"):
                continue
            short = amount - self.free.get(name, 0.0)
            if amount > 0 and short > ROUNDING:
                missing[name] = short
        return missing

    def takes(self, requests: Mapping[str, float]) -> int:
        """How many pods of these requests fit beside the holders."""
        counts = [
            int((self.free.get(name, 0.0) + ROUNDING) // amount)
            for name, amount in {**requests, "pods": 1.0}.items()
            if amount > 0 and (name in self.free or "/" in name or name.startswith("hugepages-"))
        ]
        return max(0, min(counts)) if counts else 0

    def without(self, keys: Iterable[str]) -> "Room":
        """The same node as if the pods with these keys (`namespace/name`) were gone."""
        gone = frozenset(keys)
        leaving = [pod for pod in self.holders if pod.key in gone]
        if not leaving:
            return self
        free = dict(self.free)
        for pod in leaving:
            give_back(free, pod)
        return Room(self.node, free, tuple(pod for pod in self.holders if pod.key not in gone))

    def free_before(self, name: str, moment: datetime) -> float:
        """What was free of a resource without the pods that were scheduled at or after `moment`.

        Pods that have finished since are gone from the picture, so that this is a lower bound.
        """
        return self.free_without(name, [pod for pod in self.holders if _scheduled_since(pod, moment)])

    def free_without(self, name: str, leaving: Iterable[Pod]) -> float:
        """What would be free of a resource if these holders left."""
        return self.free.get(name, 0.0) + sum(pod.effective_requests.get(name, 0.0) for pod in leaving)

    def emptied(self) -> "Room":
        """The node without any pod."""
        return Room(self.node, self.node.allocatable)


def give_back(free: dict[str, float], pod: Pod) -> None:
    """Add what the pod holds to `free`, in place."""
    for name, amount in pod.effective_requests.items():
        if name in free:
            free[name] += amount
    if "pods" in free:
        free["pods"] += 1


def rooms(snapshot: Snapshot) -> dict[str, Room]:
    """Room of every node, by name."""
    return {node.name: room_of(node, snapshot.pods_by_node.get(node.name, ())) for node in snapshot.nodes}


def room_of(node: Node, holders: Iterable[Pod]) -> Room:
    """The node with these pods, the finished ones not counted."""
    kept = sorted((p for p in holders if not p.is_finished), key=lambda p: (-p.gpu_count, p.key))
    free = dict(node.allocatable)
    for pod in kept:
        for name, amount in pod.effective_requests.items():
            if name in free:
                free[name] -= amount
        if "pods" in free:
            free["pods"] -= 1
    return Room(node, free, tuple(kept))


def _scheduled_since(pod: Pod, moment: datetime) -> bool:
    scheduled = pod.condition("PodScheduled")
    since = scheduled.since if scheduled is not None and scheduled.status == "True" else None
    return since is not None and since >= moment


def fitted(node: Node, resource: str, past: Past | None = None) -> float | None:
    """GPUs of the node in units of `resource`, sick ones included; None: at least one, number unknown.

    max(capacity, feature discovery's count x replicas, most that was ever seen x replicas). Device plugins lower
    allocatable for an unhealthy device and leave capacity; a plugin that is gone may leave both at 0.
    """
    known = node.capacity.get(resource, 0.0)
    is_shared = "nvidia.com/gpu.shared" in node.capacity and not node.capacity.get("nvidia.com/gpu")
    counted = "nvidia.com/gpu.shared" if is_shared else "nvidia.com/gpu"
    if resource == counted and not any("/mig-" in name for name in node.capacity):
        seen = past.fitted.get(node.name, 0) if past is not None else 0
        known = max(known, max(node.gpu_count_label or 0, seen) * node.gpu_replicas)
        if not known and any(node.labels.get(label) == "true" for label in _NVIDIA_PCI):
            return None
    return known


def is_fragmented(free: Iterable[float], need: float) -> bool:
    """Together there is enough, on no single node is there."""
    pieces = [amount for amount in free if amount > 0]
    return bool(pieces) and sum(pieces) >= need > max(pieces)


def slots(
    given: Iterable[Room], size: int, scope: Scope = Scope.HOST, resource: str = "nvidia.com/gpu"
) -> int:
    """How many requests of `size` GPUs fit now, each within one host, NVLink domain or rack.

    Nodes that are cordoned or not Ready give nothing. A node without a label for the scope stands alone.
    """
    free: dict[str, float] = defaultdict(float)
    for room in given:
        node = room.node
        if node.unschedulable or node.is_ready is False:
            continue
        place = {Scope.HOST: None, Scope.NVLINK: node.nvlink_domain, Scope.RACK: node.rack}[scope]
        key = f"{scope}/{place}" if place else f"node/{node.name}"
        free[key] += max(0.0, room.free.get(resource, 0.0))
    return sum(int(amount // size) for amount in free.values()) if size > 0 else 0
