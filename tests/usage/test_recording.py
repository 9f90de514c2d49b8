"""Polls in the database: killed, repeated, late or missing ones included."""

from collections import defaultdict
from itertools import count, pairwise
from typing import NamedTuple

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from diagnostics import usage
from diagnostics.models import STATE_NUMBERS, LedgerState, StateInterval
from diagnostics.snapshot import SourceState, State
from tests.usage.scene import BASE, H100, LOOKS, MIG, MIN, Scene, at

SLOTS = ["gpu-1/a", "gpu-1/c", *MIG]
names = count()


class Poll(NamedTuple):
    """What comes `after` so many minutes."""

    after: float
    looks: dict[str, str]
    sees_nodes: bool
    is_killed: bool
    is_repeated: bool


rarely = st.integers(0, 7).map(lambda number: number == 0)
polls = st.builds(
    Poll,
    st.one_of(st.just(1.0), st.just(1.0), st.floats(-3, 4), st.integers(1, 300)),
    st.dictionaries(st.sampled_from(SLOTS), st.sampled_from(sorted(LOOKS)), max_size=4),
    rarely.map(lambda rare: not rare),
    rarely,
    rarely,
)


@pytest.mark.django_db(transaction=True)
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=st.lists(polls, max_size=25))
def test_states_sum_to_the_time_that_each_device_existed(transactional_db: None, history: list[Poll]) -> None:
    scene = Scene(f"lab-{next(names)}")
    minute, last = 1.0, -(10**9)
    born: dict[str, int] = {}
    existed: dict[str, int] = defaultdict(int)
    for one in [*history, Poll(10_000, {}, True, False, False)]:
        minute += one.after
        nodes = SourceState.OK if one.sees_nodes else SourceState.FORBIDDEN
        for _ in range(2 if one.is_repeated else 1):
            scene.poll(minute, one.looks, nodes=nodes, killed=one.is_killed)
        now = round(minute * MIN)
        if one.is_killed or now <= last:
            continue
        last = now
        for slot in one.looks:
            born.setdefault(slot, now)
        for slot in set(born) - set(one.looks) if one.sees_nodes else ():
            existed[slot] += now - born.pop(slot)
    for slot in SLOTS:
        stays = scene.stays(slot)
        assert sum(stay.end_ms - stay.start_ms for stay in stays) == existed[slot]
        assert all(one.end_ms <= other.start_ms for one, other in pairwise(stays))
    assert scene.total_ms() == scene.weighed_ms()
    assert scene.total_ms() == sum(
        gpu_ms for *_, gpu_ms, _ in usage.hours(scene.cluster, at(-2000), at(100_000))
    )


