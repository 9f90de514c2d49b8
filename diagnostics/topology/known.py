"""What a poll's other records need to know of the topology: the rows behind the names of its snapshot."""

from typing import NamedTuple

from diagnostics.models import Device, Node

type OwnerName = tuple[str, str, str]
"""Kind, namespace and name of a root owner."""


class Known(NamedTuple):
    """Rows of what one snapshot shows. All of them are saved."""

    nodes: dict[str, Node]
    """Name of a node with GPUs -> its row."""
    devices: dict[str, Device]
    """Slot of this snapshot -> its row, and `<board>/mig-rest` -> the slices of a board that no instance uses.

    A row's own slot can differ: a board that is silent at this poll keeps the name under which it is known.
    """
    workloads: dict[OwnerName, int]
    """Root owner that holds GPUs or asks for them -> primary key of its row."""
    nobody: int
    """Primary key of the row that stands for nobody."""
