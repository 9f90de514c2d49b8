"""Device rows: places that stay, boards that are swapped, lost, found and moved."""

from datetime import timedelta
from typing import Any

import pytest

from diagnostics.collect.devices import joined
from diagnostics.models import Device
from diagnostics.snapshot import DeviceHealth, Gpu, Past, Source
from tests.builders import container, gpu, node, pod, statuses
from tests.collect.test_devices import reading
from tests.topology.timeline import POLL, Polls, counted

pytestmark = pytest.mark.django_db

NODE = node(gpus=2)
SLOTS = [gpu(i).slot for i in range(2)]


def joined_gpus(*indexes: int, **fields: Any) -> tuple[Gpu, ...]:
    """The devices of NODE as collect joins them when these boards have metrics."""
    return joined((fields.pop("node", NODE),), (), [reading(i) for i in indexes], Past(), **fields)


def test_a_device_is_a_place_with_the_board_that_sits_there() -> None:
    row = Polls().poll(NODE, gpu(0), gpu(1)).devices[SLOTS[1]]

    assert (row.slot, row.uuid, row.model) == (SLOTS[1], "GPU-gpu-1-1", "NVIDIA A100-SXM4-80GB")
    assert (row.offset, row.parts, row.whole) == (0, 1, 1)
    assert (row.resource, row.mig_profile, row.lost_at) == ("nvidia.com/gpu", "", None)


def test_a_swapped_board_is_a_change_and_no_loss() -> None:
    polls = Polls()
    before = polls.poll(NODE, gpu(0), gpu(1)).devices[SLOTS[1]]
    after = polls.poll(NODE, gpu(0), gpu(1, uuid="GPU-new")).devices[SLOTS[1]]

    assert polls.changes() == [("GPU replaced", SLOTS[1], "GPU-gpu-1-1", "GPU-new")]
    assert (after.pk, after.uuid) == (before.pk, "GPU-new")


def test_a_board_that_moved_to_another_slot_is_a_change_on_both() -> None:
    polls = Polls()
    polls.poll(NODE, gpu(0), gpu(1))
    polls.poll(NODE, gpu(0, uuid="GPU-gpu-1-1"), gpu(1, uuid="GPU-gpu-1-0"))

    assert polls.changes() == [
        ("GPU replaced", SLOTS[0], "GPU-gpu-1-0", f"GPU-gpu-1-1, was in {SLOTS[1]}"),
        ("GPU replaced", SLOTS[1], "GPU-gpu-1-1", f"GPU-gpu-1-0, was in {SLOTS[0]}"),
    ]
    assert [row.uuid for row in polls.live().values()] == ["GPU-gpu-1-1", "GPU-gpu-1-0"]


def test_a_board_that_moved_to_another_node_is_nowhere_twice() -> None:
    polls = Polls()
    other = node("gpu-2", gpus=1)
    polls.poll(NODE, gpu(0), gpu(1), other, gpu(0, "gpu-2"))
    silent = gpu(1, uuid=None, metrics=None, is_healthy=False)
    polls.poll(NODE, gpu(0), silent, other, gpu(0, "gpu-2", uuid="GPU-gpu-1-1"))

    there = gpu(0, "gpu-2").slot
    assert polls.changes() == [
        ("GPU replaced", there, "GPU-gpu-2-0", f"GPU-gpu-1-1, was in {SLOTS[1]}"),
        ("GPU replaced", SLOTS[1], "GPU-gpu-1-1", f"now in {there}"),
        ("GPU lost", SLOTS[1], "", ""),
    ]
    assert list(Device.objects.filter(uuid="GPU-gpu-1-1").values_list("slot", flat=True)) == [there]


def test_a_board_that_two_places_claim_stays_where_it_is_read() -> None:
    polls = Polls()
    polls.poll(NODE, gpu(0), gpu(1))
    polls.poll(NODE, gpu(0), gpu(1, uuid="GPU-gpu-1-0"))

    assert polls.changes() == [("GPU replaced", SLOTS[1], "GPU-gpu-1-1", "GPU-gpu-1-0")]


