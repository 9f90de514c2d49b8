"""The world follows from its config and the time, and does not contradict itself."""

import json
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from diagnostics.simulator.build import build
from diagnostics.simulator.config import DEMO, WorldConfig
from diagnostics.simulator.faults import CATALOGUE, TWINS
from diagnostics.simulator.manifests.nodes import node_object
from diagnostics.simulator.manifests.pods import encoded_pod
from diagnostics.simulator.world import NoRoom, World
from tests.simulated import ROOMY
from tests.simulator.simulated import NOW, world

MINUTES = [timedelta(minutes=m) for m in (0, 1, 7, 33, 90, 600)]


def _everything(built: World) -> tuple[list[bytes], list[object]]:
    return [encoded_pod(p) for p in built.pods], [node_object(built, n) for n in built.nodes.values()]


def test_has_96_gpus_in_three_racks() -> None:
    built = world()
    assert len(built.nodes) == 12
    assert sum(len(n.devices) for n in built.nodes.values()) == 96
    assert Counter(n.rack for n in built.nodes.values()) == {"rack-1": 4, "rack-2": 4, "rack-3": 4}


def test_same_input_gives_the_same_bytes() -> None:
    assert _everything(build(DEMO, NOW)) == _everything(build(DEMO, NOW))


def test_another_seed_gives_other_uids() -> None:
    assert {p.uid for p in world().pods}.isdisjoint(p.uid for p in world(seed=8).pods)


def test_the_order_of_the_faults_does_not_matter() -> None:
    config = WorldConfig(faults=tuple(reversed(DEMO.faults)))
    assert _everything(build(config, NOW)) == _everything(build(DEMO, NOW))


def test_nobody_changes_gpus_as_time_goes_by() -> None:
    config = WorldConfig(faults=(*DEMO.faults, "within-grace"), nodes=24, epoch=NOW)
    seen: dict[str, tuple[object, ...]] = {}
    for minutes in range(-90, 200, 13):
        for pod in build(config, NOW + timedelta(minutes=minutes)).pods:
            assert seen.setdefault(pod.uid, (pod.node, pod.devices)) in ((pod.node, pod.devices), ("", ()))
            seen[pod.uid] = (pod.node, pod.devices)


@pytest.mark.parametrize("slug", [*CATALOGUE, *TWINS])
def test_every_gpu_has_one_holder_at_any_time(slug: str) -> None:
    for later in MINUTES:
        built = world(slug, now=NOW + later, epoch=NOW)
        held = Counter(d.resource_id for p in built.pods if p.state.holds for d in p.devices)
        assert set(held.values()) <= {1}
        assert all(built.nodes[d.node].name == p.node for p in built.pods for d in p.devices)


def test_nothing_exists_before_it_was_made() -> None:
    built = build(WorldConfig(faults=DEMO.faults, epoch=NOW), NOW - timedelta(hours=6))
    assert all(p.created <= built.now for p in built.pods)
    assert not any(p.name.startswith("llama-70b-awq") for p in built.pods)


def test_a_healthy_cluster_has_nothing_that_fails() -> None:
    built = world()
    assert not built.expected
    assert all(p.state.is_ready or p.state.phase == "Succeeded" for p in built.pods)
    assert all(n.allocatable() == n.capacity() for n in built.nodes.values())
    assert not any(n.xids for n in built.nodes.values())


def test_all_faults_fit_into_a_larger_cluster() -> None:
    built = world(*CATALOGUE, nodes=ROOMY)
    assert {e.rule for e in built.expected} == {f.rule for f in CATALOGUE.values()}


def test_faults_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(NoRoom, match="give the cluster more nodes"):
        world(*CATALOGUE)


def test_a_fault_and_its_twin_exclude_each_other() -> None:
    with pytest.raises(NoRoom, match="exclude each other"):
        world("scattered-job", "packed-job")


def test_an_unknown_fault_is_refused() -> None:
    with pytest.raises(ValueError, match="no such fault: nonsense"):
        world("nonsense")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes": 3}, "12 nodes at least"),
        ({"gpus_per_node": 4}, "8 to 16 GPUs"),
        ({"racks": 0}, "one rack at least"),
    ],
)
def test_an_impossible_config_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WorldConfig(**changes)


def test_fills_up_to_the_wanted_number_of_pods() -> None:
    built = world(nodes=40, pods=500)
    assert len(built.pods) == 500


def test_too_few_or_too_many_pods_are_refused() -> None:
    with pytest.raises(ValueError, match=r"have \d+ pods by themselves"):
        world(nodes=40, pods=100)
    with pytest.raises(ValueError, match="too many"):
        world(nodes=13, pods=2000)


def test_a_large_cluster_has_pods_of_the_usual_size() -> None:
    pods = [encoded_pod(p) for p in world(nodes=120, pods=1200).pods]
    assert len(pods) == 1200
    assert 6_000 < sum(map(len, pods)) / len(pods) < 9_000
    managed = sum(
        len(json.dumps(json.loads(p)["metadata"]["managedFields"], separators=(",", ":"))) for p in pods
    )
    assert 0.25 < managed / sum(map(len, pods)) < 0.4
