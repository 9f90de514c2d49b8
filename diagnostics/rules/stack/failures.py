"""How an operator pod fails: the first container that does, how, and what it and its log say. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from diagnostics.rules.stack.said import cause_of
from diagnostics.signatures import signals_in
from diagnostics.snapshot import Container, Event, LogSignal, Pod
from diagnostics.states import CONFIG_REASONS, IMAGE_PULL_REASONS

_CREATING = {"ContainerCreating", "PodInitializing"}
_WORKING_INITS = {"k8s-driver-manager", "config-manager-init", "mofed-validation"}
"""Init containers that do something themselves; the others wait for another component."""


@dataclass(frozen=True)
class Failure:
    """The container that fails first, how, and what it said."""

    container: Container
    how: str
    """image-pull, crash-loop, start-error, sandbox, init-stuck, not-ready, failed."""
    message: str
    """What the kubelet knows of it, unprintable characters included."""
    line: str
    """The log line or message that tells the cause; empty where none is known."""
    signature: str | None
    """Slug of the cause that it says itself."""
    is_victim: bool
    """It only waits for another component."""


def failure_of(pod: Pod, signals: Iterable[LogSignal] = (), events: Iterable[Event] = ()) -> Failure | None:
    """What is wrong with an operator pod; None when nothing is. Finished test pods (Succeeded) are well.

    `signals` and `events`: of this pod, as far as they were read.
    """
    if pod.phase == "Succeeded":
        return None
    events = tuple(events)
    for container in pod.containers:
        how = _how(container, events)
        if how is not None:
            return _failure(pod, container, how, signals, events)
    if pod.phase == "Failed":
        first = pod.containers[0] if pod.containers else Container(name="")
        return _failure(pod, first, "failed", signals, events)
    return None


def message_of(container: Container) -> str:
    """What the container last said: a crash's own words tell more than the kubelet's back-off text."""
    said = [t.message for t in (container.terminated, container.last_terminated) if t and t.message]
    return " ".join(said) or container.waiting_message


@lru_cache(maxsize=2048)
def signals_of(message: str) -> tuple[LogSignal, ...]:
    """What a status or event message says, read as a log is."""
    return signals_in(message, namespace="", pod="", container="") if message else ()


def _failure(
    pod: Pod, container: Container, how: str, signals: Iterable[LogSignal], events: tuple[Event, ...]
) -> Failure:
    message = pod.message if how == "failed" else message_of(container)
    if how in {"sandbox", "image-pull"}:
        told = [e.message for e in events if e.reason in {"Failed", "FailedCreatePodSandBox"}]
        message = max((message, *told), key=len)
    own = [s for s in signals if s.container == container.name] or list(signals)
    cause, line = cause_of((*signals_of(message), *own), message)
    if cause is None and _is_out_of_memory(container):
        cause = "component-out-of-memory"
    is_victim = how == "init-stuck" and container.name not in _WORKING_INITS and cause is None
    return Failure(container, how, message, line, cause, is_victim)


def _is_out_of_memory(container: Container) -> bool:
    return any(t and t.reason == "OOMKilled" for t in (container.terminated, container.last_terminated))


def _how(container: Container, events: tuple[Event, ...]) -> str | None:
    if container.waiting_reason in IMAGE_PULL_REASONS:
        return "image-pull"
    if container.waiting_reason == "CrashLoopBackOff":
        return "crash-loop"
    if container.waiting_reason in CONFIG_REASONS:
        return "start-error"
    if container.terminated is not None and container.terminated.exit_code not in (0, None):
        return "crash-loop"
    if container.waiting_reason in _CREATING and any(e.reason == "FailedCreatePodSandBox" for e in events):
        return "sandbox"
    if container.is_init and not container.is_sidecar and container.state == "running":
        return "init-stuck"
    if not container.is_init and container.state == "running" and not container.is_ready:
        return "not-ready"
    return None
