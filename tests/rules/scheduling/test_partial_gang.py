"""Gangs of which a part runs, and gangs that are left alone."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from diagnostics.findings import Confidence, Hit, Unjudged
from diagnostics.fixes import Risk, Step
from diagnostics.gangs import gangs_of
from diagnostics.limits import Limits, Override
from diagnostics.rules.scheduling.partial_gang import check
from diagnostics.snapshot import Pod, ServedApi, Snapshot, Source, Terminated, Workload
from tests.builders import (
    ago,
    container,
    gpu,
    idle_window,
    node,
    owner,
    pending_pod,
    pod,
    snapshot,
    statuses,
    window,
)

TORCHRUN = ("torchrun", "--nnodes=4", "train.py")


def running(*names: str, gpus: int = 4, command: tuple[str, ...] = TORCHRUN, **fields: Any) -> list[Pod]:
    containers = (container(gpus=gpus, command=command),)
    defaults: dict[str, Any] = {"root": owner(), "containers": containers, "started_at": ago(minutes=40)}
    return [pod(name, **(defaults | fields)) for name in names]


def waiting(*names: str, command: tuple[str, ...] = TORCHRUN, **fields: Any) -> list[Pod]:
    containers = (container(gpus=4, command=command, state="", running_since=None, is_ready=False),)
    defaults: dict[str, Any] = {"root": owner(), "containers": containers}
    return [pending_pod(name, **(defaults | fields)) for name in names]


def job(size: int = 4, **fields: Any) -> Workload:
    return Workload(
        kind="Job",
        namespace="research",
        name="train",
        api_version="batch/v1",
        replicas=size,
        completions=size,
        spec={"template": {}},
        **fields,
    )


def seen(*parts: Any, workloads: tuple[Workload, ...] = (job(),), **fields: Any) -> Snapshot:
    pods = [part for part in parts if isinstance(part, Pod)]
    return snapshot(*parts, workloads=workloads, gangs=gangs_of(pods, workloads), **fields)


def hits(*parts: Any, limits: Limits | None = None, **fields: Any) -> list[Hit]:
    return [found for found in check(seen(*parts, **fields), limits or Limits()) if isinstance(found, Hit)]


def hit(*parts: Any, **fields: Any) -> Hit:
    (found,) = hits(*parts, **fields)
    return found


def looping(name: str, restarts: int = 8) -> Pod:
    broken = container(
        gpus=4,
        command=TORCHRUN,
        state="waiting",
        waiting_reason="CrashLoopBackOff",
        restarts=restarts,
        running_since=None,
        last_terminated=Terminated("Error", 1, finished_at=ago(minutes=1)),
    )
    (member,) = running(name, containers=(broken,))
    return member


def test_members_without_a_node_leave_the_others_waiting() -> None:
    found = hit(node(), *running("a", "b"), *waiting("c", "d"))

    assert found.cause == "members-pending"
    assert found.title == "Job research/train: 2 of 4 members run, and hold 8 GPUs for nothing for 20 min"
    assert (found.gpus, found.waste_gpus) == (8, 8.0)
    assert found.pods == ("research/a", "research/b", "research/c", "research/d")
    assert found.confidence is Confidence.HIGH


def test_evidence_names_holders_and_non_holders_with_their_reasons() -> None:
    facts = {fact.label: fact.value for fact in hit(node(), *running("a", "b"), *waiting("c", "d")).evidence}

    assert facts["running"] == "a on gpu-1 (4) and b on gpu-1 (4)"
    assert facts["does not run: c"] == "no node: every GPU that it could use is held"
    assert facts["GPUs held for nothing"] == "8"
    assert facts["gang scheduler"].startswith("none")


def test_a_member_that_crashes_leaves_the_others_waiting() -> None:
    found = hit(node(), *running("a", "b", "c"), looping("d"))

    assert found.cause == "members-failing"
    assert "container main is in a crash loop, with 8 restarts" in str(found.evidence)


def test_members_that_were_never_made() -> None:
    found = hit(node(), *running("a", "b"))

    assert found.cause == "members-absent"
    assert "2 members without a pod" in found.summary


def test_members_that_could_not_be_read_are_not_judged() -> None:
    unread = seen(node(), *running("a", "b"), sources=statuses(partial={Source.PODS}))

    (found,) = check(unread, Limits())

    assert isinstance(found, Unjudged)
    assert found.reason == "not all pods could be read, and 2 members may be among the rest"


def test_a_member_seen_not_to_run_counts_though_other_pods_could_not_be_read() -> None:
    found = hit(node(), *running("a", "b", "c"), looping("d"), sources=statuses(partial={Source.PODS}))

    assert found.cause == "members-failing"


def test_members_that_failed_and_are_not_made_anew() -> None:
    ended = container(
        gpus=4, state="terminated", terminated=Terminated("Error", 137, finished_at=ago(minutes=15))
    )

    found = hit(node(), *running("a", "b", "c"), *running("d", phase="Failed", containers=(ended,)))

    assert found.cause == "members-failing"
    assert "15 min" in found.title
    assert "exit code 137" in str(found.evidence)


def test_two_jobs_that_hold_what_the_other_needs() -> None:
    second = owner(name="other")
    parts = [
        *running("a", "b"),
        *waiting("c", "d"),
        *running("x", "y", root=second, node="gpu-2"),
        *waiting("z", "w", root=second),
    ]
    both = (job(), Workload(kind="Job", namespace="research", name="other", replicas=4, spec={"a": 1}))

    found = hits(node(), node("gpu-2"), *parts, workloads=both)

    assert {one.cause for one in found} == {"no-gang-scheduling"}
    assert "Job research/train" in next(one for one in found if one.subject.name == "other").summary


def test_the_limit_is_the_subjects_own() -> None:
    parts = [node(), *running("a", "b"), *waiting("c", "d")]
    patient = Limits(overrides=(Override(rule="", values={"partial_gang_after": timedelta(hours=1)}),))

    assert len(hits(*parts)) == 1
    assert hits(*parts, limits=patient) == []


@pytest.mark.parametrize(
    ("parts", "fields"),
    [
        pytest.param([*running("a", "b", "c", "d")], {}, id="all run"),
        pytest.param([*waiting("a", "b", "c", "d")], {}, id="none runs"),
        pytest.param([*running("a", "b"), *waiting("c", "d", created_at=ago(minutes=9))], {}, id="just made"),
        pytest.param(
            [*running("a", "b", started_at=ago(minutes=9)), *waiting("c", "d")], {}, id="just started"
        ),
        pytest.param(
            [*running("a", "b"), *running("c", "d", phase="Succeeded")], {}, id="the rest succeeded"
        ),
        pytest.param([*running("a")], {"workloads": (job(1),)}, id="one pod"),
        pytest.param(
            [
                *running("a", "b", command=("python", "serve.py")),
                *waiting("c", command=("python", "serve.py")),
            ],
            {},
            id="independent servers",
        ),
        pytest.param(
            [
                *running("a", "b", command=("torchrun", "--nnodes=2:4", "t.py")),
                *waiting("c", "d", command=("torchrun", "--nnodes=2:4", "t.py")),
            ],
            {},
            id="elastic with enough members",
        ),
    ],
)
def test_ignores_gangs_that_are_whole_starting_or_elastic(parts: list[Pod], fields: dict[str, Any]) -> None:
    assert hits(node(), *parts, **fields) == []


def test_a_member_that_runs_on_a_node_which_nobody_names_is_not_missing() -> None:
    assert not hits(*running("train-0", "train-1", "train-2"), *running("train-3", node=None))


def test_an_elastic_job_below_its_minimum_is_partial() -> None:
    elastic = ("torchrun", "--nnodes=2:4", "t.py")

    assert len(hits(node(), *running("a", command=elastic), *waiting("b", "c", command=elastic))) == 1


def test_ignores_a_gang_whose_gpus_are_measured_to_work() -> None:
    busy = gpu(holders=("research/a",), window=window())
    idle = gpu(holders=("research/a",), window=idle_window())
    parts = [node(), *running("a"), *waiting("b", "c", "d")]

    assert hits(*parts, busy) == []
    assert len(hits(*parts, idle)) == 1


def test_a_job_whose_last_members_still_run_is_whole() -> None:
    done = running("b", "c", "d", phase="Succeeded")

    assert hits(node(), *running("a"), *done) == []


def test_without_a_known_size_the_pods_that_are_there_count() -> None:
    bare = ("torchrun", "train.py")

    found = hit(node(), *running("a", command=bare), *waiting("b", command=bare), workloads=())

    assert "1 of 2 members" in found.title


def test_the_fix_looks_first_then_gives_the_gpus_back() -> None:
    steps = hit(node(), *running("a", "b"), *waiting("c", "d")).fix.steps

    assert steps[0].risk is Risk.READ_ONLY
    (suspend,) = [step for step in steps if step.risk is Risk.DISRUPTIVE]
    assert "suspend" in suspend.command
    assert not any(step.risk is Risk.DESTRUCTIVE for step in steps)


def test_suspending_loses_nothing_where_the_members_never_ran_all_at_once() -> None:
    since: dict[str, Any] = {"created_at": ago(hours=3), "started_at": ago(hours=3)}
    late, first = ago(hours=1), ago(hours=3)

    def suspended(made: datetime) -> Step:
        pods = (*running("a", "b", **since), *waiting("c", "d", created_at=made))
        return next(s for s in hit(node(), *pods).fix.steps if '"suspend":true' in s.command)

    assert "nothing computed is lost: 2 of 4 members hold" in suspended(first).why
    assert "lose what is not checkpointed" in suspended(late).why


def test_resuming_names_the_gpus_that_have_to_be_free_at_once() -> None:
    steps = hit(node(), node("n2"), *running("a", "b"), *waiting("c", "d")).fix.steps

    (resume,) = [step for step in steps if '"suspend":false' in step.command]
    when = "only when 16 GPUs are free at once where it may run (now 8, besides the 8 of its own)"
    assert resume.title.endswith(when)


@pytest.mark.parametrize(
    ("group", "word"), [("kueue.x-k8s.io", "queue-name"), ("scheduling.volcano.sh", "volcano")]
)
def test_the_fix_uses_the_gang_scheduler_that_is_served(group: str, word: str) -> None:
    apis = (ServedApi(group, "v1beta1", "x", "X"),)

    steps = hit(node(), *running("a", "b"), *waiting("c", "d"), apis=apis).fix.steps

    assert any(word in step.manifest for step in steps)
