"""Ranks that stand side by side on a host, each in a pod of one GPU."""

import shlex
from typing import Any

import pytest

from diagnostics.findings import Confidence, Hit, Unjudged
from diagnostics.fixes import Risk
from diagnostics.gangs import gangs_of
from diagnostics.limits import Limits, Override
from diagnostics.rules.scheduling.isolated_fix import gpus_per_pod
from diagnostics.rules.scheduling.scattered_job import check
from diagnostics.snapshot import LogSignal, OwnerKey, Pod
from tests.builders import container, node, owner, pod, snapshot

TORCHRUN = ("torchrun", "--nnodes=8", "--nproc-per-node=1", "train.py")
CAUSE = "ranks-isolated-in-single-gpu-pods"


def job(count: int = 8, command: tuple[str, ...] = TORCHRUN, gpus: int = 1, **fields: Any) -> list[Pod]:
    box = {key: fields.pop(key) for key in ("env", "is_privileged") if key in fields}
    root: OwnerKey = fields.pop("root", owner("StatefulSet", "ddp"))
    boxes = (container(gpus=gpus, command=command, **box),)
    return [pod(f"ddp-{i}", node="n1", root=root, containers=boxes, **fields) for i in range(count)]


def found(pods: list[Pod], *signals: LogSignal, limits: Limits | None = None, **of_node: Any) -> list[Any]:
    seen = snapshot(node("n1", **of_node), *pods, gangs=gangs_of(pods, (), (), signals), signals=signals)
    return list(check(seen, limits or Limits()))


def path(transport: str) -> LogSignal:
    return LogSignal(
        namespace="research",
        pod="ddp-0",
        container="main",
        signal="nccl-path",
        words={"transport": transport},
    )


def test_eight_ranks_of_one_gpu_each_on_a_host_are_cut_off_from_each_other() -> None:
    (hit,) = found(job())
    assert isinstance(hit, Hit)
    assert (hit.cause, hit.confidence, hit.gpus) == (CAUSE, Confidence.MEDIUM, 8)
    assert "8 ranks on one host" in hit.title
    assert "works" in hit.summary
    assert all(fact.source for fact in hit.evidence)


def test_the_network_between_ranks_of_one_host_in_the_log_makes_it_sure() -> None:
    (hit,) = found(job(), path("NET"))
    assert (hit.cause, hit.confidence) == (CAUSE, Confidence.HIGH)


def test_two_ranks_that_fill_their_host_count() -> None:
    assert [hit.cause for hit in found(job(2), gpus=2)] == [CAUSE]


def test_the_least_number_is_a_limit_of_its_subject() -> None:
    lax = Limits(overrides=(Override(namespace="research", values={"isolated_ranks_min": 3}),))
    assert found(job(3)) == []
    assert [hit.cause for hit in found(job(3), limits=lax)] == [CAUSE]


SHARED = {"nvidia.com/gpu.replicas": "4"}


@pytest.mark.parametrize(
    ("pods", "of_node"),
    [
        pytest.param(job(command=("python", "sweep.py")), {}, id="a sweep without collectives"),
        pytest.param(job(env={"WORLD_SIZE": "1"}, command=("torchrun", "t.py")), {}, id="each for itself"),
        pytest.param(job(4, gpus=2), {}, id="two GPUs per pod"),
        pytest.param(job(2), {}, id="two ranks on a large host"),
        pytest.param(job(), {"nvlink_domain": "c.1"}, id="an NVLink domain over hosts"),
        pytest.param(job(), {"labels": {"nvidia.com/gpu.product": "Tesla-T4"}}, id="no NVLink"),
        pytest.param(job(), {"labels": SHARED}, id="shares of GPUs"),
        pytest.param(job(env={"NVIDIA_VISIBLE_DEVICES": "all"}), {}, id="sees all GPUs"),
        pytest.param(job(is_privileged=True), {}, id="privileged"),
        pytest.param(job(resource_claims=("imex",)), {}, id="with a claim"),
        pytest.param(job(phase="Succeeded"), {}, id="finished"),
    ],
)
def test_is_silent_where_ranks_are_not_cut_off_or_need_not_be_close(
    pods: list[Pod], of_node: dict[str, Any]
) -> None:
    assert found(pods, **of_node) == []


