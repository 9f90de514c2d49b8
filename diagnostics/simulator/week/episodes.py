"""Which faults of the catalogue are there when: most of them come back, and at any moment a dozen can be seen."""

from dataclasses import dataclass
from datetime import timedelta

from diagnostics.simulator.timestamps import HOUR, MINUTE
from diagnostics.simulator.week.calendar import FRI, MON, SAT, SUN, THU, TUE, WED, Span


@dataclass(frozen=True)
class Episode:
    spans: tuple[Span, ...]
    age: timedelta = 45 * MINUTE
    """How old the first of its objects is at the fault's own epoch: that object is made when the span begins."""
    otherwise: str = ""
    """What stands there at other times: the twin that is the same object."""
    node: str = ""
    """The node that it takes for itself while it is there: those that name the same one come one after the other."""


_SHARED = "gpu-13"
_NIGHTS = tuple(Span(day + 18, 15) for day in (MON, TUE, WED, THU))

EPISODES: dict[str, Episode] = {
    "plugin-crash-loop": Episode((Span(TUE + 6, 57), Span(FRI + 20, 84)), age=46 * MINUTE),
    "plugin-behind-driver": Episode((Span(THU + 14, 31),), age=46 * MINUTE, node=_SHARED),
    "exporter-crash-loop": Episode((Span(WED + 3, 9, every_weeks=2),)),
    "gfd-crash-loop": Episode((Span(MON + 8, 29), Span(THU + 10, 20))),
    "mig-manager-failing": Episode((Span(FRI + 7, 78),)),
    "scattered-job": Episode((Span(MON + 3, 64), Span(WED + 22, 99)), age=4 * HOUR),
    "partial-gang": Episode((Span(MON + 11, 41), Span(WED + 14, 101)), age=3 * HOUR),
    "xid-79": Episode((Span(TUE + 13, 20, every_weeks=2), Span(THU + 22, 9)), age=10 * MINUTE),
    "xid-95": Episode((Span(SUN + 18, 52), Span(WED + 15, 94)), age=2 * HOUR),
    "idle-loaded": Episode((*_NIGHTS, Span(FRI + 18, 63)), otherwise="called-server"),
    "idle-empty": Episode((Span(MON + 17, 160),), otherwise="active-notebook"),
    "oom-killed": Episode((Span(SUN + 16, 74), Span(WED + 21, 66)), age=5 * HOUR),
    "oom-killed-loop": Episode((Span(WED + 5, 60),)),
    "cuda-oom-shortage": Episode((Span(MON + 5, 85), Span(FRI + 9, 66))),
    "cuda-oom-fragmentation": Episode((Span(TUE + 4, 130),)),
    "cuda-oom-other-process": Episode((Span(SAT + 6, 62),)),
    "stuck-crash-loop": Episode((Span(MON + 4, 40), Span(WED + 15, 87))),
    "stuck-pull": Episode((Span(TUE + 15, 42), Span(SUN + 10, 34))),
    "stuck-terminating": Episode((Span(SUN + 12, 78), Span(THU + 20, 64)), age=9 * HOUR),
    "pending-no-capacity": Episode((Span(MON + 4, 62), Span(THU + 2, 94))),
    "pending-untolerated-taint": Episode((Span(SUN + 12, 92), Span(THU + 13, 68))),
    "pending-selector": Episode((Span(WED + 7, 72), Span(SUN + 1, 30))),
    "pending-too-large": Episode((Span(TUE + 7, 100),)),
    "pending-gate": Episode((Span(SAT + 8, 50), Span(WED + 10, 36))),
    "pending-claim-missing": Episode((Span(THU + 16, 30, every_weeks=2, phase=1),)),
    # On boards of nodes that others work on.
    "row-remap-pending": Episode((Span(TUE + 8, 8),), age=12 * MINUTE),
    "nvlink-recovering": Episode((Span(WED + 9, 6),), age=12 * MINUTE),
    "pcie-narrow": Episode((Span(THU + 10, 8, every_weeks=2),), age=12 * MINUTE),
    "gpu-too-hot": Episode((Span(FRI + 11, 6),), age=12 * MINUTE),
    "gpu-vanished": Episode((Span(SAT + 9, 8, every_weeks=2),), age=12 * MINUTE),
    "hardware-not-ready": Episode((Span(SUN + 2, 6),), age=12 * MINUTE),
    "mig-reset-blocked": Episode((Span(TUE + 3, 6, every_weeks=2),)),
    # Without a GPU of their own.
    "gpu-not-requested": Episode((Span(MON + 20, 5),)),
    "gpus-seen-unrequested": Episode((Span(WED + 11, 10),), age=5 * HOUR),
    # One after the other on one node.
    "evicted-limit": Episode((Span(MON + 1, 8),), age=3 * HOUR, node=_SHARED),
    "xid-43": Episode((Span(MON + 10, 6),), age=3 * HOUR, node=_SHARED),
    "image-too-new": Episode((Span(MON + 17, 6),), node=_SHARED),
    "no-kernel-image": Episode((Span(TUE, 5, every_weeks=2),), node=_SHARED),
    "shm-nccl": Episode((Span(TUE + 9, 5),), age=40 * MINUTE, node=_SHARED),
    "nvml-mismatch": Episode((Span(TUE + 15, 5),), node=_SHARED),
    "preemption-loop": Episode((Span(WED + 6, 8),), age=5 * HOUR, node=_SHARED),
    "stranded-gpus": Episode((Span(TUE + 21, 8), Span(SAT + 21, 9)), age=5 * HOUR, node=_SHARED),
    "no-fabric-manager": Episode((Span(WED + 15, 6, every_weeks=2, phase=1),), node=_SHARED),
    "offload-above-limit": Episode((Span(WED + 22, 9),), age=6 * HOUR, node=_SHARED),
    "no-gang-scheduling": Episode((Span(THU + 8, 5),), node=_SHARED),
    "gpu-memory-peaks": Episode((Span(FRI + 22, 9),), age=6 * HOUR, node=_SHARED),
    "gpu-memory-growing": Episode((Span(SAT + 8, 9),), age=6 * HOUR, node=_SHARED),
    "refused-pod": Episode((Span(SUN + 8, 6),), node=_SHARED),
    "probe-before-loaded": Episode((Span(SUN + 15, 8),), age=3 * HOUR, node=_SHARED),
}

LOOK_ALIKES = ("warm-standby", "application-xid", "standing-xid", "liveness-killed")
"""Healthy twins that are always there, so that it can be seen what is left alone."""
