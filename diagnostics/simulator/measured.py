"""What is known of one device at one instant, and a metric that shows some of it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from diagnostics.simulator.activity import Reading
from diagnostics.simulator.devices import Board, Device


@dataclass(frozen=True, slots=True)
class Sample:
    """What is known of one device at one instant."""

    device: Device
    reading: Reading
    xid: int
    energy_mj: int
    memory_total_mib: int
    board: Board
    at: datetime


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    help: str
    value: Callable[[Sample], float]
    type: str = "gauge"
    is_whole_gpu: bool = False
    """DCGM has no value for a MIG instance, and the line is missing."""
