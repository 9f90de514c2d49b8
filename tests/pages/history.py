"""What months of polls would have left about one node: roll-ups, states, holders, changes and events."""

import math
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any

from diagnostics.archive import event_hours, rollups
from diagnostics.archive.measured import UNKNOWN
from diagnostics.models import (
    STATE_NUMBERS,
    Allocation,
    Cluster,
    Device,
    MetricDay,
    Node,
    StateInterval,
    TopologyChange,
    Workload,
)
from diagnostics.snapshot import Event, State
from diagnostics.usage.moments import to_ms
from tests.builders import GIB, NOW

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def node_row(of: Cluster, name: str = "gpu-1", **fields: Any) -> Node:
    defaults: dict[str, Any] = {"first_seen": NOW - 30 * DAY, "last_seen": NOW}
    return Node.objects.create(cluster=of, name=name, **(defaults | fields))


def device_row(node: Node, place: str = "00000000:10:00.0", **fields: Any) -> Device:
    defaults: dict[str, Any] = {
        "slot": f"{node.name}/{place}",
        "uuid": f"GPU-{place}",
        "model": "NVIDIA A100-SXM4-80GB",
        "resource": "nvidia.com/gpu",
        "first_seen": NOW - 30 * DAY,
        "last_seen": NOW,
    }
    return Device.objects.create(cluster=node.cluster, node=node, **(defaults | fields))


def hours(
    node: Node, slots: Sequence[str], day: date, *, level: float = 0.5, missing: Sequence[int] = ()
) -> MetricDay:
    """A day of roll-ups in which utilisation waves around `level`; hours that are `missing` have no sample."""
    devices = {}
    for number, slot in enumerate(slots):
        columns = {column: [UNKNOWN] * 24 for column in rollups._COLUMNS}
        for hour in set(range(24)) - set(missing):
            ratio = min(1.0, max(0.0, level + 0.3 * math.sin(hour / 3 + number)))
            means = {
                "utilization_ratio": ratio,
                "memory_used_bytes": (20 + 40 * ratio) * GIB,
                "power_w": 80 + 300 * ratio,
                "temperature_c": 35 + 40 * ratio,
            }
            columns["coverage"][hour] = 1000
            for field, mean in means.items():
                step = rollups.FIELDS[field]
                columns[f"mean {field}"][hour] = round(mean / step)
                columns[f"max {field}"][hour] = round(mean * 1.1 / step)
        devices[slot] = columns
    return MetricDay.objects.create(node=node, day=day, data=rollups._packed(devices))


def stay(device: Device, state: State, start: datetime, end: datetime, **fields: Any) -> StateInterval:
    return StateInterval.objects.create(
        cluster=device.cluster,
        device=device,
        start_ms=to_ms(start),
        end_ms=to_ms(end),
        state=STATE_NUMBERS[state],
        **fields,
    )


def workload_row(
    of: Cluster, name: str = "train", namespace: str = "research", kind: str = "Job"
) -> Workload:
    return Workload.objects.create(
        cluster=of, kind=kind, namespace=namespace, name=name, first_seen=NOW - DAY, last_seen=NOW
    )


def hold(
    node: Node, workload: Workload, pod: str, places: Sequence[str], start: datetime, **fields: Any
) -> Allocation:
    return Allocation.objects.create(
        cluster=node.cluster,
        node=node,
        workload=workload,
        pod=pod,
        slots=list(places),
        started_at=start,
        **fields,
    )


def change(node: Node, kind: str, at: datetime, subject: str = "", **fields: Any) -> TopologyChange:
    return TopologyChange.objects.create(
        cluster=node.cluster, node=node, at=at, kind=kind, subject=subject or node.name, **fields
    )


def said(of: Cluster, events: Sequence[Event], at: datetime) -> None:
    """Kubernetes events, as a poll at `at` keeps them."""
    event_hours.keep(of, event_hours.changed_hours(of, events, at))
