"""Who held what from when to when, by pod UID."""

from datetime import timedelta
from typing import Any

import pytest

from diagnostics.models import Allocation
from diagnostics.snapshot import DeviceHealth, Gpu, Pod, Source
from tests.builders import ago, container, gpu, node, owner, pod, statuses
from tests.topology.test_mig import mig_node
from tests.topology.timeline import Polls, counted, mig_gpus

pytestmark = pytest.mark.django_db

NODE = node(gpus=2)
NAMES = [gpu(i).slot.removeprefix("gpu-1/") for i in range(2)]


def held(pod: Pod, *indexes: int, **fields: Any) -> list[Gpu]:
    """Both GPUs of NODE, those of `indexes` held by the pod."""
    return [gpu(i, holders=(pod.key,) if i in indexes else (), **fields) for i in range(2)]


def test_a_pod_holds_from_its_start_to_the_first_poll_without_it() -> None:
    polls, one = Polls(), pod("train-0", root=owner())
    known = polls.poll(NODE, one, *held(one, 1))
    polls.poll(NODE, one, *held(one, 1))
    assert polls.holds() == [("train-0", [NAMES[1]], ago(hours=2), None)]
    polls.poll(NODE, gpu(0), gpu(1))

    assert polls.holds() == [("train-0", [NAMES[1]], ago(hours=2), polls.at)]
    row = Allocation.objects.get()
    assert (row.workload_id, row.node_id) == (known.workloads["Job", "research", "train"], polls.node().pk)


def test_a_pod_that_has_not_started_holds_from_the_poll_that_saw_it() -> None:
    polls, one = Polls(), pod("train-0", started_at=None)
    polls.poll(NODE, one, *held(one, 0))

    assert polls.holds()[0][2] == polls.at


def test_a_start_in_the_future_is_the_poll() -> None:
    polls, one = Polls(), pod("train-0", started_at=ago(days=-1))
    polls.poll(NODE, one, *held(one, 0))

    assert polls.holds()[0][2] == polls.at


def test_a_finished_pod_holds_no_longer() -> None:
    polls, one = Polls(), pod("train-0")
    polls.poll(NODE, one, *held(one, 0))
    polls.poll(NODE, pod("train-0", phase="Succeeded"), gpu(0), gpu(1))

    assert polls.holds()[0][3] == polls.at


def test_pods_with_the_same_name_at_different_times_are_different() -> None:
    polls = Polls()
    first, second = pod("web-0", uid="one"), pod("web-0", uid="two", started_at=ago(minutes=-1))
    polls.poll(NODE, first, *held(first, 0))
    polls.poll(NODE, second, *held(second, 0))

    assert [(start, end) for _, _, start, end in polls.holds()] == [
        (ago(hours=2), polls.at),
        (ago(minutes=-1), None),
    ]
    assert list(Allocation.objects.order_by("pk").values_list("pod_uid", flat=True)) == ["one", "two"]


def test_a_pod_without_a_uid_is_known_by_owner_and_name() -> None:
    polls, one = Polls(), pod("train-0", uid="")
    polls.poll(NODE, one, *held(one, 0))
    polls.poll(NODE, one, *held(one, 0))

    assert len(polls.holds()) == 1


@pytest.mark.parametrize(
    "sources", [statuses(partial=[Source.PODS]), statuses(without=[Source.PODS])], ids=["partial", "absent"]
)
def test_nothing_ends_while_pods_cannot_all_be_read(sources: tuple[object, ...]) -> None:
    polls, one = Polls(), pod("train-0")
    polls.poll(NODE, one, *held(one, 0))
    polls.poll(NODE, gpu(0), gpu(1), sources=sources)

    assert polls.holds()[0][3] is None


def test_what_ended_while_nobody_looked_ends_at_the_poll_that_notices() -> None:
    polls, one = Polls(), pod("train-0")
    polls.poll(NODE, one, *held(one, 0))
    polls.poll(NODE, gpu(0), gpu(1), after=timedelta(hours=9))

    assert polls.holds()[0][3] == polls.at


def test_which_devices_is_unknown_where_only_their_number_is() -> None:
    polls, one, two = Polls(), pod("a"), pod("b", gpus=1)
    wide = node(gpus=3)
    polls.poll(wide, one, two, *counted(wide, one, two))

    assert [slots for _, slots, _, _ in polls.holds()] == [["nvidia.com/gpu#?"]] * 2


