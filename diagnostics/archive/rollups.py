"""Hourly means and peaks of each GPU, kept for 13 months: made from the archived polls of an hour that is over.

So a poll writes nothing for them, a killed worker loses none, and an hour can be made anew while its polls are there.
"""

import logging
from array import array
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

import msgspec
import zstandard
from django.db import transaction

from diagnostics.archive import tiers
from diagnostics.archive.measured import UNKNOWN, from_planes, planes, values_of
from diagnostics.archive.patches import Sampled
from diagnostics.models import ArchivedSnapshot, ArchiveState, Cluster, MetricDay, Node

HOUR = timedelta(hours=1)
FIELDS = {
    "utilization_ratio": 1e-3,
    "memory_used_bytes": 2.0**20,
    "power_w": 0.1,
    "temperature_c": 0.1,
}
"""Field of `Metrics` -> what it is rounded to, in its own unit."""
MOST_BYTES = 16 * 2**20
BATCH = 500

log = logging.getLogger(__name__)

_COLUMNS = ("coverage", *(f"{part} {field}" for field in FIELDS for part in ("mean", "max")))
"""Coverage in thousandths, levels in steps of their field."""
HOURS = 24
"""Of a day."""


class _Stored(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """24 numbers for each slot, one after another, in each column (`measured.planes`)."""

    slots: tuple[str, ...]
    columns: dict[str, bytes]


class Columns(NamedTuple):
    """A node-day: 24 numbers for each slot, in the order of the slots, in each column (`mean power_w`, `coverage`);
    levels in steps of their field, coverage in thousandths, UNKNOWN where there is none.
    """

    slots: tuple[str, ...]
    columns: "dict[str, array[int]]"


_Day = dict[str, dict[str, list[int]]]
"""Slot -> column -> one number per hour of the day, UNKNOWN where there is none."""


class Level(NamedTuple):
    """What one metric did in one hour, in its own unit."""

    mean: float
    max: float


class DeviceHour(msgspec.Struct, frozen=True, kw_only=True):
    """One device in one hour; None where a metric was not collected."""

    slot: str
    hour: datetime
    coverage_ratio: float
    """Share of the hour's polls that have a sample of the device, 0 to 1."""
    utilization_ratio: Level | None = None
    memory_used_bytes: Level | None = None
    power_w: Level | None = None
    temperature_c: Level | None = None


class _Sums:
    """One device over one hour: per field number of samples, sum and peak."""

    __slots__ = ("fields", "samples")

    def __init__(self) -> None:
        self.samples = 0
        self.fields: dict[str, tuple[int, float, float]] = {}

    def add(self, field: str, value: float) -> None:
        count, total, peak = self.fields.get(field, (0, 0.0, value))
        self.fields[field] = (count + 1, total + value, max(peak, value))


def roll_up(cluster: Cluster, interval: timedelta, now: datetime, most_hours: int = 26) -> int:
    """Bring the node-days up to date with the hours that are over, oldest first, one transaction each; how many hours.

    An hour is over when a poll of a later one is archived. `interval`: between two polls, for the coverage. Polls after
    `now`, left by a clock that ran ahead, are not looked at yet.
    """
    polls = ArchivedSnapshot.objects.filter(cluster=cluster, taken_at__lte=now).order_by("taken_at")
    done = 0
    while done < most_hours:
        state, _ = ArchiveState.objects.get_or_create(cluster=cluster)
        left = polls if state.rolled_up_to is None else polls.filter(taken_at__gte=state.rolled_up_to)
        first = left.values_list("taken_at", flat=True).first()
        if first is None:
            break
        hour = _hour(first)
        if not polls.filter(taken_at__gte=hour + HOUR).exists():
            break
        sums = _sums(tiers.samples_of(cluster, hour, hour + HOUR))
        with transaction.atomic():
            _write(cluster, hour, sums, expected=HOUR / interval)
            ArchiveState.objects.filter(pk=state.pk).update(rolled_up_to=hour + HOUR)
        done += 1
    return done


def hourly(node: Node, day: date) -> list[DeviceHour]:
    """What each device of the node did in each hour of that UTC day, by slot and hour; hours without samples are
    absent. The hour that runs is not in it. Empty where nothing is kept, or where it cannot be read.
    """
    row = MetricDay.objects.filter(node=node, day=day).first()
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    devices = sorted((_read(row) if row is not None else {}).items())
    return [
        _device_hour(
            slot, midnight + hour * HOUR, {column: numbers[hour] for column, numbers in day_.items()}
        )
        for slot, day_ in devices
        for hour in range(HOURS)
        if day_["coverage"][hour] != UNKNOWN
    ]


def _device_hour(slot: str, hour: datetime, numbers: dict[str, int]) -> DeviceHour:
    levels = {}
    for field, step in FIELDS.items():
        mean, peak = (numbers.get(f"{part} {field}", UNKNOWN) for part in ("mean", "max"))
        if mean != UNKNOWN:
            levels[field] = Level(mean / (1 / step), peak / (1 / step))
    return DeviceHour(slot=slot, hour=hour, coverage_ratio=numbers["coverage"] / 1000, **levels)


def _sums(polls: Iterable[Sampled]) -> dict[str, dict[str, _Sums]]:
    """Node -> slot -> sums."""
    found: dict[str, dict[str, _Sums]] = defaultdict(lambda: defaultdict(_Sums))
    for poll in polls:
        size = len(poll.slots)
        devices = [found[node][slot] for node, slot in poll.slots]
        has_sample = [False] * size
        for field in FIELDS:
            for place, value in enumerate(values_of(poll.metrics, field, size)):
                if value is not None:
                    devices[place].add(field, value)
                    has_sample[place] = True
        for device, is_there in zip(devices, has_sample, strict=True):
            device.samples += is_there
    return found


def _write(cluster: Cluster, hour: datetime, sums: dict[str, dict[str, _Sums]], expected: float) -> None:
    nodes = dict(Node.objects.filter(cluster=cluster).values_list("name", "pk"))
    rows = MetricDay.objects.filter(node__cluster=cluster, day=hour.date())
    days = {row.node_id: row for row in rows}
    changed = []
    for name, slots in sums.items():
        if name not in nodes:
            continue
        row = days.get(nodes[name]) or MetricDay(node_id=nodes[name], day=hour.date())
        devices = _read(row) if row.pk else {}
        for slot, device in slots.items():
            if device.samples:
                _put(devices.setdefault(slot, _empty()), hour.hour, device, expected)
        row.data = _packed(devices)
        changed.append(row)
    MetricDay.objects.bulk_create(
        changed,
        batch_size=BATCH,
        update_conflicts=True,
        unique_fields=["node", "day"],
        update_fields=["data"],
    )


def _put(device: dict[str, list[int]], hour: int, sums: _Sums, expected: float) -> None:
    device["coverage"][hour] = round(1000 * min(1.0, sums.samples / expected))
    for field, (count, total, peak) in sums.fields.items():
        per = 1 / FIELDS[field]
        device[f"mean {field}"][hour], device[f"max {field}"][hour] = (
            round(total / count * per),
            round(peak * per),
        )


def _empty() -> dict[str, list[int]]:
    return {column: [UNKNOWN] * HOURS for column in _COLUMNS}


def _packed(devices: _Day) -> bytes:
    numbers = {c: [n for device in devices.values() for n in device[c]] for c in _COLUMNS}
    stored = _Stored(tuple(devices), {column: planes(found) for column, found in numbers.items()})
    return zstandard.ZstdCompressor(level=6).compress(msgspec.msgpack.encode(stored))


def _read(row: MetricDay) -> _Day:
    """Empty for a row that cannot be read, which is begun anew."""
    found = unpacked(row)
    columns = {column: numbers.tolist() for column, numbers in found.columns.items()}
    return {
        slot: _empty() | {column: numbers[i * HOURS : (i + 1) * HOURS] for column, numbers in columns.items()}
        for i, slot in enumerate(found.slots)
    }


def unpacked(row: MetricDay) -> Columns:
    """The numbers of a node-day as they are stored; no slots where they cannot be read."""
    data = bytes(row.data)
    try:
        if not 0 <= zstandard.get_frame_parameters(data).content_size <= MOST_BYTES:
            raise ValueError("it would fill the memory")
        stored = msgspec.msgpack.decode(zstandard.ZstdDecompressor().decompress(data), type=_Stored)
        columns = {column: from_planes(packed) for column, packed in stored.columns.items()}
        if any(len(numbers) != HOURS * len(stored.slots) for numbers in columns.values()):
            raise ValueError("a column has not one number for each hour")
    except (zstandard.ZstdError, msgspec.DecodeError, ValueError) as error:
        log.warning("metrics of node %s on %s cannot be read: %s", row.node_id, row.day, error)
        return Columns((), {})
    return Columns(stored.slots, columns)


def _hour(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)
