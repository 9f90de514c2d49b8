"""Unobserved time is filled exactly once, in whatever chunks it comes."""

from contextlib import suppress
from itertools import count, pairwise
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from diagnostics import usage
from diagnostics.models import Cluster, StateInterval
from diagnostics.snapshot import SourceState, State
from diagnostics.stretches import NOBODY, Piece
from tests.usage.scene import BASE, H100, MIG, MIN, Killed, Scene, at

A, B, C = "gpu-1/a", *MIG
names = count()


def with_gap(scene: Scene, until: float = 300) -> None:
    """Three devices; nobody looks from minute 5 to `until`, and nobody sees the last one for four minutes more."""
    for minute in (0, 1, 3, 5):
        scene.poll(minute, {A: "busy", B: "slow", C: "quiet"})
    for minute in (0, 2):
        scene.poll(until + minute, {A: "busy", B: "free"}, nodes=SourceState.FORBIDDEN)
    for minute in (4, 5):
        scene.poll(until + minute, {A: "busy", B: "free", C: "quiet"})


def piece(
    start: float, end: float, state: State = State.EFFECTIVE, holders: tuple[int, ...] = NOBODY
) -> Piece:
    begin, stop = BASE + round(start * MIN), BASE + round(end * MIN)
    is_gap = state is State.NO_DATA
    return Piece(begin, stop, state, holders, 0.37 if state is State.INEFFECTIVE else 0.0, is_gap)


def fill(scene: Scene, start: float, end: float, pieces: dict[str, list[Piece]]) -> None:
    found = {scene.device(slot).pk: some for slot, some in pieces.items()}
    usage.fill(scene.cluster, BASE + round(start * MIN), BASE + round(end * MIN), found)


def spans(scene: Scene, slot: str) -> list[tuple[float, float, bool, bool]]:
    """(start, end, is_gap, is_backfilled) in minutes, adjoining ones of a kind joined."""
    found: list[tuple[float, float, bool, bool]] = []
    for stay in scene.stays(slot):
        start, end = (stay.start_ms - BASE) / MIN, (stay.end_ms - BASE) / MIN
        kind = (stay.is_gap, stay.is_backfilled)
        if found and found[-1][1:] == (start, *kind):
            found[-1] = (found[-1][0], end, *kind)
        else:
            found.append((start, end, *kind))
    return found


cuts = st.lists(st.floats(-40, 340), min_size=2, max_size=8, unique=True).map(sorted)
states = st.sampled_from([State.EFFECTIVE, State.INEFFECTIVE, State.IDLE_HELD, State.FREE, State.NO_DATA])


@st.composite
def remembered(draw: st.DrawFn) -> list[tuple[float, float, State, int]]:
    """(start, end, state, number of holders) of what Prometheus knew of one device."""
    moments = draw(cuts)
    return [(a, b, draw(states), draw(st.integers(0, 2))) for a, b in pairwise(moments)]


@pytest.mark.django_db(transaction=True)
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    memory=st.fixed_dictionaries({A: remembered(), B: remembered(), C: remembered()}),
    chunks=cuts,
    is_newest_first=st.booleans(),
    killed=st.integers(0, 8),
)
def test_any_chunks_come_to_the_same_as_all_at_once(
    transactional_db: None,
    memory: dict[str, list[tuple[float, float, State, int]]],
    chunks: list[float],
    is_newest_first: bool,
    killed: int,
) -> None:
    """In any order, each twice, one of them killed halfway and begun anew."""
    once, parts = Scene(f"once-{next(names)}"), Scene(f"parts-{next(names)}")
    for scene in (once, parts):
        with_gap(scene)
        assert scene.total_ms() == scene.weighed_ms()
    before = once.total_ms()
    start, end = chunks[0], chunks[-1]
    fill(once, start, end, known_to(once, memory))
    order = list(pairwise(chunks))
    for number, (since, until) in enumerate(reversed(order) if is_newest_first else order):
        if number == killed:
            kill_a_fill(parts, since, until, known_to(parts, memory))
        fill(parts, since, until, known_to(parts, memory))
        after = parts.sums(), stays(parts)
        fill(parts, since, until, known_to(parts, memory))
        assert (parts.sums(), stays(parts)) == after
    assert readable(parts) == readable(once)
    for scene in (once, parts):
        assert scene.total_ms() == scene.weighed_ms()
        assert scene.total_ms() >= before
        assert all(gpu_ms > 0 for gpu_ms, _ in scene.sums().values())
    for slot in (A, B, C):
        assert spans(parts, slot) == spans(once, slot)


def known_to(
    scene: Scene, memory: dict[str, list[tuple[float, float, State, int]]]
) -> dict[str, list[Piece]]:
    keys = tuple(scene.workloads.values())
    return {slot: [piece(a, b, state, keys[:n]) for a, b, state, n in some] for slot, some in memory.items()}


