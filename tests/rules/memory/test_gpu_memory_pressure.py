"""GPU404: GPU memory that is nearly full and moves, told from memory that was reserved."""

from typing import Any

import pytest

from diagnostics.findings import Diagnosis, Finding
from diagnostics.limits import Limits
from diagnostics.rules import engine
from diagnostics.rules.base import REGISTRY
from diagnostics.rules.memory import gpu_memory_pressure
from diagnostics.snapshot import Gpu, Metrics, Pod
from tests.builders import GIB, NOW, ago, container, gpu, node, pod, snapshot, stat, window

RULE = next(r for r in REGISTRY.values() if r.module == gpu_memory_pressure.__name__)


def running(image: str = "registry.example/team/train:1.0", name: str = "train-0", **fields: Any) -> Pod:
    defaults: dict[str, Any] = {"image": image, "running_since": ago(hours=5)}
    return pod(name, containers=(container(**(defaults | fields)),))


def device(low: float, high: float, *holders: Pod, **fields: Any) -> Gpu:
    """An 80 GiB GPU whose use over the window was between these; the highest is now."""
    metrics = Metrics(sampled_at=NOW, memory_used_bytes=high * GIB, memory_free_bytes=(80 - high) * GIB)
    over = window(memory_used_bytes=stat((low + high) / 2 * GIB, low=low * GIB, high=high * GIB))
    return gpu(holders=tuple(h.key for h in holders), **({"metrics": metrics, "window": over} | fields))


def diagnosed(*parts: Any, **fields: Any) -> Diagnosis:
    outcome = engine.run((RULE,), snapshot(node(), *parts, **fields), Limits())
    assert outcome.failed == ()
    return outcome


def findings(*parts: Any) -> list[Finding]:
    return list(diagnosed(*parts).findings)


def test_peaks_that_fill_the_gpu_are_found_before_anything_fails() -> None:
    train = running("registry.example/pytorch:2.5")
    (finding,) = findings(train, device(55, 79.2, train))
    assert (finding.cause, finding.subject.name) == ("peaks-reach-gpu-memory", "train-0")
    assert "Nothing failed yet" in finding.summary


def test_memory_that_stands_full_is_left_alone() -> None:
    train = running("registry.example/pytorch:2.5")
    assert findings(train, device(79.2, 79.2, train)) == []


@pytest.mark.parametrize(
    "image",
    [
        "docker.io/vllm/vllm-openai:v0.9.1",
        "lmsysorg/sglang:latest",
        "tensorflow/serving:latest-gpu",
        "ghcr.io/huggingface/text-generation-inference:3.0",
        "registry.example/maxtext-jax:1",
        "nvcr.io/nim/meta/llama-3.1-8b-instruct:1.3",
    ],
)
def test_what_reserves_memory_at_start_is_left_alone(image: str) -> None:
    served = running(image)
    assert findings(served, device(20, 79.2, served)) == []


def test_a_framework_told_to_grow_is_judged_as_any_other() -> None:
    served = running("tensorflow/tensorflow:2.17", env={"TF_FORCE_GPU_ALLOW_GROWTH": "true"})
    assert [f.cause for f in findings(served, device(50, 79.2, served))] == ["peaks-reach-gpu-memory"]


def test_a_shared_gpu_that_is_full_is_found_whatever_runs_on_it() -> None:
    one, other = running("vllm/vllm-openai:v0.9.1"), running("registry.example/embed:1", "embed-0")
    (finding,) = findings(one, other, device(79.2, 79.2, one, other, replicas=2))
    assert (finding.cause, finding.subject.kind) == ("shared-gpu-memory-nearly-full", "GPU")
    assert finding.pods == ("research/embed-0", "research/train-0")
    assert findings(one, other, device(60, 60, one, other, replicas=2)) == []


def test_a_gpu_shared_by_time_is_to_have_its_memory_divided() -> None:
    one, other = running(), running(name="embed-0")
    labels = {"nvidia.com/gpu.product": "NVIDIA-L40S-SHARED", "nvidia.com/gpu.replicas": "2"}
    parts = (one, other, device(79.2, 79.2, one, other, replicas=2))
    outcome = engine.run((RULE,), snapshot(node(labels=labels), *parts), Limits())
    assert "mps:" in str([s.manifest for f in outcome.findings for s in f.fix.steps])
    assert "mps:" not in str([s.manifest for f in findings(*parts) for s in f.fix.steps])


def test_a_pod_that_is_loading_is_left_alone() -> None:
    young = running(running_since=ago(minutes=40))
    assert findings(young, device(5, 79.2, young)) == []


def test_without_a_covered_window_it_is_not_judged() -> None:
    train = running()
    outcome = diagnosed(train, device(55, 79.2, train, window=None))
    assert outcome.findings == ()
    assert [u.code for u in outcome.unjudged] == ["GPU404"]
    thin = window(coverage_ratio=0.2, memory_used_bytes=stat(60 * GIB, low=50 * GIB, high=79.2 * GIB))
    assert diagnosed(train, device(55, 79.2, train, window=thin)).findings == ()


def test_missing_numbers_are_never_full() -> None:
    train = running()
    assert (
        findings(train, device(55, 79.2, train, metrics=Metrics(sampled_at=NOW, memory_used_bytes=79 * GIB)))
        == []
    )
    assert findings(train, device(55, 79.2, train, metrics=None)) == []
