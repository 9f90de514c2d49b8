"""Forty minutes of a small node's GPU metrics, as Prometheus stores them: one history for every way of reading.

GPU-a is held all the time and reports Xid 79 at 11:50. GPU-b is held by nobody and shows an old Xid 13. GPU-c is
a MIG board whose instance 9 passes from one pod to another at 11:45. The exporter at 10.0.0.2 is down.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

NOW = datetime(2026, 11, 3, 12, 0, tzinfo=UTC)
SPAN = timedelta(minutes=30)
STEP = timedelta(minutes=1)
XID_AT = NOW - timedelta(minutes=10)
HANDOVER_AT = NOW - timedelta(minutes=15)

TARGET = {
    "job": "nvidia-dcgm-exporter",
    "instance": "10.0.0.1:9400",
    "namespace": "gpu-operator",
    "pod": "nvidia-dcgm-exporter-k7x2p",
    "container": "nvidia-dcgm-exporter",
}


class Point(NamedTuple):
    name: str
    labels: dict[str, str]
    value: float


def _board(letter: str, index: int) -> dict[str, str]:
    return {
        "gpu": str(index),
        "UUID": f"GPU-{letter}",
        "pci_bus_id": f"00000000:{0x0F + index:02X}:00.0",
        "device": f"nvidia{index}",
        "modelName": "NVIDIA H100 80GB HBM3",
        "Hostname": "gpu-node-01",
        "DCGM_FI_DRIVER_VERSION": "580.126.20",
        **TARGET,
    }


def _held(namespace: str, pod: str) -> dict[str, str]:
    return {"exported_namespace": namespace, "exported_pod": pod, "exported_container": "main"}


def at(moment: datetime, *, with_counts: bool = True) -> Iterator[Point]:
    """Every series of the exporter at one moment, a whole minute of the history."""
    minute = round((NOW - moment) / STEP)
    held = {**_board("a", 0), **_held("team-a", "train-0")}
    free = _board("b", 1)
    xid = 79 if moment >= XID_AT else 0
    yield Point("DCGM_FI_DEV_GPU_UTIL", held, 90 + minute % 7)
    yield Point("DCGM_FI_DEV_FB_USED", held, 71342 - minute)
    yield Point("DCGM_FI_DEV_FB_FREE", held, 9000)
    yield Point("DCGM_FI_DEV_POWER_USAGE", held, 600 + minute % 5 * 1.5)
    yield Point("DCGM_FI_PROF_SM_ACTIVE", held, 0.25 + minute % 3 / 8)
    yield Point("DCGM_FI_DEV_XID_ERRORS", {**held, "err_code": str(xid)}, xid)
    yield Point("DCGM_FI_DEV_GPU_UTIL", free, 0)
    yield Point("DCGM_FI_DEV_FB_USED", free, 4)
    yield Point("DCGM_FI_DEV_POWER_USAGE", free, 71.448)
    yield Point("DCGM_FI_DEV_XID_ERRORS", {**free, "err_code": "13"}, 13)
    holder = _held("research", "nb-2" if moment >= HANDOVER_AT else "nb-1")
    instance = {**_board("c", 2), "GPU_I_ID": "9", "GPU_I_PROFILE": "1g.10gb", **holder}
    yield Point("DCGM_FI_PROF_GR_ENGINE_ACTIVE", instance, 0.75 if moment < HANDOVER_AT else 0.0)
    yield Point("DCGM_FI_DEV_FB_USED", instance, 6123)
    if with_counts and XID_AT <= moment < XID_AT + timedelta(minutes=5):
        yield Point("DCGM_EXP_XID_ERRORS_COUNT", {**held, "xid": "79", "window_size_in_ms": "300000"}, 2)
    yield Point("up", TARGET, 1)
    yield Point("up", {**TARGET, "instance": "10.0.0.2:9400", "pod": "nvidia-dcgm-exporter-zzzzz"}, 0)


def moments() -> list[datetime]:
    """Oldest first, the last one NOW."""
    return [NOW - minutes * STEP for minutes in range(40, -1, -1)]


def openmetrics(points: Callable[[datetime], Iterator[Point]] = at) -> str:
    """The whole history as text for `promtool tsdb create-blocks-from openmetrics`."""
    families: dict[str, dict[str, list[str]]] = {}
    for moment in moments():
        for point in points(moment):
            labels = ",".join(f'{name}="{value}"' for name, value in point.labels.items())
            lines = families.setdefault(point.name, {}).setdefault(labels, [])
            lines.append(f"{point.name}{{{labels}}} {point.value} {moment.timestamp():.0f}")
    text = []
    for name, series in families.items():
        text.append(f"# TYPE {name} gauge")
        for lines in series.values():
            text += lines
    return "\n".join([*text, "# EOF\n"])
