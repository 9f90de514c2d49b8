"""GPUs are held and do nothing.

## Meaning
Over the whole window no engine of the GPU was active and its power stayed in the idle band. With memory resident it is
a loaded model that nobody calls, a notebook left open, or a leftover; without, something asked for a GPU and never
used it.

## Impact
Nobody else can use the GPU while somebody pays for it; other pods wait behind "Insufficient nvidia.com/gpu".

## Evidence
Peak of every collected engine activity over the window, mean power against the limit, memory resident, age of the
holder, coverage of the window; the last activity of earlier polls where history is there.

## Not reported
Young pods (still starting), crash loops (between two crashes too) and blocked gang members (other findings), GPUs
whose metrics are missing or stale (not evaluated, never idle), GPUs whose holder is known only by count, anything
exempt by annotation (warm standby). Utilisation at a single moment says nothing: only a covered window counts.

## References
https://docs.nvidia.com/datacenter/dcgm/latest/user-guide/feature-overview.html (profiling metrics)
"""

from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta

from diagnostics.findings import Confidence, Evidence, Hit, Severity, Subject, Unjudged
from diagnostics.limits import Limits, Resolved
from diagnostics.quantities import gib, percent, span
from diagnostics.rules.base import rule
from diagnostics.rules.waste.idle_fix import idle_fix, is_notebook
from diagnostics.snapshot import Gpu, Pod, Snapshot, Source, State
from diagnostics.states import peak_activity, power_limit_of, stuck_cause
from diagnostics.text import counted, listed, printable

IDLE = {State.IDLE_EMPTY, State.IDLE_HELD}
EMPTY_CAUSE, HELD_CAUSE, PART_CAUSE = "never-used", "loaded-but-not-called", "some-gpus-unused"
NOTEBOOK_CAUSE = "notebook-left-open"


@rule(
    code="GPU501",
    slug="idle-gpu",
    severity=Severity.WARNING,
    needs={Source.NODES, Source.PODS, Source.METRICS, Source.WINDOW},
    hold=1,
)
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Hit | Unjudged]:
    """One hit per owner whose pods hold idle GPUs; owners that cannot be judged are named as such."""
    held: dict[Subject, list[tuple[Pod, Gpu]]] = defaultdict(list)
    for gpu in snapshot.gpus:
        for key in gpu.holders:
            pod = snapshot.pod_by_key.get(key)
            if pod is not None:
                held[Subject.of_pod(pod)].append((pod, gpu))
    for subject, pairs in held.items():
        resolved = limits.of(subject)
        idle = [(pod, gpu) for pod, gpu in pairs if _is_idle(snapshot, pod, gpu, resolved)]
        if idle:
            yield _hit(snapshot, subject, pairs, idle, resolved)
        elif any(gpu.state in {State.NO_DATA, None} for _, gpu in pairs):
            yield Unjudged(subject, "no usable window of metrics for the GPUs that it holds")


def _is_idle(snapshot: Snapshot, pod: Pod, gpu: Gpu, resolved: Resolved) -> bool:
    """Idle by state, the holder older than the time allowed, and no later activity known from history."""
    if gpu.state not in IDLE or gpu.window is None or stuck_cause(pod, snapshot, resolved.values):
        return False
    allowed = resolved.values.idle_after
    age = snapshot.age(pod.started_at or pod.created_at)
    if age is None or age < max(allowed, resolved.values.starting_for):
        return False
    return gpu.window.span >= allowed or (idle_for(snapshot, gpu) or timedelta()) >= allowed


def idle_for(snapshot: Snapshot, gpu: Gpu) -> timedelta | None:
    """How long it is idle: since the last activity that history knows, else the window's span."""
    last = snapshot.past.last_active.get(gpu.slot)
    known = snapshot.age(last)
    span_ = gpu.window.span if gpu.window else None
    return max(known, span_) if known and span_ else known or span_


