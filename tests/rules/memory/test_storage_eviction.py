"""GPU408: pods evicted for local disk, nodes under disk pressure, volumes that their own limit contradicts."""

from typing import Any

import pytest

from diagnostics.findings import Finding, Severity
from diagnostics.snapshot import Condition, Pod, Volume
from tests.builders import GIB, ago, container, gpu, node, owner, pod
from tests.rules.memory.failing_pods import diagnosed, ended, found

MESSAGES = {
    "pod": ("ephemeral-storage-limit-exceeded",
            "Pod ephemeral local storage usage exceeds the total limit of containers 100Gi. "),
    "container": ("ephemeral-storage-limit-exceeded",
                  'Container trainer exceeded its local ephemeral storage limit "40Gi". '),
    "volume": ("emptydir-size-limit-exceeded", 'Usage of EmptyDir volume "model-cache" exceeds the limit "200Gi". '),
    "condition": ("node-disk-pressure", "The node had condition: [DiskPressure]. "),
    "resource": ("node-disk-pressure",
                 "The node was low on resource: ephemeral-storage. Threshold quantity: 53687091200, "
                 "available: 48131Mi. "
                 "Container trainer was using 61Gi, request is 0, has larger consumption of ephemeral-storage. "),
    "inodes": ("node-disk-pressure", "The node was low on resource: inodes. "),
    "old words": ("node-disk-pressure",
                  "The node was low on resource: ephemeral-storage. Container trainer was using 61Gi, "
                  "which exceeds its "
                  "request of 0. "),
}  # fmt: skip

OTHERS = {
    "memory": "The node was low on resource: memory. Threshold quantity: 100Mi, available: 84Mi. Container trainer was "
    "using 61Gi, request is 32Gi, has larger consumption of memory. ",
    "memory, condition": "The node had condition: [MemoryPressure]. ",
    "pids": "The node was low on resource: pids. Threshold quantity: 100, available: 12. ",
    "nothing": "",
}  # fmt: skip


def evicted(message: str, **fields: Any) -> Pod:
    """A Job's pod, evicted twenty minutes ago."""
    box = container(
        state="terminated", terminated=ended("Error", 137, finished_at=ago(minutes=20)), running_since=None
    )
    conditions = (Condition("DisruptionTarget", "True", "TerminationByKubelet", message, ago(minutes=20)),)
    defaults: dict[str, Any] = {
        "phase": "Failed", "reason": "Evicted", "message": message, "containers": (box,), "conditions": conditions,
        "root": owner(),
    }  # fmt: skip
    return pod(**(defaults | fields))


def findings(*parts: Any, **fields: Any) -> list[Finding]:
    return found("storage-eviction", *parts, **fields)


@pytest.mark.parametrize("name", MESSAGES)
def test_names_what_was_full(name: str) -> None:
    cause, message = MESSAGES[name]
    (finding,) = findings(evicted(message))
    assert finding.cause == cause
    assert finding.pods == ("research/train-0",)
    assert next(e.value for e in finding.evidence if e.label == "message") == message.strip()


@pytest.mark.parametrize("name", OTHERS)
def test_leaves_other_evictions_alone(name: str) -> None:
    assert findings(evicted(OTHERS[name])) == []


@pytest.mark.parametrize("name", ["memory", "memory, condition"])
def test_an_eviction_for_memory_is_one_of_host_memory(name: str) -> None:
    (finding,) = found("oom-killed", evicted(OTHERS[name]))
    assert finding.cause == "node-memory-pressure-eviction"
    assert "was evicted" in finding.title


def test_an_eviction_for_disk_is_not_one_of_memory() -> None:
    assert found("oom-killed", evicted(MESSAGES["volume"][1])) == []


def test_merges_the_pods_of_an_owner_and_forgets_after_a_day() -> None:
    message = MESSAGES["pod"][1]
    (finding,) = findings(evicted(message), evicted(message, name="train-1"))
    assert finding.pods == ("research/train-0", "research/train-1")
    old = (Condition("DisruptionTarget", "True", "TerminationByKubelet", message, ago(hours=30)),)
    assert findings(evicted(message, conditions=old)) == []


def test_an_owner_that_succeeded_since_is_left_alone() -> None:
    done = pod("train-2", phase="Succeeded", root=owner(), created_at=ago(minutes=5))
    assert findings(evicted(MESSAGES["pod"][1]), done) == []


def test_a_node_under_pressure_is_one_finding_with_what_it_cost() -> None:
    pressed = node(conditions=(Condition("DiskPressure", "True", message="low", since=ago(minutes=30)),))
    parts = [evicted(MESSAGES["resource"][1]), pressed, gpu()]
    (finding,) = findings(*parts)
    assert (finding.subject.kind, finding.subject.name, finding.cause) == (
        "Node",
        "gpu-1",
        "node-disk-pressure",
    )
    assert finding.pods == ("research/train-0",)
    calm = node(conditions=(Condition("DiskPressure", "False"),))
    assert [f.subject.kind for f in findings(parts[0], calm, gpu())] == ["Job"]
    assert findings(pod(gpus=0, node="cpu-1"), pressed) == [], "a node without GPUs"


def test_a_volume_that_its_own_limit_contradicts_is_a_note() -> None:
    box = container(limits={"nvidia.com/gpu": 1.0, "ephemeral-storage": 100.0 * GIB})
    wide = Volume("model-cache", "emptyDir", size_limit_bytes=200.0 * GIB)
    (finding,) = findings(pod(containers=(box,), volumes=(wide,)))
    assert (finding.cause, finding.severity) == ("emptydir-above-ephemeral-limit", Severity.INFO)
    assert "evicted at 100 GiB" in finding.summary
    narrow = Volume("model-cache", "emptyDir", size_limit_bytes=50.0 * GIB)
    in_memory = Volume("shm", "emptyDir", medium="Memory", size_limit_bytes=200.0 * GIB)
    assert findings(pod(containers=(box,), volumes=(narrow, in_memory))) == []
    assert findings(pod(volumes=(wide,))) == []


def test_advice_never_prunes_or_deletes() -> None:
    for _, message in MESSAGES.values():
        (finding,) = findings(evicted(message))
        assert not any(word in str(finding.fix) for word in ("prune", "delete", "reboot"))


def test_hostile_words_in_a_message_do_no_harm() -> None:
    assert (
        findings(evicted('Usage of EmptyDir volume "<b>x</b>\x1b[31m" exceeds the limit "not a size". '))
        != []
    )
    assert diagnosed(evicted("Usage of EmptyDir volume " + '"' * 5000)).failed == ()
