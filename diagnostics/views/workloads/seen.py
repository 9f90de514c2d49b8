"""A workload as the last poll saw it: its pods counted, and the GPUs that they hold."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from diagnostics.models import Cluster, StoredPicture
from diagnostics.picture import Devices, GpuCell, Owner, PodLine, WorkloadLine, Workloads
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


class Pods(NamedTuple):
    """A workload's pods, counted."""

    running: int
    waiting: int
    """Without a node."""
    succeeded: int
    unfinished: int
    asked: int
    """Devices that the unfinished ask for."""
    claims: int
    """Resource claims of the unfinished, whose devices are not known."""
    since: datetime | None
    """Creation of the oldest that has not finished, or of the oldest of all."""


def counted(pods: Iterable[PodLine]) -> Pods:
    """In one pass: a page counts ten thousand."""
    running = waiting = succeeded = unfinished = asked = claims = 0
    oldest: datetime | None = None
    oldest_finished: datetime | None = None
    for pod in pods:
        created = pod.created_at
        if pod.is_finished:
            succeeded += pod.phase == "Succeeded"
            if created and (oldest_finished is None or created < oldest_finished):
                oldest_finished = created
            continue
        unfinished += 1
        running += pod.phase == "Running" and pod.deletion_at is None
        waiting += pod.is_waiting
        asked += pod.gpu_count
        claims += pod.claims
        if created and (oldest is None or created < oldest):
            oldest = created
    return Pods(running, waiting, succeeded, unfinished, asked, claims, oldest or oldest_finished)


@dataclass(frozen=True)
class Seen:
    """One workload of the picture."""

    line: WorkloadLine
    held: tuple[Held, ...]
    pods: Pods

    @property
    def owner(self) -> Owner:
        return self.line.owner

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """On which its unfinished pods are, or whose devices it holds."""
        bound = {pod.node for pod in self.line.pods if pod.node and not pod.is_finished}
        return tuple(sorted(bound | {held.node for held in self.held}))

    @cached_property
    def phase(self) -> Phase:
        if not self.line.pods:
            return Phase.UNKNOWN
        pods, wanted = self.pods, self.line.wanted
        if not pods.unfinished:
            return Phase.FINISHED
        if pods.running:
            done = pods.running + pods.succeeded
            is_short = pods.running < pods.unfinished or (wanted is not None and done < wanted)
            return Phase.PARTLY if is_short else Phase.RUNNING
        return Phase.WAITING if pods.waiting == pods.unfinished else Phase.STARTING

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
    return tuple(
        Seen(line, tuple(held.get(line.owner, ())), counted(line.pods)) for line in sight.workloads.lines
    )


def _held_by_owner(devices: Devices | None) -> dict[Owner, list[Held]]:
    if devices is None:
        return {}
    by_place: dict[int, list[Held]] = defaultdict(list)
    for node in devices.nodes:
        for cell in node.gpus:
            for place in dict.fromkeys(cell.owners):  # two pods of it may share one device
                by_place[place].append(Held(node.name, cell))
    return {devices.owners[place]: held for place, held in by_place.items()}
