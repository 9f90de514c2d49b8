"""From marks to states: every millisecond once, idle only in stretches of a window, gaps are marked as such."""

from collections import Counter
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from diagnostics.snapshot import State
from diagnostics.stretches import Mark, Piece, advance, begun, final_through, share

MIN = 60_000
WINDOW, MAX_GAP = 30 * MIN, 2 * MIN
BUSY = Mark(State.EFFECTIVE, (7,), 1)
QUIET = Mark(State.IDLE_HELD, (7,), 1)
FREE = Mark(State.FREE)


def run(*marks: tuple[int, Mark | None]) -> list[Piece]:
    """Pieces of a device marked at these minutes; the last mark None settles it."""
    (first, mark), *rest = marks
    assert mark is not None
    track = begun(first * MIN, mark)
    return [
        piece
        for minute, later in rest
        for piece in advance(track, minute * MIN, later, window=WINDOW, max_gap=MAX_GAP)
    ]


def minutes(pieces: list[Piece]) -> dict[State, float]:
    found: Counter[State] = Counter()
    for piece in pieces:
        found[piece.state] += piece.end - piece.start
    return {state: ms / MIN for state, ms in found.items()}


def every_minute(mark: Mark, start: int, end: int) -> list[tuple[int, Mark | None]]:
    return [(minute, mark) for minute in range(start, end)]


def test_time_takes_the_mark_at_its_beginning() -> None:
    assert run((0, BUSY), (1, FREE), (2, FREE), (3, None)) == [
        Piece(0, MIN, State.EFFECTIVE, (7,), 0.0, False),
        Piece(MIN, 2 * MIN, State.FREE, (), 0.0, False),
        Piece(2 * MIN, 3 * MIN, State.FREE, (), 0.0, False),
    ]


def test_quiet_for_a_window_is_idle_from_its_beginning() -> None:
    pieces = run(*every_minute(BUSY, 0, 5), *every_minute(QUIET, 5, 60), (60, BUSY), (61, None))
    assert minutes(pieces) == {State.EFFECTIVE: 6, State.IDLE_HELD: 55}


def test_a_short_quiet_stretch_is_ineffective_and_wasted() -> None:
    pieces = run(*every_minute(BUSY, 0, 5), *every_minute(QUIET, 5, 20), (20, BUSY), (21, None))
    assert minutes(pieces) == {State.EFFECTIVE: 6, State.INEFFECTIVE: 15}
    assert {p.waste for p in pieces if p.state is State.INEFFECTIVE} == {1.0}


def test_quiet_time_is_final_one_window_later() -> None:
    track = begun(0, QUIET)
    for minute in range(1, 30):
        assert list(advance(track, minute * MIN, QUIET, window=WINDOW, max_gap=MAX_GAP)) == []
        assert final_through(track) == 0
    final = list(advance(track, 30 * MIN, QUIET, window=WINDOW, max_gap=MAX_GAP))
    assert final == [Piece(0, 30 * MIN, State.IDLE_HELD, (7,), 1.0, False)]
    assert final_through(track) == 30 * MIN


def test_another_pod_begins_another_stretch() -> None:
    other = Mark(State.IDLE_HELD, (7,), 2)
    pieces = run(*every_minute(QUIET, 0, 20), *every_minute(other, 20, 40), (40, None))
    assert minutes(pieces) == {State.INEFFECTIVE: 40}


def test_memory_that_comes_and_goes_does_not_break_an_idle_stretch() -> None:
    empty = Mark(State.IDLE_EMPTY, (7,), 1)
    pieces = run(*every_minute(QUIET, 0, 20), *every_minute(empty, 20, 40), (40, None))
    assert minutes(pieces) == {State.IDLE_HELD: 20, State.IDLE_EMPTY: 20}


def test_a_gap_is_marked_and_breaks_a_stretch() -> None:
    pieces = run(*every_minute(QUIET, 0, 20), *every_minute(QUIET, 50, 70), (70, None))
    assert [p for p in pieces if p.is_gap] == [Piece(19 * MIN, 50 * MIN, State.NO_DATA, (), 0.0, True)]
    assert minutes(pieces) == {State.INEFFECTIVE: 39, State.NO_DATA: 31}


def test_a_repeated_or_late_poll_changes_nothing() -> None:
    track = begun(5 * MIN, BUSY)
    for late in (5, 4, 0):
        assert list(advance(track, late * MIN, FREE, window=WINDOW, max_gap=MAX_GAP)) == []
    assert (track.at, track.mark) == (5 * MIN, BUSY)


marks = st.builds(
    Mark,
    st.sampled_from(list(State)),
    st.sampled_from([(), (1,), (2,), (1, 2)]),
    st.integers(0, 2),
    st.floats(0, 1),
)
polls = st.lists(st.tuples(st.integers(-3 * MIN, 40 * MIN), marks), max_size=60)


@settings(max_examples=1000)
@given(start=st.integers(0, 10**12), first=marks, steps=polls)
def test_the_states_sum_to_the_time_that_the_device_existed(
    start: int, first: Mark, steps: list[tuple[int, Mark]]
) -> None:
    """Late, repeated and missed polls included; pieces adjoin, in order, without overlap."""
    track, at = begun(start, first), start
    pieces: list[Piece] = []
    for step, mark in steps:
        at += step
        pieces += advance(track, at, mark, window=WINDOW, max_gap=MAX_GAP)
        assert sum(p.end - p.start for p in pieces) == final_through(track) - start
    end = track.at + MIN
    pieces += advance(track, end, None, window=WINDOW, max_gap=MAX_GAP)
    assert pieces[0].start == start
    assert pieces[-1].end == end
    assert all(one.end == other.start for one, other in pairwise(pieces))


@given(
    cuts=st.lists(st.integers(0, 10**13), min_size=2, max_size=8, unique=True),
    sizes=st.lists(st.integers(1, 7), min_size=1, max_size=7),
)
def test_shares_of_a_device_lose_no_millisecond(cuts: list[int], sizes: list[int]) -> None:
    cuts.sort()
    whole = sum(sizes)
    offsets = [sum(sizes[:i]) for i in range(len(sizes))]
    for start, end in pairwise(cuts):
        parts = [share(start, end, o, n, whole) for o, n in zip(offsets, sizes, strict=True)]
        assert sum(parts) == end - start
    first = [share(a, b, 0, sizes[0], whole) for a, b in pairwise(cuts)]
    assert sum(first) == share(cuts[0], cuts[-1], 0, sizes[0], whole)
