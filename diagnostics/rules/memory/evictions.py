"""What the kubelet said when it evicted a pod, read from the pod's status: a cause and the amounts. Pure.

Texts: kubernetes pkg/kubelet/eviction (helpers.go, eviction_manager.go), as of 1.36.
"""

import re
from datetime import datetime

import msgspec

from diagnostics.quantities import quantity
from diagnostics.snapshot import Pod, Snapshot

POD_LIMIT = "ephemeral-storage-limit-exceeded"
VOLUME_LIMIT = "emptydir-size-limit-exceeded"
NODE_DISK = "node-disk-pressure"
NODE_MEMORY = "node-memory-pressure"

_VOLUME = re.compile(
    r'Usage of EmptyDir volume "(?P<volume>[^"]{1,253})" exceeds the limit "(?P<limit>[^"]{1,40})"'
)
_CONTAINER = re.compile(
    r"Container (?P<container>\S{1,253}) exceeded its local ephemeral storage limit \"(?P<limit>[^\"]{1,40})\""
)
_POD = re.compile(
    r"[Ee]phemeral local storage usage exceeds the total limit of containers (?P<limit>[\w.]{1,40}?)\.?(?:\s|$)"
)
_NODE = re.compile(r"low on resource: \[?(?P<resources>[a-z][a-z -]{1,80}?)\]?[.,](?:\s|$)")
_CONDITION = re.compile(r"The node had condition: \[(?P<conditions>[\w ,]{1,120})\]")
_THRESHOLD = re.compile(
    r"Threshold quantity: (?P<threshold>[\w.]{1,40}), available: (?P<available>[\w.]{1,40}?)\.(?:\s|$)"
)
_USER = re.compile(
    r"Container (?P<container>\S{1,253}) was using (?P<used>[\w.]{1,40}), (?:request is|which exceeds its request of)"
)
_DISKS = ("ephemeral-storage", "inodes", "imagefs", "nodefs", "containerfs")


class Eviction(msgspec.Struct, frozen=True, kw_only=True):
    """One pod's eviction, as its status tells it."""

    cause: str
    volume: str = ""
    container: str = ""
    limit_bytes: float | None = None
    used_bytes: float | None = None
    """By the container that the kubelet names as the largest."""
    at: datetime | None = None


def eviction_of(snapshot: Snapshot, pod: Pod) -> Eviction | None:
    """Why the kubelet evicted a pod; None where it did not, or for something else than disk and memory (pids)."""
    if pod.phase != "Failed" or pod.reason != "Evicted":
        return None
    told, at = pod.message, _evicted_at(snapshot, pod)
    if found := _VOLUME.search(told):
        limit = _bytes(found["limit"])
        return Eviction(cause=VOLUME_LIMIT, volume=found["volume"], limit_bytes=limit, at=at)
    if found := _CONTAINER.search(told):
        limit = _bytes(found["limit"])
        return Eviction(cause=POD_LIMIT, container=found["container"], limit_bytes=limit, at=at)
    if found := _POD.search(told):
        return Eviction(cause=POD_LIMIT, limit_bytes=_bytes(found["limit"]), at=at)
    conditions, resources = _CONDITION.search(told), _NODE.search(told)
    cause = ""
    if resources is not None:
        cause = NODE_DISK if any(word in resources["resources"] for word in _DISKS) else cause
        cause = NODE_MEMORY if "memory" in resources["resources"].split() else cause
    elif conditions is not None:
        cause = NODE_DISK if "DiskPressure" in conditions["conditions"] else cause
        cause = NODE_MEMORY if "MemoryPressure" in conditions["conditions"] else cause
    if not cause:
        return None
    user = _USER.search(told)
    return Eviction(
        cause=cause,
        container=user["container"] if user else "",
        used_bytes=_bytes(user["used"]) if user else None,
        at=at,
    )


def _evicted_at(snapshot: Snapshot, pod: Pod) -> datetime | None:
    """From the pod's own condition, its containers' ends, or the kubelet's event; None where nothing says."""
    disrupted = pod.condition("DisruptionTarget")
    if disrupted is not None and disrupted.since is not None:
        return disrupted.since
    ends = [c.terminated.finished_at for c in pod.containers if c.terminated and c.terminated.finished_at]
    events = snapshot.events_by_object.get(("Pod", pod.namespace, pod.name), ())
    ends += [e.last_at for e in events if e.reason == "Evicted" and e.last_at and e.uid in ("", pod.uid)]
    return max(ends, default=None)


def _bytes(text: str) -> float | None:
    try:
        return quantity(text)
    except ValueError:
        return None
