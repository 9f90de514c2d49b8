"""Pieces joined into the longest stays in one state with one set of holders. Pure."""

import msgspec

from diagnostics.snapshot import State
from diagnostics.stretches import Piece, share
from diagnostics.usage.weights import PERMILLE, waste_permille


class Interval(msgspec.Struct, array_like=True):
    """A stay that may still grow; milliseconds since 1970. Working time is one stay, effective or not."""

    start: int
    end: int
    state: State
    holders: tuple[int, ...]
    is_gap: bool
    ineffective_ms: int = 0
    waste_ms: int = 0

    def takes(self, piece: Piece) -> bool:
        """Whether `piece` goes on with this stay."""
        return (
            self.end == piece.start
            and self.state is _stay(piece.state)
            and self.is_gap == piece.is_gap
            and self.holders == piece.holders
        )

    def add(self, piece: Piece) -> None:
        """Let the stay go on with a piece that it takes."""
        self.end = piece.end
        if piece.state is State.INEFFECTIVE:
            self.ineffective_ms += piece.end - piece.start
        if permille := waste_permille(piece):
            self.waste_ms += share(piece.start, piece.end, 0, permille, PERMILLE)


def begun_with(piece: Piece) -> Interval:
    """A stay that begins with `piece`."""
    interval = Interval(piece.start, piece.start, _stay(piece.state), piece.holders, piece.is_gap)
    interval.add(piece)
    return interval


def joined(pieces: list[Piece]) -> list[Interval]:
    """Pieces in order of time as stays."""
    stays: list[Interval] = []
    for piece in pieces:
        if not stays or not stays[-1].takes(piece):
            stays.append(begun_with(piece))
        else:
            stays[-1].add(piece)
    return stays


def _stay(state: State) -> State:
    return State.EFFECTIVE if state is State.INEFFECTIVE else state
