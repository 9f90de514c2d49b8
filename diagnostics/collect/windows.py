"""Windows from our own earlier samples, for clusters without Prometheus: kept small, passed on from poll to poll."""

import math
import statistics
import sys
from array import array
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

import msgspec
import zstandard

from diagnostics.collect.dcgm_metrics import ACTIVITY_FIELDS, WINDOW_FIELDS
from diagnostics.collect.window_parts import of_values, window_from, xids_of
from diagnostics.snapshot import Gpu, Metrics, Window

SLACK = timedelta(minutes=5)
"""Samples are kept for the span and this much longer, so that a late poll still finds a whole span."""
MOST_SAMPLES = 240
"""Of one device: a poll every 9 s over 35 minutes. Beyond that the oldest are dropped, which lowers the coverage."""
LONGEST_INTERVAL = timedelta(minutes=5)
"""Polls farther apart than this do not cover a window: bursts of work would fall between them (ours)."""
DEFAULT_INTERVAL = timedelta(seconds=60)
"""Between two polls, before there are two of them."""
MOST_BYTES = 256 * 2**20
"""Unpacked; 8,000 GPUs come to about 25 MiB."""

COLUMNS = ("time", "holders", *WINDOW_FIELDS, "xid")
_FIELDS = COLUMNS[2:]


class _Row(NamedTuple):
    """One sample: seconds since 1970, who held the device, and a value per field (NaN: not collected)."""

    time: float
    holders: tuple[str, ...]
    values: tuple[float, ...]


class SlotSamples(msgspec.Struct, frozen=True, gc=False):
    """Samples of one device, oldest first: rows of COLUMNS as little-endian doubles.

    The column `holders` is an index into the list of holders, each a sorted tuple of pod keys.
    """

    holders: tuple[tuple[str, ...], ...] = ()
    rows: bytes = b""


class RecentSamples(msgspec.Struct, frozen=True, kw_only=True):
    """What the last polls of one cluster measured, by slot."""

    columns: tuple[str, ...] = COLUMNS
    polls: tuple[float, ...] = ()
    """Times of the polls, in seconds since 1970, oldest first."""
    slots: dict[str, SlotSamples] = {}


def activity(metrics: Metrics) -> float | None:
    """Engine activity of one sample, 0 to 1: the largest of those collected; None where none is."""
    values = [value for f in ACTIVITY_FIELDS if (value := getattr(metrics, f)) is not None]
    return max(values, default=None)


def extended(
    recent: RecentSamples, gpus: Iterable[Gpu], at: datetime, span: timedelta = timedelta(minutes=30)
) -> RecentSamples:
    """`recent` with the samples of one more poll, and without what is older than `span` and some slack.

    A sample counts at the time when it was taken, which may lie before samples that are known already; one with
    the time of a known sample replaces it. Devices without a name or metrics are passed over, and those not seen
    for so long are forgotten.
    """
    newest = max(at.timestamp(), *recent.polls, 0.0)
    oldest = newest - (span + SLACK).total_seconds()
    slots = {slot: kept for slot, kept in recent.slots.items() if _last_time(kept) >= oldest}
    for gpu in gpus:
        if gpu.metrics is None or not gpu.is_named:
            continue
        # A clock ahead of ours must not make a sample of the future.
        taken = min((gpu.metrics.sampled_at or at).timestamp(), at.timestamp())
        if taken >= oldest:
            row = _Row(taken, tuple(sorted(gpu.holders)), _values(gpu.metrics))
            slots[gpu.slot] = _with_row(slots.get(gpu.slot, SlotSamples()), row, oldest)
    polls = sorted({*recent.polls, at.timestamp()})
    return RecentSamples(polls=tuple(t for t in polls if t >= oldest)[-MOST_SAMPLES:], slots=slots)


