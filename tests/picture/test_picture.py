"""What pages show of a snapshot: every GPU, node and GPU workload, and nothing made up."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnostics.limits import Limits, Thresholds
from diagnostics.picture import (
    ReachLine,
    UnreadablePicture,
    drawing,
    drawn,
    dumps,
    load_devices,
    load_workloads,
)
from diagnostics.picture.devices import Devices, GpuCell, NodeLine, Owner
from diagnostics.picture.workloads import PodLine, WorkloadLine, Workloads
from diagnostics.snapshot import (
    Condition,
    Container,
    Metrics,
    OwnerKey,
    Source,
    State,
    Terminated,
    Toleration,
)
from tests.builders import GIB, NOW, ago, container, gang, gpu, node, pending_pod, pod, snapshot

TRAIN = OwnerKey("Job", "research", "train", "batch/v1", "u1")


def devices(*parts: Any, **fields: Any) -> Devices:
    return drawn(snapshot(*parts, **fields)).devices


def workloads(*parts: Any, **fields: Any) -> Workloads:
    return drawn(snapshot(*parts, **fields)).workloads


def cell(**fields: Any) -> GpuCell:
    return devices(node(), gpu(0, **fields)).nodes[0].gpus[0]


def line(*pods: Any, **fields: Any) -> WorkloadLine:
    (found,) = workloads(node(), *pods, **fields).lines
    return found


def pod_line(**fields: Any) -> PodLine:
    return line(pod(root=TRAIN, **fields)).pods[0]


def test_a_gpu_shows_its_state_holder_and_sample() -> None:
    sample = Metrics(
        sampled_at=NOW,
        utilization_ratio=0.9,
        sm_active_ratio=0.4,
        memory_used_bytes=20.0 * GIB,
        memory_free_bytes=60.0 * GIB,
        temperature_c=61.0,
        power_w=300.0,
    )
    held = gpu(2, holders=("research/train-0",), state=State.EFFECTIVE, metrics=sample)
    found = devices(node(), held, pod("train-0", namespace="research", root=TRAIN))
    shown = found.nodes[0].gpus[0]
    assert (shown.name, shown.state, shown.holders) == ("GPU 2", State.EFFECTIVE, ("research/train-0",))
    assert [found.owners[place] for place in shown.owners] == [Owner("Job", "research", "train")]
    assert (shown.utilization_ratio, shown.activity_ratio, shown.memory_ratio) == (0.9, 0.4, 0.25)
    assert (shown.temperature_c, shown.power_w) == (61.0, 300.0)


def test_what_is_not_measured_is_not_zero() -> None:
    shown = cell(metrics=None)
    assert shown.utilization_ratio is shown.activity_ratio is shown.memory_ratio is None
    assert shown.temperature_c is shown.power_w is None


def test_an_old_sample_is_not_shown_as_the_present() -> None:
    assert cell(metrics=Metrics(sampled_at=ago(hours=1), utilization_ratio=0.9)).utilization_ratio is None


def test_a_holder_that_only_the_metrics_know_is_shown() -> None:
    found = devices(node(), gpu(0, holders=("research/ghost",)))
    assert found.owners == (Owner("Pod", "research", "ghost"),)


def test_both_halves_name_the_same_owners() -> None:
    picture = drawn(
        snapshot(
            node(),
            pod("two", namespace="b"),
            pod("one", namespace="a", root=TRAIN),
            gpu(0, holders=("c/three",)),
        )
    )
    assert picture.devices.owners == tuple(found.owner for found in picture.workloads.lines)


def test_a_node_says_what_is_wrong_with_it() -> None:
    sick = node(
        conditions=(Condition("Ready", "Unknown"), Condition("DiskPressure", "True")), unschedulable=True
    )
    (shown,) = devices(sick).nodes
    assert shown.readiness is False
    assert shown.troubles == ("state unknown", "DiskPressure", "cordoned")


def test_a_node_that_says_nothing_of_gpus_offers_an_unknown_number() -> None:
    (shown,) = devices(node(gpus=0), gpu(0)).nodes
    assert isinstance(shown, NodeLine)
    assert shown.allocatable is None


def test_nodes_without_gpus_are_left_out() -> None:
    assert devices(node("cpu-1", gpus=0)).nodes == ()


def test_a_node_whose_plugin_has_gone_offers_none() -> None:
    gone = {"nvidia.com/gpu": 0.0}
    (shown,) = devices(node(capacity=gone, allocatable=gone), gpu(0)).nodes
    assert shown.allocatable == 0


def test_a_pod_that_waits_says_why() -> None:
    waits = Condition("PodScheduled", "False", "Unschedulable", "0/3 nodes are available")
    shown = pod_line(phase="Pending", node=None, conditions=(waits,))
    assert shown.is_waiting
    assert shown.trouble == "0/3 nodes are available"


def test_a_container_that_cannot_start_says_why() -> None:
    stuck = Container(name="main", waiting_reason="ImagePullBackOff", waiting_message="no such image")
    shown = pod_line(phase="Pending", containers=(stuck,), resource_claims=("gpu",))
    assert shown.trouble == "main: ImagePullBackOff: no such image"
    assert not shown.is_waiting


def test_a_long_message_is_cut_where_it_shows() -> None:
    said = Condition("PodScheduled", "False", "Unschedulable", "0/3 nodes are available: " + "x" * 400)

    shown = pod_line(node=None, phase="Pending", conditions=(said,)).trouble

    assert len(shown) == drawing.MOST_CHARACTERS
    assert shown.endswith("x…")


def test_a_container_that_is_just_being_made_is_no_trouble() -> None:
    young = Container(name="main", waiting_reason="ContainerCreating")
    assert pod_line(containers=(young,), resource_claims=("gpu",)).trouble == ""


def test_pods_without_gpus_are_left_out() -> None:
    assert workloads(node(), pod("shop", namespace="web", gpus=0)).lines == ()


def test_the_queue_is_the_one_that_the_labels_name() -> None:
    assert line(pod(root=TRAIN, labels={"kueue.x-k8s.io/queue-name": "team-a"})).queue == "team-a"
    assert line(pod(root=TRAIN)).queue == ""


def test_bare_pods_of_one_gang_name_it() -> None:
    group = gang("ring", kind="PodGroup", members=("research/a", "research/b"), size=2)
    found = workloads(node(), pod("a"), pod("b"), group)
    assert [shown.gang for shown in found.lines] == [Owner("PodGroup", "research", "ring")] * 2


def test_a_gang_that_is_the_owner_itself_is_not_named_twice() -> None:
    assert line(pod(root=TRAIN), gang(members=("research/train-0",))).gang is None


@pytest.mark.parametrize(("source", "half"), [(Source.NODES, "devices"), (Source.PODS, "workloads")])
def test_what_could_not_be_read_is_said(source: Source, half: str) -> None:
    picture = drawn(snapshot(without=[source]))
    assert "(absent)" in getattr(picture, half).doubt


def test_survives_its_stored_form() -> None:
    picture = drawn(
        snapshot(
            node(), pod("train-0", namespace="research", root=TRAIN), gpu(0, holders=("research/train-0",))
        )
    )
    first, second = dumps(picture)
    assert (load_devices(first), load_workloads(second)) == picture


@given(st.binary(max_size=60))
def test_bytes_that_are_no_picture_are_refused(data: bytes) -> None:
    for load in (load_devices, load_workloads):
        with pytest.raises(UnreadablePicture):
            load(data)


def test_claims_whose_devices_are_known_count_as_gpus() -> None:
    known = pod_line(
        resource_claims=("gpu",), claimed_gpus={"nvidia.com/gpu": 4.0}, containers=(container(gpus=0),)
    )
    assert (known.claims, known.gpus) == (0, {"nvidia.com/gpu": 4.0})
    assert pod_line(resource_claims=("gpu",), containers=(container(gpus=0),)).claims == 1


CRASHED = Terminated("Error", 1, started_at=ago(minutes=9), finished_at=ago(minutes=8))


@pytest.mark.parametrize(("restarts", "is_looping"), [(0, False), (2, False), (3, True), (40, True)])
def test_a_container_that_runs_between_two_crashes_is_crash_looping(restarts: int, is_looping: bool) -> None:
    runs = container(restarts=restarts, running_since=ago(minutes=1), last_terminated=CRASHED)
    assert pod_line(containers=(runs,)).is_crash_looping is is_looping


def test_how_many_restarts_are_a_crash_loop_is_a_limit_of_the_site() -> None:
    waits = container(restarts=4, state="waiting", waiting_reason="CrashLoopBackOff", running_since=None)
    seen = snapshot(node(), pod(root=TRAIN, containers=(waits,)))
    (found,) = drawn(seen, Limits(site=Thresholds(restarts_min=5))).workloads.lines
    assert not found.pods[0].is_crash_looping


def test_what_pods_demand_of_a_node_is_told_for_each_kind_of_them() -> None:
    tolerant: dict[str, Any] = {
        "node_selector": {"pool": "gold"},
        "tolerations": (Toleration("team", "Exists"),),
    }
    found = line(
        *(pod(f"worker-{number}", root=TRAIN, **tolerant) for number in range(3)),
        pod("launcher", root=TRAIN),
        pod("done", root=TRAIN, phase="Succeeded", node_selector={"pool": "old"}),
    ).demands
    assert [(one.pods, one.selector, one.tolerates) for one in found] == [
        (3, "pool=gold", "team"),
        (1, "", ""),
    ]


def test_few_kinds_of_demands_are_kept_and_each_is_cut() -> None:
    pods = [
        pod(
            f"p{number:02}",
            root=TRAIN,
            node_selector={f"key-{number}-{part}": "x" * 150 for part in range(9)},
        )
        for number in range(9)
    ]
    found = line(*pods).demands
    assert len(found) == 3
    assert max(len(one.selector) for one in found) == 400


def test_a_waiting_pod_knows_how_many_nodes_admit_it_and_what_is_free_there() -> None:
    (found,) = workloads(
        *(node("gpu-1"), node("gpu-2", labels={"pool": "gold"}), node("gpu-3", labels={"pool": "gold"})),
        *(pod("other", root=TRAIN, gpus=5, node="gpu-2"), pod("another", root=TRAIN, gpus=8, node="gpu-3")),
        pending_pod("wait-0", root=TRAIN, gpus=4, node_selector={"pool": "gold"}),
    ).lines
    assert {one.name: one.reach for one in found.pods} == {
        "another": None,
        "other": None,
        "wait-0": ReachLine("nvidia.com/gpu", offering=3, admitting=2, free=3, most=3),
    }


def test_where_nodes_could_not_be_read_nothing_is_said_of_where_a_pod_may_run() -> None:
    (found,) = workloads(pending_pod(root=TRAIN), without=[Source.NODES]).lines
    assert found.pods[0].reach is None


def test_where_a_pod_may_run_by_its_claims_is_not_told_by_resources() -> None:
    asks: dict[str, Any] = {"resource_claims": ("gpu",), "claimed_gpus": {"nvidia.com/gpu": 1.0}}
    (found,) = workloads(node(), pending_pod(root=TRAIN, **asks)).lines
    assert found.pods[0].reach is None
