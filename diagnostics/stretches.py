"""From marks to states in time: one machine for live polls and for history, exact to the millisecond. Pure.

A mark says how a device stood at one poll. The time from it to the next poll takes its holder and its state; whether
quiet time is idle or hung is decided on stretches of at least one window, so those are final one window later. Time
longer than `max_gap` between two marks was not observed. The states of a device sum to the time it existed, exactly.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from diagnostics.snapshot import State

NOBODY: tuple[int, ...] = ()


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """How one device stood at one poll."""

    state: State
    """From the objects (unavailable … blocked), `no_data`, `effective` or `ineffective`; for a quiet mark the state
    that a long enough stretch of it would have: `idle_empty`, `idle_held` or `hung`."""
    holders: tuple[int, ...] = NOBODY
    """Keys of the workloads that hold it, one per share."""
    pods: int = 0
    """Changes whenever other pods hold it: a stretch belongs to one set of pods."""
    waste: float = 0.0
    """Share of the time that is wasted while effective or ineffective: 1 - activity / 0.5, at least 0."""
    is_unjudged: bool = False

    @property
    def is_quiet(self) -> bool:
        return self.state in QUIET


QUIET = frozenset({State.IDLE_EMPTY, State.IDLE_HELD, State.HUNG})
WORKING = frozenset({State.EFFECTIVE, State.INEFFECTIVE})


class Piece(NamedTuple):
    """A span of one device's time whose state is final. Milliseconds since 1970; `end` is not part of it."""

    start: int
    end: int
    state: State
    holders: tuple[int, ...]
    waste: float
    is_gap: bool
    """Nobody looked: its state is `no_data` and its holder unknown."""


class Track(msgspec.Struct, array_like=True):
    """What is known of one device between two polls; kept small, stored with the ledger."""

    at: int
    """Time of its last mark."""
    mark: Mark
    pending: list[tuple[int, int, State]] = []
    """Quiet spans (start, end, state if the stretch grows long) of the present stretch, not final yet."""
    is_long: bool = False
    """The present quiet stretch has lasted for a window: what follows of it is final at once."""


def begun(at: int, mark: Mark) -> Track:
    """A device that is seen for the first time."""
    return Track(at, mark)


def advance(track: Track, at: int, mark: Mark | None, *, window: int, max_gap: int) -> Iterator[Piece]:
    """Move `track` on to the poll at `at` and give the pieces that became final, in order of time.

    `mark` None: the device is gone; it existed up to `at`, and what was pending is settled. All in milliseconds.
    A poll that is not later than the last one changes nothing.
    """
    if at <= track.at:
        return
    start, last = track.at, track.mark
    if at - start > max_gap:
        yield from _settled(track)
        yield Piece(start, at, State.NO_DATA, NOBODY, 0.0, is_gap=True)
    elif not last.is_quiet:
        yield Piece(start, at, last.state, last.holders, last.waste, is_gap=False)
    elif track.is_long:
        yield Piece(start, at, last.state, last.holders, 1.0, is_gap=False)
    else:
        _extend(track.pending, start, at, last.state)
        if at - track.pending[0][0] >= window:
            yield from _settled(track, is_long=True)
            track.is_long = True
    continues = mark is not None and mark.is_quiet and last.is_quiet and _same_stretch(last, mark)
    if not continues or at - start > max_gap:
        yield from _settled(track)
        track.is_long = False
    track.at = at
    if mark is not None:
        track.mark = mark


def _extend(pending: list[tuple[int, int, State]], start: int, end: int, state: State) -> None:
    if pending and pending[-1][2] is state:
        pending[-1] = (pending[-1][0], end, state)
    else:
        pending.append((start, end, state))


def _same_stretch(one: Mark, other: Mark) -> bool:
    """Idle stays idle while memory comes and goes; a hang is another matter."""
    if (one.holders, one.pods) != (other.holders, other.pods):
        return False
    return (one.state is State.HUNG) == (other.state is State.HUNG)


def _settled(track: Track, *, is_long: bool = False) -> Iterator[Piece]:
    """The pending spans as final pieces: idle or hung where the stretch was long, else ineffective without activity."""
    for start, end, state in track.pending:
        final = state if is_long else State.INEFFECTIVE
        yield Piece(start, end, final, track.mark.holders, 1.0, is_gap=False)
    track.pending = []


def final_through(track: Track) -> int:
    """Up to here the device's time is final."""
    return track.pending[0][0] if track.pending else track.at


def share(start: int, end: int, offset: int, parts: int, whole: int) -> int:
    """Milliseconds of [start, end) that belong to `parts` of `whole` parts of a device, from part `offset` on.

    Cut at absolute times, so that the shares of all parts sum to the whole, and those of adjoining spans to the span,
    whatever the cuts: nothing is rounded away.
    """
    return _upto(end, offset, parts, whole) - _upto(start, offset, parts, whole)


def _upto(at: int, offset: int, parts: int, whole: int) -> int:
    return at * (offset + parts) // whole - at * offset // whole
