"""Whatever a node goes through, every device has one row, every board its whole time, and every UUID one place."""

from collections import defaultdict
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from diagnostics.collect.devices import joined
from diagnostics.collect.readings import DeviceReading
from diagnostics.models import Device, Node
from diagnostics.snapshot import Gpu, Metrics, Past
from diagnostics.snapshot import Node as NodeObject
from diagnostics.topology import Known
from diagnostics.topology.slots import instance_board, naming
from tests.builders import node
from tests.topology.timeline import Polls

BOARDS = 3
CUTS = ("", "1g.10gb", "3g.40gb", "7g.80gb")
COUNT = {"1g.10gb": 7, "3g.40gb": 2, "7g.80gb": 1}

moments = st.fixed_dictionaries(
    {
        "uuids": st.permutations(["GPU-a", "GPU-b", "GPU-c", "GPU-d"]),
        "cuts": st.lists(st.sampled_from(CUTS), min_size=BOARDS, max_size=BOARDS),
        "read": st.lists(st.booleans(), min_size=BOARDS, max_size=BOARDS),
        "unhealthy": st.integers(0, 2),
        "replicas": st.sampled_from([1, 1, 4]),
        "uid": st.sampled_from(["one", "one", "one", "two"]),
        "is_there": st.sampled_from([True, True, True, True, False]),
        "is_bare": st.sampled_from([False, False, False, False, True]),
    }
)


def picture(moment: dict[str, object]) -> tuple[NodeObject, tuple[Gpu, ...]]:
    """A node with three boards, each whole or cut, some of them silent, as collect joins it."""
    cuts: list[str] = moment["cuts"]  # type: ignore[assignment]
    replicas: int = moment["replicas"]  # type: ignore[assignment]
    amounts: dict[str, float] = defaultdict(float)
    readings: list[DeviceReading] = []
    for index, cut in enumerate(cuts):
        resource, count = (f"nvidia.com/mig-{cut}", COUNT[cut]) if cut else ("nvidia.com/gpu", replicas)
        amounts[resource] += count
        if moment["read"][index]:  # type: ignore[index]
            readings += [
                DeviceReading(
                    node_hints=("gpu-1",),
                    uuid=moment["uuids"][index],  # type: ignore[index]
                    pci=f"00000000:{index:02x}:00.0",
                    index=index,
                    mig_profile=cut or None,
                    mig_instance=str(number) if cut else None,
                    metrics=Metrics(utilization_ratio=0.5),
                )
                for number in range(COUNT.get(cut, 1))
            ]
    if moment["is_bare"]:
        amounts, readings = {"nvidia.com/gpu": 0.0}, []
    bad: int = moment["unhealthy"]  # type: ignore[assignment]
    found = node(
        gpus=0,
        uid=moment["uid"],
        labels={"nvidia.com/gpu.replicas": str(replicas), "nvidia.com/gpu.present": "true"},
        capacity=dict(amounts),
        allocatable={name: max(0.0, amount - bad) for name, amount in amounts.items()},
    )
    return found, joined((found,), (), readings, Past())


def moment(uuids: str, cuts: str, read: str, unhealthy: int = 1) -> dict[str, object]:
    """Of the node that stays: `moment("d c b", "1g.10gb - 7g.80gb", "+ - +")`."""
    return {
        "uuids": [f"GPU-{letter}" for letter in uuids.split()],
        "cuts": [cut.strip("-") for cut in cuts.split()],
        "read": [mark == "+" for mark in read.split()],
        "unhealthy": unhealthy,
        "replicas": 1,
        "uid": "one",
        "is_there": True,
        "is_bare": False,
    }


BOARD_BESIDE_A_SILENT_SLICE_OF_ANOTHER = [
    moment("d c b", "1g.10gb 1g.10gb 7g.80gb", "+ + +", unhealthy=0),
    moment("c d a", "- 1g.10gb 1g.10gb", "- + -"),
    moment("a b d", "3g.40gb 1g.10gb 7g.80gb", "+ - -"),
    moment("a b d", "- 3g.40gb 3g.40gb", "+ + +"),
    moment("c d a", "1g.10gb 7g.80gb 3g.40gb", "- + -"),
    moment("d a c", "7g.80gb - 1g.10gb", "+ + -"),
]
"""One board moves into a place where a slice is silent that still bears the name of the board before."""


def check(known: Known, gpus: tuple[Gpu, ...], polls: Polls) -> None:
    live = {row.pk: row for row in Device.objects.filter(cluster=polls.cluster, removed_at=None)}
    assert {row.pk for row in known.devices.values()} == live.keys()
    assert {gpu.slot for gpu in gpus} == {slot for slot in known.devices if not slot.endswith("/mig-rest")}
    assert len({row.pk for row in known.devices.values()}) == len(known.devices)
    boards: dict[str, list[Device]] = defaultdict(list)
    for row in live.values():
        on = instance_board(row.slot)
        if on is not None:
            boards[on].append(row)
    for rows in boards.values():
        assert sum(Fraction(row.parts, row.whole) for row in rows) == 1
        assert sorted(row.offset for row in rows) == [
            sum(r.parts for r in rows if r.offset < row.offset)
            for row in sorted(rows, key=lambda row: row.offset)
        ]
    places: dict[str, set[str]] = defaultdict(set)
    for row in live.values():
        if row.uuid:
            places[row.uuid].add(instance_board(row.slot) or row.slot)
    assert all(len(found) == 1 for found in places.values())
    for gpu in gpus:
        assert naming(known.devices[gpu.slot].slot) >= naming(gpu.slot)
    for slot, row in known.devices.items():
        assert live[row.pk].slot == row.slot, slot


@pytest.mark.django_db
@settings(
    max_examples=100,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(moments, min_size=2, max_size=8))
@example(BOARD_BESIDE_A_SILENT_SLICE_OF_ANOTHER)
def test_every_history_leaves_one_row_for_every_device(history: list[dict[str, object]]) -> None:
    Node.objects.all().delete()
    polls = Polls(f"c{Polls.count()}")
    for moment in history:
        found, gpus = picture(moment)
        if not moment["is_there"]:
            polls.poll()
            continue
        check(polls.poll(found, *gpus), gpus, polls)
        written = len(polls.changes())
        check(polls.poll(found, *gpus), gpus, polls)
        assert len(polls.changes()) == written, "the same picture again is no change"
