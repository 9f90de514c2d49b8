"""What somebody asks of the scheduler."""

from collections.abc import Callable
from dataclasses import dataclass

from diagnostics.simulator.month.calendar import Trouble
from diagnostics.simulator.workloads import PodTemplate

Doings = tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class Demand:
    """Somebody wants so many pods of so many GPUs, on one of the named nodes, for a while."""

    at: int
    length: int
    kind: str
    path: str
    template: PodTemplate
    doings: Callable[[int, int], Doings]
    """From the start and the end that it gets to what it does."""
    nodes: tuple[str, ...]
    pods: int = 1
    gpus: int = 1
    is_gang: bool = False
    late: int = 0
    """So many of its pods find a node only `late_by` after the others."""
    late_by: int = 0
    ready_after: int = 0
    trouble: Trouble = Trouble.NONE
    deleted_before_end: int = 0
    service_port: int = 0
    round: int = 0
    """Of a workload that comes again under its name: which time it is."""
    instance: int = -1
    """It wants this MIG instance of the split board."""
