"""GPUs that drivers publish for claims: every board once, held by whom its claims are kept for."""

from typing import Any

from diagnostics.collect.claimed import with_claimed
from diagnostics.collect.devices import joined
from diagnostics.collect.readings import DeviceReading
from diagnostics.snapshot import Allocation, DeviceHealth, Gpu, Metrics, Node, Origin, Past, Pod, Taint
from tests.builders import container, node, pod
from tests.claims import (
    claim,
    claimant,
    dra,
    dra_node,
    gpu_device,
    mig_device,
    slice_of,
    template,
    wants,
    whole_gpus,
)

BOARD = {f"gpu-{board}": {"memory-slices": 8.0} for board in range(2)}
WHOLE = {"gpu-0": {"memory-slices": 8.0}}


def devices(host: Node, given: Allocation, *pods: Pod, readings: tuple[DeviceReading, ...] = ()) -> list[Gpu]:
    return list(joined((host,), pods, readings, Past(), dra=given))


def reading(index: int = 0, **fields: Any) -> DeviceReading:
    defaults: dict[str, Any] = {
        "node_hints": ("gpu-1",),
        "uuid": f"GPU-gpu-1-{index}",
        "pci": f"00000000:{index + 16:02x}:00.0",
        "index": index,
        "metrics": Metrics(utilization_ratio=0.5),
    }
    return DeviceReading(**(defaults | fields))


def test_devices_are_named_by_node_and_pci_address_and_nobody_holds_them() -> None:
    found = devices(dra_node(), dra(whole_gpus()))
    assert [gpu.slot for gpu in found] == [f"gpu-1/00000000:{i + 16:02x}:00.0" for i in range(8)]
    assert {gpu.origin for gpu in found} == {Origin.DRA}
    assert not any(gpu.holders or gpu.is_healthy is False for gpu in found)
    assert found[3].uuid == "GPU-gpu-1-3"
    assert found[3].model == "NVIDIA H100 80GB HBM3"


def test_holders_are_the_pods_that_a_claim_is_kept_for() -> None:
    held = claim("gpus", "gpu-0", "gpu-2", pods=("research/train-0", "research/gone"))
    found = devices(dra_node(gpus=4), dra(whole_gpus(4), held), claimant())
    assert [gpu.holders for gpu in found] == [("research/train-0",), (), ("research/train-0",), ()]
    assert {gpu.holder_source for gpu in found if gpu.holders} == {"claim"}


def test_two_pods_share_one_device() -> None:
    held = claim("shared", "gpu-0", pods=("research/a", "research/b"))
    [found] = devices(
        dra_node(gpus=1), dra(whole_gpus(1), held), claimant("a", "shared"), claimant("b", "shared")
    )
    assert found.holders == ("research/a", "research/b")


def test_a_finished_pod_holds_nothing() -> None:
    held = claim("gpus", "gpu-0", pods=("research/train-0",))
    [found] = devices(dra_node(gpus=1), dra(whole_gpus(1), held), claimant(phase="Succeeded"))
    assert found.holders == ()
    assert found.claims == ("research/gpus",)


def test_admin_access_holds_nothing() -> None:
    watch = claim("watch", "gpu-0", "gpu-1", pods=("research/dcgm",), is_admin=True)
    found = devices(dra_node(gpus=2), dra(whole_gpus(2), watch), claimant("dcgm", "watch"))
    assert not any(gpu.holders or gpu.claims for gpu in found)


def test_metrics_join_by_uuid_and_bring_the_pci_address() -> None:
    bare = gpu_device(0, attributes={"resource.kubernetes.io/pciBusID": ""})
    [found] = devices(dra_node(gpus=1), dra(slice_of(bare)), readings=(reading(0),))
    assert found.slot == "gpu-1/00000000:10:00.0"
    assert found.metrics == Metrics(utilization_ratio=0.5)


def test_metrics_join_by_pci_address_where_the_driver_says_no_uuid() -> None:
    bare = gpu_device(0, attributes={"gpu.nvidia.com/uuid": ""})
    [found] = devices(dra_node(gpus=1), dra(slice_of(bare)), readings=(reading(0),))
    assert found.metrics is not None


def test_a_tainted_device_is_unhealthy() -> None:
    sick = gpu_device(0, taints=(Taint("gpu.nvidia.com/xid", "NoExecute", "79"),))
    noted = gpu_device(1, taints=(Taint("example.com/looked-at", "None"),))
    found = devices(dra_node(gpus=2), dra(slice_of(sick, noted)))
    assert [gpu.is_healthy for gpu in found] == [False, None]


def test_partitions_and_their_board_are_not_counted_twice() -> None:
    parts = [gpu_device(0, counters=WHOLE), *(mig_device(0, number) for number in range(7))]
    idle = devices(dra_node(gpus=1), dra(slice_of(*parts, counters=BOARD)))
    assert [gpu.device.rpartition("/")[2] for gpu in idle] == ["gpu-0"]

    held = claim("m", "gpu-0-mig-1g10gb-2", pods=("research/train-0",))
    split = devices(dra_node(gpus=1), dra(slice_of(*parts, counters=BOARD), held), claimant("train-0", "m"))
    assert len(split) == 7
    assert [gpu.holders for gpu in split if gpu.holders] == [("research/train-0",)]
    assert {gpu.resource for gpu in split} == {"nvidia.com/mig-1g.10gb"}
    assert split[2].slot == "gpu-1/00000000:10:00.0/gpu-0-mig-1g10gb-2"