def test_a_board_whose_slot_is_gone_went_where_it_is_now() -> None:
    polls = Polls()
    other = node("gpu-2", gpus=1)
    polls.poll(NODE, gpu(0), gpu(1), other, gpu(0, "gpu-2"))
    polls.poll(
        node(gpus=1), gpu(0), node("gpu-2", gpus=2), gpu(0, "gpu-2"), gpu(1, "gpu-2", uuid="GPU-gpu-1-1")
    )

    there = gpu(1, "gpu-2").slot
    assert polls.changes() == [
        ("GPU found", there, f"in {SLOTS[1]}", "GPU-gpu-1-1"),
        ("GPU count changed", "gpu-1", "2", "1"),
        ("GPU lost", SLOTS[1], "GPU-gpu-1-1", f"now in {there}"),
        ("GPU count changed", "gpu-2", "1", "2"),
    ]
    assert set(polls.live()) == {SLOTS[0], gpu(0, "gpu-2").slot, there}


def test_an_unhealthy_gpu_is_lost_and_found_once() -> None:
    polls = Polls()
    for is_healthy in (True, False, False, None, True):
        polls.poll(NODE, gpu(0), gpu(1, is_healthy=is_healthy))

    assert polls.changes() == [
        ("GPU lost", SLOTS[1], "GPU-gpu-1-1", ""),
        ("GPU found", SLOTS[1], "", "GPU-gpu-1-1"),
    ]
    assert polls.live()[SLOTS[1]].lost_at is None


def test_a_lost_gpu_says_since_when() -> None:
    polls = Polls()
    polls.poll(NODE, gpu(0), gpu(1))
    polls.poll(NODE, gpu(0), gpu(1, is_healthy=False))
    since = polls.at
    polls.poll(NODE, gpu(0), gpu(1, is_healthy=False))

    assert polls.live()[SLOTS[1]].lost_at == since


def test_a_slot_that_vanishes_is_lost_and_found_when_it_returns() -> None:
    polls = Polls()
    before = polls.poll(NODE, gpu(0), gpu(1)).devices[SLOTS[1]]
    polls.poll(node(gpus=1), gpu(0))
    assert list(polls.live()) == [SLOTS[0]]
    after = polls.poll(NODE, gpu(0), gpu(1)).devices[SLOTS[1]]

    assert polls.changes() == [
        ("GPU count changed", "gpu-1", "2", "1"),
        ("GPU lost", SLOTS[1], "GPU-gpu-1-1", ""),
        ("GPU count changed", "gpu-1", "1", "2"),
        ("GPU found", SLOTS[1], "", "GPU-gpu-1-1"),
    ]
    assert (after.pk, after.removed_at, after.lost_at) == (before.pk, None, None)
    assert polls.node().most_gpus == 2


def test_another_board_in_a_slot_that_was_gone_is_a_replacement() -> None:
    polls = Polls()
    polls.poll(NODE, gpu(0), gpu(1))
    polls.poll(node(gpus=1), gpu(0))
    polls.poll(NODE, gpu(0), gpu(1, uuid="GPU-new"))

    assert ("GPU replaced", SLOTS[1], "GPU-gpu-1-1", "GPU-new") in polls.changes()


def test_a_node_that_goes_takes_its_gpus_along_in_silence() -> None:
    polls = Polls()
    polls.poll(NODE, gpu(0), gpu(1), node("gpu-2", gpus=1), gpu(0, "gpu-2"))
    polls.poll(node("gpu-2", gpus=1), gpu(0, "gpu-2"))

    assert polls.kinds() == ["node removed"]
    assert Device.objects.filter(removed_at=polls.at).count() == 2