def _hit(
    snapshot: Snapshot,
    subject: Subject,
    pairs: list[tuple[Pod, Gpu]],
    idle: list[tuple[Pod, Gpu]],
    resolved: Resolved,
) -> Hit:
    pods = list({pod.key: pod for pod, _ in idle}.values())
    gpus = list({gpu.slot: gpu for _, gpu in idle}.values())
    total = len({gpu.slot for _, gpu in pairs})
    resident = [gpu for gpu in gpus if gpu.state is State.IDLE_HELD]
    part = len(gpus) < total
    held = NOTEBOOK_CAUSE if is_notebook(subject, pods[0]) else HELD_CAUSE
    cause = PART_CAUSE if part else held if resident else EMPTY_CAUSE
    idle_spans = [span_ for gpu in gpus if (span_ := idle_for(snapshot, gpu)) is not None]
    at_least = min(idle_spans) if idle_spans else resolved.values.idle_after
    model = next((gpu.model for gpu in gpus if gpu.model), None) or "GPU"
    doing = {
        PART_CAUSE: "some of its GPUs were never touched while the others work",
        HELD_CAUSE: "a model or data is resident in GPU memory, but nothing runs on it",
        NOTEBOOK_CAUSE: "what its kernel loaded is resident in GPU memory, but no cell runs on it",
        EMPTY_CAUSE: "nothing was ever loaded",
    }[cause]
    weight = sum(1 / gpu.replicas for gpu in gpus)
    which = "it" if total == 1 else f"{len(gpus)} of them"
    return Hit(
        subject=subject,
        cause=cause,
        title=f"{counted(len(gpus), 'GPU')} of {printable(str(subject), 160)} idle for at least {span(at_least)}",
        summary=f"{subject} holds {counted(total, 'GPU')} ({model}); on {which} no engine was active "
        f"over the last {span(gpus[0].window.span if gpus[0].window else None)}: {doing}.",
        evidence=_evidence(snapshot, pods, gpus, total),
        confidence=Confidence.HIGH if all(_has_power(gpu) for gpu in gpus) else Confidence.MEDIUM,
        gpus=len(gpus),
        waste_gpus=round(weight, 3),
        nodes=tuple(dict.fromkeys(gpu.node for gpu in gpus)),
        pods=tuple(pod.key for pod in pods),
        fix=idle_fix(subject, pods[0]),
    )


def _has_power(gpu: Gpu) -> bool:
    return gpu.window is not None and gpu.window.power_w is not None and power_limit_of(gpu) is not None


def _evidence(snapshot: Snapshot, pods: list[Pod], gpus: list[Gpu], total: int) -> tuple[Evidence, ...]:
    windows = [gpu.window for gpu in gpus if gpu.window is not None]
    peaks = [peak for w in windows if (peak := peak_activity(w)) is not None]
    memory = [w.memory_used_bytes.mean for w in windows if w.memory_used_bytes is not None]
    found = [
        Evidence("Idle GPUs", f"{len(gpus)} of {total} held", "GPUs", "state over the window"),
        Evidence(
            "Peak engine activity",
            percent(max(peaks)) if peaks else "not collected",
            source="max_over_time of GPU_UTIL, GR_ENGINE, SM, DRAM and tensor activity, as far as collected",
        ),
    ]
    powers = [(w.power_w.mean, power_limit_of(g)) for g, w in zip(gpus, windows, strict=False) if w.power_w]
    if powers:
        watts, limit = max(powers, key=lambda pair: pair[0])
        of = f" of {limit:.0f}" if limit else ""
        found.append(Evidence("Mean power, highest", f"{watts:.0f}{of}", "W", "DCGM_FI_DEV_POWER_USAGE"))
    if memory:
        found.append(Evidence("GPU memory in use, most", gib(max(memory)), source="DCGM_FI_DEV_FB_USED"))
    coverage = min((w.coverage_ratio for w in windows), default=None)
    found.append(Evidence("Window covered", percent(coverage), source="count_over_time / expected scrapes"))
    started = min((p.started_at for p in pods if p.started_at), default=None)
    found += [
        Evidence("Held for", span(snapshot.age(started)), source="status.startTime"),
        Evidence("Pods", listed([pod.key for pod in pods]), source="metadata.name"),
        Evidence("Holder known by", listed(sorted({g.holder_source for g in gpus if g.holder_source}))),
    ]
    return tuple(found)