def test_is_silent_where_the_log_shows_that_they_reach_each_other() -> None:
    assert found(job(), path("NET"), path("P2P")) == []


def test_an_unread_node_leaves_it_unjudged_and_an_unknown_size_silent() -> None:
    pods = job()
    assert [type(one) for one in check(snapshot(*pods, gangs=gangs_of(pods, ())), Limits())] == [Unjudged]
    nothing: dict[str, Any] = {"capacity": {"nvidia.com/gpu": 0.0}, "labels": {"nvidia.com/gpu.count": ""}}
    assert found(pods, **nothing) == []


def test_a_job_that_is_spread_besides_is_told_so_in_its_evidence() -> None:
    pods = [
        pod(f"ddp-{i}", node=f"n{i}", root=owner("StatefulSet", "ddp"), containers=job(1)[0].containers)
        for i in range(4)
    ]
    seen = snapshot(*(node(f"n{i}") for i in range(4)), *pods, gangs=gangs_of(pods, ()))
    (hit,) = [one for one in check(seen, Limits()) if isinstance(one, Hit)]
    assert hit.cause == "scheduler-spread"
    assert any(f.label == "GPUs per pod" and f.value.startswith("1:") for f in hit.evidence)


def test_the_fix_looks_first_and_asks_for_a_whole_host_per_pod() -> None:
    (hit,) = found(job())
    look, read, change, verify = hit.fix.steps
    assert (look.risk, read.risk, change.risk, verify.risk) == (
        Risk.READ_ONLY, Risk.READ_ONLY, Risk.DISRUPTIVE, Risk.READ_ONLY,
    )  # fmt: skip
    assert change.title == "Ask for 8 GPUs per pod, with 1 pod instead of 8"


@pytest.mark.parametrize(
    ("kind", "number"),
    [("StatefulSet", "spec.replicas to 1"), ("Job", "spec.parallelism and spec.completions to 1")],
)
def test_what_must_change_together_is_told_together_and_nothing_is_to_be_copied(
    kind: str, number: str
) -> None:
    amounts = {"cpu": 8.0, "memory": 64.0 * 2**30, "nvidia.com/gpu": 1.0}
    box = container(gpus=1, command=TORCHRUN, requests=amounts, limits=amounts, env={"WORLD_SIZE": "8"})
    (hit,) = found([pod(f"ddp-{i}", node="n1", root=owner(kind, "ddp"), containers=(box,)) for i in range(8)])
    change = hit.fix.steps[2]

    assert (change.manifest, change.command) == ("", "")
    for line in (
        number,
        "nvidia.com/gpu of container main to 8",
        "requests.cpu from 8 to 64",
        "limits.memory from 64 GiB to 512 GiB",
        "--nnodes=8 to 1",
        "--nproc-per-node=1 to 8",
        "what WORLD_SIZE count",
    ):
        assert line in change.why
    assert "all of them together" in change.why


@pytest.mark.parametrize(
    ("ranks", "gpus", "size"), [(8, 8, 8), (16, 8, 8), (12, 8, 6), (7, 8, 7), (11, 8, 8), (4, 2, 2)]
)
def test_pods_of_equal_size_hold_all_ranks(ranks: int, gpus: int, size: int) -> None:
    assert gpus_per_pod(ranks, gpus) == size


def test_a_kind_of_its_own_gets_words_too() -> None:
    root = OwnerKey("PyTorchJob", "research", "ddp", "kubeflow.org/v1")
    (hit,) = found(job(root=root))
    assert all(not step.manifest for step in hit.fix.steps)
    assert "the number of pods to 1" in hit.fix.steps[2].why


def test_hostile_names_stay_words() -> None:
    name = "a';$(reboot)\x1b[31m<b>"
    boxes, root = job(1)[0].containers, owner("StatefulSet", name)
    pods = [pod(f"{name}{i}", node="n1", root=root, containers=boxes) for i in range(8)]
    (hit,) = found(pods)
    assert "\x1b" not in hit.title + hit.summary + str(hit.evidence)
    assert f"{name}0" in shlex.split(hit.fix.steps[0].command)
