"""GPU pods without a node: the dominant reason, and what is left alone."""

import shlex
from typing import Any

import pytest
import yaml

from diagnostics.findings import Confidence, Subject
from diagnostics.fixes import Risk
from diagnostics.snapshot import (
    Condition,
    Node,
    Pod,
    Source,
    Taint,
    Volume,
    Workload,
)
from tests.builders import ago, container, event, node, owner, pending_pod, pod
from tests.rules.scheduling.waiting import INSUFFICIENT, SILENT, hit, hits


def full(name: str = "gpu-1", **fields: Any) -> tuple[Node, Pod]:
    return node(name, **fields), pod(f"holder-{name}", node=name, gpus=8)


def test_a_full_cluster_is_a_shortage() -> None:
    found = hit(*full(), pending_pod())

    assert found.cause == "no-capacity"
    assert "Not a GPU shortage" not in found.title
    assert "20 min" in found.title
    assert found.subject == Subject("Pod", "wait-0", "research", "uid-wait-0", "v1")
    assert found.gpus == 1
    assert found.confidence is Confidence.HIGH


def test_evidence_has_the_schedulers_words_and_the_holders() -> None:
    values = {fact.label: (fact.value, fact.source) for fact in hit(*full(), pending_pod()).evidence}

    assert values["scheduler says"][0] == INSUFFICIENT
    assert "research/holder-gpu-1 8" in values["GPUs held on gpu-1"][0]
    assert all(source for _, source in values.values())


def test_free_gpus_in_pieces_are_fragmentation() -> None:
    found = hit(
        node("a"),
        node("b"),
        pod("x", node="a", gpus=4),
        pod("y", node="b", gpus=4),
        pending_pod(gpus=8),
    )

    assert found.cause == "fragmented"
    assert "8 (a 4 and b 4)" in str(found.evidence)


def test_pieces_taken_by_smaller_pods_since_are_fragmentation_too() -> None:
    late = (Condition("PodScheduled", "True", since=ago(minutes=5)),)
    parts = [node("a"), node("b"), pod("x", node="a", gpus=4), pod("y", node="b", gpus=4)]

    found = hit(*parts, pod("late", node="a", gpus=1, conditions=late), pending_pod(gpus=8))

    assert found.cause == "fragmented"
    assert "free when it began to wait" in str(found.evidence)


def test_too_few_free_gpus_in_all_are_no_fragmentation() -> None:
    parts = [node("a"), node("b"), pod("x", node="a", gpus=7), pod("y", node="b", gpus=7)]

    assert hit(*parts, pending_pod(gpus=8)).cause == "no-capacity"


def test_more_gpus_than_any_node_has() -> None:
    assert hit(node(), pending_pod(gpus=16)).cause == "larger-than-any-node"


def test_the_containers_of_a_pod_add_up() -> None:
    pair = (container("cuda", gpus=1, state=""), container("digits", gpus=1, state=""))

    found = hit(node(gpus=1), pending_pod(containers=pair))

    assert found.cause == "pod-total-gpu-request-exceeds-node"
    assert "cuda 1 and digits 1" in str(found.evidence)


@pytest.mark.parametrize("resource", ["amd.com/gpu", "nvidia.com/mig-1g.10gb", "nvidia.com/gpu.shared"])
def test_a_resource_that_no_node_offers(resource: str) -> None:
    wants = (container(requests={resource: 1.0}, limits={resource: 1.0}, state=""),)

    found = hit(node(), pending_pod(containers=wants))

    assert found.cause == "no-such-resource"
    assert resource in found.title
    assert "nvidia.com/gpu" in str(found.evidence)


@pytest.mark.parametrize(
    ("resource", "label"),
    [
        ("nvidia.com/mig-1g.10gb", "nvidia.com/mig.config=all-1g.10gb"),
        ("nvidia.com/gpu.shared", "nvidia.com/device-plugin.config=time-slicing-2-shared"),
        ("amd.com/gpu", ""),
    ],
)
def test_a_resource_that_no_node_offers_is_offered_where_a_node_can(resource: str, label: str) -> None:
    wants = (container(requests={resource: 1.0}, limits={resource: 1.0}, state=""),)
    manager = pod("mig-manager", "gpu-operator", 0, labels={"app": "nvidia-mig-manager"}, node="gpu-9")

    words = [
        w
        for s in hit(node(), manager, pending_pod(containers=wants)).fix.steps
        for w in shlex.split(s.command)
    ]

    assert [w for w in words if w.startswith("nvidia.com/") and "=" in w] == ([label] if label else [])


def test_holders_of_higher_priority() -> None:
    high = pod("high", gpus=4, priority=100000)

    found = hit(node(), high, pending_pod(gpus=6, priority=-10))

    assert found.cause == "lower-priority-cannot-preempt"


def test_a_policy_that_forbids_preemption() -> None:
    low = pod("low", gpus=8, priority=0)

    found = hit(node(), low, pending_pod(priority=10, preemption_policy="Never"))

    assert found.cause == "preemption-blocked"


def test_gpus_that_are_fitted_and_not_allocatable() -> None:
    found = hit(node(allocatable={"nvidia.com/gpu": 0.0}), pending_pod(gpus=8))

    assert found.cause == "gpus-unavailable-on-node"
    assert found.nodes == ("gpu-1",)
    assert "8 and 0" in str(found.evidence)


