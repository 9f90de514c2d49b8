"""How an operator pod fails: the first container that does, its phase, and the signature in its message. Pure."""

import re
from dataclasses import dataclass

from diagnostics.snapshot import Container, Pod
from diagnostics.states import CONFIG_REASONS, IMAGE_PULL_REASONS

SIGNATURES: tuple[tuple[str, str], ...] = (
    (r"Could not resolve Linux kernel version", "kernel-headers-missing"),
    (r"Key was rejected by service", "secure-boot-rejects-driver"),
    (r"could not unload NVIDIA driver kernel modules|driver is in use", "driver-in-use"),
    (r"GPL-incompatible module|modpost", "driver-does-not-build-for-kernel"),
    (r"Driver/library version mismatch", "driver-library-mismatch"),
    (r"driver rpc error: timed out", "driver-not-responding"),
    (r"ERROR_LIBRARY_NOT_FOUND|libnvidia-ml\.so", "driver-library-not-found"),
    (r"no runtime for \"?nvidia\"? is configured", "runtime-missing"),
    (r"system not yet initialized", "fabric-manager-not-running"),
    (r"clients are using the GPU|in use by another client", "mig-blocked-by-clients"),
    (r"GPU resources are not discovered|unable to find any allocatable GPU", "gpus-not-discovered"),
    (r"infoROM", "inforom-corrupted"),
    (r"no space left on device", "disk-full"),
)
"""(pattern in a container's message, cause); first match wins; the texts are those of the GPU operator's containers."""

_COMPILED = tuple((re.compile(pattern, re.IGNORECASE), cause) for pattern, cause in SIGNATURES)


@dataclass(frozen=True)
class Failure:
    """The container that fails first, how, and what it said."""

    container: Container
    how: str
    """image-pull, crash-loop, start-error, init-stuck, not-ready."""
    message: str
    signature: str | None
    is_victim: bool
    """It only waits for another component."""


def failure_of(pod: Pod) -> Failure | None:
    """What is wrong with an operator pod; None when nothing is. Finished test pods (Succeeded) are well."""
    if pod.phase == "Succeeded":
        return None
    for container in pod.containers:
        how = _how(container)
        if how is not None:
            message = message_of(container)
            return Failure(container, how, message, signature_of(message), is_victim=how == "init-stuck")
    if pod.phase == "Failed":
        first = pod.containers[0] if pod.containers else Container(name="")
        return Failure(first, "failed", pod.message, signature_of(pod.message), is_victim=False)
    return None


def message_of(container: Container) -> str:
    """What the container last said: a crash's own words tell more than the kubelet's back-off text."""
    said = [t.message for t in (container.terminated, container.last_terminated) if t and t.message]
    return " ".join(said) or container.waiting_message


def signature_of(message: str) -> str | None:
    """Cause slug of a known failure text, None for an unknown one."""
    return next((cause for pattern, cause in _COMPILED if pattern.search(message)), None)


def _how(container: Container) -> str | None:
    if container.waiting_reason in IMAGE_PULL_REASONS:
        return "image-pull"
    if container.waiting_reason == "CrashLoopBackOff":
        return "crash-loop"
    if container.waiting_reason in CONFIG_REASONS:
        return "start-error"
    if container.terminated is not None and container.terminated.exit_code not in (0, None):
        return "crash-loop"
    if container.is_init and not container.is_sidecar and container.state == "running":
        return "init-stuck"
    if not container.is_init and container.state == "running" and not container.is_ready:
        return "not-ready"
    return None
