"""What is free on a node, and how many requests fit."""

from typing import Any

import pytest

from diagnostics.placement import Scope, fitted, is_fragmented, rooms, slots
from diagnostics.snapshot import Condition, Past
from tests.builders import GIB, ago, container, node, pod, snapshot


def test_bound_pods_take_what_they_ask_for() -> None:
    room = rooms(snapshot(node(), pod(gpus=3)))["gpu-1"]

    assert room.free["nvidia.com/gpu"] == 5
    assert room.free["cpu"] == 60
    assert room.free["pods"] == 109


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_finished_pods_take_nothing(phase: str) -> None:
    assert rooms(snapshot(node(), pod(gpus=3, phase=phase)))["gpu-1"].free["nvidia.com/gpu"] == 8


@pytest.mark.parametrize("fields", [{"phase": "Unknown"}, {"deletion_at": ago(hours=1)}])
def test_lost_and_terminating_pods_still_hold(fields: dict[str, Any]) -> None:
    assert rooms(snapshot(node(), pod(gpus=3, **fields)))["gpu-1"].free["nvidia.com/gpu"] == 5


def test_pods_scheduled_since_a_moment_are_left_out() -> None:
    early = pod("early", gpus=2)
    late = pod("late", gpus=3, conditions=(Condition("PodScheduled", "True", since=ago(minutes=5)),))

    room = rooms(snapshot(node(), early, late))["gpu-1"]

    assert room.free_before("nvidia.com/gpu", ago(minutes=10)) == 6


def test_a_room_says_what_it_lacks() -> None:
    room = rooms(snapshot(node(), pod(gpus=6)))["gpu-1"]

    assert room.lacks({"nvidia.com/gpu": 4, "cpu": 70}) == {"nvidia.com/gpu": 2, "cpu": 10}
    assert room.lacks({"nvidia.com/gpu": 2}) == {}
    assert room.lacks({"amd.com/gpu": 1}) == {"amd.com/gpu": 1}


def test_a_node_that_says_nothing_of_memory_is_not_short_of_it() -> None:
    silent = node(allocatable={"nvidia.com/gpu": 8.0})
    bare = snapshot(type(silent)(name="gpu-1", allocatable={"nvidia.com/gpu": 8.0}))

    assert rooms(bare)["gpu-1"].lacks({"memory": GIB, "nvidia.com/gpu": 1}) == {}


def test_a_room_without_some_pods() -> None:
    room = rooms(snapshot(node(), pod("a", gpus=3), pod("b", gpus=4)))["gpu-1"]

    assert room.without(["research/a"]).free["nvidia.com/gpu"] == 4
    assert room.emptied().free["nvidia.com/gpu"] == 8


def test_how_many_pods_fit_is_set_by_the_scarcest_resource() -> None:
    room = rooms(snapshot(node()))["gpu-1"]

    assert room.takes({"nvidia.com/gpu": 2}) == 4
    assert room.takes({"nvidia.com/gpu": 2, "cpu": 30}) == 2
    assert room.takes({"nvidia.com/gpu": 9}) == 0


def test_fragmented_is_enough_together_and_on_no_single_node() -> None:
    assert is_fragmented([4, 4], 8)
    assert not is_fragmented([8, 1], 8)
    assert not is_fragmented([3, 4], 8)
    assert not is_fragmented([], 1)


def test_fitted_counts_sick_and_unregistered_gpus() -> None:
    sick = node(allocatable={"nvidia.com/gpu": 6.0})
    gone = node(capacity={"nvidia.com/gpu": 0.0}, allocatable={"nvidia.com/gpu": 0.0})

    assert fitted(sick, "nvidia.com/gpu") == 8
    assert fitted(gone, "nvidia.com/gpu") == 8


def test_fitted_counts_shares() -> None:
    shared = node(gpus=16, labels={"nvidia.com/gpu.count": "4", "nvidia.com/gpu.replicas": "4"})

    assert fitted(shared, "nvidia.com/gpu") == 16


def test_the_count_belongs_to_the_name_under_which_gpus_are_offered() -> None:
    renamed = node(gpus=0, capacity={"nvidia.com/gpu.shared": 16.0}, labels={"nvidia.com/gpu.count": "4"})

    assert fitted(renamed, "nvidia.com/gpu.shared") == 16
    assert fitted(renamed, "nvidia.com/gpu") == 0
    assert fitted(node(), "nvidia.com/gpu.shared") == 0


def test_fitted_remembers_the_past() -> None:
    assert fitted(node(gpus=0), "nvidia.com/gpu", Past(fitted={"gpu-1": 8})) == 8


def test_a_pci_device_alone_is_at_least_one_of_unknown_number() -> None:
    labels = {"feature.node.kubernetes.io/pci-10de.present": "true"}

    assert fitted(node(gpus=0, labels=labels), "nvidia.com/gpu") is None
    assert fitted(node(gpus=0), "nvidia.com/gpu") == 0


def test_slots_per_host_rack_and_domain() -> None:
    given = rooms(
        snapshot(
            node("a", rack="r1", nvlink_domain="d1"),
            node("b", rack="r1", nvlink_domain="d1"),
            node("c", rack="r2"),
            pod("x", gpus=4, node="a"),
        )
    ).values()

    assert [slots(given, k) for k in (1, 2, 4, 8, 16)] == [20, 10, 5, 2, 0]
    assert slots(given, 12, Scope.RACK) == 1
    assert slots(given, 12, Scope.NVLINK) == 1
    assert slots(given, 16, Scope.RACK) == 0


def test_slots_leave_out_what_cannot_be_used() -> None:
    cordoned = node("a", unschedulable=True)
    lost = node("b", conditions=(Condition("Ready", "False"),))

    assert slots(rooms(snapshot(cordoned, lost)).values(), 1) == 0


def test_an_init_container_reserves_its_peak() -> None:
    containers = (container("init", gpus=4, is_init=True), container("main", gpus=1))

    assert rooms(snapshot(node(), pod(containers=containers)))["gpu-1"].free["nvidia.com/gpu"] == 4