def test_a_poll_without_metrics_is_no_news() -> None:
    polls = Polls()
    named = polls.poll(NODE, *joined_gpus(0, 1))
    silent = polls.poll(NODE, *joined_gpus(), without=[Source.METRICS])
    half = polls.poll(NODE, *joined_gpus(1))
    again = polls.poll(NODE, *joined_gpus(0, 1))

    assert polls.changes() == []
    assert list(silent.devices) == ["gpu-1/nvidia.com/gpu#0", "gpu-1/nvidia.com/gpu#1"]
    assert sorted(polls.live()) == SLOTS
    keys = [sorted(row.pk for row in known.devices.values()) for known in (named, silent, half, again)]
    assert keys[0] == keys[1] == keys[2] == keys[3]
    assert half.devices["gpu-1/nvidia.com/gpu#1"].slot == SLOTS[0]


def test_an_unnamed_place_gets_its_name_when_metrics_come() -> None:
    polls = Polls()
    unnamed = polls.poll(NODE, *counted(NODE))
    named = polls.poll(NODE, *joined_gpus(0, 1))

    assert polls.changes() == []
    assert sorted(polls.live()) == SLOTS
    assert {row.pk for row in unnamed.devices.values()} == {row.pk for row in named.devices.values()}
    assert {row.uuid for row in polls.live().values()} == {"GPU-gpu-1-0", "GPU-gpu-1-1"}


def test_a_place_that_only_pod_status_names_is_the_board_with_that_uuid() -> None:
    holder = pod(
        "train-0",
        gpus=1,
        containers=(container(devices=(DeviceHealth("nvidia.com/gpu", "GPU-gpu-1-1", "Healthy"),)),),
    )
    polls = Polls()
    before = polls.poll(NODE, holder, *joined((NODE,), (holder,), [reading(0), reading(1)], Past()))
    silent = polls.poll(NODE, holder, *joined((NODE,), (holder,), [], Past()))

    assert polls.changes() == []
    assert silent.devices["gpu-1/GPU-gpu-1-1"].pk == before.devices[SLOTS[1]].pk
    assert silent.devices["gpu-1/nvidia.com/gpu#1"].pk == before.devices[SLOTS[0]].pk
    assert sorted(polls.live()) == SLOTS

    fresh = Polls("fresh")
    first = fresh.poll(NODE, holder, *joined((NODE,), (holder,), [], Past()))
    fresh.poll(NODE, holder, *joined((NODE,), (holder,), [reading(0), reading(1)], Past()))
    assert fresh.changes() == []
    assert fresh.live()[SLOTS[1]].pk == first.devices["gpu-1/GPU-gpu-1-1"].pk


def test_which_of_the_gpus_is_missing_may_be_a_guess_that_moves() -> None:
    polls = Polls()
    short = node(gpus=2, allocatable={"nvidia.com/gpu": 1.0})
    polls.poll(NODE, *joined_gpus(0, 1))
    polls.poll(short, *joined_gpus(0, node=short))
    polls.poll(short, *joined_gpus(1, node=short))
    polls.poll(short, *joined_gpus(node=short), without=[Source.METRICS])
    polls.poll(NODE, *joined_gpus(0, 1))

    assert polls.changes() == [
        ("GPU lost", SLOTS[1], "GPU-gpu-1-1", ""),
        ("GPU found", SLOTS[1], "", "GPU-gpu-1-1"),
    ]


def test_two_gpus_that_pod_status_names_are_two_losses() -> None:
    polls = Polls()
    sick: dict[str, Any] = {"is_healthy": False, "holder_source": "pod status"}
    polls.poll(NODE, gpu(0), gpu(1))
    polls.poll(NODE, gpu(0, **sick), gpu(1))
    polls.poll(NODE, gpu(0), gpu(1, **sick))

    assert [change[:2] for change in polls.changes()] == [
        ("GPU lost", SLOTS[0]),
        ("GPU lost", SLOTS[1]),
        ("GPU found", SLOTS[0]),
    ]


def test_all_gpus_gone_with_the_plugin_are_lost_one_by_one() -> None:
    polls = Polls()
    down = node(gpus=2, allocatable={"nvidia.com/gpu": 0.0})
    polls.poll(NODE, *joined_gpus(0, 1))
    polls.poll(down, *joined_gpus(0, 1, node=down))
    polls.poll(NODE, *joined_gpus(0, 1))

    assert polls.kinds() == ["GPU lost", "GPU lost", "GPU found", "GPU found"]


