"""A container of a GPU pod was killed because HOST memory ran out.

## Meaning
The kernel ended a process because the container reached its memory limit, or the node had none left. This is
the machine's memory (RAM), not the GPU's: a pod's memory limit never limits GPU memory, and a full GPU never
ends in OOMKilled.

## Impact
The container starts again from the beginning and holds its GPUs meanwhile; models load anew, training goes
back to its last checkpoint. An init container killed so keeps the pod from ever starting, even with exit code
0.

## Evidence
`terminated.reason` OOMKilled of any container, whatever the exit code; the container's memory limit, volumes
in memory (they count), the node's OOM events; the kubelet's message where it evicted the pod for the node's memory.
Without either: log lines of launchers that saw a child end by signal 9, and of Ray's memory monitor, with medium
confidence. GPU memory is shown beside it.

## Not reported
Exit code 137 with another killer: liveness probe (a rule of its own), eviction for disk space, preemption, deletion
past the grace period. A launcher's -9 with nothing that points to memory, or after ranks disagreed or timed out. Kills
older than `oom_killed_recent` in pods that run again, or whose owner succeeded since. Pods without GPUs.

## References
https://kubernetes.io/docs/tasks/configure-pod-container/assign-memory-resource/
https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/
"""

from collections.abc import Iterator

from diagnostics.findings import Evidence, Hit, Severity, Subject
from diagnostics.fixes import Fix, Risk, Step, StepKind, steps
from diagnostics.fixes.rolling import old_pod_first
from diagnostics.limits import Limits
from diagnostics.quantities import gib
from diagnostics.rules.base import rule
from diagnostics.rules.memory import host_kills
from diagnostics.rules.memory.changes import HEADROOM, limit_text, raise_memory_limit
from diagnostics.rules.memory.failing import failures
from diagnostics.rules.memory.host_kills import HostKill, host_kill, memory_volumes
from diagnostics.snapshot import Pod, Snapshot, Source
from diagnostics.text import counted, listed, printable


@rule(
    code="GPU401",
    slug="oom-killed",
    severity=Severity.CRITICAL,
    needs={Source.PODS},
    uses={Source.LOGS, Source.EVENTS, Source.METRICS},
    hold=1,
)
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Hit]:
    """One hit per root owner, with the pods and containers of it that were killed."""
    found: dict[Subject, list[HostKill]] = {}
    for failure in failures(snapshot, limits):
        if (kill := host_kill(snapshot, failure)) is not None:
            found.setdefault(Subject.of_pod(failure.pod), []).append(kill)
    for subject, kills in found.items():
        yield _hit(snapshot, subject, kills)


def _hit(snapshot: Snapshot, subject: Subject, kills: list[HostKill]) -> Hit:
    kill = min(
        kills, key=lambda k: (not k.is_certain, k.failure.runs_again, k.confidence.rank, k.failure.pod.key)
    )
    failure = kill.failure
    pods = tuple(sorted({k.failure.pod.key for k in kills}))
    runs_again = all(k.failure.runs_again for k in kills)
    verb = "was OOMKilled" if kill.is_certain else "was most likely killed for memory"
    verb = "was evicted" if kill.cause == host_kills.EVICTED else verb
    again = " It runs again at the moment." if runs_again else ""
    return Hit(
        subject=subject,
        cause=kill.cause,
        title=f"{subject}: container {failure.container.name} {verb} (host memory)",
        summary=f"{kill.because} This is host memory (RAM), not GPU memory: nothing on the GPU has to be "
        f"smaller for it."
        f"{again}",
        evidence=tuple(_evidence(snapshot, kill, pods)),
        fix=_fix(kill, snapshot),
        confidence=kill.confidence,
        severity=Severity.WARNING if runs_again else None,
        gpus=sum(snapshot.pod_by_key[key].gpu_count for key in pods),
        nodes=tuple(sorted({k.failure.pod.node for k in kills if k.failure.pod.node})),
        pods=pods,
    )


def _evidence(snapshot: Snapshot, kill: HostKill, pods: tuple[str, ...]) -> Iterator[Evidence]:
    pod, container, ended = kill.failure.pod, kill.failure.container, kill.failure.ended
    status = f"container status of {pod.key}/{container.name}"
    if ended is not None:
        yield Evidence(
            "reason", printable(ended.reason, 80) or "none given", source=f"{status}: terminated.reason"
        )
        if ended.exit_code is not None:
            yield Evidence("exit code", str(ended.exit_code), source=f"{status}: terminated.exitCode")
        yield Evidence("ended", kill.failure.ended_ago, source=f"{status}: terminated.finishedAt")
        yield from kill.failure.run_evidence()
    if kill.cause == host_kills.EVICTED:
        yield Evidence("message", printable(pod.message, 500), source=f"{pod.key}: status.message")
    yield Evidence("restarts", str(container.restarts), source=f"{status}: restartCount")
    limit = container.limits.get("memory")
    yield Evidence(
        "host memory limit",
        gib(limit) if limit is not None else "none",
        source=f"{pod.key}: spec, container {container.name}, resources.limits.memory",
    )
    for path, size in memory_volumes(pod, container):
        yield Evidence(
            f"volume in memory at {path}", gib(size) if size is not None else "no size limit",
            source=f"{pod.key}: spec.volumes, counts as the container's memory",
        )  # fmt: skip
    for event in kill.events:
        yield Evidence(event.reason, printable(event.message, 300), source=f"event of node {event.name}")
    for signal in kill.signals:
        yield Evidence("log line", signal.line, source=f"log of {pod.key}, container {container.name}")
    yield from _gpu_memory(snapshot, pod)
    yield Evidence(counted(len(pods), "pod"), listed(pods), source="pods of the owner that were killed so")