def windows_of(recent: RecentSamples, taken_at: datetime, span: timedelta) -> dict[str, Window]:
    """Slot -> what the device did in the `span` before `taken_at`, while its last known holders held it.

    A sample with none of these holders is left out, so that a new holder starts with little coverage; Xids are
    the device's, whoever held it. Slots without a sample in the span are absent.
    """
    end = taken_at.timestamp()
    start = end - span.total_seconds()
    interval = _interval_s([t for t in recent.polls if t <= end])
    found: dict[str, Window] = {}
    for slot, samples in recent.slots.items():
        rows = [row for row in _rows(samples) if start <= row.time <= end]
        if not rows:
            continue
        present = set(rows[-1].holders)
        held = [row for row in rows if present & set(row.holders) or (not present and not row.holders)]
        stats = {
            field: covered
            for column, field in enumerate(WINDOW_FIELDS)
            if (covered := of_values(v for row in held if not math.isnan(v := row.values[column])))
        }
        gauge = [(_moment(row.time), int(code)) for row in rows if not math.isnan(code := row.values[-1])]
        found[slot] = window_from(stats, interval, span, xids_of(gauge))
    return found


def encode(recent: RecentSamples) -> bytes:
    """For the database: msgpack, compressed."""
    return zstandard.ZstdCompressor(level=3).compress(msgspec.msgpack.encode(recent))


def decode(data: bytes) -> RecentSamples:
    """What `encode` made; empty for damaged bytes or those of a version with other columns.

    Losing them costs one span of windows, during which nothing is judged by them.
    """
    try:
        if not 0 <= zstandard.get_frame_parameters(data).content_size <= MOST_BYTES:
            return RecentSamples()
        plain = zstandard.ZstdDecompressor().decompress(data, max_output_size=MOST_BYTES)
        recent = msgspec.msgpack.decode(plain, type=RecentSamples)
    except (zstandard.ZstdError, msgspec.DecodeError, UnicodeDecodeError):
        return RecentSamples()
    whole = all(_is_whole(samples) for samples in recent.slots.values())
    return recent if recent.columns == COLUMNS and whole else RecentSamples()


def _values(metrics: Metrics) -> tuple[float, ...]:
    values = (getattr(metrics, field) for field in _FIELDS)
    return tuple(math.nan if value is None else float(value) for value in values)


def _with_row(samples: SlotSamples, new: _Row, oldest: float) -> SlotSamples:
    """`samples` with one row more, in order of time, and without old ones."""
    rows = [row for row in _rows(samples) if row.time >= oldest and row.time != new.time]
    rows.append(new)
    rows.sort(key=lambda row: row.time)
    rows = rows[-MOST_SAMPLES:]
    holders = {holders: index for index, holders in enumerate(dict.fromkeys(row.holders for row in rows))}
    packed = array("d")
    for row in rows:
        packed.extend((row.time, holders[row.holders], *row.values))
    return SlotSamples(tuple(holders), _little_endian(packed).tobytes())


def _rows(samples: SlotSamples) -> Iterator[_Row]:
    packed = array("d", samples.rows)
    width = len(COLUMNS)
    numbers = _little_endian(packed)
    for i in range(0, len(numbers), width):
        yield _Row(numbers[i], samples.holders[int(numbers[i + 1])], tuple(numbers[i + 2 : i + width]))


def _last_time(samples: SlotSamples) -> float:
    width = 8 * len(COLUMNS)
    return _little_endian(array("d", samples.rows[-width:]))[0] if samples.rows else 0.0


def _little_endian(numbers: "array[float]") -> "array[float]":
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _is_whole(samples: SlotSamples) -> bool:
    """Whether bytes from outside are rows that can be read."""
    width = len(COLUMNS)
    if len(samples.rows) % (8 * width):
        return False
    indexes = _little_endian(array("d", samples.rows))[1::width]
    return all(0 <= index < len(samples.holders) for index in indexes)


def _interval_s(polls: list[float]) -> float:
    """Median distance of polls: one that was missed does not change what is expected."""
    gaps = [later - earlier for earlier, later in pairwise(polls)]
    if not gaps:
        return DEFAULT_INTERVAL.total_seconds()
    return min(max(1.0, statistics.median(gaps)), LONGEST_INTERVAL.total_seconds())


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