def kill_a_fill(scene: Scene, start: float, end: float, pieces: dict[str, list[Piece]]) -> None:
    before = scene.sums(), stays(scene)
    with suppress(Killed), transaction.atomic():
        fill(scene, start, end, pieces)
        raise Killed
    assert (scene.sums(), stays(scene)) == before


def stays(scene: Scene) -> list[Any]:
    return list(StateInterval.objects.filter(cluster=scene.cluster).order_by("pk").values())


def readable(scene: Scene) -> dict[tuple[Any, ...], tuple[int, int]]:
    """Sums with workloads by name: two clusters number them differently."""
    who = {pk: name for name, pk in scene.workloads.items()} | {scene.nobody: "nobody"}
    return {(hour, who[workload], *rest): sums for (hour, workload, *rest), sums in scene.sums().items()}


@pytest.mark.django_db
class TestFilling:
    def test_a_gap_becomes_what_prometheus_knew(self) -> None:
        scene = Scene()
        with_gap(scene)
        red = scene.workloads["red"]
        total = scene.total_ms()
        fill(scene, 5, 300, {A: [piece(5, 100, State.EFFECTIVE, (red,)), piece(100, 300, State.FREE)]})
        assert spans(scene, A)[:2] == [(0, 5, False, False), (5, 300, False, True)]
        assert scene.total_ms() == total
        ledger = usage.sums(scene.cluster, at(-60), at(600), usage.Grouping.WORKLOAD)
        assert ledger.backfilled_ms == 295 * MIN
        assert usage.gaps(scene.cluster, at(-60), at(600)) == [(at(5), at(304))]

    def test_what_nobody_knew_stays_a_gap(self) -> None:
        scene = Scene()
        with_gap(scene)
        fill(scene, 5, 300, {A: [piece(50, 60), piece(60, 70, State.NO_DATA), piece(70, 80)]})
        assert spans(scene, A) == [
            (0, 5, False, False),
            (5, 50, True, False),
            (50, 60, False, True),
            (60, 70, True, False),
            (70, 80, False, True),
            (80, 300, True, False),
        ]

    def test_nothing_that_a_poll_saw_is_changed(self) -> None:
        scene = Scene()
        with_gap(scene)
        before = scene.sums()
        fill(scene, 0, 5, {A: [piece(0, 5, State.HUNG)]})
        fill(scene, 300, 320, {A: [piece(300, 320, State.HUNG)]})
        assert scene.sums() == before

    def test_time_before_the_first_poll_is_added(self) -> None:
        scene = Scene()
        for minute in range(3):
            scene.poll(minute, {A: "free"})
        fill(scene, -600, 0, {A: [piece(-500, 10, State.EFFECTIVE, (scene.workloads["red"],))]})
        scene.poll(3, {})
        assert spans(scene, A) == [(-500, 0, False, True), (0, 3, False, False)]
        assert scene.total_ms() == 503 * MIN

    def test_a_gap_that_goes_on_is_filled_as_far_as_it_is_known(self) -> None:
        scene = Scene()
        scene.poll(0, {A: "busy"})
        for minute in range(1, 20):
            scene.poll(minute, {}, nodes=SourceState.FAILED)
        fill(scene, 0, 60, {A: [piece(0, 60, State.FREE)]})
        for minute in range(20, 25):
            scene.poll(minute, {}, nodes=SourceState.FAILED)
        scene.poll(25, {})
        assert spans(scene, A) == [(0, 19, False, True), (19, 25, True, False)]
        assert scene.total_ms() == scene.weighed_ms() == 25 * MIN

    def test_a_gap_weighs_what_its_board_was(self) -> None:
        """The board is another one by the time the gap is filled."""
        scene = Scene()
        scene.poll(0, {A: "free"})
        scene.poll(100, {A: "swapped"})
        scene.poll(101, {A: "swapped"})
        scene.device(A, H100)
        fill(scene, 0, 100, {A: [piece(0, 100, State.FREE)]})
        assert sorted(gpu_ms for gpu_ms, _ in scene.sums().values()) == [MIN, 40 * MIN, 60 * MIN]
        assert not any(key[4] for key in scene.sums())

    def test_a_device_of_another_cluster_is_left_alone(self) -> None:
        here, there = Scene("here"), Scene("there")
        for scene in (here, there):
            with_gap(scene)
        before = there.sums()
        usage.fill(here.cluster, BASE, BASE + 300 * MIN, {there.device(A).pk: [piece(0, 300)]})
        assert there.sums() == before

    def test_before_the_first_poll_it_says_so(self) -> None:
        with pytest.raises(usage.NobodyKnown):
            usage.fill(Cluster.objects.create(slug="new", name="new"), 0, MIN, {})
