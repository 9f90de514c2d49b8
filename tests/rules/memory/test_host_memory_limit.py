"""GPU405: limits of host memory against what was measured and what a program was told to take."""

from datetime import timedelta
from typing import Any

import pytest

from diagnostics.findings import Diagnosis, Finding, Severity
from diagnostics.limits import Limits
from diagnostics.rules import engine
from diagnostics.rules.base import REGISTRY
from diagnostics.rules.memory import host_memory_limit
from diagnostics.rules.memory.planned_memory import weights_bytes
from diagnostics.snapshot import ContainerUsage, HostPeak, Past, Pod, Source, Stat
from tests.builders import GIB, ago, container, gpu, node, owner, pod, snapshot
from tests.rules.memory.failing_pods import ended, restarted

RULE = next(r for r in REGISTRY.values() if r.module == host_memory_limit.__name__)
SERVED = pod(root=owner("Deployment", "llama"))


def usage(rss: float, working_set: float | None = None, **fields: Any) -> ContainerUsage:
    """Peaks in GiB; the container's limit is 32 GiB."""
    total = working_set if working_set is not None else rss
    defaults: dict[str, Any] = {
        "rss_bytes": Stat(rss * GIB, rss * GIB, rss * GIB),
        "working_set_bytes": Stat(total * GIB, total * GIB, total * GIB),
        "oom_kills": 0.0,
    }
    return ContainerUsage(pod=SERVED.key, container="main", span=timedelta(minutes=30), **(defaults | fields))


def diagnosed(of: Pod = SERVED, *parts: Any, **fields: Any) -> Diagnosis:
    outcome = engine.run((RULE,), snapshot(node(), of, *parts, **fields), Limits())
    assert outcome.failed == ()
    return outcome


def findings(of: Pod = SERVED, *parts: Any, **fields: Any) -> list[Finding]:
    return list(diagnosed(of, *parts, **fields).findings)


def told(*args: str, limit: float = 32, **fields: Any) -> Pod:
    limits = {"nvidia.com/gpu": 1.0, "memory": limit * GIB}
    return pod(containers=(container(args=args, limits=limits, **fields),))


def test_a_peak_near_the_limit_is_found_and_answered_from_what_was_observed() -> None:
    (finding,) = findings(SERVED, gpu(holders=(SERVED.key,)), usage=(usage(30),))
    assert (finding.cause, finding.severity) == ("host-memory-near-limit", Severity.WARNING)
    assert "30 GiB of its 32 GiB" in finding.summary
    assert any("GPU memory in use (another memory)" in e.label for e in finding.evidence)
    step = next(s for s in finding.fix.steps if s.command.startswith("kubectl patch"))
    assert '"memory":"39Gi"' in step.command, "1.3 times the peak, whatever the GPU has"


def test_file_cache_near_the_limit_is_left_alone() -> None:
    assert findings(usage=(usage(14, 31.5),)) == []


def test_a_peak_of_an_earlier_poll_counts() -> None:
    peaks = {"Deployment/research/llama/main": HostPeak(rss_bytes=31.0 * GIB, at=ago(hours=5))}
    (finding,) = findings(usage=(usage(12),), past=Past(host_peaks=peaks))
    assert "5 h ago" in finding.summary
    assert findings(usage=(usage(12),), past=Past(host_peaks={})) == []


def test_children_that_the_kernel_kills_are_found_while_the_container_lives() -> None:
    (finding,) = findings(usage=(usage(12, oom_kills=2.0),))
    assert (finding.cause, finding.severity) == ("memory-limit-kills-children", Severity.CRITICAL)
    assert "2 processes" in finding.summary


def test_a_container_that_was_oomkilled_is_left_to_its_own_rule() -> None:
    killed = pod(containers=(restarted(ended("OOMKilled", 137)),))
    assert findings(killed, usage=(usage(31, oom_kills=1.0),)) == []


@pytest.mark.parametrize(
    ("args", "env"),
    [
        (("--cpu-offload-gb", "40"), {}),
        (("--cpu-offload-gb=40",), {}),
        (("--swap-space", "20", "--cpu-offload-gb", "20"), {}),
        (("--kv-offloading-size", "64"), {}),
        (("serve", "org/big-34B", "--load-format", "pt"), {}),
        ((), {"LMCACHE_MAX_LOCAL_CPU_SIZE": "48"}),
    ],
)
def test_what_it_was_told_to_take_is_added_up(args: tuple[str, ...], env: dict[str, str]) -> None:
    (finding,) = findings(told(*args, env=env))
    assert finding.cause == "planned-host-memory-above-limit"


@pytest.mark.parametrize(
    "args",
    [
        ("--cpu-offload-gb", "8"),
        ("--cpu-offload-gb", "0"),
        ("--model", "org/big-70B", "--load-format", "safetensors"),
        ("--model", "org/mixture-8x7B", "--load-format", "pt"),
        ("--swap-space", "none"),
    ],
)
def test_plans_that_fit_or_say_nothing_are_left_alone(args: tuple[str, ...]) -> None:
    assert findings(told(*args)) == []


def test_no_multiple_of_gpu_memory_is_taken_for_a_need() -> None:
    """80 GiB on the GPU and 32 GiB of host memory are as good as any other pair."""
    assert findings(SERVED, gpu(holders=(SERVED.key,)), usage=(usage(10),)) == []


def test_sizes_follow_from_name_and_precision() -> None:
    assert weights_bytes("--model org/Llama-2-70B-AWQ") == pytest.approx(38.5e9)
    assert weights_bytes("--model org/llama-8b") == 16e9
    assert weights_bytes("--model org/gpt2") is None


def test_without_samples_a_container_is_not_judged_where_others_are() -> None:
    assert [u.code for u in diagnosed().unjudged] == ["GPU405"]
    assert diagnosed(without=(Source.USAGE,)).unjudged == ()


def test_a_container_without_a_limit_is_left_alone() -> None:
    free = pod(containers=(container(limits={"nvidia.com/gpu": 1.0}),))
    assert findings(free, usage=(usage(500),)) == []