def test_devices_that_become_known_are_filled_in_and_stay() -> None:
    polls, one, two = Polls(), pod("a"), pod("b")
    wide = node(gpus=3)
    named = [gpu(0, holders=(one.key,)), gpu(1, holders=(two.key,)), gpu(2)]
    polls.poll(wide, one, two, *counted(wide, one, two))
    polls.poll(wide, one, two, *named)
    polls.poll(wide, one, two, *counted(wide, one, two), without=[Source.METRICS])

    assert [(slots, end) for _, slots, _, end in polls.holds()] == [([NAMES[0]], None), ([NAMES[1]], None)]


def test_pod_status_names_the_board_that_metrics_named_before() -> None:
    polls = Polls()
    given = (DeviceHealth("nvidia.com/gpu", "GPU-gpu-1-1", "Healthy"),)
    one = pod("train-0", containers=(container(devices=given),))
    polls.poll(NODE, one, *held(one, 1))
    polls.poll(NODE, one, *counted(NODE, one))

    assert polls.holds() == [("train-0", [NAMES[1]], ago(hours=2), None)]


def test_a_layout_that_changed_under_a_running_pod_ends_one_hold_and_begins_another() -> None:
    polls = Polls()
    wants = {"nvidia.com/mig-1g.10gb": 1.0}
    one = pod("nb", containers=(container(gpus=0, limits=wants),))
    old = mig_gpus(0, *["1g.10gb"] * 7, holders=(one.key,))
    new = mig_gpus(0, "1g.10gb", "3g.40gb", first=11)
    polls.poll(mig_node(**{"1g_10gb": 7}), one, old[0], *(g for g in mig_gpus(0, *["1g.10gb"] * 7)[1:]))
    began_anew = [mig_gpus(0, "1g.10gb", first=11, holders=(one.key,))[0], new[1]]
    polls.poll(mig_node(**{"1g_10gb": 1, "3g_40gb": 1}), one, *began_anew)

    board = gpu(0).slot.removeprefix("gpu-1/")
    assert polls.holds() == [
        ("nb", [f"{board}/mig-1"], ago(hours=2), polls.at),
        ("nb", [f"{board}/mig-11"], polls.at, None),
    ]
    assert polls.kinds() == ["MIG layout changed"]


def test_sharers_hold_the_same_device() -> None:
    polls, one, two = Polls(), pod("a"), pod("b")
    shared = gpu(0, holders=(one.key, two.key), replicas=4)
    polls.poll(node(gpus=4, labels={"nvidia.com/gpu.replicas": "4"}), one, two, shared)

    assert [slots for _, slots, _, _ in polls.holds()] == [[NAMES[0]], [NAMES[0]]]


def test_a_hold_on_a_node_that_was_not_read_stays_open() -> None:
    polls, one = Polls(), pod("train-0")
    polls.poll(NODE, one, *held(one, 0))
    polls.poll(one, without=[Source.NODES])
    polls.poll(one, sources=statuses(partial=[Source.NODES]))

    assert [end for *_, end in polls.holds()] == [None]


def test_a_pod_on_an_unknown_node_waits_for_it() -> None:
    polls, one = Polls(), pod("train-0")
    polls.poll(one, without=[Source.NODES])
    assert polls.holds() == []
    polls.poll(NODE, one, *held(one, 0))

    assert polls.holds()[0][2] == ago(hours=2)


def test_the_owner_is_corrected_once_owners_can_be_read() -> None:
    polls = Polls()
    replica_set, deployment = owner("ReplicaSet", "web-abc"), owner("Deployment", "web")
    for root, without in (
        (replica_set, [Source.WORKLOADS]),
        (deployment, []),
        (replica_set, [Source.WORKLOADS]),
    ):
        one = pod("web-0", root=root)
        polls.poll(NODE, one, *held(one, 0), without=without)

    assert Allocation.objects.get().workload.kind == "Deployment"


def test_an_absurd_request_is_not_spelled_out() -> None:
    polls, one = Polls(), pod("greedy", gpus=10**9)
    polls.poll(NODE, one, *held(one, 0, 1))

    assert len(polls.holds()[0][1]) <= 1024
