"""Each device's time is in the books exactly once, whatever happens between polls."""

from itertools import pairwise

import msgspec
from hypothesis import given, settings

from diagnostics.snapshot import State
from diagnostics.stretches import Mark
from diagnostics.usage.books import Books, Key, Moved, Seen
from diagnostics.usage.weights import HOUR_MS, Shape
from tests.usage.histories import FULL, MAX_GAP, MIN, START, WINDOW, Existence, Kept, Poll, histories

BUSY, FREE = Mark(State.EFFECTIVE, (7,), 1), Mark(State.FREE)
QUIET = Mark(State.IDLE_HELD, (7,), 1)
LAST = Poll(MIN, {}, knows=True)
"""All devices are gone, so that everything is final."""


def stored(books: Books) -> Books:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(books), type=Books)


def moved(books: Books, at: int, one: Poll) -> Moved:
    gone = books.missing(one.seen.keys()) if one.knows else set()
    return books.advance(at, one.seen, gone, window=WINDOW, max_gap=MAX_GAP)


@settings(max_examples=1000, deadline=None)
@given(histories)
def test_states_sum_to_the_time_that_each_device_existed(history: list[Poll]) -> None:
    """Crashes, repeated, late and missed polls, devices that change, come, go and cannot be seen."""
    books, kept, existence, at = Books(), Kept(), Existence(), START
    for one in [*history, LAST._replace(after=50 * 24 * 60 * MIN)]:
        at += one.after
        copy = stored(books)
        result = moved(copy, at, one)
        if one.crashes:
            continue
        books = copy
        kept.write(result)
        existence.poll(at, one)
        if one.repeats:
            again = moved(books, at, one)
            assert (again.ended, again.totals) == ([], [])
    assert books.entries == {}
    for device in (1, 2, 3, 4):
        stays = sorted((end.interval.start, end.interval.end) for end in kept.stays if end.device == device)
        spans = existence.spans[device]
        assert sum(end - start for start, end in stays) == sum(end - start for start, end in spans)
        assert all(one[1] <= other[0] for one, other in pairwise(stays))
        for start, end in spans:
            inside = [stay for stay in stays if start <= stay[0] and stay[1] <= end]
            assert sum(stop - begin for begin, stop in inside) == end - start
    assert kept.by_model() == kept.weighed()


@settings(max_examples=300, deadline=None)
@given(histories)
def test_what_is_complete_stays_as_it_is(history: list[Poll]) -> None:
    """The moment never goes back, nothing before it changes, and only hours after it are kept."""
    books, at, through = Books(), START, 0
    for one in history:
        at += one.after
        result = moved(books, at, one)
        assert books.through >= through
        assert all(total.hour + HOUR_MS > through for total in result.totals)
        assert all(hour + HOUR_MS > books.through for hour in books.hours)
        through = books.through


def every_minute(*marks: tuple[int, Mark], shape: Shape = FULL, until: int) -> tuple[Kept, Books]:
    """Device 1 polled each minute from minute 0 until `until`, with the mark that holds from each minute on."""
    books, kept = Books(), Kept()
    base = START - START % HOUR_MS
    for minute in range(until):
        mark = [mark for since, mark in marks if since <= minute][-1]
        kept.write(moved(books, base + minute * MIN, Poll(MIN, {1: Seen(mark, shape)}, knows=True)))
    kept.write(moved(books, base + until * MIN, LAST))
    return kept, books


def minutes(kept: Kept) -> dict[tuple[int, State], float]:
    """(workload, state) -> GPU-minutes."""
    found: dict[tuple[int, State], float] = {}
    for (_, key), (gpu_ms, _) in kept.sums.items():
        found[key.workload, key.state] = found.get((key.workload, key.state), 0) + gpu_ms / MIN
    return found


def test_hours_are_cut_at_the_full_hour() -> None:
    kept, _ = every_minute((0, BUSY), until=90)
    base = START - START % HOUR_MS
    key = Key(7, 1, State.EFFECTIVE, is_gap=False)
    assert kept.sums == {(base, key): (60 * MIN, 0), (base + HOUR_MS, key): (30 * MIN, 0)}


