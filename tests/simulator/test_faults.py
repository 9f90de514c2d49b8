"""Every fault can be seen in the world, begins when it is due, and differs from its healthy twin."""

from datetime import timedelta

import pytest

from diagnostics.simulator.exporter import page
from diagnostics.simulator.faults import CATALOGUE, TWINS
from diagnostics.simulator.manifests.nodes import encoded_node
from diagnostics.simulator.manifests.pods import pod_object
from diagnostics.simulator.operator_jobs import KINDS
from diagnostics.simulator.pod_rules import refusal_by_pods
from diagnostics.simulator.scheduling import refusals, usage_of
from diagnostics.simulator.world import World
from tests.simulator.simulated import NOW, world

RULES = {
    "scattered-job",
    "partial-gang",
    "no-gang-scheduling",
    "pending-gpu-pod",
    "fewer-gpus-than-fitted",
    "operator-component-failing",
    "device-plugin-waiting",
    "mig-not-applied",
    "refused-at-admission",
    "image-needs-newer-driver",
    "gpu-memory-pressure",
    "host-memory-limit",
    "growing-memory",
    "small-shm",
    "storage-eviction",
    "oom-killed",
    "probe-killed",
    "cuda-out-of-memory",
    "idle-gpu",
    "fatal-xid",
    "stuck-holder",
    "application-xid",
    "clocks-held-down",
    "fabric-manager-down",
    "gpu-used-unrequested",
    "lemon-node",
    "lost-gpu",
    "memory-errors",
    "no-gpu-in-container",
    "no-kernel-for-gpu",
    "nvlink-errors",
    "nvml-failing",
    "pcie-degraded",
    "preemption-loop",
    "reported-unhealthy",
    "stranded-gpus",
}


def _look(built: World) -> object:
    """All that can be seen of it from outside, save the events of pods, which follow from them."""
    pods = {p.uid: pod_object(p) for p in built.pods}
    nodes = [(encoded_node(built, n), page(built, n)) for n in built.nodes.values()]
    return pods, nodes, built.notes, built.claims, built.quotas, built.custom


def test_every_rule_has_a_fault_and_every_fault_a_twin() -> None:
    assert {f.rule for f in CATALOGUE.values()} == RULES
    assert {f.twin for f in CATALOGUE.values()} <= set(TWINS)
    assert not set(CATALOGUE) & set(TWINS)


@pytest.mark.parametrize("slug", CATALOGUE)
def test_a_fault_shows_and_differs_from_its_twin(slug: str) -> None:
    ages = (timedelta(0), *CATALOGUE[slug].looks)

    def shown(*entries: str) -> list[object]:
        return [_look(world(*entries, now=NOW - age, epoch=NOW)) for age in ages]

    sick = shown(slug)
    assert sick != shown()
    assert sick != shown(CATALOGUE[slug].twin)


@pytest.mark.parametrize("slug", CATALOGUE)
def test_a_fault_leaves_its_subject_to_be_found(slug: str) -> None:
    fault, built = CATALOGUE[slug], world(slug)
    assert (fault.rule, fault.kind, fault.namespace, fault.name) in [
        (e.rule, e.kind, e.namespace, e.name) for e in built.expected
    ]
    kinds = {kind: job.kind for kind, job in KINDS.items()}
    named = {(kinds.get(w.kind, w.kind), w.namespace, w.name) for w in built.workloads} | {
        ("Node", "", n) for n in built.nodes
    }
    named |= {
        ("GPU", "", f"{d.node}/{d.pci_bus_id.lower()}") for n in built.nodes.values() for d in n.devices
    }
    assert (fault.kind, fault.namespace, fault.name) in named


@pytest.mark.parametrize("slug", TWINS)
def test_a_twin_leaves_nothing_to_be_found(slug: str) -> None:
    assert not world(slug).expected


