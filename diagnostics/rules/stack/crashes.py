"""GPU containers that crash and say nothing about CUDA that we know: for these the image itself is judged. Pure."""

from collections.abc import Iterator

from diagnostics.limits import Limits
from diagnostics.rules.stack.heard import is_in_trouble
from diagnostics.snapshot import Container, Pod, Snapshot

_CRASHED = {"CrashLoopBackOff", "RunContainerError", "StartError", "CreateContainerError"}
_KILLED = {137, 143}
"""SIGKILL and SIGTERM: somebody ended it, it did not fail."""


def crashed(snapshot: Snapshot, limits: Limits) -> Iterator[tuple[Pod, Container]]:
    """Containers with a GPU that ended by themselves, in pods without any recognised message in their logs."""
    for pod in snapshot.pods:
        if not pod.gpus or pod.phase == "Succeeded" or snapshot.signals_by_pod.get(pod.key):
            continue
        values = limits.of(pod).values
        for container in pod.containers:
            if container.gpus and is_in_trouble(snapshot, values, container) and _has_crashed(container):
                yield pod, container


def _has_crashed(container: Container) -> bool:
    if container.state == "waiting" and container.waiting_reason not in _CRASHED:
        return False
    ended = container.terminated or container.last_terminated
    if ended is None:
        return container.waiting_reason in _CRASHED
    return ended.exit_code not in _KILLED and ended.reason != "OOMKilled"
