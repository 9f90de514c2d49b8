"""GPU406: memory whose least rises from window to window, told from loads that come and go."""

from datetime import timedelta
from typing import Any

import pytest

from diagnostics.findings import Confidence, Finding
from diagnostics.limits import Limits
from diagnostics.rules import engine
from diagnostics.rules.base import REGISTRY
from diagnostics.rules.memory import growing_memory
from diagnostics.snapshot import ContainerUsage, DeviceCourse, Low, Metrics, Pod, Source, Stat
from tests.builders import GIB, NOW, ago, container, gpu, node, pod, snapshot

RULE = next(r for r in REGISTRY.values() if r.module == growing_memory.__name__)
SPAN = timedelta(minutes=30)
HOURS = (4, 2, 1, 0)
OLD = pod(containers=(container(running_since=ago(hours=10)),))


def lows(*gib: float) -> tuple[Low, ...]:
    """The least of the windows that end 4, 2 and 1 hours ago and now; the last ones where there are fewer."""
    hours = HOURS[len(HOURS) - len(gib) :]
    return tuple(Low(NOW - timedelta(hours=h), value * GIB) for h, value in zip(hours, gib, strict=True))


def host(*gib: float, peak: float | None = None, **fields: Any) -> ContainerUsage:
    most = peak if peak is not None else gib[-1]
    defaults: dict[str, Any] = {
        "rss_bytes": Stat(gib[-1] * GIB, most * GIB, most * GIB),
        "rss_lows": lows(*gib),
    }
    return ContainerUsage(pod=OLD.key, container="main", span=SPAN, **(defaults | fields))


def findings(of: Pod = OLD, *parts: Any, **fields: Any) -> list[Finding]:
    outcome = engine.run((RULE,), snapshot(node(), of, *parts, **fields), Limits())
    assert outcome.failed == ()
    return list(outcome.findings)


def on_gpu(*gib: float, pod: str | None = OLD.key) -> list[Finding]:
    used = gib[-1] * GIB
    metrics = Metrics(sampled_at=NOW, memory_used_bytes=used, memory_free_bytes=80 * GIB - used)
    device = gpu(holders=(OLD.key,), metrics=metrics)
    course = DeviceCourse(slot=device.slot, pod=pod, lows=lows(*gib))
    return findings(OLD, device, gpu_courses=(course,))


def test_host_memory_that_only_grows_is_found_with_its_course() -> None:
    (finding,) = findings(usage=(host(8, 12, 14, 16),))
    assert (finding.cause, finding.confidence) == ("host-memory-only-grows", Confidence.HIGH)
    assert "32 GiB" in finding.summary
    assert [e.value for e in finding.evidence if e.label.startswith("least in use")] == [
        "8 GiB", "12 GiB", "14 GiB", "16 GiB",
    ]  # fmt: skip
    assert next(e.value for e in finding.evidence if e.label.startswith("growth")) == "2 GiB per hour"


def test_three_windows_are_enough_for_less_confidence_and_two_are_not() -> None:
    (finding,) = findings(usage=(host(12, 16, 20),))
    assert finding.confidence is Confidence.MEDIUM
    assert findings(usage=(host(12, 18),)) == []


@pytest.mark.parametrize(
    "course",
    [
        (8, 12, 11, 16),
        (16, 16, 16, 16),
        (8, 8, 8, 16),
        (8, 16, 16, 16),
        (15, 15.5, 15.7, 16),
        (16, 14, 12, 8),
    ],
    ids=["a wave", "level", "one jump", "loaded once", "too little", "it falls"],
)
def test_other_courses_are_left_alone(course: tuple[float, ...]) -> None:
    assert findings(usage=(host(*course),)) == []


def test_growth_that_takes_days_is_left_alone() -> None:
    roomy = pod(
        containers=(
            container(running_since=ago(hours=10), limits={"nvidia.com/gpu": 1.0, "memory": 400.0 * GIB}),
        )
    )
    assert findings(roomy, usage=(host(8, 12, 14, 16),)) == []


def test_windows_before_the_container_began_do_not_count() -> None:
    young = pod(containers=(container(running_since=ago(hours=2)),))
    assert findings(young, usage=(host(8, 12, 14, 16),)) == []


def test_without_a_limit_the_node_is_the_limit() -> None:
    free = pod(containers=(container(running_since=ago(hours=10), limits={"nvidia.com/gpu": 1.0}),))
    (finding,) = findings(free, usage=(host(100, 200, 250, 300),))
    assert "512 GiB" in finding.summary


def test_gpu_memory_that_only_grows_is_found() -> None:
    (finding,) = on_gpu(20, 40, 50, 60)
    assert finding.cause == "gpu-memory-only-grows"
    assert finding.pods == (OLD.key,)
    assert on_gpu(60, 60, 60, 60) == []


def test_a_shared_gpu_is_not_judged() -> None:
    metrics = Metrics(sampled_at=NOW, memory_used_bytes=60 * GIB, memory_free_bytes=20 * GIB)
    device = gpu(holders=(OLD.key, "research/other"), metrics=metrics)
    course = DeviceCourse(slot=device.slot, pod=OLD.key, lows=lows(20, 40, 50, 60))
    assert findings(OLD, device, gpu_courses=(course,)) == []


def test_without_usage_it_is_skipped_and_says_so() -> None:
    outcome = engine.run((RULE,), snapshot(node(), OLD, without=(Source.USAGE,)), Limits())
    assert [rule.code for rule in outcome.skipped] == ["GPU406"]


def test_missing_samples_are_no_growth() -> None:
    assert findings(usage=(host(8, 12, 14, 16, rss_bytes=None),)) == []
    assert findings() == []