def test_a_pci_device_that_nobody_advertises() -> None:
    labels = {"feature.node.kubernetes.io/pci-10de.present": "true"}

    found = hit(
        node("new", gpus=0, labels=labels), pending_pod(node_selector={"kubernetes.io/hostname": "new"})
    )

    assert found.cause == "gpus-unavailable-on-node"
    assert found.nodes == ("new",)


def test_gpus_that_stuck_pods_hold() -> None:
    looping = container(
        gpus=4,
        state="waiting",
        waiting_reason="CrashLoopBackOff",
        restarts=9,
        running_since=None,
        is_ready=False,
    )

    found = hit(node(), pod("loop", containers=(looping,)), pending_pod(gpus=8))

    assert found.cause == "crashloop-pod-reserves-gpu"
    assert found.nodes == ("gpu-1",)
    assert "research/loop (crash-loop, 4 GPUs)" in str(found.evidence)


def test_finished_pods_are_never_blamed() -> None:
    done = [pod(f"done-{i}", gpus=8, phase=phase) for i, phase in enumerate(("Failed", "Succeeded"))]

    found = hit(*full(), *done, pending_pod())

    assert "done-" not in str(found.evidence)


def test_pods_of_one_owner_are_one_finding() -> None:
    pods = [pending_pod(f"w-{i}", root=owner()) for i in range(3)]

    found = hit(*full(), *pods)

    assert found.subject.kind == "Job"
    assert found.gpus == 3
    assert found.pods == ("research/w-0", "research/w-1", "research/w-2")


def test_the_reason_of_most_pods_leads() -> None:
    pods = [pending_pod(f"w-{i}", root=owner()) for i in range(2)]
    odd = pending_pod("odd", root=owner(), scheduling_gates=("g",))

    found = hit(*full(), *pods, odd)

    assert found.cause == "no-capacity"
    assert "scheduling-gate (1 pod)" in str(found.evidence)


def test_without_nodes_the_words_decide_and_it_is_less_sure() -> None:
    found = hit(pending_pod(), without={Source.NODES})

    assert found.cause == "no-capacity"
    assert found.confidence is Confidence.MEDIUM


@pytest.mark.parametrize(
    "fields",
    [
        {"gpus": 0},
        {"created_at": ago(minutes=4)},
        {"node": "gpu-1"},
        {"phase": "Running"},
        {"deletion_at": ago(minutes=1)},
    ],
)
def test_ignores_what_does_not_wait_for_gpus(fields: dict[str, Any]) -> None:
    assert hits(*full(), pending_pod(**fields)) == []


def test_ignores_a_pod_of_unknown_age() -> None:
    assert hits(*full(), pending_pod(created_at=None, conditions=())) == []


def test_ignores_a_pod_for_which_a_node_is_on_its_way() -> None:
    ordered = event("TriggeredScaleUp", name="wait-0", last_at=ago(minutes=6))
    overdue = event("TriggeredScaleUp", name="wait-0", last_at=ago(minutes=21))
    old = pending_pod(created_at=ago(minutes=40))

    assert hits(*full(), old, ordered) == []
    assert len(hits(*full(), old, overdue)) == 1


def test_ignores_suspended_workloads_which_have_no_pods() -> None:
    job = Workload(
        kind="Job", namespace="research", name="queued", is_suspended=True, replicas=4, spec={"a": 1}
    )

    assert hits(*full(), workloads=(job,)) == []


def test_hostile_names_stay_names() -> None:
    name = "--all\n\x1b[31m'; rm -rf $HOME <b>"
    tainted = node(name, taints=(Taint(name, "NoSchedule", name),))
    waiting = pending_pod(name, message=name * 50, scheduler=name, node_selector={name: name})

    message = f"exceeded quota: {name}, requested: requests.nvidia.com/gpu=8, used: {name}, limited: {name}"
    said = event("FailedCreate", " ".join(message.split("\n")), name=name, kind=name)

    found = hits(tainted, waiting, said)

    assert len(found) == 2
    for one in found:
        assert "\x1b" not in one.title + one.summary + "".join(
            fact.label + fact.value for fact in one.evidence
        )
        for step in one.fix.steps:
            assert not step.command or shlex.split(step.command)[0] == "kubectl"
            assert not step.manifest or yaml.safe_load(step.manifest)


@pytest.mark.parametrize(
    "waiting",
    [
        pending_pod(),
        pending_pod(gpus=16),
        pending_pod(node_selector={"a": "b"}),
        pending_pod(scheduling_gates=("g",)),
        pending_pod(scheduler="volcano", **SILENT),
        pending_pod(
            volumes=(Volume("d", "persistentVolumeClaim", "data"),), message="persistentvolumeclaim missing"
        ),
    ],
)
def test_fixes_begin_read_only_and_explain_each_step(waiting: Pod) -> None:
    fix = hit(*full(), waiting).fix

    assert fix.steps[0].risk is Risk.READ_ONLY
    assert all(step.why and step.expect for step in fix.steps)
    assert all(step.risk in {Risk.READ_ONLY, Risk.SAFE} for step in fix.steps)
