"""Windows from our own earlier samples, for clusters without Prometheus: kept small, passed on from poll to poll."""

import math
import statistics
import sys
from array import array
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

import msgspec
import zstandard

from diagnostics.collect.dcgm_metrics import ACTIVITY_FIELDS, COUNTERS, WINDOW_FIELDS
from diagnostics.collect.window_parts import growth_of, of_values, window_from, xids_of
from diagnostics.snapshot import Gpu, Metrics, Window

SLACK = timedelta(minutes=5)
"""Samples are kept for the span and this much longer, so that a late poll still finds a whole span."""
MOST_POLLS = 240
"""A poll every 9 s over 35 minutes. Beyond that the oldest are dropped, which lowers the coverage."""
LONGEST_INTERVAL = timedelta(minutes=5)
"""Polls farther apart than this do not cover a window: bursts of work would fall between them (ours)."""
DEFAULT_INTERVAL = timedelta(seconds=60)
"""Between two polls, before there are two of them."""
MOST_BYTES = 64 * 2**20
"""Of one poll, unpacked; 8,000 GPUs come to about 2 MiB."""

_FIELDS = (*WINDOW_FIELDS, *COUNTERS, "xid")
COLUMNS = ("time", *_FIELDS)


class PollSamples(msgspec.Struct, frozen=True, kw_only=True):
    """What one poll measured: each column has one entry per device."""

    at: datetime
    slots: tuple[str, ...] = ()
    holders: tuple[tuple[str, ...], ...] = ()
    """Pod keys, sorted."""
    values: dict[str, bytes] = {}
    """By COLUMNS, little-endian doubles: when the sample was taken in seconds since 1970, then a value per field
    (NaN: not collected)."""


class RecentSamples(msgspec.Struct, frozen=True):
    """What the last polls of one cluster measured, oldest first."""

    polls: tuple[PollSamples, ...] = ()

    @property
    def slots(self) -> frozenset[str]:
        """The devices that any of them measured."""
        return frozenset(slot for poll in self.polls for slot in poll.slots)

    def polled_at(self, moment: datetime) -> PollSamples | None:
        """What the poll of this very moment measured."""
        return next((poll for poll in reversed(self.polls) if poll.at == moment), None)


class _Row(NamedTuple):
    """One sample of one device."""

    time: float
    holders: tuple[str, ...]
    values: tuple[float, ...]


def activity(metrics: Metrics) -> float | None:
    """Engine activity of one sample, 0 to 1: the largest of those collected; None where none is."""
    values = [value for f in ACTIVITY_FIELDS if (value := getattr(metrics, f)) is not None]
    return max(values, default=None)


def extended(
    recent: RecentSamples, gpus: Iterable[Gpu], at: datetime, span: timedelta = timedelta(minutes=30)
) -> RecentSamples:
    """`recent` with the samples of one more poll, and without polls older than `span` and some slack.

    A sample counts at the time when it was taken, which may lie before samples that are known already. Devices without
    a name or metrics are passed over. A poll of the same time is replaced.
    """
    polls = {poll.at: poll for poll in recent.polls} | {at: _polled(gpus, at)}
    oldest = max(polls) - span - SLACK
    return RecentSamples(tuple(polls[moment] for moment in sorted(polls) if moment >= oldest)[-MOST_POLLS:])


