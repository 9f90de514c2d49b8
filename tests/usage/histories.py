"""Random histories of a few devices, and what a ledger of them must come to: counted on its own, without the books."""

from collections import defaultdict
from typing import NamedTuple

from hypothesis import strategies as st

from diagnostics.snapshot import State
from diagnostics.stretches import Mark, share
from diagnostics.usage.books import Ended, Key, Moved, Seen
from diagnostics.usage.weights import Shape

MIN = 60_000
WINDOW, MAX_GAP = 30 * MIN, 2 * MIN
START = 1_780_000_000_123
"""Not on a full second."""

FULL = Shape(1)
SHAPES = [FULL, Shape(2), Shape(1, replicas=4), Shape(1, 0, 3, 7), Shape(1, 3, 2, 7), Shape(2, 5, 2, 7, 3)]


class Poll(NamedTuple):
    """What happens at one poll."""

    after: int
    """Milliseconds since the one before; not always a positive number."""
    seen: dict[int, Seen]
    knows: bool
    """Whether it can tell the devices that it does not see to be gone."""
    crashes: bool = False
    """What it wrote is lost."""
    repeats: bool = False
    """It is delivered once more."""


states = st.sampled_from(list(State))
marks = st.builds(
    Mark, states, st.sampled_from([(), (1,), (2,), (1, 2), (1, 1, 3)]), st.integers(0, 2), st.floats(0, 1)
)
seen = st.builds(Seen, marks, st.sampled_from(SHAPES))
steady = st.builds(Seen, st.just(Mark(State.IDLE_HELD, (7,), 1)), st.just(FULL))
"""Long stretches need luck to come about by chance."""
pauses = st.one_of(
    st.just(MIN),
    st.integers(MIN - 2_000, MIN + 2_000),
    st.integers(-5 * MIN, 3 * MIN),
    st.integers(1, 26 * 60 * MIN),
)
polls = st.builds(
    Poll,
    pauses,
    st.dictionaries(st.integers(1, 4), st.one_of(steady, steady, seen), max_size=4),
    st.booleans(),
    st.integers(0, 9).map(lambda number: number == 0),
    st.integers(0, 9).map(lambda number: number == 0),
)
histories = st.lists(polls, max_size=60)


class Existence:
    """How long each device existed: from the poll that first saw it to the one that knew it to be gone."""

    def __init__(self) -> None:
        self.at = 0
        self.born: dict[int, int] = {}
        self.spans: dict[int, list[tuple[int, int]]] = defaultdict(list)

    def poll(self, at: int, one: Poll) -> None:
        """A poll that was kept."""
        if at <= self.at:
            return
        self.at = at
        for device in one.seen:
            self.born.setdefault(device, at)
        for device in set(self.born) - set(one.seen) if one.knows else ():
            self.spans[device].append((self.born.pop(device), at))


class Kept:
    """What a database would hold: stays are added, sums written over."""

    def __init__(self) -> None:
        self.stays: list[Ended] = []
        self.sums: dict[tuple[int, Key], tuple[int, int]] = {}

    def write(self, moved: Moved) -> None:
        """As a poll does."""
        self.stays += moved.ended
        for hour, key, gpu_ms, waste_ms in moved.totals:
            self.sums[hour, key] = gpu_ms, waste_ms

    def by_model(self) -> dict[int, int]:
        """GPU-milliseconds by model, from the sums."""
        found: dict[int, int] = defaultdict(int)
        for (_, key), (gpu_ms, _) in self.sums.items():
            found[key.model] += gpu_ms
        return {model: total for model, total in found.items() if total}

    def weighed(self) -> dict[int, int]:
        """The same from the stays."""
        found: dict[int, int] = defaultdict(int)
        for _, stay, shape in self.stays:
            found[shape.model] += share(stay.start, stay.end, shape.offset, shape.parts, shape.whole)
        return {model: total for model, total in found.items() if total}
