"""A workload as the last poll saw it: its pods counted, and the GPUs that they hold."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from diagnostics.models import Cluster, StoredPicture
from diagnostics.picture import Devices, GpuCell, NodeLine, Owner, PodLine, WorkloadLine, Workloads
from diagnostics.snapshot import State
from diagnostics.views.latest import NOTHING_YET, read_devices, read_workloads


class Phase(StrEnum):
    """How far a workload has come, by its pods."""

    RUNNING = "running"
    PARTLY = "partly running"
    CRASHING = "crash-looping"
    """None runs, and some crash again and again."""
    STARTING = "starting"
    WAITING = "waiting"
    TERMINATING = "terminating"
    """All that are left are being deleted."""
    FINISHED = "finished"
    UNKNOWN = "unknown"
    """Only the metrics know of it: none of its pods was read."""


class Held(NamedTuple):
    """The devices that it holds on one node."""

    node: NodeLine
    cells: list[GpuCell]


class Mean(NamedTuple):
    """Over the devices of which the value is known."""

    ratio: float
    measured: int


class Pods(NamedTuple):
    """A workload's pods, counted."""

    running: int
    """Neither crash-looping nor being deleted."""
    waiting: int
    """Without a node."""
    crashing: int
    terminating: int
    """Being deleted, and still there."""
    succeeded: int
    unfinished: int
    asked: int
    """Devices that the unfinished ask for."""
    claims: int
    """Resource claims of the unfinished, whose devices are not known."""
    since: datetime | None
    """Creation of the oldest that has not finished, or of the oldest of all."""

    @property
    def beside(self) -> str:
        """What follows the number that run: `, 1 wait, 2 crash-loop`; empty where all do."""
        parts = ((self.waiting, "wait"), (self.crashing, "crash-loop"), (self.terminating, "terminating"))
        return "".join(f", {number} {word}" for number, word in parts if number)


def counted(pods: Iterable[PodLine]) -> Pods:
    """In one pass: a page counts ten thousand."""
    running = waiting = crashing = terminating = succeeded = unfinished = asked = claims = 0
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
        if pod.deletion_at is not None:
            terminating += 1
        elif pod.is_crash_looping:
            crashing += 1
        else:
            running += pod.phase == "Running"
            waiting += pod.is_waiting
        asked += pod.gpu_count
        claims += pod.claims
        if created and (oldest is None or created < oldest):
            oldest = created
    since = oldest or oldest_finished
    return Pods(running, waiting, crashing, terminating, succeeded, unfinished, asked, claims, since)


@dataclass(frozen=True)
class Seen:
    """One workload of the picture."""

    line: WorkloadLine
    held: list[Held]
    """In the order of the picture."""

    @property
    def owner(self) -> Owner:
        return self.line.owner

    @cached_property
    def pods(self) -> Pods:
        return counted(self.line.pods)

    @cached_property
    def cells(self) -> list[GpuCell]:
        """All devices that it holds."""
        return [cell for held in self.held for cell in held.cells]

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """On which its unfinished pods are, or whose devices it holds."""
        bound = {pod.node for pod in self.line.pods if pod.node and not pod.is_finished}
        return tuple(sorted(bound | {held.node.name for held in self.held}))

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
        if pods.terminating == pods.unfinished:
            return Phase.TERMINATING
        if pods.crashing:
            return Phase.CRASHING
        return Phase.WAITING if pods.waiting == pods.unfinished else Phase.STARTING

    @cached_property
    def states(self) -> Mapping[State | None, int]:
        """State -> devices; None for those that were not evaluated or could not be judged."""
        return Counter(None if cell.is_unjudged else cell.state for cell in self.cells)

    @cached_property
    def utilization(self) -> Mean | None:
        return mean(cell.utilization_ratio for cell in self.cells)

    @cached_property
    def activity(self) -> Mean | None:
        return mean(cell.activity_ratio for cell in self.cells)


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


def all_seen(sight: Sight) -> list[Seen]:
    """Every workload of the picture, in its order."""
    if sight.workloads is None:
        return []
    lines = sight.workloads.lines
    held: list[list[Held]] = [[] for _ in lines]
    for node in sight.devices.nodes if sight.devices else ():
        of_node: dict[int, list[GpuCell]] = {}
        for cell in node.gpus:
            # Two pods of one workload may share a device.
            for place in cell.owners if len(cell.owners) < 2 else dict.fromkeys(cell.owners):
                of_node.setdefault(place, []).append(cell)
        for place, cells in of_node.items():
            held[place].append(Held(node, cells))
    return [Seen(line, of_line) for line, of_line in zip(lines, held, strict=True)]


def seen_of(sight: Sight, owner: Owner) -> Seen | None:
    """One workload of the picture; None where it is not there."""
    lines = sight.workloads.lines if sight.workloads else ()
    place = next((place for place, line in enumerate(lines) if line.owner == owner), None)
    if place is None:
        return None
    nodes = sight.devices.nodes if sight.devices else ()
    held = ((node, [cell for cell in node.gpus if place in cell.owners]) for node in nodes)
    return Seen(lines[place], [Held(node, cells) for node, cells in held if cells])