def test_the_largest_partitions_that_still_fit_are_what_is_free() -> None:
    parts = [mig_device(0, number) for number in range(7)]
    parts += [mig_device(0, number, slices=4.0, profile="3g.40gb") for number in range(2)]
    held = claim("m", "gpu-0-mig-1g10gb-0", pods=("research/train-0",))
    found = devices(dra_node(gpus=1), dra(slice_of(*parts, counters=BOARD), held), claimant("train-0", "m"))
    assert sorted(gpu.mig_profile or "" for gpu in found) == ["1g.10gb"] * 4 + ["3g.40gb"]


def test_a_partition_has_the_metrics_of_its_holder() -> None:
    held = claim("m", "gpu-0-mig-1g10gb-1", pods=("research/train-0",))
    shown = reading(0, mig_instance="8", mig_profile="1g.10gb", pods=("research/train-0",))
    other = reading(0, mig_instance="7", mig_profile="1g.10gb", pods=("research/other",))
    parts = [mig_device(0, number) for number in range(2)]
    found = devices(
        dra_node(gpus=1),
        dra(slice_of(*parts, counters=BOARD), held),
        claimant("train-0", "m"),
        readings=(other, shown),
    )
    assert [gpu.slot for gpu in found] == [
        "gpu-1/00000000:10:00.0/gpu-0-mig-1g10gb-0",
        "gpu-1/00000000:10:00.0/mig-8",
    ]
    assert found[1].metrics is not None


def test_boards_that_plugin_and_driver_both_offer_are_counted_once() -> None:
    held = claim("gpus", "gpu-0", pods=("research/train-0",))
    by_plugin = pod("served", gpus=2)
    found = devices(node(gpus=4), dra(whole_gpus(4), held), claimant(), by_plugin)
    assert len(found) == 4
    assert sum("research/served" in gpu.holders for gpu in found) == 2
    assert all(len(gpu.holders) < 2 for gpu in found)


def test_boards_that_plugin_and_driver_share_out_are_all_there() -> None:
    host = node(gpus=4, labels={"nvidia.com/gpu.count": "8"})
    found = devices(host, dra(whole_gpus(4)), pod("served", gpus=2))
    assert len(found) == 8
    assert [gpu.origin for gpu in found if gpu.holders] == [Origin.PLUGIN] * 2


def test_an_extended_resource_that_became_a_claim_is_held_once() -> None:
    given_to = (DeviceHealth("nvidia.com/gpu", "GPU-elsewhere", "Healthy"),)
    asks = pod("asks", containers=(container(gpus=1, devices=given_to),))
    held = claim("asks-extended-resources-8dv7f", "gpu-1", pods=("research/asks",))
    found = devices(dra_node(gpus=2), dra(whole_gpus(2), held), asks)
    assert [(gpu.uuid, gpu.holders) for gpu in found] == [
        ("GPU-gpu-1-0", ()),
        ("GPU-gpu-1-1", ("research/asks",)),
    ]


def test_the_kubelets_word_on_a_claimed_device_is_taken() -> None:
    said = (DeviceHealth("claim:gpus/gpu", "gpu.nvidia.com/gpu-1/gpu-0", "Unhealthy"),)
    holder = pod(containers=(container(gpus=0, devices=said),), resource_claims=("gpus",))
    held = claim("gpus", "gpu-0", pods=("research/train-0",))
    [found] = devices(dra_node(gpus=1), dra(whole_gpus(1), held), holder)
    assert found.is_healthy is False
    assert found.holders == ("research/train-0",)


def test_an_older_generation_of_a_pool_no_longer_counts() -> None:
    old = slice_of(gpu_device(0), gpu_device(1), generation=1)
    assert len(devices(dra_node(gpus=1), dra(old, slice_of(gpu_device(0), generation=2)))) == 1


def test_a_board_that_the_driver_no_longer_publishes_is_missed() -> None:
    found = devices(dra_node(gpus=8), dra(whole_gpus(7)))
    assert [gpu.is_healthy for gpu in found].count(False) == 1


def test_devices_that_are_no_gpus_are_left_out() -> None:
    cards = slice_of(gpu_device(0), driver="dra.net", pool="gpu-1")
    assert [gpu.origin for gpu in devices(dra_node(gpus=1), dra(cards))] == [Origin.PLUGIN]


def test_what_a_pod_asks_for_by_claim_counts_as_gpus() -> None:
    given = dra(
        whole_gpus(8),
        claim("held", "gpu-0", "gpu-1"),
        claim("asked", demand=wants(4)),
        claim("watch", demand=wants(1, is_admin=True, wants_all=True)),
        template("made-later", wants(2)),
    )
    pods = (
        claimant("a", "held"),
        claimant("b", "asked"),
        claimant("c", "watch"),
        claimant("d", "g", claim_templates={"g": "made-later"}),
        claimant("e", "not-there"),
    )
    assert [p.gpu_count for p in with_claimed(pods, given)] == [2, 4, 0, 2, 0]
