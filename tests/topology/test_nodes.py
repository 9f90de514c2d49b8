"""Node rows, and what changes on nodes."""

from datetime import timedelta

import pytest

from diagnostics.models import Node, TopologyChange
from diagnostics.snapshot import Source
from tests.builders import NOW, gpu, node, statuses
from tests.topology.timeline import POLL, Polls

pytestmark = pytest.mark.django_db


def test_the_first_poll_knows_everything_and_changes_nothing() -> None:
    polls = Polls()
    known = polls.poll(
        node(
            rack="r1",
            zone="z1",
            nvlink_domain="d1",
            boot_id="boot-1",
            kubelet_version="v1.36.2",
            labels={"nvidia.com/mig.config": "all-disabled"},
        ),
        node("cpu-1", gpus=0),
        *(gpu(i) for i in range(8)),
    )

    row = known.nodes["gpu-1"]
    assert list(known.nodes) == ["gpu-1"]
    assert (row.uid, row.rack, row.zone, row.nvlink_domain) == ("uid-gpu-1", "r1", "z1", "d1")
    assert (row.driver, row.kubelet, row.boot_id) == ("550.90.07", "v1.36.2", "boot-1")
    assert (row.model, row.gpus, row.most_gpus) == ("NVIDIA A100-SXM4-80GB", 8, 8)
    assert (row.mig_config, row.mig_layout, row.replicas) == ("all-disabled", "", 1)
    assert polls.changes() == []


def test_a_node_that_only_its_pci_label_gives_away_has_a_row() -> None:
    label = {"feature.node.kubernetes.io/pci-0302_10de.present": "true"}
    known = Polls().poll(node("bare", gpus=0, labels=label))

    assert known.nodes["bare"].gpus == 0


def test_a_node_that_joins_is_added_and_one_that_goes_is_removed() -> None:
    polls = Polls()
    polls.poll(node(gpus=1), gpu(0))
    polls.poll(
        node(gpus=1),
        gpu(0),
        node("gpu-2", gpus=1, created_at=NOW + POLL * 1.5),
        gpu(0, "gpu-2"),
    )
    polls.poll(node("gpu-2", gpus=1), gpu(0, "gpu-2"))

    assert polls.kinds() == ["node added", "node removed"]
    assert polls.node().removed_at == polls.at
    assert list(polls.live()) == [gpu(0, "gpu-2").slot]


def test_a_node_that_a_poll_missed_before_is_not_called_added() -> None:
    polls = Polls()
    polls.poll(node(gpus=1), gpu(0), sources=statuses(partial=[Source.NODES]))
    polls.poll(node(gpus=1), gpu(0), node("gpu-2", gpus=1), gpu(0, "gpu-2"))

    assert polls.changes() == []
    assert set(polls.poll(node(gpus=1), gpu(0)).nodes) == {"gpu-1"}


def test_the_first_nodes_after_a_poll_that_could_not_list_them_are_not_added() -> None:
    polls = Polls()
    polls.poll(without=[Source.NODES])
    polls.poll(node(gpus=1), gpu(0))

    assert polls.changes() == []


@pytest.mark.parametrize(
    "sources", [statuses(partial=[Source.NODES]), statuses(without=[Source.NODES])], ids=["partial", "absent"]
)
def test_a_list_that_is_not_whole_removes_nothing(sources: tuple[object, ...]) -> None:
    polls = Polls()
    polls.poll(node(gpus=1), gpu(0), node("gpu-2", gpus=1), gpu(0, "gpu-2"))
    polls.poll(node(gpus=1), gpu(0), sources=sources)

    assert polls.changes() == []
    assert len(polls.live()) == 2
    assert polls.node("gpu-2").removed_at is None


def test_a_node_that_comes_back_is_the_same_row() -> None:
    polls = Polls()
    before = polls.poll(node(gpus=1), gpu(0))
    polls.poll()
    after = polls.poll(node(gpus=1), gpu(0))

    assert polls.kinds() == ["node removed", "node added"]
    assert after.nodes["gpu-1"].pk == before.nodes["gpu-1"].pk
    assert after.devices[gpu(0).slot].pk == before.devices[gpu(0).slot].pk
    assert polls.live()[gpu(0).slot].removed_at is None


def test_the_same_name_with_another_uid_is_a_node_created_anew() -> None:
    polls = Polls()
    before = polls.poll(node(gpus=1, boot_id="a"), gpu(0))
    after = polls.poll(node(gpus=1, uid="other", boot_id="b"), gpu(0, uuid="GPU-other"))

    assert polls.changes() == [("node re-created", "gpu-1", "uid-gpu-1", "other")]
    assert after.nodes["gpu-1"].pk == before.nodes["gpu-1"].pk
    assert Node.objects.get().uid == "other"
    assert polls.live()[gpu(0).slot].uuid == "GPU-other"


