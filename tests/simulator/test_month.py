"""A month of the simulated cluster: as its plan has it, at any moment, and without contradictions."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from diagnostics.simulator import exporter
from diagnostics.simulator.build import build
from diagnostics.simulator.config import WorldConfig
from diagnostics.simulator.manifests.nodes import node_object
from diagnostics.simulator.manifests.pods import encoded_pod
from diagnostics.simulator.month import upheaval
from diagnostics.simulator.month.plan import month_of
from diagnostics.simulator.world import World

START = datetime(2026, 6, 1, tzinfo=UTC)
CONFIG = WorldConfig(schedule="month", epoch=START)


def at(seconds: int) -> World:
    return build(CONFIG, START + timedelta(seconds=seconds))


def moments() -> Iterator[World]:
    """About three a day, at odd times."""
    for step in range(90):
        yield at(step * 28_777)


def test_same_input_gives_the_same_bytes() -> None:
    one, other = (at(500_000) for _ in range(2))
    month_of.cache_clear()
    again = at(500_000)
    pages = [[exporter.page(w, n) for n in w.nodes.values()] for w in (one, other, again)]
    pods = [[encoded_pod(p) for p in w.pods] for w in (one, other, again)]
    assert pages[0] == pages[1] == pages[2]
    assert pods[0] == pods[1] == pods[2]


def test_another_seed_gives_another_month() -> None:
    other = build(WorldConfig(schedule="month", epoch=START, seed=8), START + timedelta(days=3))
    assert {p.name for p in other.pods} != {p.name for p in at(3 * 86_400).pods}


def test_every_gpu_has_one_holder_at_any_time() -> None:
    for world in moments():
        held = Counter(d.resource_id for p in world.pods if p.state.holds for d in p.devices)
        assert set(held.values()) <= {1}
        fitted = {d.resource_id for n in world.nodes.values() for d in n.devices}
        assert set(held) <= fitted


def test_nobody_changes_gpus() -> None:
    seen: dict[str, object] = {}
    for world in moments():
        for pod in world.pods:
            if pod.devices:
                assert seen.setdefault(pod.uid, (pod.node, pod.devices)) == (pod.node, pod.devices)


def test_pods_stay_within_their_times() -> None:
    for run in month_of(CONFIG).runs:
        for stay in run.stays:
            assert stay.created <= stay.bound <= stay.ready <= stay.ended <= stay.gone, run.path


def test_everything_can_be_shown() -> None:
    for world in moments():
        assert all(encoded_pod(pod) for pod in world.pods)
        assert all(node_object(world, node) for node in world.nodes.values())
        assert sum(bool(exporter.page(world, node)) for node in world.nodes.values()) >= 11


def test_a_node_comes_and_a_node_goes() -> None:
    assert "gpu-13" not in at(upheaval.ADDED - 1).nodes
    joined = at(upheaval.ADDED)
    assert joined.nodes["gpu-13"].created == joined.now
    assert all(p.created >= joined.now for p in joined.pods if p.node == "gpu-13")
    assert at(upheaval.REMOVED - 1).nodes["gpu-04"].is_cordoned
    assert "gpu-04" not in at(upheaval.REMOVED).nodes


def test_nobody_is_left_on_a_node_that_goes() -> None:
    assert not [
        p for p in at(upheaval.REMOVED - 1).pods if p.node == "gpu-04" and p.devices and p.state.holds
    ]


def test_a_reboot_gives_another_boot_id() -> None:
    def boot(t: int) -> str:
        world = at(t)
        return str(node_object(world, world.nodes["gpu-08"])["status"]["nodeInfo"]["bootID"])

    assert boot(upheaval.REBOOT.start - 1) != boot(upheaval.REBOOT.end)
    assert at(upheaval.REBOOT.start).nodes["gpu-08"].lost_since is not None


def test_the_pods_of_a_crashed_node_fail_when_it_is_back() -> None:
    crash = upheaval.CRASHES["gpu-02"]
    before = {p.uid for p in at(crash.start - 1).pods if p.node == "gpu-02" and p.devices and p.state.holds}
    assert before
    silent = [p for p in at(crash.start + 60).pods if p.uid in before]
    assert all(p.state.holds and not p.state.is_ready for p in silent)
    assert {p.state.phase for p in at(crash.end).pods if p.uid in before} == {"Failed"}


def test_a_lost_board_comes_back_as_another_in_its_place() -> None:
    def board(t: int) -> tuple[str, str, bool]:
        node = at(t).nodes[upheaval.SICK.node]
        device = node.devices[upheaval.SICK.board]
        return device.uuid, device.pci_bus_id, device.uuid in node.unhealthy

    well, sick, new = (board(t) for t in (upheaval.SICK_FROM - 1, upheaval.SICK_FROM, upheaval.SWAP.end))
    assert sick == (well[0], well[1], True)
    assert new[0] != well[0]
    assert new[1:] == (well[1], False)


def test_a_board_is_split_into_seven_instances() -> None:
    before, after = (at(t).nodes["gpu-09"].capacity() for t in (upheaval.SPLIT_AT - 1, upheaval.SPLIT_AT))
    assert before == {"nvidia.com/gpu": 8}
    assert after == {"nvidia.com/gpu": 7, "nvidia.com/mig-1g.10gb": 7}
    used = {d.mig_id for w in moments() for p in w.pods for d in p.devices if d.mig_uuid}
    assert used == {7, 8, 9, 10, 11}


def test_a_pod_that_comes_again_under_its_name_is_another() -> None:
    uids = {p.uid for w in moments() for p in w.pods if p.name == "notebook-ana-0"}
    assert len(uids) > 2


def test_needs_an_epoch_and_nothing_else() -> None:
    with pytest.raises(ValueError, match="needs a config with an epoch"):
        build(WorldConfig(schedule="month"), START)
    with pytest.raises(ValueError, match="has its own pods and faults"):
        WorldConfig(schedule="month", faults=("xid-79",))
