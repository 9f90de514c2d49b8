"""Nodes with GPUs and their devices, in a line each."""

from datetime import datetime

import msgspec

from diagnostics.snapshot import State


class Owner(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A root owner of pods with GPUs; others name it by its place in the list of owners."""

    kind: str
    namespace: str
    name: str


class GpuCell(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One schedulable device."""

    name: str
    """`GPU 3`, as nvidia-smi numbers it, or the end of its slot."""
    place: str
    """Its slot without the node: PCI address, instance, or the number of an unnamed place."""
    state: State | None
    is_unjudged: bool
    owners: tuple[int, ...]
    """Whose pods hold it: places in the list of owners, one per holder."""
    holders: tuple[str, ...]
    """Keys (`namespace/name`) of the pods that hold it."""
    resource: str
    """MIG profile where it has one."""
    replicas: int
    utilization_ratio: float | None
    """The last samples: None where not collected or too old to stand for this poll."""
    activity_ratio: float | None
    """max(SM_ACTIVE, DRAM_ACTIVE / 0.8)."""
    memory_ratio: float | None
    """Used of the total, as nvidia-smi counts both."""
    temperature_c: float | None
    power_w: float | None


class NodeLine(msgspec.Struct, frozen=True, array_like=True):
    """One node that has, had or should have GPUs."""

    name: str
    rack: str | None
    zone: str | None
    nvlink_domain: str | None
    model: str | None
    driver: str | None
    readiness: bool | None
    """None where the node has no Ready condition."""
    is_cordoned: bool
    troubles: tuple[str, ...]
    """What it says against itself, in words."""
    allocatable: int | None
    """Devices that it offers to the scheduler, shares counted as the devices that they are shares of; None where it
    says nothing of GPUs."""
    created_at: datetime | None
    gpus: tuple[GpuCell, ...]
    """In the order of nvidia-smi, those without a number last."""


class Devices(msgspec.Struct, frozen=True, array_like=True):
    """All of them, by name of the node."""

    taken_at: datetime
    nodes: tuple[NodeLine, ...]
    owners: tuple[Owner, ...]
    """The same, in the same order, as `Workloads.lines`."""
    doubt: str
    """Why nodes may be missing, in a sentence; empty when all were read."""
    metrics_doubt: str
    """Why measured values are missing or old; empty when they are not."""
