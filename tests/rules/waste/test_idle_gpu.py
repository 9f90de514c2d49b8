"""GPU501: idle only over a covered window, with the holder known; missing data is never idle."""

from typing import Any

import msgspec
import pytest

from diagnostics.findings import Confidence, Finding
from diagnostics.fixes import Risk
from diagnostics.limits import Limits, Override
from diagnostics.rules import diagnose
from diagnostics.snapshot import Gpu, Past, Snapshot, Source, Terminated
from diagnostics.states import with_states
from tests.builders import GIB, ago, container, gpu, idle_window, node, owner, pod, snapshot

DEPLOYMENT = owner("Deployment", "whisper")
HOLDER = pod("whisper-0", root=DEPLOYMENT)


def judged(*parts: Any, **fields: Any) -> Snapshot:
    """A snapshot with the states that assemble would have set."""
    shot = snapshot(*parts, **fields)
    states = with_states(shot, Limits())
    gpus = tuple(
        msgspec.structs.replace(g, state=states[g.slot][0], is_unjudged=states[g.slot][1]) for g in shot.gpus
    )
    return msgspec.structs.replace(shot, gpus=gpus)


def findings(*parts: Any, limits: Limits | None = None, **fields: Any) -> list[Finding]:
    found = diagnose(judged(node(), *parts, **fields), limits).findings
    return [f for f in found if f.slug == "idle-gpu"]


def idle(index: int = 0, **fields: Any) -> Gpu:
    defaults: dict[str, Any] = {"holders": (HOLDER.key,), "window": idle_window()}
    return gpu(index, **(defaults | fields))


def test_a_loaded_model_that_nobody_calls() -> None:
    (finding,) = findings(HOLDER, idle())
    assert finding.cause == "loaded-but-not-called"
    assert (finding.subject.kind, finding.subject.name) == ("Deployment", "whisper")
    assert (finding.gpus, finding.waste_gpus) == (1, 1.0)


def test_a_gpu_that_was_never_used() -> None:
    (finding,) = findings(HOLDER, idle(window=idle_window(0.3 * GIB)))
    assert finding.cause == "never-used"


def test_some_of_its_gpus_unused() -> None:
    holder = pod("whisper-0", root=DEPLOYMENT, gpus=2)
    (finding,) = findings(holder, idle(), gpu(1, holders=(holder.key,)))
    assert (finding.cause, finding.gpus) == ("some-gpus-unused", 1)


def test_a_shared_gpu_wastes_its_share() -> None:
    (finding,) = findings(HOLDER, idle(replicas=4))
    assert finding.waste_gpus == 0.25


def test_history_makes_the_idle_time_longer() -> None:
    past = Past(last_active={idle().slot: ago(hours=9)})
    (finding,) = findings(pod("whisper-0", root=DEPLOYMENT, started_at=ago(days=1)), idle(), past=past)
    assert "9 h" in finding.title


def test_without_power_the_confidence_is_medium() -> None:
    (finding,) = findings(HOLDER, idle(window=idle_window(power_w=None)))
    assert finding.confidence is Confidence.MEDIUM


def test_a_crash_loop_is_silent_between_two_crashes_on_a_shared_gpu_too() -> None:
    last = Terminated("Error", 1, finished_at=ago(minutes=6))
    crashing = container(restarts=9, running_since=ago(minutes=1), last_terminated=last)
    looping = pod("whisper-0", root=DEPLOYMENT, containers=(crashing,))
    other = pod("other-0", root=owner("Deployment", "other"))
    assert not findings(looping, idle())
    (finding,) = findings(looping, other, idle(holders=(looping.key, other.key), replicas=2))
    assert finding.subject.name == "other"


def test_a_busy_gpu_is_silent() -> None:
    assert not findings(HOLDER, gpu(holders=(HOLDER.key,)))


def test_a_young_holder_is_silent() -> None:
    assert not findings(pod("whisper-0", root=DEPLOYMENT, started_at=ago(minutes=10)), idle())


def test_a_warm_standby_by_annotation_is_exempt_with_its_reason() -> None:
    standby = pod(
        "whisper-0",
        root=DEPLOYMENT,
        annotations={"gpuhealth.io/exempt": "idle-gpu", "gpuhealth.io/exempt-reason": "warm standby"},
    )
    diagnosis = diagnose(judged(node(), standby, idle()))
    assert not [f for f in diagnosis.findings if f.slug == "idle-gpu"]
    assert "warm standby" in diagnosis.exempted[0].reason


def test_a_longer_allowance_needs_history_to_be_exceeded() -> None:
    patient = pod(
        "whisper-0", root=DEPLOYMENT, annotations={"gpuhealth.io/idle-after": "4h"}, started_at=ago(days=1)
    )
    assert not findings(patient, idle())
    assert findings(patient, idle(), past=Past(last_active={idle().slot: ago(hours=5)}))


def test_an_override_of_the_namespace_counts() -> None:
    limits = Limits(overrides=(Override(rule="idle-gpu", namespace="research", exempt=True, reason="demo"),))
    assert not findings(HOLDER, idle(), limits=limits)


@pytest.mark.parametrize(
    "device",
    [
        idle(metrics=None),
        idle(window=None),
        idle(window=idle_window(coverage_ratio=0.4)),
        idle(holder_source="count"),
    ],
    ids=["no sample", "no window", "thin window", "holder by count"],
)
def test_missing_data_is_not_idle_but_not_judged(device: Gpu) -> None:
    diagnosis = diagnose(judged(node(), HOLDER, device))
    assert not [f for f in diagnosis.findings if f.slug == "idle-gpu"]
    assert [u.subject.name for u in diagnosis.unjudged if u.code == "GPU501"] == ["whisper"]


@pytest.mark.parametrize("source", [Source.METRICS, Source.WINDOW, Source.PODS])
def test_without_a_source_it_does_not_look(source: Source) -> None:
    shot = judged(node(), HOLDER, idle(), without=[source])
    assert "GPU501" in {s.code for s in diagnose(shot).skipped}


def test_a_notebook_is_told_of_in_words_for_a_notebook() -> None:
    root = owner("StatefulSet", "notebook-ana")
    book = pod("notebook-ana-0", root=root, annotations={"hub.jupyter.org/username": "ana"})
    (finding,) = findings(book, idle(holders=(book.key,)))

    words = f"{finding.summary} {finding.fix.steps}"
    assert finding.cause == "notebook-left-open"
    assert "service" not in words
    assert "standby" not in words
    ask = next(s for s in finding.fix.steps if s.title.startswith("Ask"))
    assert "ana" in ask.title
    assert "hub.jupyter.org/username=ana" in ask.why
    assert "kernel's memory are lost" in ask.why
    release = next(s for s in finding.fix.steps if s.title.startswith("Release"))
    assert (release.risk, "variables" in release.why) == (Risk.DESTRUCTIVE, True)


def test_a_notebook_that_is_a_bare_pod_is_deleted_with_its_kernel() -> None:
    book = pod("notebook-kim")
    (finding,) = findings(book, idle(holders=(book.key,)))
    release = next(s for s in finding.fix.steps if s.title.startswith("Release"))
    assert release.command == "kubectl delete pod -n research notebook-kim"
    assert "kernels" in release.why


def test_without_a_named_owner_the_namespace_is_asked() -> None:
    (finding,) = findings(HOLDER, idle())
    ask = next(s for s in finding.fix.steps if s.title.startswith("Ask"))
    assert ask.title == "Ask whoever uses namespace research, whether whisper is needed"
    assert ask.command == "kubectl get namespace -o yaml research"
