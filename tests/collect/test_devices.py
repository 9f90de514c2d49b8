"""Devices from readings, pod status and counts: nothing is lost, nothing doubled, every holder really holds."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from diagnostics.collect.devices import joined
from diagnostics.collect.readings import DeviceReading
from diagnostics.snapshot import DeviceHealth, Gpu, Metrics, Node, Origin, Past, Pod
from tests.builders import container, node, pod


def reading(index: int = 0, node_name: str = "gpu-1", **fields: Any) -> DeviceReading:
    defaults: dict[str, Any] = {
        "node_hints": (node_name,),
        "uuid": f"GPU-{node_name}-{index}",
        "pci": f"00000000:{index + 16:02x}:00.0",
        "index": index,
        "metrics": Metrics(utilization_ratio=0.5),
    }
    return DeviceReading(**(defaults | fields))


def devices(
    nodes: list[Node], pods: list[Pod], readings: list[DeviceReading], past: Past | None = None
) -> list[Gpu]:
    return list(joined(tuple(nodes), tuple(pods), readings, past or Past()))


def with_devices(name: str, *uuids: str, health: str = "Healthy", **fields: Any) -> Pod:
    given_to = tuple(DeviceHealth("nvidia.com/gpu", uuid, health) for uuid in uuids)
    return pod(name, containers=(container(gpus=len(uuids), devices=given_to),), **fields)


def test_counts_alone_give_unnamed_slots() -> None:
    found = devices([node(gpus=4)], [], [])
    assert [gpu.slot for gpu in found] == [f"gpu-1/nvidia.com/gpu#{n}" for n in range(4)]
    assert all(gpu.metrics is None and not gpu.holders for gpu in found)


def test_a_reading_names_a_slot_by_its_pci_address() -> None:
    found = devices([node(gpus=2)], [], [reading(0)])
    assert [gpu.slot for gpu in found] == ["gpu-1/00000000:10:00.0", "gpu-1/nvidia.com/gpu#1"]


def test_pod_status_beats_a_metric_label() -> None:
    holder, ghost = with_devices("train-0", "GPU-gpu-1-0"), pod("old", phase="Succeeded")
    found = devices([node(gpus=1)], [holder, ghost], [reading(0, pods=(ghost.key,))])
    assert (found[0].holders, found[0].holder_source) == ((holder.key,), "pod status")


def test_a_label_that_names_a_finished_or_absent_pod_is_dropped() -> None:
    done = pod("old", phase="Succeeded")
    for label in (done.key, "research/never-was"):
        found = devices([node(gpus=1)], [done], [reading(0, pods=(label,))])
        assert found[0].holders == ()
        assert found[0].holder_source == ""


def test_a_pod_that_needs_exactly_what_is_left_gets_it() -> None:
    first = with_devices("train-0", "GPU-gpu-1-0")
    second = pod("train-1", gpus=1)
    found = devices([node(gpus=2)], [first, second], [reading(0), reading(1)])
    assert (found[1].holders, found[1].holder_source) == ((second.key,), "only devices left")


def test_where_names_do_not_settle_it_slots_are_taken_by_count_and_say_so() -> None:
    one, two = pod("one", gpus=1), pod("two", gpus=1)
    found = devices([node(gpus=4)], [one, two], [reading(n) for n in range(4)])
    held = [gpu for gpu in found if gpu.holders]
    assert len(held) == 2
    assert {gpu.holder_source for gpu in held} == {"count"}


def test_an_unhealthy_device_in_pod_status_is_unhealthy_and_still_held() -> None:
    holder = with_devices("train-0", "GPU-gpu-1-0", health="Unhealthy")
    found = devices([node(gpus=2, allocatable={"nvidia.com/gpu": 1.0})], [holder], [reading(0), reading(1)])
    assert [(gpu.is_healthy, gpu.holders) for gpu in found] == [(False, (holder.key,)), (None, ())]


def test_devices_beyond_allocatable_are_unhealthy_the_nameless_and_free_first() -> None:
    holder = pod("train-0")
    found = devices(
        [node(gpus=3, allocatable={"nvidia.com/gpu": 1.0})],
        [holder],
        [reading(0, pods=(holder.key,)), reading(1)],
    )
    assert [gpu.is_healthy for gpu in found] == [None, False, False]


def test_the_past_maximum_and_the_label_count_as_fitted() -> None:
    gone = node(gpus=8, capacity={"nvidia.com/gpu": 0.0}, allocatable={"nvidia.com/gpu": 0.0})
    assert len(devices([gone], [], [])) == 8
    bare = node("gpu-2", gpus=0)
    assert len(devices([bare], [], [], Past(fitted={"gpu-2": 4}))) == 4


def test_a_board_that_fell_silent_keeps_its_name() -> None:
    slots = [f"gpu-1/00000000:{n + 16:02x}:00.0" for n in range(2)]
    found = joined((node(gpus=2),), (), (reading(0),), Past(), slots)
    assert [gpu.slot for gpu in found] == slots
    assert found[1].pci == "00000000:11:00.0"
    assert found[1].metrics is None


def test_an_old_name_is_given_only_where_a_board_is_missing() -> None:
    found = joined((node(gpus=1),), (), (reading(0),), Past(), ["gpu-1/00000000:99:00.0"])
    assert [gpu.slot for gpu in found] == ["gpu-1/00000000:10:00.0"]


def test_time_slicing_multiplies_shares_not_boards() -> None:
    shared = node(
        gpus=2,
        labels={"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.count": "2"},
        capacity={"nvidia.com/gpu": 8.0},
        allocatable={"nvidia.com/gpu": 8.0},
    )
    pods = [with_devices(f"nb-{n}", f"GPU-gpu-1-0::{n}") for n in range(3)]
    found = devices([shared], pods, [reading(0), reading(1)])
    assert [gpu.replicas for gpu in found] == [4, 4]
    assert found[0].origin is Origin.SHARED
    assert len(found[0].holders) == 3


def test_mig_instances_are_devices_of_their_own_resource() -> None:
    amounts = {"nvidia.com/gpu": 0.0, "nvidia.com/mig-1g.10gb": 2.0}
    mig = node(gpus=0, capacity=amounts, allocatable=amounts)
    parts = [reading(0, mig_profile="1g.10gb", mig_instance=i) for i in ("7", "9")]
    found = devices([mig], [], parts)
    assert [gpu.slot for gpu in found] == [f"gpu-1/00000000:10:00.0/mig-{i}" for i in ("7", "9")]
    assert {gpu.resource for gpu in found} == {"nvidia.com/mig-1g.10gb"}


def mig_node(instances: float = 2.0) -> Node:
    amounts = {"nvidia.com/gpu": 0.0, "nvidia.com/mig-1g.10gb": instances}
    return node(gpus=0, capacity=amounts, allocatable=amounts)


def holder_of_instance(name: str, uuid: str, health: str = "Healthy") -> Pod:
    """Of one MIG instance, which pod status names by a UUID that no metric has."""
    resource = "nvidia.com/mig-1g.10gb"
    held = container(gpus=0, requests={resource: 1.0}, devices=(DeviceHealth(resource, uuid, health),))
    return pod(name, containers=(held,))


def test_a_mig_instance_in_pod_status_is_the_one_whose_label_names_the_pod() -> None:
    parts = [
        reading(0, mig_profile="1g.10gb", mig_instance="7", pods=("research/a",)),
        reading(0, mig_profile="1g.10gb", mig_instance="9"),
    ]
    found = devices([mig_node()], [holder_of_instance("a", "MIG-1", "Unhealthy")], parts)
    assert [(gpu.slot, gpu.holders, gpu.holder_source, gpu.is_healthy) for gpu in found] == [
        ("gpu-1/00000000:10:00.0/mig-7", ("research/a",), "pod status", False),
        ("gpu-1/00000000:10:00.0/mig-9", (), "", None),
    ]


def test_a_mig_instance_without_a_label_adds_none_to_those_that_the_node_has() -> None:
    parts = [reading(0, mig_profile="1g.10gb", mig_instance=i) for i in ("7", "9")]
    found = devices([mig_node()], [holder_of_instance("a", "MIG-1")], parts)
    assert [(gpu.slot, gpu.holders, gpu.holder_source) for gpu in found] == [
        ("gpu-1/00000000:10:00.0/mig-7", ("research/a",), "count"),
        ("gpu-1/00000000:10:00.0/mig-9", (), ""),
    ]


def test_a_mig_instance_that_no_metric_shows_is_named_by_pod_status() -> None:
    parts = [reading(0, mig_profile="1g.10gb", mig_instance="7")]
    found = devices([mig_node()], [holder_of_instance("a", "MIG-1")], parts)
    assert [gpu.slot for gpu in found] == ["gpu-1/00000000:10:00.0/mig-7", "gpu-1/MIG-1"]


def test_a_node_is_found_by_short_name_exporter_pod_and_address() -> None:
    full = node("gpu-1.example.internal", gpus=3)
    exporter = pod("dcgm-exporter-x", gpus=0, node=full.name, ip="10.1.2.3")
    hints = [("gpu-1",), ("dcgm-exporter-x",), ("10.1.2.3:9400",)]
    found = devices([full], [exporter], [reading(n, node_hints=h) for n, h in enumerate(hints)])
    assert [gpu.metrics is not None for gpu in found] == [True, True, True]


def test_a_reading_of_an_unknown_node_is_left_out() -> None:
    assert all(gpu.metrics is None for gpu in devices([node(gpus=1)], [], [reading(0, "elsewhere")]))


@given(
    fitted=st.integers(0, 8),
    allocatable=st.integers(0, 8),
    named=st.sets(st.integers(0, 7)),
    wants=st.lists(st.integers(1, 4), max_size=4),
    labelled=st.booleans(),
)
def test_nothing_is_lost_or_doubled(
    fitted: int, allocatable: int, named: set[int], wants: list[int], labelled: bool
) -> None:
    amounts = {"nvidia.com/gpu": float(fitted)}
    offered = {"nvidia.com/gpu": float(min(allocatable, fitted))}
    host = node(gpus=fitted, capacity=amounts, allocatable=offered)
    pods = [pod(f"p-{n}", gpus=count) for n, count in enumerate(wants)]
    labels = iter([p.key for p in pods for _ in range(p.gpu_count)])
    readings = [reading(i, pods=(next(labels, "a/b"),) if labelled else ()) for i in sorted(named)]
    found = devices([host], pods, readings)
    assert len({gpu.slot for gpu in found}) == len(found) == max(fitted, len(named))
    for one in pods:
        assert sum(one.key in gpu.holders for gpu in found) <= one.gpu_count
    assert all(len(gpu.holders) <= gpu.replicas for gpu in found)
    lost = sum(gpu.is_healthy is False for gpu in found)
    assert lost <= max(0, len(found) - int(offered["nvidia.com/gpu"]))
