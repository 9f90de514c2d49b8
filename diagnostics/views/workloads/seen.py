"""A workload as the last poll saw it: its pods counted, and the GPUs that they hold."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from diagnostics.models import Cluster, StoredPicture
from diagnostics.picture import Devices, GpuCell, Owner, WorkloadLine, Workloads
from diagnostics.snapshot import State
from diagnostics.views.latest import NOTHING_YET, read_devices, read_workloads


class Phase(StrEnum):
    """How far a workload has come, by its pods."""

    RUNNING = "running"
    PARTLY = "partly running"
    STARTING = "starting"
    WAITING = "waiting"
    FINISHED = "finished"
    UNKNOWN = "unknown"
    """Only the metrics know of it: none of its pods was read."""


class Held(NamedTuple):
    """One device that it holds, and where."""

    node: str
    cell: GpuCell

    @property
    def slot(self) -> str:
        return f"{self.node}/{self.cell.place}"


class Mean(NamedTuple):
    """Over the devices of which the value is known."""

    ratio: float
    measured: int


@dataclass(frozen=True)
class Seen:
    """One workload of the picture."""

    line: WorkloadLine
    held: tuple[Held, ...]

    @property
    def owner(self) -> Owner:
        return self.line.owner

    @cached_property
    def running(self) -> int:
        """Pods that run."""
        return sum(pod.phase == "Running" and pod.deletion_at is None for pod in self.line.pods)

    @cached_property
    def waiting(self) -> int:
        """Pods without a node."""
        return sum(pod.is_waiting for pod in self.line.pods)

    @cached_property
    def unfinished(self) -> int:
        return sum(not pod.is_finished for pod in self.line.pods)

    @cached_property
    def asked(self) -> int:
        """Devices that its unfinished pods ask for."""
        return sum(pod.gpu_count for pod in self.line.pods if not pod.is_finished)

    @cached_property
    def claims(self) -> int:
        """Resource claims of its unfinished pods, whose devices are not known."""
        return sum(pod.claims for pod in self.line.pods if not pod.is_finished)

    @cached_property
    def since(self) -> datetime | None:
        """Creation of its oldest unfinished pod, or of its oldest one."""
        pods = [pod for pod in self.line.pods if not pod.is_finished] or self.line.pods
        return min((pod.created_at for pod in pods if pod.created_at), default=None)

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """On which its unfinished pods are, or whose devices it holds."""
        bound = {pod.node for pod in self.line.pods if pod.node and not pod.is_finished}
        return tuple(sorted(bound | {held.node for held in self.held}))

    @cached_property
    def phase(self) -> Phase:
        if not self.line.pods:
            return Phase.UNKNOWN
        if not self.unfinished:
            return Phase.FINISHED
        if self.running:
            wanted = self.line.wanted
            is_short = self.running < self.unfinished or (wanted is not None and self._present < wanted)
            return Phase.PARTLY if is_short else Phase.RUNNING
        return Phase.WAITING if self.waiting == self.unfinished else Phase.STARTING

    @property
    def _present(self) -> int:
        """Pods that run or have done their part."""
        return self.running + sum(pod.phase == "Succeeded" for pod in self.line.pods)

    @cached_property
    def states(self) -> Mapping[State | None, int]:
        """State -> devices; None for those that were not evaluated or could not be judged."""
        return Counter(None if held.cell.is_unjudged else held.cell.state for held in self.held)

    @cached_property
    def utilization(self) -> Mean | None:
        return mean(held.cell.utilization_ratio for held in self.held)

    @cached_property
    def activity(self) -> Mean | None:
        return mean(held.cell.activity_ratio for held in self.held)


def mean(values: Iterable[float | None]) -> Mean | None:
    """None where nothing is known: that is not zero."""
    known = [value for value in values if value is not None]
    return Mean(round(sum(known) / len(known), 4), len(known)) if known else None


class Sight(NamedTuple):
    """The latest picture, and what is doubtful about it."""

    devices: Devices | None
    workloads: Workloads | None
    doubt: str
    """Why pods are missing or may be; empty when all were read."""
    devices_doubt: str
    """Why nodes and GPUs are missing or may be."""


def sight_of(cluster: Cluster) -> Sight:
    """Both halves of the same poll. One query."""
    row = StoredPicture.objects.filter(cluster=cluster).first()
    if row is None:
        return Sight(None, None, NOTHING_YET, NOTHING_YET)
    devices, devices_doubt = read_devices(row.devices)
    workloads, doubt = read_workloads(row.workloads)
    return Sight(devices, workloads, doubt, devices_doubt)


def all_seen(sight: Sight) -> tuple[Seen, ...]:
    """Every workload of the picture, in its order."""
    if sight.workloads is None:
        return ()
    held = _held_by_owner(sight.devices)
    return tuple(Seen(line, tuple(held.get(line.owner, ()))) for line in sight.workloads.lines)


def _held_by_owner(devices: Devices | None) -> dict[Owner, list[Held]]:
    if devices is None:
        return {}
    by_place: dict[int, list[Held]] = defaultdict(list)
    for node in devices.nodes:
        for cell in node.gpus:
            for place in dict.fromkeys(cell.owners):  # two pods of it may share one device
                by_place[place].append(Held(node.name, cell))
    return {devices.owners[place]: held for place, held in by_place.items()}