@pytest.mark.parametrize("slug", [*CATALOGUE, *TWINS])
def test_a_pod_that_waits_for_a_node_fits_on_none(slug: str) -> None:
    for later in (timedelta(0), timedelta(minutes=3), timedelta(hours=5)):
        built = world(slug, now=NOW + later, epoch=NOW)
        usage = usage_of(built.pods)
        for pod in built.pods:
            has_claim = any("persistentVolumeClaim" in v for v in pod.workload.template.volumes)
            has_claim = has_claim or bool(pod.state.claims)
            # A gang waits as a whole, though one of its pods may find a node.
            is_gang = pod.workload.kind == "VolcanoJob"
            if pod.state.unscheduled != "Unschedulable" or has_claim or is_gang:
                continue
            assert all(
                refusals(n, usage.get(n.name, {}), pod.workload)[0]
                or refusal_by_pods(pod, n.name, built.pods)
                for n in built.nodes.values()
            )


def test_the_twin_of_a_full_pool_never_waits_long() -> None:
    for minutes in range(120):
        built = world("short-wait", now=NOW + timedelta(minutes=minutes), epoch=NOW)
        waiting = [p for p in built.pods if p.state.unscheduled]
        assert all(built.now - p.created < timedelta(minutes=4) for p in waiting)


def test_the_twin_of_a_partial_gang_is_complete_soon() -> None:
    for minutes in range(120):
        built = world("starting-gang", now=NOW + timedelta(minutes=minutes), epoch=NOW)
        assert all(built.now - p.created < timedelta(minutes=3) for p in built.pods if p.state.unscheduled)


def test_the_partial_gang_runs_five_of_eight() -> None:
    gang = [p for p in world("partial-gang").pods if p.workload.name == "vit-huge"]
    assert sorted(p.state.phase for p in gang) == ["Pending"] * 3 + ["Running"] * 5


def test_the_scattered_job_crosses_racks_and_its_twin_does_not() -> None:
    for slug, hosts, racks in (("scattered-job", 4, 2), ("packed-job", 1, 1)):
        built = world(slug)
        nodes = {p.node for p in built.pods if p.workload.name == "gpt-ddp"}
        assert len(nodes) == hosts
        assert len({built.nodes[n].rack for n in nodes}) == racks


def test_fragmented_gpus_would_suffice_together() -> None:
    built = world("pending-fragmented")
    free = [len(n.free) for n in built.nodes.values() if n.pool == "serve"]
    assert sum(free) >= 4 > max(free)


def test_a_crash_loop_is_waiting_at_the_epoch_and_has_restarted_often() -> None:
    for slug in CATALOGUE:
        for pod in world(slug).pods:
            if pod.state.is_looping:
                assert pod.state.waiting == "CrashLoopBackOff" or pod.state.init_waiting == "CrashLoopBackOff"
                assert pod.state.restarts >= 5


def test_a_fault_is_not_there_before_it_began() -> None:
    for slug in ("plugin-crash-loop", "driver-pull-failing", "xid-95", "stuck-unknown", "unhealthy-gpu"):
        built = world(slug, now=NOW - timedelta(hours=1), epoch=NOW)
        assert all(n.allocatable() == n.capacity() for n in built.nodes.values())
        assert not any(n.xids or n.lost_since or n.driver_gone_since for n in built.nodes.values())


def test_uncorrectable_errors_come_again_and_again() -> None:
    codes = [
        next(
            iter(world("xid-95", now=NOW + timedelta(minutes=m), epoch=NOW).nodes["gpu-12"].xids.values()), 0
        )
        for m in (-20, -5, 6, 21)
    ]
    assert codes == [0, 95, 48, 95]


@pytest.mark.parametrize(("minutes", "capacity"), [(4, 8), (6, 0)])
def test_a_kubelet_forgets_a_plugin_that_is_gone_after_five_minutes(minutes: int, capacity: int) -> None:
    built = world("plugin-crash-loop", now=NOW + timedelta(minutes=minutes - 45), epoch=NOW)
    node = built.nodes["gpu-11"]
    assert (node.capacity()["nvidia.com/gpu"], node.allocatable()["nvidia.com/gpu"]) == (capacity, 0)
