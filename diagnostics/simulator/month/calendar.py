"""What a month is made of: pods' stays on GPUs, their runs, and the lives of nodes and boards."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from diagnostics.simulator.workloads import PodTemplate

HOUR_S, DAY_S = 3600, 86_400
DAYS = 31
"""Thirty days, and one more for whoever looks at the last of them a while later."""
NEVER = 10**9
LINGERS_S = 1800
"""The pods of a Job that has ended stay listed for this long."""
CRASH_RUN_S = 20
"""So long runs a program whose pod crash-loops."""
GRACE_S = 30


class Span(NamedTuple):
    """From `start` until before `end`."""

    start: int
    end: int

    def has(self, t: int) -> bool:
        return self.start <= t < self.end

    def meets(self, start: int, end: int) -> bool:
        return self.start < end and start < self.end


def during(spans: Sequence[Span], t: int) -> Span | None:
    """The span that has this second."""
    return next((span for span in spans if span.has(t)), None)


class Slot(NamedTuple):
    """A place that holds one device: a whole board, or one MIG instance of it."""

    node: str
    board: int
    """Index of the board in its node."""
    instance: int = -1
    """Number of the MIG instance on its board; -1: the whole board."""


class Trouble(StrEnum):
    """What is wrong with a pod that holds GPUs."""

    NONE = ""
    CRASH_LOOP = "crash loop"
    PULL = "image pull"


@dataclass(frozen=True, slots=True)
class Stay:
    """One pod, from its creation until its object is gone."""

    key: str
    slots: tuple[Slot, ...]
    created: int
    bound: int
    """It waits for a node until then, and holds its GPUs from then on."""
    ready: int
    ended: int
    """It holds nothing from here on."""
    gone: int
    is_failed: bool = False
    trouble: Trouble = Trouble.NONE
    deleted: int = NEVER
    """When its deletion is asked for, where that takes longer than it should."""
    incarnation: int = 0
    """How many pods of the same name there were before."""

    @property
    def node(self) -> str:
        return self.slots[0].node


@dataclass(frozen=True, eq=False)
class Run:
    """A workload, its pods, and what they do when."""

    kind: str
    path: str
    """`namespace/name`"""
    template: PodTemplate
    stays: tuple[Stay, ...]
    doings: tuple[tuple[int, str], ...]
    """Since when its pods do what (a name of `activity.PROFILES`), in order of time."""
    replicas: int
    service_port: int = 0
    is_gang: bool = False
    """Its pods train together: none gets anywhere without the others."""

    @property
    def team(self) -> str:
        return self.path.partition("/")[0]

    @cached_property
    def created(self) -> int:
        return min(stay.created for stay in self.stays)

    @cached_property
    def gone(self) -> int:
        return max(stay.gone for stay in self.stays)

    @cached_property
    def complete(self) -> int:
        """When its last pod finds a node, for which a gang waits."""
        return max(stay.bound for stay in self.stays) if self.is_gang else self.created

    @cached_property
    def _changes(self) -> list[int]:
        return [start for start, _ in self.doings]

    def doing(self, t: int) -> str:
        """What its ready pods do at this second."""
        return self.doings[max(0, bisect_right(self._changes, t) - 1)][1]


@dataclass(frozen=True, slots=True)
class NodeLife:
    """What befalls one node."""

    position: int
    exists: Span
    down: tuple[Span, ...] = ()
    """It reboots: its kubelet is silent."""
    cordoned: tuple[Span, ...] = ()
    unmeasured: tuple[Span, ...] = ()
    """Its exporter crash-loops."""
    crowded: tuple[Span, ...] = ()
    """A pod without a GPU has all of its CPU."""


@dataclass(frozen=True, slots=True)
class BoardLife:
    """What befalls one board."""

    sick: Span
    """It is off the bus, and the device plugin has given it up. It comes back as another board."""


@dataclass(frozen=True)
class Month:
    """All of it, made once for a config."""

    runs: tuple[Run, ...]
    nodes: dict[str, NodeLife]
    boards: dict[Slot, BoardLife]
    split: dict[Slot, int] = field(default_factory=dict)
    """Boards that are split into seven MIG instances, and since when."""

    @cached_property
    def _by_hour(self) -> dict[int, list[Run]]:
        found: dict[int, list[Run]] = {}
        for run in self.runs:
            for hour in range(run.created // HOUR_S, (run.gone - 1) // HOUR_S + 1):
                found.setdefault(hour, []).append(run)
        return found

    def runs_at(self, t: int) -> list[Run]:
        """Those that have a pod, or will within the hour, or had one."""
        return [run for run in self._by_hour.get(t // HOUR_S, ()) if run.created <= t < run.gone]