def _gpu_memory(snapshot: Snapshot, pod: Pod) -> Iterator[Evidence]:
    """The other memory, to keep the two apart."""
    for gpu in snapshot.gpus_by_pod.get(pod.key, ())[:8]:
        if gpu.metrics is not None and gpu.metrics.memory_used_bytes is not None:
            total = gpu.metrics.memory_total_bytes
            yield Evidence(
                "GPU memory now (not the cause)", f"{gib(gpu.metrics.memory_used_bytes)} of {gib(total)}",
                source=f"metrics of GPU {gpu.slot}",
            )  # fmt: skip


def _fix(kill: HostKill, snapshot: Snapshot) -> Fix:
    failure = kill.failure
    pod, container = failure.pod, failure.container
    own = _steps_for(kill)
    return Fix(
        summary=own[0].title,
        steps=(
            steps.describe_pod(pod),
            steps.read_log(
                pod, container.name, previous=failure.is_previous,
                expect="What it did last: loading weights, building optimizer states, filling data loaders.",
            ),
            _measure(pod, container.name),
            *old_pod_first(own, pod, snapshot),
            steps.verify_finding_gone(f"Container {container.name} passes the point where it was killed, and stays."),
            steps.escalate(
                "the owner of the workload",
                why="If it grows without end at a steady load, it leaks, and no limit is high enough.",
                expect="A heap profile, or fewer loader workers and ranks per pod.",
            ),
        ),
    )  # fmt: skip


def _measure(pod: Pod, container: str) -> Step:
    matchers = f'namespace="{pod.namespace}",pod="{pod.name}",container="{container}"'
    return steps.look(
        title="Look up the highest host memory that was ever seen",
        why="The limit follows from what was observed over a whole load cycle, not from the GPU's size: the usual "
        "rules of thumb contradict each other. A kill cuts the curve off at the limit, so the true need may be higher.",
        expect=f"In Prometheus: max_over_time(container_memory_working_set_bytes{{{matchers}}}[7d]), beside "
        f"the limit.",
    )


def _steps_for(kill: HostKill) -> list[Step]:
    pod, container = kill.failure.pod, kill.failure.container
    limit = container.limits.get("memory")
    if kill.cause in (host_kills.NODE, host_kills.EVICTED):
        return [_smaller_or_elsewhere(pod)]
    if kill.cause == host_kills.RAY:
        return [_edit_ray(), *_raise(kill, limit)]
    if kill.cause == host_kills.OFFLOAD:
        return [*_raise(kill, limit), _edit_offload()]
    if kill.cause == host_kills.LOADER:
        return [_edit_loader(), *_raise(kill, limit)]
    return _raise(kill, limit) or [_smaller_or_elsewhere(pod)]


def _raise(kill: HostKill, limit: float | None) -> list[Step]:
    if limit is None:
        return []
    amount = limit * HEADROOM
    return [
        raise_memory_limit(
            kill.failure.pod,
            kill.failure.container,
            amount,
            why=f"The container used all of its {gib(limit)}: the highest use is at least that, and "
            f"{limit_text(amount)} "
            f"is {HEADROOM} times it (ours). Where more was observed, take {HEADROOM} times the observed "
            f"peak.",
        )
    ]


def _edit(title: str, why: str, expect: str) -> Step:
    return Step(kind=StepKind.FIX, title=title, why=why, risk=Risk.DISRUPTIVE, expect=expect)


def _edit_offload() -> Step:
    return _edit(
        "Or keep less in host memory",
        "CPU offload needs 16 to 18 bytes per parameter, divided by the nodes: fewer offloaded states, NVMe offload, "
        "or more nodes.",
        "Host memory while optimizer states are built stays below the limit.",
    )


def _edit_loader() -> Step:
    return _edit(
        "Lower the number or the prefetching of DataLoader workers",
        "Each worker holds prefetch_factor batches and a growing copy of what it touches.",
        "No worker is killed over a whole epoch.",
    )


def _edit_ray() -> Step:
    return _edit(
        "Run fewer tasks at once on that Ray node",
        "More CPUs or memory per task means fewer of them side by side. RAY_memory_usage_threshold only moves the line "
        "at which Ray acts.",
        "No worker is killed at the same load.",
    )


def _smaller_or_elsewhere(pod: Pod) -> Step:
    return _edit(
        "Give the container a memory request and limit that the node can honour",
        f"Without them the node{f' {pod.node}' if pod.node else ''} is overcommitted and the kernel picks a "
        f"victim. Set "
        "both to the observed peak with headroom, so that the scheduler places the pod where it fits.",
        "No SystemOOM event on the node.",
    )
