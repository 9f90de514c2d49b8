"""Free GPUs that no pod can use, because CPU or memory is taken."""

from datetime import timedelta
from typing import Any

import pytest

from diagnostics.findings import Hit, Unjudged
from diagnostics.limits import Limits, Thresholds
from diagnostics.rules import catalogue, engine
from diagnostics.rules.scheduling.stranded_gpus import check
from diagnostics.snapshot import Condition, OwnerKey, Pod, Source, Taint
from tests.builders import GIB, ago, container, node, owner, pending_pod, pod, snapshot, statuses


def taker(
    name: str = "etl-0", cpu: float = 62.0, memory: float = 8 * GIB, gpus: int = 0, **fields: Any
) -> Pod:
    amounts = {"cpu": cpu, "memory": memory} | ({"nvidia.com/gpu": float(gpus)} if gpus else {})
    box = container(requests=amounts, limits=amounts)
    return pod(name, "data", containers=(box,), **fields)


def found(*parts: Any, **fields: Any) -> list[Hit | Unjudged]:
    return list(check(snapshot(*parts, **fields), Limits()))  # type: ignore[arg-type]


def hit(*parts: Any, **fields: Any) -> Hit:
    (one,) = found(*parts, **fields)
    assert isinstance(one, Hit)
    return one


def test_pods_without_gpus_have_taken_the_cpu() -> None:
    one = hit(node(), taker(), taker("small-0", cpu=1.0))
    assert one.cause == "cpu-taken-by-pods-without-gpus"
    assert (one.subject.kind, one.subject.name, one.gpus) == ("Node", "gpu-1", 8)
    assert one.waste_gpus == 8.0
    assert "8 GPUs on gpu-1 cannot be used for 2 h" in one.title
    said = {fact.label: fact.value for fact in one.evidence}
    assert said["CPU left"] == "1 cores of 64 cores"
    assert said["CPU taken by"] == "data/etl-0 62 cores and data/small-0 1 cores"


def test_pods_without_gpus_have_taken_the_memory() -> None:
    one = hit(
        node(),
        taker(cpu=2.0, memory=505 * GIB),
        pod(gpus=3, containers=(container(gpus=3, requests={"nvidia.com/gpu": 3.0}),)),
    )
    assert one.cause == "memory-taken-by-pods-without-gpus"
    assert one.gpus == 5


def test_gpu_pods_that_ask_for_more_than_their_share() -> None:
    one = hit(node(), taker("greedy", cpu=62.0, gpus=1))
    assert one.cause == "cpu-taken-by-gpu-pods"
    assert one.gpus == 7
    assert "data/greedy" in one.title + str(one.evidence)


def test_pods_that_it_keeps_waiting_are_named_and_linked() -> None:
    wants = pending_pod(gpus=1)
    one = hit(node(), taker(), wants)
    assert wants.key in one.pods
    assert "research/wait-0" in str(one.evidence)


def test_the_node_explains_the_pod_that_waits() -> None:
    rules = tuple(rule for rule in catalogue() if rule.family == "scheduling")
    message = "0/1 nodes are available: 1 Insufficient cpu."
    outcome = engine.run(rules, snapshot(node(), taker(), pending_pod(message=message)), Limits())
    by_slug = {finding.slug: finding for finding in outcome.findings}
    assert by_slug.keys() == {"stranded-gpus", "pending-gpu-pod"}
    assert by_slug["pending-gpu-pod"].cause == "cpu-or-memory-stranded"
    assert by_slug["pending-gpu-pod"].caused_by == (by_slug["stranded-gpus"].id,)


def test_a_waiting_pod_that_fits_is_not_stranded() -> None:
    box = container(
        requests={"nvidia.com/gpu": 1.0, "cpu": 1.0, "memory": GIB}, limits={"nvidia.com/gpu": 1.0}
    )
    assert found(node(), taker(), pending_pod(containers=(box,))) == []


@pytest.mark.parametrize(
    "parts",
    [
        (node(), taker(cpu=40.0)),
        (node(), taker(), pod(gpus=8, containers=(container(requests={"nvidia.com/gpu": 8.0}),))),
        (node(unschedulable=True), taker()),
        (node(conditions=(Condition("Ready", "False"),)), taker()),
        (node(gpus=0), taker()),
        (node(), taker(phase="Succeeded")),
        (node(allocatable={"cpu": 3.9}, capacity={"cpu": 4.0}), taker(cpu=1.0)),
        (node(), taker(owners=(OwnerKey("DaemonSet", "data", "agent"),))),
        (),
    ],
    ids=["enough-left", "no-gpu-free", "cordoned", "not-ready", "no-gpus", "finished", "too-small", "daemon", "empty"],
)  # fmt: skip
def test_ignores_nodes_whose_gpus_are_not_stranded(parts: tuple[Any, ...]) -> None:
    assert found(*parts) == []


def test_ignores_what_is_young() -> None:
    young = Condition("PodScheduled", "True", since=ago(minutes=10))
    assert found(node(), taker(conditions=(young,))) == []
    old = taker("old-0", cpu=61.0)
    assert hit(node(), old, taker("young-0", cpu=1.0, conditions=(young,))).title.count("2 h") == 1


def test_a_pod_of_unknown_age_dates_nothing_and_is_not_reported() -> None:
    undated = taker(conditions=(), created_at=None, started_at=None)
    assert found(node(), undated) == []


def test_with_pods_missing_it_is_not_judged() -> None:
    (one,) = found(node(), taker(), sources=statuses(partial={Source.PODS}))
    assert isinstance(one, Unjudged)


def test_a_node_without_known_cpu_is_not_judged_as_short() -> None:
    bare = node()
    assert found(type(bare)(name="gpu-1", allocatable={"nvidia.com/gpu": 8.0}), taker()) == []


def test_a_site_says_what_is_typical() -> None:
    limits = Limits(site=Thresholds(typical_cpu_cores_per_gpu=1.0, stranded_after=timedelta(minutes=1)))
    assert list(check(snapshot(node(), taker()), limits)) == []


def test_the_fix_reads_first_and_taints_only_what_has_no_taint() -> None:
    job = taker(root=owner("Deployment", "etl", "data"))
    steps = hit(node(), job).fix.steps
    assert [step.risk for step in steps][:2] == ["read-only", "read-only"]
    assert any("kubectl taint node gpu-1" in step.command for step in steps)
    tainted = node(taints=(Taint("nvidia.com/gpu", "NoSchedule", "present"),))
    assert not any("taint" in step.command for step in hit(tainted, job).fix.steps)


def test_hostile_names_stay_names() -> None:
    name = "--all\n\x1b[31m'; rm -rf $HOME <b>"
    one = hit(node(name), taker(name, node=name))
    assert "\x1b" not in one.title + one.summary
