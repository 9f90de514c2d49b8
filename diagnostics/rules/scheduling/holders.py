"""Why a pod that holds GPUs cannot work, since when, and the facts; it refines the causes of the state `stuck`."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import msgspec

from diagnostics.findings import Evidence
from diagnostics.limits import Thresholds
from diagnostics.quantities import gib, rfc3339, span
from diagnostics.snapshot import Container, Event, Pod, Snapshot
from diagnostics.states import CONFIG_REASONS, is_crash_looping, stuck_cause
from diagnostics.text import counted, listed, printable

MOUNT_REASONS = frozenset({"FailedMount", "FailedAttachVolume", "FailedMapVolume"})

_OF_THE_DRIVER_BYTES = 2**30
"""More than a GPU without any process shows as used."""


class Trouble(msgspec.Struct, frozen=True):
    """Why one holder cannot work."""

    cause: str
    words: str
    """"… cannot work: <words>"."""
    since: datetime | None = None
    """Earliest moment that the objects prove; None where nothing dates it."""
    facts: tuple[Evidence, ...] = ()
    is_sure: bool = True


def trouble_of(pod: Pod, snapshot: Snapshot, thresholds: Thresholds) -> Trouble | None:
    """None for a pod that holds nothing, that works, or of which it is too early to say."""
    if not pod.holds_gpus:
        return None
    lost = _lost(pod, snapshot, thresholds)
    if lost is not None:
        return lost
    if pod.deletion_at is not None:
        return _terminating(pod, snapshot, thresholds)
    failing = _failing_container(pod, snapshot, thresholds) or _unmounted(pod, snapshot, thresholds)
    if failing is not None:
        return failing
    if stuck_cause(pod, snapshot, thresholds) == "not-ready":
        return _not_ready(pod, snapshot)
    return None


def _lost(pod: Pod, snapshot: Snapshot, thresholds: Thresholds) -> Trouble | None:
    node = snapshot.node_by_name.get(pod.node or "")
    ready = node.condition("Ready") if node is not None else None
    is_down = node is not None and node.is_ready is False
    since = ready.since if ready is not None and is_down else None
    down_for = snapshot.age(since)
    is_late = _is_late(pod, snapshot, thresholds)
    is_long = down_for is not None and down_for > thresholds.not_ready_stuck_after
    if pod.phase != "Unknown" and not (is_down and (is_late or is_long)):
        return None
    facts = [_fact(pod, "phase", f"{pod.phase} {pod.reason}".strip(), "status.phase and reason")]
    if pod.deletion_at is not None:
        facts.append(_gone_by(pod, pod.deletion_at, "metadata.deletionTimestamp"))
    name = printable(pod.node or "", 80)
    words = f"its node {name} is lost"
    if node is not None and ready is not None:
        said = f"{ready.status} since {rfc3339(ready.since) if ready.since else 'unknown'}"
        facts.append(
            Evidence(
                f"Ready of node {name}", said, source=f"status.conditions of node {name}", at=ready.since
            )
        )
        if not is_down:
            words = f"its phase is Unknown, though node {name} is ready"
    return Trouble("unknown-node-lost", words, since or pod.deletion_at, tuple(facts))


def _is_late(pod: Pod, snapshot: Snapshot, thresholds: Thresholds) -> bool:
    """Past the end of its grace period, which deletionTimestamp already contains."""
    if pod.deletion_at is None:
        return False
    return snapshot.taken_at - pod.deletion_at > thresholds.terminating_grace


def _terminating(pod: Pod, snapshot: Snapshot, thresholds: Thresholds) -> Trouble | None:
    if pod.deletion_at is None or not _is_late(pod, snapshot, thresholds):
        return None
    cause, words = _ending(pod)
    late = span(snapshot.age(pod.deletion_at))
    said = f"it should have been gone {late} ago{words}"
    return Trouble(cause, said, pod.deletion_at, tuple(_ending_facts(pod, pod.deletion_at, snapshot)))


def _ending(pod: Pod) -> tuple[str, str]:
    """What keeps it, with the rest of the sentence: containers end first, and finalizers are waited for after them.

    A node that does not answer is told before this is asked.
    """
    alive = [printable(c.name, 60) for c in pod.containers if c.state == "running"]
    if alive:
        return "process-does-not-end", f" and still runs: {listed(alive, 3)} does not end"
    if pod.finalizers and all(c.state == "terminated" for c in pod.containers):
        names = listed([printable(name, 80) for name in pod.finalizers], 3)
        return "finalizer-left", f": its containers have ended, and it waits for finalizer {names}"
    return "terminating", ", and the kubelet does not report its end"


def _ending_facts(pod: Pod, gone_by: datetime, snapshot: Snapshot) -> Iterator[Evidence]:
    field = "metadata.deletionTimestamp, grace included"
    if pod.deletion_grace_s is not None:
        grace = timedelta(seconds=pod.deletion_grace_s)
        yield Evidence.of_moment(_label(pod, "deletion asked for"), gone_by - grace, _source(pod, field))
        value = f"{pod.deletion_grace_s} s"
        yield _fact(pod, "grace period", value, "metadata.deletionGracePeriodSeconds")
    yield _gone_by(pod, gone_by, field)
    names = listed([printable(name, 80) for name in pod.finalizers])
    yield _fact(pod, "finalizers", names, "metadata.finalizers")
    states = [f"{printable(c.name, 60)} {c.state or 'unknown'}" for c in pod.containers]
    yield _fact(pod, "containers", listed(states), "status.containerStatuses")
    gpus = [gpu for gpu in snapshot.gpus_by_pod.get(pod.key, []) if gpu.holders == (pod.key,) and gpu.metrics]
    used = [gpu.metrics.memory_used_bytes for gpu in gpus if gpu.metrics is not None]
    known = [amount for amount in used if amount is not None]
    if known:
        value = f"{gib(sum(known))} on {counted(len(known), 'GPU')}"
        value += ": a process of it lives" if sum(known) > _OF_THE_DRIVER_BYTES * len(known) else ""
        yield Evidence(_label(pod, "GPU memory in use"), value, source="DCGM_FI_DEV_FB_USED of its GPUs")


def _failing_container(pod: Pod, snapshot: Snapshot, thresholds: Thresholds) -> Trouble | None:
    cause = stuck_cause(pod, snapshot, thresholds)
    began = pod.started_at or pod.created_at
    for container in pod.containers:
        reason = container.waiting_reason
        name = printable(container.name, 60)
        if cause == "crash-loop" and is_crash_looping(container, snapshot, thresholds):
            words = f"container {name} is in a crash loop, with {counted(container.restarts, 'restart')}"
            return Trouble(cause, words, _crashing_since(container), (*_crash_facts(pod, container),))
        if cause == "image-pull" and container.state == "waiting" and reason and reason != "PodInitializing":
            image = printable(container.image, 160)
            shown = (
                _fact(pod, f"image of {name}", image, "spec.containers"),
                *_waiting_facts(pod, container),
            )
            return Trouble(cause, f"image {image} cannot be pulled", began, shown)
        if cause == "config-error" and reason in CONFIG_REASONS:
            words = f"container {name} cannot be created ({reason})"
            return Trouble("config-error", words, began, _waiting_facts(pod, container))
    return None


def _waiting_facts(pod: Pod, container: Container) -> tuple[Evidence, ...]:
    name, field = printable(container.name, 60), "status.containerStatuses"
    return (
        _fact(pod, f"waiting reason of {name}", printable(container.waiting_reason, 60), field),
        _fact(pod, f"message of {name}", printable(container.waiting_message, 300) or "none", field),
    )


def _crash_facts(pod: Pod, container: Container) -> Iterator[Evidence]:
    name = printable(container.name, 60)
    yield _fact(pod, f"restarts of {name}", str(container.restarts), "status.containerStatuses.restartCount")
    now = container.waiting_reason or f"{container.state}, between two crashes"
    yield _fact(pod, f"state of {name}", now, "status.containerStatuses")
    last = container.last_terminated
    if last is not None:
        ended = f"{printable(last.reason, 60)}, exit code {last.exit_code}"
        yield _fact(pod, f"last end of {name}", ended, "status.containerStatuses.lastState.terminated")


def _crashing_since(container: Container) -> datetime | None:
    """A lower bound from the kubelet's back-off: 10 s, doubled at each crash, at most 5 min."""
    last = container.last_terminated
    if last is None or last.finished_at is None:
        return None
    waits = sum(min(300, 10 * 2**i) for i in range(min(container.restarts, 6) - 1))
    waits += 300 * max(0, container.restarts - 6)
    return last.finished_at - timedelta(seconds=max(0, waits))