def test_idle_time_belongs_to_its_holder_and_is_wasted() -> None:
    kept, _ = every_minute((0, FREE), (10, QUIET), until=50)
    assert minutes(kept) == {(0, State.FREE): 10, (7, State.IDLE_HELD): 40}
    assert sum(waste for _, waste in kept.sums.values()) == 40 * MIN


def test_shares_without_a_holder_are_free() -> None:
    kept, _ = every_minute((0, BUSY), shape=Shape(1, replicas=4), until=40)
    assert minutes(kept) == {(7, State.EFFECTIVE): 10, (0, State.FREE): 30}


def test_shares_of_a_broken_board_are_not_free() -> None:
    kept, _ = every_minute((0, Mark(State.UNAVAILABLE, (7,))), shape=Shape(1, replicas=4), until=40)
    assert minutes(kept) == {(7, State.UNAVAILABLE): 10, (0, State.UNAVAILABLE): 30}


def test_a_mig_instance_weighs_its_slices() -> None:
    kept, _ = every_minute((0, BUSY), shape=Shape(1, 2, 3, 7), until=70)
    assert abs(minutes(kept)[7, State.EFFECTIVE] - 30) * MIN < 1


def test_ineffective_time_is_wasted_in_part() -> None:
    kept, _ = every_minute((0, Mark(State.INEFFECTIVE, (7,), 1, 0.25)), until=40)
    assert sum(waste for _, waste in kept.sums.values()) == 10 * MIN
    assert [(end.interval.state, end.interval.ineffective_ms) for end in kept.stays] == [
        (State.EFFECTIVE, 40 * MIN)
    ]


def test_another_board_weighs_as_its_own_model_from_its_first_poll_on() -> None:
    books, kept = Books(), Kept()
    for minute in range(10):
        shape = Shape(1) if minute < 4 else Shape(2)
        kept.write(moved(books, START + minute * MIN, Poll(MIN, {1: Seen(BUSY, shape)}, knows=True)))
    kept.write(moved(books, START + 10 * MIN, LAST))
    assert kept.by_model() == {1: 4 * MIN, 2: 6 * MIN}
    assert len(kept.stays) == 2


def test_sharing_that_is_switched_on_splits_the_time_from_that_poll_on() -> None:
    books, kept = Books(), Kept()
    for minute in range(8):
        shape = Shape(1) if minute < 4 else Shape(1, replicas=2)
        kept.write(moved(books, START + minute * MIN, Poll(MIN, {1: Seen(BUSY, shape)}, knows=True)))
    kept.write(moved(books, START + 8 * MIN, LAST))
    assert minutes(kept) == {(7, State.EFFECTIVE): 6, (0, State.FREE): 2}


def test_a_device_that_nobody_can_see_is_unobserved_until_it_is_seen_again() -> None:
    books, kept = Books(), Kept()
    blind = Poll(MIN, {}, knows=False)
    for minute in range(20):
        one = Poll(MIN, {1: Seen(BUSY, FULL)}, knows=True) if minute < 5 or minute > 15 else blind
        kept.write(moved(books, START + minute * MIN, one))
        assert 1 in books.entries
    kept.write(moved(books, START + 20 * MIN, LAST))
    stays = [
        ((e.interval.start - START) // MIN, (e.interval.end - START) // MIN, e.interval.is_gap)
        for e in kept.stays
    ]
    assert stays == [(0, 4, False), (4, 16, True), (16, 20, False)]


def test_a_poll_that_missed_a_device_once_costs_nothing() -> None:
    books, kept = Books(), Kept()
    for minute in range(10):
        one = Poll(MIN, {1: Seen(BUSY, FULL)} if minute != 5 else {}, knows=False)
        kept.write(moved(books, START + minute * MIN, one))
    kept.write(moved(books, START + 10 * MIN, LAST))
    assert minutes(kept) == {(7, State.EFFECTIVE): 10}


def test_a_device_that_comes_back_begins_anew() -> None:
    books, kept = Books(), Kept()
    for minute in range(10):
        one = Poll(MIN, {1: Seen(QUIET, FULL)} if minute not in (4, 5, 6) else {}, knows=True)
        kept.write(moved(books, START + minute * MIN, one))
    kept.write(moved(books, START + 10 * MIN, LAST))
    assert minutes(kept) == {(7, State.INEFFECTIVE): 7}
