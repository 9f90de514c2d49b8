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


_NIGHTS = tuple(Span(day + 18, 15) for day in (MON, TUE, WED, THU))

EPISODES: dict[str, Episode] = {
    "plugin-crash-loop": Episode((Span(TUE + 6, 57), Span(FRI + 20, 84)), age=46 * MINUTE),
    "driver-pull-failing": Episode((Span(THU + 14, 31),), age=46 * MINUTE),
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
}

LOOK_ALIKES = ("warm-standby", "application-xid", "standing-xid", "liveness-killed")
"""Healthy twins that are always there, so that it can be seen what is left alone."""