def _unmounted(pod: Pod, snapshot: Snapshot, thresholds: Thresholds) -> Trouble | None:
    """Bound and not started: volumes, the sandbox, or nothing says why."""
    waits = [c for c in pod.containers if c.waiting_reason in {"ContainerCreating", "PodInitializing"}]
    began = pod.started_at or pod.created_at
    if pod.phase != "Pending" or not waits or any(c.state == "running" for c in pod.containers):
        return None
    events = snapshot.events_by_object.get(("Pod", pod.namespace, pod.name), [])
    mount = _last(events, MOUNT_REASONS)
    if mount is not None and _is_older(began, snapshot, thresholds.pending_after):
        return Trouble("mount-failed", "its volumes cannot be mounted", began, (_said(mount, pod),))
    sandbox = _last(events, frozenset({"FailedCreatePodSandBox"}))
    if sandbox is not None and _is_older(began, snapshot, thresholds.pending_after):
        return Trouble("sandbox-failed", "its sandbox cannot be made", began, (_said(sandbox, pod),))
    if _is_older(began, snapshot, thresholds.starting_for):
        facts = (_fact(pod, "waiting reason", waits[0].waiting_reason, "status.containerStatuses"),)
        return Trouble("not-starting", "its containers are still being created", began, facts, is_sure=False)
    return None


def _last(events: list[Event], reasons: frozenset[str]) -> Event | None:
    return next((event for event in reversed(events) if event.reason in reasons), None)


def _said(event: Event, pod: Pod) -> Evidence:
    source = f"event {event.reason} of pod {printable(pod.key, 160)}"
    return Evidence(event.reason, printable(event.message, 300), source=source)


def _not_ready(pod: Pod, snapshot: Snapshot) -> Trouble:
    ready = pod.condition("Ready")
    since = (ready.since if ready else None) or pod.started_at or pod.created_at
    message = printable(ready.message, 200) if ready else ""
    words = f"it has not been ready for {span(snapshot.age(since))}"
    return Trouble(
        "not-ready", words, since, (_fact(pod, "Ready", f"False, {message}", "status.conditions"),), False
    )


def _is_older(moment: datetime | None, snapshot: Snapshot, limit: timedelta) -> bool:
    age = snapshot.age(moment)
    return age is not None and age > limit


def _fact(pod: Pod, label: str, value: str, field: str) -> Evidence:
    return Evidence(_label(pod, label), value, source=_source(pod, field))


def _gone_by(pod: Pod, at: datetime, field: str) -> Evidence:
    return Evidence.of_moment(_label(pod, "to be gone by"), at, _source(pod, field))


def _label(pod: Pod, label: str) -> str:
    return f"{label} (pod {printable(pod.name, 120)})"


def _source(pod: Pod, field: str) -> str:
    return f"{field} of pod {printable(pod.key, 160)}"
