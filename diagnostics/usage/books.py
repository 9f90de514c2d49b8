"""The bookkeeping of one cluster between two polls: where each device stands, and the sums of hours not yet over. Pure.

A poll moves the books on and yields what became final: stays that ended, and the sums that changed, as absolute totals,
so that writing them twice changes nothing. The books are stored in the same transaction as what they yielded.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import msgspec

from diagnostics.snapshot import State
from diagnostics.stretches import Mark, Piece, Track, advance, begun, final_through
from diagnostics.usage.intervals import Interval, begun_with
from diagnostics.usage.weights import HOUR_MS, Shape, by_hour, shares_of

UNSEEN = Mark(State.NO_DATA)
"""Stands for a device of which nobody knows whether it is still there."""


class Key(NamedTuple):
    """What is summed within an hour."""

    workload: int
    model: int
    state: State
    is_gap: bool


class Total(NamedTuple):
    """A sum as it now stands: all of the hour so far, not what was added."""

    hour: int
    key: Key
    gpu_ms: int
    waste_ms: int


class Ended(NamedTuple):
    """A stay that will not grow any more."""

    device: int
    interval: Interval
    shape: Shape


class Seen(NamedTuple):
    """How a device stands at a poll, and what it is."""

    mark: Mark
    shape: Shape


class Entry(msgspec.Struct, array_like=True):
    """One device."""

    track: Track
    shape: Shape
    """At its last mark."""
    open: Interval | None = None
    """Its present stay, as far as it is final."""
    is_unseen: bool = False
    """Unobserved since `track.at` or earlier, and not known to be gone."""

    @property
    def settled_from(self) -> int:
        """From here on its time is the live ledger's; before, all is written."""
        return self.open.start if self.open is not None else final_through(self.track)


class Moved(msgspec.Struct):
    """What a poll made final."""

    ended: list[Ended] = []
    totals: list[Total] = []


class Books(msgspec.Struct, array_like=True):
    """Everything that must be remembered from poll to poll. Fields are only ever added at the end, with defaults."""

    at: int = 0
    """Time of the last poll, ms since 1970; 0 before the first."""
    through: int = 0
    """Everything before is final."""
    entries: dict[int, Entry] = {}
    """By the primary key of the device."""
    hours: dict[int, dict[Key, list[int]]] = {}
    """Hours that end after `through` -> [gpu_ms, waste_ms] by key."""

    def missing(self, seen: Collection[int]) -> set[int]:
        """Devices of the books that this poll did not see."""
        return self.entries.keys() - seen

    def advance(
        self, at: int, seen: Mapping[int, Seen], gone: Collection[int] = (), *, window: int, max_gap: int
    ) -> Moved:
        """Move on to the poll at `at`, which saw `seen` and knows that `gone` are no more; all in milliseconds.

        A device that is neither is unobserved: after `max_gap` its time is a gap, until it is seen or gone. A poll that
        is not later than the last one changes nothing.
        """
        moved = Moved()
        if at <= self.at:
            return moved
        self.at = at
        changed: set[tuple[int, Key]] = set()
        for device, (mark, shape) in seen.items():
            entry = self.entries.get(device)
            if entry is None:
                self.entries[device] = Entry(begun(at, mark), shape)
                continue
            is_same = entry.shape == shape
            pieces = advance(entry.track, at, mark if is_same else None, window=window, max_gap=max_gap)
            for piece in pieces:
                self._book(device, entry, piece, moved, changed)
            entry.is_unseen = False
            if not is_same:  # another board, or another share of it: what follows weighs otherwise
                self._end(device, entry, moved)
                self.entries[device] = Entry(begun(at, mark), shape)
        for device in self.missing(seen.keys()):
            self._pass_over(device, at, device in gone, moved, changed, (window, max_gap))
        moved.totals = [self._total(hour, key) for hour, key in changed]
        self.through = min((final_through(entry.track) for entry in self.entries.values()), default=at)
        self.hours = {hour: sums for hour, sums in self.hours.items() if self.is_open(hour)}
        return moved

    def is_open(self, hour: int) -> bool:
        """Whether the sums of `hour` are kept here, because polls may still add to them."""
        return hour + HOUR_MS > self.through

    def add(self, hour: int, key: Key, gpu_ms: int, waste_ms: int) -> Total:
        """Add to a sum of an open hour; negative amounts take away."""
        total = self.hours.setdefault(hour, {}).setdefault(key, [0, 0])
        total[0] += gpu_ms
        total[1] += waste_ms
        return Total(hour, key, total[0], total[1])

    def released(self, devices: Iterable[int]) -> list[Ended]:
        """End the gaps that these devices are in: what follows becomes a stay of its own."""
        moved = Moved()
        for device in devices:
            entry = self.entries.get(device)
            if entry is not None and entry.open is not None and entry.open.is_gap:
                self._end(device, entry, moved)
        return moved.ended

    def _pass_over(
        self,
        device: int,
        at: int,
        is_gone: bool,
        moved: Moved,
        changed: set[tuple[int, Key]],
        spans: tuple[int, int],
    ) -> None:
        """A device that this poll did not see."""
        entry, (window, max_gap) = self.entries[device], spans
        if is_gone:
            for piece in advance(entry.track, at, None, window=window, max_gap=max_gap):
                self._book(device, entry, piece, moved, changed)
            self._end(device, entry, moved)
            del self.entries[device]
        elif entry.is_unseen or at - entry.track.at > max_gap:
            for piece in advance(entry.track, at, UNSEEN, window=window, max_gap=max_gap):
                self._book(device, entry, piece, moved, changed)
            entry.is_unseen = True

    def _book(
        self, device: int, entry: Entry, piece: Piece, moved: Moved, changed: set[tuple[int, Key]]
    ) -> None:
        if entry.is_unseen and not piece.is_gap:
            piece = piece._replace(is_gap=True)
        if entry.open is not None and entry.open.takes(piece):
            entry.open.add(piece)
        else:
            self._end(device, entry, moved)
            entry.open = begun_with(piece)
        for hour, start, end in by_hour(piece.start, piece.end):
            for workload, state, gpu_ms, waste_ms in shares_of(piece, start, end, entry.shape):
                key = Key(workload, entry.shape.model, state, piece.is_gap)
                self.add(hour, key, gpu_ms, waste_ms)
                changed.add((hour, key))

    def _end(self, device: int, entry: Entry, moved: Moved) -> None:
        if entry.open is not None:
            moved.ended.append(Ended(device, entry.open, entry.shape))
            entry.open = None

    def _total(self, hour: int, key: Key) -> Total:
        gpu_ms, waste_ms = self.hours[hour][key]
        return Total(hour, key, gpu_ms, waste_ms)