@pytest.mark.django_db
class TestOnePollAfterTheOther:
    def test_a_poll_says_through_when_it_is_complete(self) -> None:
        scene = Scene()
        assert usage.complete_through(scene.cluster) is None
        for minute in range(3):
            scene.poll(minute, {"gpu-1/a": "busy"})
        assert usage.complete_through(scene.cluster) == at(2)
        for minute in range(3, 20):
            scene.poll(minute, {"gpu-1/a": "quiet"})
        assert usage.complete_through(scene.cluster) == at(3)
        for minute in range(20, 40):
            scene.poll(minute, {"gpu-1/a": "quiet"})
        assert usage.complete_through(scene.cluster) == at(39)

    def test_a_repeated_or_late_poll_changes_nothing(self) -> None:
        scene = Scene()
        for minute in (0, 1, 2):
            scene.poll(minute, {"gpu-1/a": "busy"})
        before = scene.sums(), bytes(LedgerState.objects.get().data)
        scene.poll(2, {"gpu-1/a": "free"})
        scene.poll(1.5, {})
        assert (scene.sums(), bytes(LedgerState.objects.get().data)) == before

    def test_a_gap_is_nobodys_and_its_row_says_so(self) -> None:
        scene = Scene()
        for minute in (0, 1, 31, 32):
            scene.poll(minute, {"gpu-1/a": "busy"})
        gap = StateInterval.objects.get(is_gap=True)
        assert (gap.start_ms, gap.end_ms) == (BASE + MIN, BASE + 31 * MIN)
        assert usage.gaps(scene.cluster, at(0), at(60)) == [(at(1), at(31))]
        assert usage.gaps(scene.cluster, at(5), at(10)) == [(at(5), at(10))]
        lines = [line for line in usage.hours(scene.cluster, at(0), at(60)) if line.is_gap]
        assert [(line.workload, line.state, line.gpu_ms) for line in lines] == [
            (scene.nobody, State.NO_DATA, 30 * MIN)
        ]

    def test_refused_nodes_leave_devices_unobserved(self) -> None:
        scene = Scene()
        scene.poll(0, {"gpu-1/a": "busy"})
        for minute in range(1, 10):
            scene.poll(minute, {}, nodes=SourceState.FORBIDDEN)
        assert usage.gaps(scene.cluster, at(0), at(60)) == [(at(0), at(9))]
        scene.poll(10, {"gpu-1/a": "busy"})
        scene.poll(11, {})
        assert [(stay.end_ms - stay.start_ms, stay.is_gap) for stay in scene.stays("gpu-1/a")] == [
            (10 * MIN, True),
            (MIN, False),
        ]

    def test_unreadable_nodes_say_nothing_of_their_own_devices(self) -> None:
        scene = Scene()
        scene.poll(0, {"gpu-1/a": "busy"})
        scene.node.name = "gpu-9"
        scene.node.save()
        scene.poll(1, {}, nodes=SourceState.PARTIAL)
        assert scene.stays("gpu-1/a") == []
        scene.node.name = "gpu-1"
        scene.node.save()
        scene.poll(2, {}, nodes=SourceState.PARTIAL)
        assert [stay.end_ms for stay in scene.stays("gpu-1/a")] == [BASE + 2 * MIN]

    def test_another_board_in_the_slot_is_another_model(self) -> None:
        scene = Scene()
        for minute, look in enumerate(["free", "free", "swapped", "swapped", "swapped"]):
            scene.poll(minute, {"gpu-1/a": look})
        models = usage.sums(scene.cluster, at(0), at(60), usage.Grouping.MODEL).groups
        assert {group.name: group.gpu_ms for group in models} == {
            ("NVIDIA A100-SXM4-80GB",): 2 * MIN,
            (H100,): 2 * MIN,
        }

    def test_the_present_stay_is_known_before_it_ends(self) -> None:
        scene = Scene()
        for minute in range(5):
            scene.poll(minute, {"gpu-1/a": "free"})
        stay = usage.open_stays(scene.cluster)[scene.device("gpu-1/a").pk]
        assert (stay.start, stay.end, stay.state) == (BASE, BASE + 4 * MIN, State.FREE)
        assert scene.stays("gpu-1/a") == []

    def test_books_that_cannot_be_read_cost_no_sum(self) -> None:
        scene = Scene()
        for minute in range(5):
            scene.poll(minute, {"gpu-1/a": "busy"})
        LedgerState.objects.update(data=b"from another world")
        for minute in range(5, 8):
            scene.poll(minute, {"gpu-1/a": "busy"})
        [(key, (gpu_ms, _))] = scene.sums().items()
        assert (key[3], gpu_ms) == (STATE_NUMBERS[State.EFFECTIVE], 6 * MIN)

    def test_the_number_of_queries_does_not_grow_with_the_cluster(self) -> None:
        def queries(scene: Scene, devices: int) -> int:
            looks = {f"gpu-1/{number}": "busy" for number in range(devices)}
            for minute in (0, 1):
                scene.poll(minute, looks)
            with CaptureQueriesContext(
                connection,
            ) as captured:
                scene.poll(2, looks)
            own = [q for q in captured.captured_queries if "diagnostics_device" not in q["sql"]]
            return sum("SAVEPOINT" not in q["sql"] for q in own)

        assert queries(Scene("small"), 1) == queries(Scene("large"), 40)
