"""Workloads that are preempted again and again, and preemptions that are as they should be."""

from typing import Any

import pytest

from diagnostics.findings import Hit
from diagnostics.limits import Limits
from diagnostics.rules.scheduling.preemption_loop import check
from diagnostics.snapshot import Event, OwnerKey, Pod, Policy, Workload
from diagnostics.snapshot.policy import PriorityClass
from tests.builders import ago, event, node, pending_pod, pod, snapshot

BATCH = OwnerKey("Job", "research", "batch", "batch/v1", "uid-batch")
LIVE = OwnerKey("Deployment", "research", "live", "apps/v1", "uid-live")
JOB = Workload(
    kind="Job", namespace="research", name="batch", api_version="batch/v1", uid="uid-batch", spec={"a": 1}
)


def live(**fields: Any) -> Pod:
    return pod("live-0", root=LIVE, priority=1000, **fields)


def preempted(minutes: float, name: str = "batch-x", by: str = "pod uid-live-0", **fields: Any) -> Event:
    message = f"Preempted by {by} on node gpu-1"
    return event("Preempted", message, name, type="Normal", last_at=ago(minutes=minutes), **fields)


def looping(by: str = "pod uid-live-0") -> list[Event]:
    return [preempted(m, f"batch-{m}", by) for m in (40, 25, 10)]


def found(*parts: Any, **fields: Any) -> list[Hit]:
    defaults: dict[str, Any] = {"workloads": (JOB,)}
    hits = list(check(snapshot(node(), *parts, **(defaults | fields)), Limits()))
    assert all(isinstance(one, Hit) for one in hits)
    return hits  # type: ignore[return-value]


def hit(*parts: Any, **fields: Any) -> Hit:
    (one,) = found(*parts, **fields)
    return one


def test_a_victim_that_comes_back_and_is_pushed_out_again() -> None:
    one = hit(*looping(), live(), pending_pod("batch-new", root=BATCH, priority=-10))
    assert (one.subject.kind, one.subject.name, one.cause) == ("Job", "batch", "victim-comes-back")
    assert "preempted 3 times within 30 min" in one.title
    said = {fact.label: fact.value for fact in one.evidence}
    assert said["room was made for"] == "research/live-0"
    assert (said["its priority"], said["priority of those that push it out"]) == ("-10", "1000")
    assert set(one.pods) == {"research/batch-new", "research/live-0"}


@pytest.mark.parametrize("by", ["research/live-0", "pod uid-live-0", "a pod: uid-live-0"])
def test_reads_what_several_versions_of_the_scheduler_write(by: str) -> None:
    assert "research/live-0" in str(hit(*looping(by), live()).evidence)


def test_pods_that_push_each_other_out_are_told_once() -> None:
    mine = pod("batch-now", root=BATCH)
    back = [preempted(m, f"live-{m}", "pod uid-batch-now") for m in (35, 20, 5)]
    deployment = Workload(
        kind="Deployment", namespace="research", name="live", uid="uid-live", api_version="apps/v1"
    )
    one = hit(*looping(), *back, live(), mine, workloads=(JOB, deployment))
    assert one.cause == "pods-preempt-each-other"
    assert "Job research/batch" in one.title
    assert "Deployment research/live" in one.title


def test_a_preemptor_that_never_starts() -> None:
    waits = pending_pod("live-0", root=LIVE, priority=1000, nominated_node="gpu-1")
    one = hit(*looping(), waits)
    assert one.cause == "preemptor-never-starts"
    assert "research/live-0" in one.title


def test_without_the_preemptor_it_is_less_sure() -> None:
    one = hit(*looping("pod 11111111-2222-3333-4444-555555555555"))
    assert one.confidence == "medium"
    assert "1 pod gone since" in str(one.evidence)


def test_one_preemption_that_ends_many_pods_is_no_loop() -> None:
    many = [preempted(10 + i / 60, f"batch-{i}") for i in range(8)]
    assert found(*many, live()) == []


@pytest.mark.parametrize(
    "events",
    [
        [preempted(20)],
        [preempted(20), preempted(10, "batch-2")],
        [preempted(m, f"batch-{m}") for m in (58, 50, 42)],
        [preempted(m, f"batch-{m}") for m in (130, 120, 10)],
        [preempted(m, f"batch-{m}", "nobody knows whom???", kind="Node") for m in (40, 25, 10)],
        [event("Killing", "Preempted by pod x", f"batch-{m}") for m in (40, 25, 10)],
        [],
    ],
    ids=["once", "twice", "over", "long-ago", "of-a-node", "other-reason", "none"],
)
def test_ignores_what_is_no_loop_of_now(events: list[Event]) -> None:
    assert found(*events, live()) == []


def test_ignores_pods_without_gpus() -> None:
    assert found(*looping(), live(gpus=0), workloads=()) == []


def test_an_undated_event_counts_for_nothing() -> None:
    undated = [preempted(m, f"batch-{m}") for m in (25, 10)]
    nothing = event("Preempted", "Preempted by pod uid-live-0 on node gpu-1", "batch-9", last_at=None)
    assert found(*undated, nothing, live()) == []


def test_the_fix_lets_the_preemptor_wait_and_reads_first() -> None:
    classes = Policy(priority_classes=(PriorityClass(name="urgent", value=1000),))
    steps = hit(*looping(), live(), policy=classes).fix.steps
    assert [step.risk for step in steps[:2]] == ["read-only", "read-only"]
    text = "".join(step.manifest for step in steps)
    assert "urgent-waiting" in text
    assert "preemptionPolicy: Never" in text
