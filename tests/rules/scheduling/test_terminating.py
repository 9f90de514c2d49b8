"""Pods that should be gone: what keeps them, told apart, and how far they are from it."""

import shlex
from typing import Any

import pytest

from diagnostics.findings import Hit
from diagnostics.fixes import StepKind
from diagnostics.limits import Limits
from diagnostics.rules.scheduling.stuck_holder import check
from diagnostics.snapshot import Gpu, Metrics, Terminated
from tests.builders import ago, container, gpu, node, owner, pod, snapshot

LATE: dict[str, Any] = {"deletion_at": ago(minutes=31), "deletion_grace_s": 30}
ENDED = container(state="terminated", running_since=None, terminated=Terminated("Error", 137))


def hit(one: Any, *parts: Any) -> Hit:
    (found,) = check(snapshot(node(), one, *parts), Limits())
    assert isinstance(found, Hit)
    return found


def facts(found: Hit) -> dict[str, str]:
    return {fact.label.partition(" (")[0]: fact.value for fact in found.evidence}


def used(amount_bytes: float, **fields: Any) -> Gpu:
    return gpu(holders=("research/train-0",), metrics=Metrics(memory_used_bytes=amount_bytes), **fields)


def test_a_container_that_runs_on_is_a_process_that_does_not_end() -> None:
    found = hit(pod(**LATE))
    assert found.cause == "process-does-not-end"
    assert "main does not end" in found.title


def test_a_finalizer_alone_is_told_from_it_and_not_answered_by_force() -> None:
    found = hit(pod(**LATE, finalizers=("example.com/wait",), containers=(ENDED,)))
    assert found.cause == "finalizer-left"
    assert "finalizer example.com/wait" in found.title
    assert not [step for step in found.fix.steps if "--force" in step.command]
    assert "example.com/wait" in next(s.title for s in found.fix.steps if s.kind is StepKind.ESCALATE)


def test_containers_that_have_ended_or_are_unknown_leave_the_report_missing() -> None:
    assert hit(pod(**LATE, containers=(ENDED,))).cause == "terminating"
    assert hit(pod(**LATE, containers=(container(state=""),), finalizers=("x",))).cause == "terminating"


def test_the_evidence_says_when_it_was_to_end_and_what_is_left_of_it() -> None:
    found = facts(hit(pod(**LATE), used(37.0 * 2**30)))
    assert found["grace period"] == "30 s"
    assert found["deletion asked for"] < found["to be gone by"]
    assert found["finalizers"] == "none"
    assert found["containers"] == "main running"
    assert found["GPU memory in use"] == "37 GiB on 1 GPU: a process of it lives"


def test_little_or_unknown_memory_and_that_of_a_shared_gpu_say_nothing_of_a_process() -> None:
    assert facts(hit(pod(**LATE), used(2.0**29)))["GPU memory in use"] == "512 MiB on 1 GPU"
    assert "GPU memory in use" not in facts(
        hit(pod(**LATE), gpu(holders=("research/train-0",), metrics=Metrics()))
    )
    shared = gpu(holders=("research/train-0", "a/b"), metrics=Metrics(memory_used_bytes=9e9))
    assert "GPU memory in use" not in facts(hit(pod(**LATE), shared))


def test_xids_are_expected_only_where_one_was_seen() -> None:
    def expected(code: int) -> str:
        steps = hit(pod(**LATE), gpu(metrics=Metrics(xid=code))).fix.steps
        return next(step.expect for step in steps if "dmesg" in step.command)

    assert "NVRM: Xid" in expected(79)
    assert "NVRM: Xid" not in expected(0)
    assert "not seen" in expected(0)


def test_the_state_of_the_process_is_looked_at() -> None:
    (look,) = [s for s in hit(pod(**LATE)).fix.steps if " ps " in s.command]
    assert "pid,stat,wchan:24,args" in shlex.split(look.command)
    assert "STAT D" in look.expect


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ("nvcr.io/nvidia/pytorch:24.13-py3", "there is no month 13"),
        ("nvcr.io/nvidia/pytorch:24.10-py3", "YY.MM, year and month;"),
        ("registry.example/a:24.13", ""),
    ],
)
def test_a_tag_of_ngc_is_read_as_year_and_month(image: str, words: str) -> None:
    waits = container(image=image, state="waiting", waiting_reason="ErrImagePull", running_since=None, gpus=1)
    begun: dict[str, Any] = {"created_at": ago(minutes=20), "started_at": ago(minutes=20)}
    found = hit(pod(phase="Pending", root=owner("Deployment"), containers=(waits,), **begun))
    why = next(step.why for step in found.fix.steps if step.title.startswith("Correct the image"))
    assert words in why
    assert ("YY.MM" in why) is bool(words)
