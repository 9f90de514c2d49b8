"""Why a GPU pod's process was killed for HOST memory: from container states, node events and log signals."""

import re
from datetime import timedelta

import msgspec

from diagnostics.findings import Confidence
from diagnostics.quantities import gib
from diagnostics.rules.memory.evictions import NODE_MEMORY, eviction_of
from diagnostics.rules.memory.failing import Failure, other_killer
from diagnostics.snapshot import Container, Event, LogSignal, Pod, Snapshot

INIT = "init-container-oomkilled"
OFFLOAD = "host-ram-oom-by-offload"
NODE = "node-out-of-memory"
LIMIT = "container-memory-limit"
CHILD = "child-process-killed"
LOADER = "dataloader-worker-killed"
RAY = "ray-memory-monitor-host-ram"
EVICTED = "node-memory-pressure-eviction"

_KILLS = {
    "deepspeed-child-killed": CHILD,
    "torchrun-child-killed": CHILD,
    "dataloader-killed": LOADER,
    "ray-low-memory": RAY,
}
_NEEDS_SUPPORT = {"deepspeed-child-killed"}
"""DeepSpeed's launcher prints -9 for a rank that something else killed too: alone it says nothing of
memory."""
_OF_OTHERS = {"collective-fingerprint", "collective-timeout"}
"""The ranks disagreed or timed out: they were ended for that."""
_OFFLOAD_WORDS = re.compile(
    r"offload_(?:optimizer|param)|cpu[-_]offload(?!=(?:0\b|false))|offload[-_](?:optimizer|param)[-_]device[= ]cpu",
    re.IGNORECASE,
)
_KERNEL_EVENTS = {"SystemOOM", "OOMKilling"}
_NEAR = timedelta(minutes=2)


class HostKill(msgspec.Struct, frozen=True, kw_only=True):
    """One container's kill: the cause, how sure, in words, and the signals and events it rests on."""

    failure: Failure
    cause: str
    confidence: Confidence
    because: str
    is_certain: bool
    """The kubelet itself says OOMKilled."""
    signals: tuple[LogSignal, ...] = ()
    events: tuple[Event, ...] = ()


def host_kill(snapshot: Snapshot, failure: Failure) -> HostKill | None:
    """The kill, if a container's end is one for host memory; None where it is not or another killer is
    named."""
    signals = _signals_of(snapshot, failure)
    events = _kernel_events(snapshot, failure)
    offload = [s for s in signals if s.signal == "cpu-offload"]
    offloads = bool(offload) or _asks_for_offload(failure.container)
    ended = failure.ended
    if ended is not None and ended.reason == "OOMKilled":
        cause, because = _cause_of_oomkilled(failure, offloads, events)
        return HostKill(
            failure=failure,
            cause=cause,
            confidence=Confidence.MEDIUM if cause == OFFLOAD else Confidence.HIGH,
            because=because,
            is_certain=True,
            signals=tuple(offload),
            events=tuple(events),
        )
    eviction = eviction_of(snapshot, failure.pod)
    if eviction is not None and eviction.cause == NODE_MEMORY:
        return HostKill(
            failure=failure,
            cause=EVICTED,
            confidence=Confidence.HIGH,
            because=f"The kubelet evicted the pod because node {failure.pod.node} ran low on memory, before the kernel "
            "had to kill. Pods that use more than they asked for go first.",
            is_certain=True,
        )
    if other_killer(snapshot, failure.pod, failure.container) or any(s.signal in _OF_OTHERS for s in signals):
        return None
    supported = offloads or bool(events) or any(s.signal == "kernel-oom-kill" for s in signals)
    kills = [s for s in signals if s.signal in _KILLS and (supported or s.signal not in _NEEDS_SUPPORT)]
    if not kills:
        return None
    cause = _KILLS[kills[-1].signal]
    if offloads and cause == CHILD:
        cause = OFFLOAD
    shown = [s for s in signals if s.signal in {"deepspeed-host-memory", "deepspeed-gpu-memory"}]
    return HostKill(
        failure=failure,
        cause=cause,
        confidence=Confidence.HIGH if cause == RAY else Confidence.MEDIUM,
        because=_SENTENCES[cause],
        is_certain=False,
        signals=(*kills, *offload, *shown),
        events=tuple(events),
    )


_SENTENCES = {
    OFFLOAD: "A process was ended by SIGKILL while optimizer states or parameters were kept in host memory: most "
    "likely the kernel's out-of-memory killer.",
    CHILD: "A child process was ended by SIGKILL while the container lived on: most likely the kernel's out-of-memory "
    "killer.",
    LOADER: "A DataLoader worker was ended by SIGKILL: most likely the kernel's out-of-memory killer.",
    RAY: "Ray's own memory monitor ended a worker because the host memory of its node or pod ran low, before "
    "Kubernetes would.",
}


def _cause_of_oomkilled(failure: Failure, offloads: bool, events: list[Event]) -> tuple[str, str]:
    container = failure.container
    limit = container.limits.get("memory")
    if container.is_init:
        code = failure.ended.exit_code if failure.ended else None
        return INIT, (
            f"Init container {container.name} was OOMKilled (exit code {code}, which says nothing here), so "
            f"the pod "
            "cannot go on to its main containers."
        )
    if limit is None or (events and events[-1].reason == "SystemOOM"):
        return NODE, "The node itself ran out of memory" + (
            "; the container has no memory limit of its own." if limit is None else "."
        )
    if offloads:
        return OFFLOAD, (
            f"The container reached its limit of {gib(limit)} of host memory; it keeps optimizer states or "
            f"parameters "
            "there (offload)."
        )
    return LIMIT, f"The container reached its limit of {gib(limit)} of host memory."


def _signals_of(snapshot: Snapshot, failure: Failure) -> list[LogSignal]:
    found = [
        s for s in snapshot.signals_by_pod.get(failure.pod.key, ()) if s.container == failure.container.name
    ]
    return [s for s in found if s.previous or not failure.runs_again]


def _asks_for_offload(container: Container) -> bool:
    words = (*container.command, *container.args, *(f"{k}={v}" for k, v in container.env.items()))
    return any(_OFFLOAD_WORDS.search(word[:4000]) for word in words)


def _kernel_events(snapshot: Snapshot, failure: Failure) -> list[Event]:
    """The node's own OOM events near the container's end, oldest first."""
    ended = failure.ended.finished_at if failure.ended else None
    if failure.pod.node is None or ended is None:
        return []
    about_node = snapshot.events_by_object.get(("Node", "", failure.pod.node), ())
    near = [
        e for e in about_node if e.reason in _KERNEL_EVENTS and e.last_at and abs(e.last_at - ended) <= _NEAR
    ]
    return sorted(near, key=lambda e: e.last_at or ended)


def memory_volumes(pod: Pod, container: Container) -> list[tuple[str, float | None]]:
    """(mount path, size limit) of volumes in memory, which count as the container's memory."""
    in_memory = {v.name: v.size_limit_bytes for v in pod.volumes if v.medium == "Memory"}
    return [(path, in_memory[name]) for path, name in container.mounts.items() if name in in_memory]
