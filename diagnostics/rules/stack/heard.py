"""What failing containers said about CUDA and the driver: in their logs, their status and their events. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from functools import lru_cache

import msgspec

from diagnostics.findings import Evidence
from diagnostics.limits import Limits, Thresholds
from diagnostics.signatures import signals_in
from diagnostics.snapshot import Container, LogSignal, Pod, Snapshot
from diagnostics.states import ended_badly
from diagnostics.text import printable

_HINTS = (
    "cuda", "nvidia", "nvml", "nvrm", "runtime", "cdi", "gpu", "hip", "torch", "kernel image", "not yet initialized",
    "driver version",
)  # fmt: skip
_STARTING = {"", "ContainerCreating", "PodInitializing"}
_BACK_OFF = "CrashLoopBackOff"
_IN_USE_RATIO = 0.05
"""Engine activity from here on shows that CUDA works in a pod (ours)."""


class Heard(msgspec.Struct, frozen=True):
    """One recognised message of a container that does not do well, and where it stood."""

    pod: Pod
    container: Container
    signal: LogSignal
    source: str

    @property
    def name(self) -> str:
        return self.signal.signal

    @property
    def evidence(self) -> Evidence:
        return Evidence("It said", printable(self.signal.line, 400), source=self.source)


def heard(snapshot: Snapshot, limits: Limits, names: Iterable[str]) -> Iterator[Heard]:
    """Messages with one of the signature `names`, of containers that fail now or failed within `cuda_error_recent`.

    A container that runs and is ready counts only while nothing shows that its GPU works after all.
    """
    wanted = frozenset(names)
    for pod in snapshot.pods:
        told = snapshot.signals_by_pod.get(pod.key, ())
        if pod.phase == "Succeeded" or _was_made_good(snapshot, pod):
            continue
        values = limits.of(pod).values
        for container in pod.containers:
            own = [s for s in told if s.container == container.name and s.signal in wanted]
            if own and _counts(snapshot, values, pod, container, own):
                where = f"log of {pod.key}, container {container.name}"
                yield from (Heard(pod, container, signal, where) for signal in own)
            if is_in_trouble(snapshot, values, container):
                yield from _in_status(snapshot, values, pod, container, wanted)


def _counts(
    snapshot: Snapshot, values: Thresholds, pod: Pod, container: Container, signals: list[LogSignal]
) -> bool:
    if is_in_trouble(snapshot, values, container):
        return True
    is_now = any(not s.previous for s in signals) and container.state == "running"
    return is_now and not uses_its_gpu(snapshot, pod)


def is_in_trouble(snapshot: Snapshot, values: Thresholds, container: Container) -> bool:
    """It waits for something else than its turn, ended badly of late, or has not recovered from it."""
    if container.state == "waiting":
        return True
    ended = container.terminated or container.last_terminated
    age = snapshot.age(ended.finished_at) if ended else None
    is_bad = (
        ended is not None and ended_badly(ended) and not (age is not None and age > values.cuda_error_recent)
    )
    if container.state == "terminated":
        return is_bad
    if container.state != "running":
        return False
    if not container.is_ready and not (container.is_init and not is_bad):
        return True
    runs_for = snapshot.age(container.running_since)
    is_young = runs_for is None or runs_for < values.recovered_after
    return is_bad and is_young and container.restarts >= values.restarts_min


def uses_its_gpu(snapshot: Snapshot, pod: Pod) -> bool:
    """Whether a GPU of the pod did something within the window: then CUDA works there."""
    for gpu in snapshot.gpus_by_pod.get(pod.key, ()):
        window, now = gpu.window, gpu.metrics
        stats = (window.gr_engine_ratio, window.utilization_ratio) if window else ()
        values = [stat.max for stat in stats if stat is not None]
        if now is not None and now.utilization_ratio is not None:
            values.append(now.utilization_ratio)
        if any(value >= _IN_USE_RATIO for value in values):
            return True
    return False


def _was_made_good(snapshot: Snapshot, pod: Pod) -> bool:
    """A failed attempt whose owner's later pod succeeded, or is ready now."""
    if pod.root is None or pod.phase != "Failed" or pod.created_at is None:
        return False
    return any(
        (other.phase == "Succeeded" or (other.phase == "Running" and other.is_ready))
        and other.created_at is not None
        and other.created_at > pod.created_at
        for other in snapshot.pods_by_root[pod.root]
    )


def _in_status(
    snapshot: Snapshot, values: Thresholds, pod: Pod, container: Container, wanted: frozenset[str]
) -> Iterator[Heard]:
    status = f"container status of {pod.key}/{container.name}"
    texts: dict[str, str] = {}
    if container.state == "waiting" and container.waiting_reason != _BACK_OFF:
        texts[container.waiting_message] = f"{status}: state.waiting.message"
    for ended in (container.terminated, container.last_terminated):
        if ended is not None and ended.message:
            texts[ended.message] = f"{status}: terminated.message"
    if not container.is_ready:
        texts |= _of_events(snapshot, pod, container, values.cuda_error_recent)
    for text, source in texts.items():
        for signal in signals_of(text, pod, container):
            if signal.signal in wanted:
                yield Heard(pod, container, signal, source)


def _of_events(snapshot: Snapshot, pod: Pod, container: Container, recent: timedelta) -> Mapping[str, str]:
    """Warnings about the pod; those that name a container of it are that one's alone."""
    others = [c.name for c in pod.containers if c.name != container.name]
    found = {}
    for event in snapshot.events_by_object.get(("Pod", pod.namespace, pod.name), ()):
        age = snapshot.age(event.last_at)
        is_old = age is not None and age > recent
        if event.type == "Normal" or is_old or (event.uid and pod.uid and event.uid != pod.uid):
            continue
        if any(f'container "{name}"' in event.message for name in others):
            continue
        found[event.message] = f"event {event.reason} of pod {pod.key}"
    return found


def signals_of(text: str, pod: Pod, container: Container) -> tuple[LogSignal, ...]:
    """The signals in a status or event message, as if the container had written it."""
    lowered = text.lower()
    if not any(hint in lowered for hint in _HINTS):
        return ()
    return tuple(
        msgspec.structs.replace(s, namespace=pod.namespace, pod=pod.name, container=container.name)
        for s in _parsed(text)
    )


@lru_cache(maxsize=1024)
def _parsed(text: str) -> tuple[LogSignal, ...]:
    return signals_in(text, namespace="", pod="", container="")


def is_waiting_for_its_turn(container: Container) -> bool:
    """The kubelet has not tried to start it yet, or is at it."""
    return container.state == "waiting" and container.waiting_reason in _STARTING
