"""What pages show of the latest poll: each GPU, node and GPU workload in a line, small enough to read for every page.

A snapshot of 8,000 GPUs takes a third of a second to read; its picture takes hundredths. Pure.
"""

from diagnostics.picture.devices import Devices, GpuCell, NodeLine, Owner
from diagnostics.picture.drawing import drawn
from diagnostics.picture.stored import Picture, UnreadablePicture, dumps, load_devices, load_workloads
from diagnostics.picture.workloads import DemandLine, PodLine, ReachLine, WorkloadLine, Workloads

__all__ = [
    "DemandLine",
    "Devices",
    "GpuCell",
    "NodeLine",
    "Owner",
    "Picture",
    "PodLine",
    "ReachLine",
    "UnreadablePicture",
    "WorkloadLine",
    "Workloads",
    "drawn",
    "dumps",
    "load_devices",
    "load_workloads",
]
