"""Which GPU containers fail or failed, how and when, and what else explains a SIGKILL: shared by the
family."""

from collections.abc import Iterator
from datetime import timedelta

import msgspec

from diagnostics.findings import Evidence
from diagnostics.limits import Limits
from diagnostics.quantities import span
from diagnostics.snapshot import Container, Event, LogSignal, Pod, Snapshot, Terminated
from diagnostics.states import ended_badly

_GONE_FOR = {"Evicted", "NodeLost", "NodeShutdown", "Terminated", "Preempting", "UnexpectedAdmissionError"}
"""Reasons in a pod's status that name another cause than its own containers."""

_PROBE_FAILED = tuple(
    f"{probe} probe {how}" for probe in ("Liveness", "Startup") for how in ("failed", "errored")
)


class Failure(msgspec.Struct, frozen=True):
    """A container of a GPU pod that ended badly, or that runs without becoming ready."""

    pod: Pod
    container: Container
    ended: Terminated | None
    """How it ended; None while it runs without being ready."""
    age: timedelta | None
    """Since it ended; None when unknown."""
    runs_again: bool
    """It runs, is ready, and is not merely between two crashes."""

    is_loop: bool = False
    """It came back `restarts_min` times or more, and is down or has not outlasted the run before."""

    @property
    def ran_for(self) -> timedelta | None:
        """How long the run lasted that ended; None when unknown."""
        return ran_for(self.ended)

    def run_evidence(self) -> Iterator[Evidence]:
        """How long the run lasted that ended."""
        where = f"container status of {self.pod.key}/{self.container.name}"
        if self.ran_for is not None:
            yield Evidence("ran for", span(self.ran_for), source=where)

    @property
    def ended_ago(self) -> str:
        return "at an unknown time" if self.age is None else f"{span(self.age)} ago"

    @property
    def is_previous(self) -> bool:
        """Its end stands as the last state: `kubectl logs --previous` shows that run also when the next has begun."""
        return self.ended is not None and self.container.terminated is None


def failures(snapshot: Snapshot, limits: Limits) -> Iterator[Failure]:
    """Failing containers of GPU pods, those that ended longer than `oom_killed_recent` ago and recovered left
    out.

    A failed attempt of an owner whose later pod succeeded is over and left out too.
    """
    for pod in snapshot.pods:
        if not pod.gpus or pod.phase == "Succeeded" or was_made_good(snapshot, pod):
            continue
        for container in pod.containers:
            if (found := _failure(snapshot, limits, pod, container)) is not None:
                yield found


def _failure(snapshot: Snapshot, limits: Limits, pod: Pod, container: Container) -> Failure | None:
    ended = container.terminated or container.last_terminated
    runs_again = _runs_again(snapshot, limits, pod, container)
    if ended is not None and ended_badly(ended):
        age = snapshot.age(ended.finished_at)
        recent = limits.of(pod).values.oom_killed_recent
        if age is not None and age > recent and (runs_again or pod.is_finished):
            return None
        is_loop = (
            not runs_again
            and not pod.is_finished
            and container.restarts >= limits.of(pod).values.restarts_min
        )
        return Failure(pod, container, ended, age, runs_again, is_loop)
    if container.state == "running" and not container.is_ready and not container.is_init:
        return Failure(pod, container, None, None, runs_again=False)
    return None


def _runs_again(snapshot: Snapshot, limits: Limits, pod: Pod, container: Container) -> bool:
    """Without a readiness probe a container in a crash loop is ready for as long as it runs: that is no recovery.

    Nor is a run that is not yet half as long again as the one before (ours): it may end the same way.
    """
    if container.state != "running" or not container.is_ready:
        return False
    values = limits.of(pod).values
    runs_for, before = (
        snapshot.age(container.running_since),
        ran_for(container.last_terminated) or timedelta(),
    )
    return (
        container.restarts < values.restarts_min
        or runs_for is None
        or runs_for >= min(max(values.recovered_after, 1.5 * before), values.oom_killed_recent)
    )


def ran_for(ended: Terminated | None) -> timedelta | None:
    """How long a run lasted; None without an end, or where its times are not known."""
    if ended is None or ended.started_at is None or ended.finished_at is None:
        return None
    return ended.finished_at - ended.started_at


def was_made_good(snapshot: Snapshot, pod: Pod) -> bool:
    """A failed attempt whose owner succeeded with a later pod."""
    if pod.root is None or pod.created_at is None or pod.phase != "Failed":
        return False
    return any(
        other.phase == "Succeeded" and other.created_at is not None and other.created_at >= pod.created_at
        for other in snapshot.pods_by_root[pod.root]
    )


def signals_of_run(snapshot: Snapshot, failure: Failure) -> list[LogSignal]:
    """Signals of the run that failed, the earlier run first; of a container that runs well again only those of its
    previous run."""
    signals = [
        s for s in snapshot.signals_by_pod.get(failure.pod.key, ()) if s.container == failure.container.name
    ]
    if failure.runs_again:
        signals = [s for s in signals if s.previous]
    return sorted(signals, key=lambda s: not s.previous)


def other_killer(snapshot: Snapshot, pod: Pod, container: Container) -> str:
    """What else ended a pod's processes, in words; empty when nothing says so.

    Order of evidence: eviction, disruption, deletion, liveness probe (`SIGKILL` alone names none of them).
    """
    if pod.reason in _GONE_FOR:
        return f"the pod's status says {pod.reason}"
    disrupted = pod.condition("DisruptionTarget")
    if disrupted is not None and disrupted.status == "True":
        return f"it was disrupted: {disrupted.reason}"
    if pod.deletion_at is not None:
        return "the pod is being deleted"
    if any(e.reason == "Killing" for e in probe_events(snapshot, pod, container)):
        return "its liveness probe failed"
    return ""


def probe_events(snapshot: Snapshot, pod: Pod, container: Container) -> list[Event]:
    """Unhealthy and Killing events of a container's liveness or startup probe, oldest first.

    The kubelet's Unhealthy events name no container; in a pod with one application container they are its
    own.
    """
    alone = sum(not c.is_init for c in pod.containers) == 1
    found = []
    for event in snapshot.events_by_object.get(("Pod", pod.namespace, pod.name), ()):
        if event.uid and pod.uid and event.uid != pod.uid:
            continue
        killed = event.reason == "Killing" and (
            f"Container {container.name} failed liveness probe" in event.message
            or f"Container {container.name} failed startup probe" in event.message
        )
        failed = event.reason == "Unhealthy" and event.message.startswith(_PROBE_FAILED)
        if killed or (failed and alone):
            found.append(event)
    return found