def test_a_node_created_anew_while_nobody_looked_is_no_mere_return() -> None:
    polls = Polls()
    polls.poll(node(gpus=1), gpu(0))
    polls.poll()
    polls.poll(node(gpus=1, uid="other"), gpu(0))

    assert polls.kinds() == ["node removed", "node re-created"]


def test_reboot_cordon_and_driver_are_changes() -> None:
    polls = Polls()
    polls.poll(node(gpus=1, boot_id="a"), gpu(0))
    new_driver = {"nvidia.com/cuda.driver-version.full": "580.65.06"}
    polls.poll(node(gpus=1, boot_id="b", unschedulable=True, labels=new_driver), gpu(0))
    polls.poll(node(gpus=1, boot_id="b", labels=new_driver), gpu(0))

    assert polls.changes() == [
        ("node rebooted", "gpu-1", "a", "b"),
        ("cordoned", "gpu-1", "", ""),
        ("driver changed", "gpu-1", "550.90.07", "580.65.06"),
        ("uncordoned", "gpu-1", "", ""),
    ]
    assert polls.node().is_cordoned is False


def test_labels_that_are_gone_for_a_moment_are_no_change() -> None:
    polls = Polls()
    polls.poll(node(gpus=1, boot_id="a"), gpu(0))
    polls.poll(node(gpus=1, labels={"nvidia.com/cuda.driver-version.full": ""}), gpu(0))
    polls.poll(node(gpus=1, boot_id="a"), gpu(0))

    assert polls.changes() == []
    assert (polls.node().driver, polls.node().boot_id) == ("550.90.07", "a")


def test_time_slicing_switched_on_is_one_change_and_the_devices_stay() -> None:
    polls = Polls()
    before = polls.poll(node(gpus=2), gpu(0), gpu(1))
    shared = node(gpus=8, labels={"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.count": "2"})
    after = polls.poll(shared, gpu(0, replicas=4), gpu(1, replicas=4))
    renamed = node(gpus=0, capacity={"nvidia.com/gpu.shared": 8.0}, labels=dict(shared.labels))
    last = polls.poll(renamed, *(gpu(i, replicas=4, resource="nvidia.com/gpu.shared") for i in (0, 1)))

    assert polls.changes() == [("sharing changed", "gpu-1", "whole GPUs", "4 shares per GPU")]
    pks = [{row.pk for row in known.devices.values()} for known in (before, after, last)]
    assert pks[0] == pks[1] == pks[2]
    assert {row.resource for row in polls.live().values()} == {"nvidia.com/gpu.shared"}


def test_a_replica_label_beyond_reason_costs_nothing() -> None:
    assert Polls().poll(node(gpus=1, labels={"nvidia.com/gpu.replicas": "9" * 30}), gpu(0)).nodes


def test_last_seen_is_written_once_in_ten_minutes() -> None:
    polls = Polls()
    polls.poll(node(gpus=1), gpu(0))
    first = polls.at
    for _ in range(9):
        polls.poll(node(gpus=1), gpu(0))
    assert polls.node().last_seen == first
    polls.poll(node(gpus=1), gpu(0))

    assert polls.node().last_seen == polls.at
    assert polls.live()[gpu(0).slot].last_seen == polls.at


def test_a_node_that_was_not_read_was_not_seen() -> None:
    polls = Polls()
    polls.poll(node(gpus=1), gpu(0), node("gpu-2", gpus=1), gpu(0, "gpu-2"))
    first = polls.at
    polls.poll(node(gpus=1), gpu(0), after=timedelta(hours=1), sources=statuses(partial=[Source.NODES]))

    assert polls.node("gpu-2").last_seen == polls.live()[gpu(0, "gpu-2").slot].last_seen == first
    assert polls.node().last_seen == polls.at


def test_a_late_poll_changes_nothing_but_knows_the_rows() -> None:
    polls = Polls()
    known = polls.poll(node(gpus=1), gpu(0))
    late = polls.record_late(node(gpus=1, boot_id="old", uid="old"), gpu(0), gpu(1))

    assert late.devices.keys() == known.devices.keys()
    assert late.nobody == known.nobody
    assert not TopologyChange.objects.exists()
    assert polls.node().uid == "uid-gpu-1"


def test_the_same_poll_twice_is_the_same() -> None:
    polls = Polls()
    parts = (node(gpus=1), gpu(0))
    polls.poll(*parts)
    polls.poll(node(gpus=1, unschedulable=True), gpu(0))
    again = polls.poll_at(polls.at, node(gpus=1, unschedulable=True), gpu(0))

    assert polls.kinds() == ["cordoned"]
    assert len(again.devices) == len(polls.live()) == 1


def test_clusters_do_not_share_rows() -> None:
    one, other = Polls("one"), Polls("other")
    first = one.poll(node(gpus=1), gpu(0))
    second = other.poll(node(gpus=1), gpu(0))

    assert first.nodes["gpu-1"].pk != second.nodes["gpu-1"].pk
    assert first.nobody != second.nobody
