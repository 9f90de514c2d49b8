"""What a span of one device's time weighs in the ledger: whose it is, in which state, how much of it was wasted. Pure.

Unit: physical GPU-milliseconds. A MIG instance weighs its share of the board's compute slices; a board that is handed
out in shares is split evenly between them. All cuts are at absolute times, so nothing is rounded away.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from diagnostics.snapshot import State
from diagnostics.stretches import Piece, share

HOUR_MS = 3_600_000
NOBODY_KEY = 0
"""Stands for the row of nobody, whatever its primary key."""
WASTED = frozenset({State.IDLE_EMPTY, State.IDLE_HELD, State.HUNG, State.BLOCKED, State.STUCK})
"""Wasted at weight 1; `ineffective` at the waste of its mark."""
OF_THE_BOARD = frozenset({State.UNAVAILABLE, State.STRANDED, State.FREE})
"""States that a share has without a holder, too."""
PERMILLE = 1000


class Shape(msgspec.Struct, frozen=True, array_like=True):
    """What a device was at a mark: it weighs by this until the next one."""

    model: int
    """Primary key of its GpuModel."""
    offset: int = 0
    parts: int = 1
    whole: int = 1
    """`parts` of `whole` compute slices of the board, from slice `offset` on."""
    replicas: int = 1
    """Shares that it is handed out in."""


class Share(NamedTuple):
    """One share's part of a piece."""

    workload: int
    state: State
    gpu_ms: int
    waste_ms: int


def waste_permille(piece: Piece) -> int:
    """How much of the piece's time its holders waste: whole thousandths, so that cuts of it sum up."""
    if piece.state in WASTED:
        return PERMILLE
    return round(piece.waste * PERMILLE) if piece.state is State.INEFFECTIVE else 0


def shares_of(piece: Piece, start: int, end: int, shape: Shape) -> Iterator[Share]:
    """The part [start, end) of `piece`, share by share: `gpu_ms` sum to the device's part of its board's time.

    There are max(replicas, holders) shares; those without a holder are nobody's, and free unless the board's own
    state says otherwise.
    """
    count = max(shape.replicas, len(piece.holders), 1)
    permille, whole = waste_permille(piece), shape.whole * count
    at = shape.offset * count
    for holder in piece.holders:
        gpu_ms = share(start, end, at, shape.parts, whole)
        if permille in (0, PERMILLE):
            waste = gpu_ms if permille else 0
        else:
            waste = share(start, end, at * PERMILLE, shape.parts * permille, whole * PERMILLE)
        yield Share(holder, piece.state, gpu_ms, waste)
        at += shape.parts
    unheld = count - len(piece.holders)
    if unheld:
        state = piece.state if not piece.holders or piece.state in OF_THE_BOARD else State.FREE
        yield Share(NOBODY_KEY, state, share(start, end, at, shape.parts * unheld, whole), 0)


def by_hour(start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """(hour, start, end) of the parts of [start, end), cut at the hours of UTC."""
    while start < end:
        hour = start - start % HOUR_MS
        cut = min(end, hour + HOUR_MS)
        yield hour, start, cut
        start = cut