def windows_of(recent: RecentSamples, taken_at: datetime, span: timedelta) -> dict[str, Window]:
    """Slot -> what the device did in the `span` before `taken_at`, while its last known holders held it.

    A sample with none of these holders is left out, so that a new holder starts with little coverage; Xids and
    counters are the device's, whoever held it. Slots without a sample in the span are absent.
    """
    end = taken_at.timestamp()
    start = end - span.total_seconds()
    interval = _interval_s([poll.at.timestamp() for poll in recent.polls if poll.at <= taken_at])
    found: dict[str, Window] = {}
    for slot, by_time in _by_device(recent, start, end).items():
        rows = [by_time[time] for time in sorted(by_time)]
        present = set(rows[-1].holders)
        held = [row for row in rows if present & set(row.holders) or (not present and not row.holders)]
        stats = {
            field: covered
            for column, field in enumerate(WINDOW_FIELDS)
            if (covered := of_values(v for row in held if not math.isnan(v := row.values[column])))
        }
        gauge = [(_moment(row.time), int(code)) for row in rows if not math.isnan(code := row.values[-1])]
        growth = {
            field: grown
            for column, field in enumerate(COUNTERS, len(WINDOW_FIELDS))
            if (grown := growth_of(v for row in rows if not math.isnan(v := row.values[column]))) is not None
        }
        found[slot] = window_from(stats, interval, span, xids_of(gauge), growth)
    return found


def encode(poll: PollSamples) -> bytes:
    """For the database: msgpack, compressed."""
    return zstandard.ZstdCompressor(level=3).compress(msgspec.msgpack.encode(poll))


def decode(data: bytes) -> PollSamples | None:
    """What `encode` made; None for damaged bytes or those of a version with other columns.

    Losing them lowers the coverage of the windows, as if this poll had been missed.
    """
    try:
        if not 0 <= zstandard.get_frame_parameters(data).content_size <= MOST_BYTES:
            return None
        plain = zstandard.ZstdDecompressor().decompress(data, max_output_size=MOST_BYTES)
        poll = msgspec.msgpack.decode(plain, type=PollSamples)
    except (zstandard.ZstdError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return poll if _is_whole(poll) else None


def _polled(gpus: Iterable[Gpu], at: datetime) -> PollSamples:
    measured = [(gpu, gpu.metrics) for gpu in gpus if gpu.metrics is not None and gpu.is_named]
    # A clock ahead of ours must not make a sample of the future.
    times = [min(metrics.sampled_at or at, at).timestamp() for _, metrics in measured]
    values = {f: [_number(getattr(metrics, f)) for _, metrics in measured] for f in _FIELDS}
    return PollSamples(
        at=at,
        slots=tuple(gpu.slot for gpu, _ in measured),
        holders=tuple(tuple(sorted(gpu.holders)) for gpu, _ in measured),
        values={name: _packed(column) for name, column in {"time": times, **values}.items()},
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _by_device(recent: RecentSamples, start: float, end: float) -> dict[str, dict[float, _Row]]:
    """Slot -> time -> sample; of several with one time, the one that was polled last."""
    found: dict[str, dict[float, _Row]] = {}
    for poll in recent.polls:
        times, *values = (_unpacked(poll.values[name]) for name in COLUMNS)
        rows = zip(poll.slots, times, poll.holders, zip(*values, strict=True), strict=True)
        for slot, time, holders, numbers in rows:
            if start <= time <= end:
                found.setdefault(slot, {})[time] = _Row(time, holders, numbers)
    return found


def _packed(numbers: Iterable[float]) -> bytes:
    return _little_endian(array("d", numbers)).tobytes()


def _unpacked(column: bytes) -> "array[float]":
    return _little_endian(array("d", column))


def _little_endian(numbers: "array[float]") -> "array[float]":
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _is_whole(poll: PollSamples) -> bool:
    """Whether bytes from outside have an entry per device in each column of this version."""
    devices = len(poll.slots)
    return (
        poll.at.tzinfo is not None
        and len(poll.holders) == devices
        and poll.values.keys() == set(COLUMNS)
        and all(len(column) == 8 * devices for column in poll.values.values())
    )


def _interval_s(polls: list[float]) -> float:
    """Median distance of polls: one that was missed does not change what is expected."""
    gaps = [later - earlier for earlier, later in pairwise(polls)]
    if not gaps:
        return DEFAULT_INTERVAL.total_seconds()
    return min(max(1.0, statistics.median(gaps)), LONGEST_INTERVAL.total_seconds())


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