def test_a_node_that_returns_without_metrics_has_its_old_boards() -> None:
    polls = Polls()
    before = polls.poll(NODE, *joined_gpus(0, 1))
    polls.poll()
    after = polls.poll(NODE, *counted(NODE))
    polls.poll(NODE, *joined_gpus(0, 1))

    assert {row.pk for row in after.devices.values()} == {row.pk for row in before.devices.values()}
    assert sorted(polls.live()) == SLOTS
    assert polls.kinds() == ["node removed", "node added"]


def test_more_gpus_than_before_are_a_change_of_their_number() -> None:
    polls = Polls()
    polls.poll(node(gpus=1), gpu(0))
    polls.poll(NODE, gpu(0), gpu(1))

    assert polls.changes() == [("GPU count changed", "gpu-1", "1", "2")]


def test_the_first_gpus_of_a_bare_node_are_no_change_of_their_number() -> None:
    polls = Polls()
    polls.poll(node(gpus=0, labels={"nvidia.com/gpu.present": "true"}))
    polls.poll(NODE, gpu(0), gpu(1))

    assert polls.changes() == []
    assert polls.node().gpus == 2


def test_a_model_that_metrics_know_better_replaces_the_label() -> None:
    polls = Polls()
    polls.poll(NODE, *counted(NODE))
    polls.poll(NODE, gpu(0, model="NVIDIA A100-SXM4-80GB"), gpu(1))

    assert {row.model for row in polls.live().values()} == {"NVIDIA A100-SXM4-80GB"}


@pytest.mark.parametrize("slot", ["gpu-1/a\x00b", "gpu-1/" + "x" * 700], ids=["nul", "long"])
def test_a_slot_that_no_column_takes_costs_only_itself(slot: str) -> None:
    known = Polls().poll(NODE, gpu(0), gpu(1, slot=slot))

    assert list(known.devices) == [SLOTS[0]]


def test_hostile_names_are_kept_as_they_are() -> None:
    hostile = "<b>'\"%s\n\x1b[31m"
    polls = Polls()
    polls.poll(NODE, gpu(0), gpu(1))
    polls.poll(NODE, gpu(0), gpu(1, uuid=hostile + "\x00"))

    assert polls.changes() == [("GPU replaced", SLOTS[1], "GPU-gpu-1-1", f"{hostile}\ufffd")]
    polls.poll(NODE, gpu(0), gpu(1, uuid=hostile + "\x00"), after=POLL + timedelta(seconds=1))
    assert len(polls.changes()) == 1


def test_an_unnamed_place_gives_way_to_the_one_that_it_proves_to_be() -> None:
    polls = Polls()
    before = polls.poll(NODE, *joined_gpus(0, 1))
    polls.poll(node(gpus=1), *joined_gpus(0, node=node(gpus=1)))
    unnamed = polls.poll(NODE, *joined_gpus(0))
    assert unnamed.devices["gpu-1/nvidia.com/gpu#1"].slot == "gpu-1/nvidia.com/gpu#1"
    after = polls.poll(NODE, *joined_gpus(0, 1))

    assert after.devices[SLOTS[1]].pk == before.devices[SLOTS[1]].pk
    assert sorted(polls.live()) == SLOTS
    assert polls.kinds().count("GPU lost") == polls.kinds().count("GPU found") == 1


def test_a_board_seen_elsewhere_has_left_a_node_that_was_not_read() -> None:
    polls = Polls()
    other = node("gpu-2", gpus=1)
    polls.poll(NODE, gpu(0), gpu(1), other, gpu(0, "gpu-2"))
    moved = gpu(0, "gpu-2", uuid="GPU-gpu-1-1")
    polls.poll(other, moved, sources=statuses(partial=[Source.NODES]))

    assert polls.changes() == [("GPU replaced", moved.slot, "GPU-gpu-2-0", f"GPU-gpu-1-1, was in {SLOTS[1]}")]
    assert Device.objects.get(uuid="GPU-gpu-1-1").slot == moved.slot
    assert len(polls.live()) == 3
