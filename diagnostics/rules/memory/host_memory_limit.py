"""A GPU pod's host memory limit is nearly reached, kills its children, or is below what it was told to take.

## Meaning
The limit of a container's host memory (RAM) is close to what was observed at its peak, or smaller than the buffers that
its own command line names. How much a program needs follows from what it does and what was measured; no multiple of the
GPU's memory says it.

## Impact
At the next larger batch, checkpoint or model load the kernel kills a process: the container as OOMKilled, or a child
while the container lives on and hangs or fails with an unclear message.

## Evidence
Peak of anonymous memory over the window and, from earlier polls, over seven days; processes that the kernel killed in
the window; the limit; options such as `--cpu-offload-gb` with their amounts. GPU memory stands beside it.

## Not reported
A working set near the limit that is file cache: the kernel gives it back. Containers without a limit. A container that
was OOMKilled already: a rule of its own. Rules of thumb that multiply GPU memory: they contradict each other.

## References
https://kubernetes.io/docs/tasks/configure-pod-container/assign-memory-resource/
https://docs.vllm.ai/en/stable/configuration/conserving_memory.html
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from diagnostics.findings import Confidence, Evidence, Hit, Severity, Subject, Unjudged
from diagnostics.fixes import Fix, steps
from diagnostics.fixes.rolling import old_pod_first
from diagnostics.limits import Limits, Thresholds
from diagnostics.quantities import gib, percent, span
from diagnostics.rules.base import rule
from diagnostics.rules.memory.changes import HEADROOM, raise_memory_limit
from diagnostics.rules.memory.host_kills import memory_volumes
from diagnostics.rules.memory.planned_memory import planned
from diagnostics.snapshot import Container, ContainerUsage, OwnerKey, Pod, Snapshot, Source
from diagnostics.text import counted, printable

NEAR = "host-memory-near-limit"
CHILDREN = "memory-limit-kills-children"
PLANNED = "planned-host-memory-above-limit"


class _Case(msgspec.Struct, frozen=True, kw_only=True):
    pod: Pod
    container: Container
    cause: str
    because: str
    limit: float
    needed: float
    """What the limit has to hold at least."""
    evidence: tuple[Evidence, ...]


@rule(
    code="GPU405",
    slug="host-memory-limit",
    severity=Severity.WARNING,
    needs={Source.PODS},
    uses={Source.USAGE, Source.METRICS},
)
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Hit | Unjudged]:
    """One hit per root owner: the container with the least room."""
    found: dict[Subject, list[_Case]] = {}
    unseen: dict[Subject, str] = {}
    is_asked = snapshot.source(Source.USAGE).state.is_usable
    for pod in snapshot.pods:
        if not pod.gpus or pod.is_finished or pod.deletion_at is not None:
            continue
        values = limits.of(pod).values
        for container in pod.containers:
            limit = container.limits.get("memory")
            if container.is_init or limit is None or _was_oom_killed(container):
                continue
            case = _measured(snapshot, pod, container, limit, values) or _planned(pod, container, limit)
            if case is not None:
                found.setdefault(Subject.of_pod(pod), []).append(case)
            elif is_asked and _is_missed(snapshot, pod, container, values):
                unseen[Subject.of_pod(pod)] = (
                    f"no memory of container {container.name} was sampled over the window"
                )
    for subject, cases in found.items():
        yield _hit(snapshot, subject, cases)
    for subject, reason in unseen.items():
        if subject not in found:
            yield Unjudged(subject, reason)


def _was_oom_killed(container: Container) -> bool:
    ends = (container.terminated, container.last_terminated)
    return any(end is not None and end.reason == "OOMKilled" for end in ends)


def _is_missed(snapshot: Snapshot, pod: Pod, container: Container, values: Thresholds) -> bool:
    """It has run for longer than a window, and nothing was sampled."""
    age = snapshot.age(container.running_since)
    usage = snapshot.usage_by_container.get((pod.key, container.name))
    unknown = usage is None or usage.rss_bytes is None
    return unknown and container.state == "running" and age is not None and age > 2 * values.window


def _measured(
    snapshot: Snapshot, pod: Pod, container: Container, limit: float, values: Thresholds
) -> _Case | None:
    usage = snapshot.usage_by_container.get((pod.key, container.name))
    peak, at = _peak(snapshot, pod, container, usage)
    if usage is not None and usage.oom_kills is not None and usage.oom_kills >= 0.5:
        because = (
            f"The kernel killed {counted(round(usage.oom_kills), 'process', 'processes')} of container "
            f"{container.name} "
            f"for memory in the last {span(usage.span)}, while the container lived on."
        )
        cause, needed = CHILDREN, max(limit, peak or 0.0)
    elif peak is not None and peak >= values.host_memory_near_limit_ratio * limit:
        when = "now" if at is None else f"{span(snapshot.age(at))} ago"
        because = (
            f"Container {container.name} used {gib(peak)} of its {gib(limit)} of host memory at the peak ({when}), "
            f"{percent(peak / limit)}, and none of that can be given back."
        )
        cause, needed = NEAR, peak
    else:
        return None
    return _Case(
        pod=pod,
        container=container,
        cause=cause,
        because=because,
        limit=limit,
        needed=needed,
        evidence=tuple(_observed(pod, container, usage, peak)),
    )


def _peak(
    snapshot: Snapshot, pod: Pod, container: Container, usage: ContainerUsage | None
) -> tuple[float | None, datetime | None]:
    """The most anonymous memory, and when it was if not now: what the workload needed once it will need again."""
    now = usage.rss_bytes.max if usage is not None and usage.rss_bytes is not None else None
    root = pod.root or OwnerKey("Pod", pod.namespace, pod.name)
    known = snapshot.past.host_peaks.get(f"{root.kind}/{root.namespace}/{root.name}/{container.name}")
    if known is not None and (now is None or known.rss_bytes > now):
        return known.rss_bytes, known.at
    return now, None


def _observed(
    pod: Pod, container: Container, usage: ContainerUsage | None, peak: float | None
) -> Iterator[Evidence]:
    matchers = f'namespace="{pod.namespace}",pod="{pod.name}",container="{container.name}"'
    source = f"max_over_time(container_memory_rss{{{matchers}}}), also of earlier polls"
    if peak is not None:
        yield Evidence("most anonymous memory", gib(peak), source=source)
    if usage is not None and usage.working_set_bytes is not None:
        source = f"container_memory_working_set_bytes{{{matchers}}}"
        yield Evidence("working set, with file cache", gib(usage.working_set_bytes.max), source=source)
    if usage is not None and usage.oom_kills is not None:
        source = f"increase(container_oom_events_total{{{matchers}}})"
        yield Evidence("killed by the kernel", f"{usage.oom_kills:.0f}", unit="processes", source=source)


def _planned(pod: Pod, container: Container, limit: float) -> _Case | None:
    parts = planned(pod, container)
    total = sum(part.total_bytes for part in parts)
    if not parts or total < limit:
        return None
    return _Case(
        pod=pod,
        container=container,
        cause=PLANNED,
        because=f"Container {container.name} was told to take {gib(total)} of host memory, and may have {gib(limit)}.",
        limit=limit,
        needed=total,
        evidence=tuple(
            Evidence(
                part.what,
                gib(part.total_bytes),
                source=f"{pod.key}: spec, container {container.name}: {part.told_by}",
            )
            for part in parts
        ),
    )


def _hit(snapshot: Snapshot, subject: Subject, cases: Sequence[_Case]) -> Hit:
    case = min(
        cases, key=lambda c: ((CHILDREN, PLANNED, NEAR).index(c.cause), -c.needed / c.limit, c.pod.key)
    )
    pod, container = case.pod, case.container
    change = raise_memory_limit(
        pod, container, case.needed * HEADROOM,
        why=f"{HEADROOM} times what it needs at least, {gib(case.needed)} (ours). Look at a whole load cycle first, "
        "with model load and checkpoint: the peak may be higher. Volumes in memory count towards the limit too. Or "
        "lower what it keeps on the host: fewer loader workers, less offload.",
    )  # fmt: skip
    pods = tuple(sorted({c.pod.key for c in cases}))
    return Hit(
        subject=subject,
        cause=case.cause,
        title=f"{subject}: {_TITLES[case.cause]}",
        summary=f"{case.because} This is host memory (RAM); the GPU's memory is another.",
        evidence=(
            *case.evidence,
            Evidence(
                "host memory limit", gib(case.limit),
                source=f"{pod.key}: spec, container {container.name}, resources.limits.memory",
            ),
            *(
                Evidence(
                    f"volume in memory at {printable(path, 80)}", gib(size) if size is not None else "no size limit",
                    source=f"{pod.key}: spec.volumes, counts as the container's memory",
                )
                for path, size in memory_volumes(pod, container)
            ),
            *_gpu_memory(snapshot, pod),
        ),
        fix=Fix(
            summary=change.title,
            steps=(
                steps.describe_pod(pod),
                steps.read_log(
                    pod, container.name, expect="What it did at the peak: loading, checkpointing, filling loaders."
                ),
                *old_pod_first([change], pod, snapshot),
                steps.verify_finding_gone("The peak over a whole load cycle stays below the limit with room to spare."),
                steps.escalate(
                    "the owner of the workload", why="If it grows without end, no limit is high enough.",
                    expect="What takes the host memory, and whether it is needed.",
                ),
            ),
        ),
        confidence=Confidence.MEDIUM if case.cause == NEAR else Confidence.HIGH,
        severity=Severity.CRITICAL if case.cause == CHILDREN else None,
        gpus=sum(snapshot.pod_by_key[key].gpu_count for key in pods),
        nodes=tuple(sorted({c.pod.node for c in cases if c.pod.node})),
        pods=pods,
    )  # fmt: skip


_TITLES = {
    NEAR: "host memory is close to its limit",
    CHILDREN: "the memory limit kills its child processes",
    PLANNED: "the host memory limit is below what it was told to take",
}


def _gpu_memory(snapshot: Snapshot, pod: Pod) -> Iterator[Evidence]:
    for gpu in snapshot.gpus_by_pod.get(pod.key, ())[:4]:
        if gpu.metrics is not None and gpu.metrics.memory_used_bytes is not None:
            source = f"metrics of GPU {gpu.slot}"
            yield Evidence(
                "GPU memory in use (another memory)", gib(gpu.metrics.memory_used_bytes), source=source
            )
