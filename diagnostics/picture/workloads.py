"""Workloads whose pods ask for GPUs, with these pods, in a line each."""

from datetime import datetime

import msgspec

from diagnostics.picture.devices import Owner


class ReachLine(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Where a waiting pod may run, whatever is free there (`placement.Reach`)."""

    resource: str
    """The GPU resource of which it asks for most."""
    offering: int
    """Nodes that have all GPU resources that it asks for."""
    admitting: int
    """Of these, those that its selector, affinity and tolerations admit, and that are up."""
    free: int
    """Of the resource, on those that admit it."""
    most: int
    """On one of them."""


class DemandLine(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What some pods demand of a node, in words; empty for nothing."""

    pods: int
    """That demand it, and have not finished."""
    selector: str
    affinity: str
    beside: str
    """Required affinity and anti-affinity to other pods."""
    tolerates: str


class PodLine(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One pod that asks for GPUs."""

    name: str
    phase: str
    node: str | None
    gpus: dict[str, float]
    """What it asks for, by resource name."""
    claims: int
    """Resource claims (DRA) whose devices are not known; those that are known count among `gpus`."""
    created_at: datetime | None
    started_at: datetime | None
    deletion_at: datetime | None
    """deletionTimestamp: the request plus the grace period."""
    is_ready: bool
    restarts: int
    trouble: str
    """Why it does not work or was not scheduled, as Kubernetes says it; empty where it says nothing."""
    is_crash_looping: bool = False
    """A container of it crashes again and again, also while it runs between two crashes."""
    reach: ReachLine | None = None
    """Of a pod that waits for GPUs by resource; None for others, and where nodes could not be read."""

    @property
    def is_waiting(self) -> bool:
        """Pending without a node, and not being deleted."""
        return self.phase == "Pending" and self.node is None and self.deletion_at is None

    @property
    def gpu_count(self) -> int:
        """Devices, MIG instances or shares that it asks for, over all resource names."""
        return int(sum(self.gpus.values()))

    @property
    def is_finished(self) -> bool:
        return self.phase in {"Succeeded", "Failed"}


class WorkloadLine(msgspec.Struct, frozen=True, array_like=True):
    """One root owner of pods that ask for GPUs."""

    owner: Owner
    pods: tuple[PodLine, ...]
    wanted: int | None
    """Pods that it wants at once; None where nothing says."""
    min_available: int | None
    """Pods that a gang scheduler waits for; None without one."""
    gang_scheduler: str
    system: str
    """What groups its pods to a gang; empty for pods that work alone."""
    collective: str
    """The evidence that its pods talk to each other, in words; empty for independent ones."""
    queue: str
    """Of Kueue, Volcano or YuniKorn, as its labels or annotations name it; empty without one."""
    priority: int | None
    gang: Owner | None = None
    """What groups its pods with others where that is not the owner itself, as a PodGroup of bare pods."""
    demands: tuple[DemandLine, ...] = ()
    """What its unfinished pods demand of a node: the commonest, and those without any demand."""


class Workloads(msgspec.Struct, frozen=True, array_like=True):
    """All of them, by kind, namespace and name."""

    taken_at: datetime
    lines: tuple[WorkloadLine, ...]
    doubt: str
    """Why pods may be missing, in a sentence; empty when all were read."""
