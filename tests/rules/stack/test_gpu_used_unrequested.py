"""GPU210: pods that see GPUs they did not ask for, and those that do so on purpose or not at all."""

from typing import Any

import pytest

from diagnostics.findings import Confidence, Finding
from diagnostics.limits import Limits
from diagnostics.rules import engine
from diagnostics.snapshot import Metrics, OwnerKey, Pod, Source, Volume
from tests.builders import GIB, NOW, ago, container, gpu, node, owner, pod, snapshot
from tests.rules.stack.failing_cuda import RULES

SLUG = "gpu-used-unrequested"
VISIBLE = "unrequested-gpu-access-via-visible-devices"
GPU_NODE = {"nvidia.com/node_type": "gpu_tester"}


def found(*parts: Any, without: tuple[Source, ...] = ()) -> list[Finding]:
    nodes = [p for p in parts if not isinstance(p, Pod)] or [node()]
    shot = snapshot(*nodes, *(p for p in parts if isinstance(p, Pod)), without=without)
    outcome = engine.run(RULES, shot, Limits())
    assert outcome.failed == ()
    return [f for f in outcome.findings if f.slug == SLUG]


def causes(*parts: Any) -> list[str]:
    return [f.cause for f in found(*parts)]


def using(image: str = "nvidia/cuda", env: dict[str, str] | None = None, **fields: Any) -> Pod:
    box = container("cuda", 0, image=image, env=env or {}, **fields.pop("box", {}))
    return pod("gpu-resource-test", containers=(box,), **fields)


@pytest.mark.parametrize("value", ["all", "0", "0,1,2", "GPU-5d0c2c9e-0000-0000-0000-000000000000"])
def test_a_variable_shows_the_gpus(value: str) -> None:
    assert causes(using("registry.example/app:1", {"NVIDIA_VISIBLE_DEVICES": value})) == [VISIBLE]


@pytest.mark.parametrize(
    "image",
    [
        "nvidia/cuda", "nvcr.io/nvidia/cuda:12.4.1-base-ubuntu22.04", "nvcr.io/nvidia/pytorch:24.10-py3",
        "pytorch/pytorch:2.4.0-cuda12.4-cudnn9-runtime", "docker.io/vllm/vllm-openai:v0.8.5",
    ],
)  # fmt: skip
def test_an_image_shows_them_on_a_node_that_was_chosen_for_its_gpus(image: str) -> None:
    assert causes(using(image, node_selector=GPU_NODE)) == [VISIBLE]
    assert causes(using(image, runtime_class="nvidia")) == [VISIBLE]


def test_a_privileged_container_sees_all_devices() -> None:
    box = {"is_privileged": True}
    assert causes(using("registry.example/train-gpu:1", box=box)) == ["unrequested-gpu-access-via-privileged"]
    assert causes(using("registry.example/fluent-bit:1", box=box)) == []


def test_devices_mounted_from_the_host_are_seen() -> None:
    volumes = (Volume("dev", "hostPath", path="/dev/nvidia0"),)
    mounted = using("registry.example/app:1", box={"mounts": {"/dev/nvidia0": "dev"}}, volumes=volumes)
    assert causes(mounted) == ["unrequested-gpu-access-via-host-devices"]
    assert causes(using("registry.example/app:1", volumes=volumes)) == []


def test_memory_on_a_gpu_that_nobody_holds_makes_it_sure() -> None:
    used = gpu(metrics=Metrics(sampled_at=NOW, memory_used_bytes=20.0 * GIB, utilization_ratio=0.0))
    taken = gpu(1, holders=("research/train-0",))
    loud = using(env={"NVIDIA_VISIBLE_DEVICES": "all"})
    (finding,) = found(node(), used, taken, loud)
    assert (finding.confidence, finding.gpus) == (Confidence.HIGH, 1)
    quiet = gpu(metrics=Metrics(sampled_at=NOW, memory_used_bytes=0.0, utilization_ratio=0.0))
    assert found(node(), quiet, loud)[0].confidence is Confidence.MEDIUM


def test_a_variable_that_overrides_what_was_given_counts_where_a_gpu_is_used_by_nobody() -> None:
    asking = pod(containers=(container(image="nvidia/cuda", env={"NVIDIA_VISIBLE_DEVICES": "all"}),))
    busy = gpu(metrics=Metrics(sampled_at=NOW, memory_used_bytes=0.0, utilization_ratio=0.7))
    assert [f.cause for f in found(node(), busy, asking)] == [VISIBLE]
    quiet = gpu(metrics=Metrics(sampled_at=NOW, memory_used_bytes=0.0, utilization_ratio=0.0))
    assert found(node(), quiet, asking) == []
    old = gpu(metrics=Metrics(sampled_at=ago(hours=1), memory_used_bytes=20.0 * GIB, utilization_ratio=0.7))
    assert found(node(), old, asking) == []


def test_pods_of_one_owner_are_one_finding_with_a_patch() -> None:
    above = owner("Deployment", "notebook")
    env = {"NVIDIA_VISIBLE_DEVICES": "all"}
    pods = [
        pod(f"n-{i}", root=above, containers=(container("cuda", 0, image="nvidia/cuda", env=env),))
        for i in range(3)
    ]
    (finding,) = found(*pods)
    assert len(finding.pods) == 3
    assert any('"value":"void"' in step.command for step in finding.fix.steps)


DAEMONS = (OwnerKey("DaemonSet", "research", "gpu-watch", "apps/v1"),)


@pytest.mark.parametrize(
    "quiet",
    [
        using(env={"NVIDIA_VISIBLE_DEVICES": "void"}, node_selector=GPU_NODE),
        using(env={"NVIDIA_VISIBLE_DEVICES": "none"}, node_selector=GPU_NODE),
        using("nvcr.io/nvidia/pytorch:24.10-py3"),
        using("registry.example/app:1", node_selector=GPU_NODE),
        using("tensorflow/tensorflow:2.15.0", node_selector=GPU_NODE),
        using(env={"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "utility"}),
        using(env={"NVIDIA_VISIBLE_DEVICES": "all"}, owners=DAEMONS, root=DAEMONS[0]),
        using(env={"NVIDIA_VISIBLE_DEVICES": "all"}, labels={"app": "nvidia-dcgm-exporter"}),
        using(env={"NVIDIA_VISIBLE_DEVICES": "all"}, resource_claims=("gpu",)),
        using(env={"NVIDIA_VISIBLE_DEVICES": "all"}, phase="Succeeded"),
        using(env={"NVIDIA_VISIBLE_DEVICES": "all"}, box={"is_ready": False}),
        using(env={"NVIDIA_VISIBLE_DEVICES": "all"}, node="cpu-1"),
        pod(containers=(container(image="nvidia/cuda", env={"NVIDIA_VISIBLE_DEVICES": "all"}),)),
        pod(containers=(container(), container("log", 0, image="nvidia/cuda")), node_selector=GPU_NODE),
    ],
)  # fmt: skip
def test_is_silent_about(quiet: Pod) -> None:
    assert causes(quiet) == []


def test_is_silent_in_system_namespaces_and_on_nodes_without_gpus() -> None:
    box = container("cuda", 0, image="nvidia/cuda", env={"NVIDIA_VISIBLE_DEVICES": "all"})
    assert causes(pod("x", "kube-system", containers=(box,))) == []
    assert causes(node("gpu-1", 0), pod("x", containers=(box,))) == []


def test_without_nodes_it_is_not_judged() -> None:
    assert found(using(env={"NVIDIA_VISIBLE_DEVICES": "all"}), without=(Source.NODES,)) == []
