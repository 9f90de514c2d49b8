"""GPU jobs that a queue keeps from having pods at all: suspended by Kueue, or not yet let in by a Volcano queue."""

from collections.abc import Iterator
from datetime import datetime

from diagnostics.findings import Evidence, Hit, Severity, Subject
from diagnostics.gangs import pod_group_key
from diagnostics.limits import Limits
from diagnostics.quantities import span
from diagnostics.rules.scheduling.board import Reading
from diagnostics.rules.scheduling.kueue import WAITS_ITS_TURN, standing, workload_names
from diagnostics.rules.scheduling.queue_steps import queue_fix
from diagnostics.rules.scheduling.volcano import kept_back
from diagnostics.snapshot import OwnerKey, Pod, PodGroup, QueuedWorkload, Snapshot, Source, gpu_resources
from diagnostics.text import counted, printable

QUEUED = frozenset(
    {
        "scheduling-gate",
        "waiting-for-preemption",
        "kueue-admission-check",
        "volcano-queue-over-capability",
        "volcano-queue-over-deserved",
        "volcano-queue-quota-used",
        "yunikorn-queue-quota",
        WAITS_ITS_TURN,
    }
)
"""Waiting as designed: worth knowing, nothing to repair."""
CHAIN = 8
"""Owner references are data: a loop in them must end."""


def hits(snapshot: Snapshot, limits: Limits) -> Iterator[Hit]:
    """One per GPU job without pods that has waited long enough; none where pods were not read."""
    if not snapshot.source(Source.PODS).state.is_usable:
        return
    living = [pod for pod in snapshot.pods if not pod.is_finished]
    owners = {(o.kind, o.namespace, o.name) for pod in living for o in _owners(pod)}
    admitted_by = {(pod.namespace, name) for pod in living for name in workload_names(pod)}
    for workload in snapshot.queued:
        reading = standing(workload, snapshot) if workload.gpu_count else None
        has_pods = not owners.isdisjoint((o.kind, o.namespace, o.name) for o in workload.owners)
        if reading is None or has_pods or (workload.namespace, workload.name) in admitted_by:
            # The rule about pods without a node speaks of them.
            continue
        subject = _subject(workload.owners, OwnerKey("Workload", workload.namespace, workload.name), snapshot)
        since = _since(workload)
        if is_late(subject, since, reading, snapshot, limits):
            yield _hit(subject, reading, since, workload.gpu_count, snapshot)
    with_pods = {pod_group_key(pod) for pod in snapshot.pods}
    for group in snapshot.pod_groups:
        gpus = int(sum(gpu_resources(group.min_resources).values()))
        if group.system != "volcano" or not gpus or (group.system, group.namespace, group.name) in with_pods:
            continue
        held = kept_back(group, snapshot) if group.phase in {"", "Pending"} else None
        if held is None or not owners.isdisjoint((o.kind, o.namespace, o.name) for o in group.owners):
            continue
        subject = _subject(group.owners, _key_of(group), snapshot)
        if is_late(subject, group.created_at, held, snapshot, limits):
            yield _hit(subject, held, group.created_at, gpus, snapshot)


def is_late(
    subject: object, since: datetime | None, reading: Reading, snapshot: Snapshot, limits: Limits
) -> bool:
    """A turn may take a day; what is not a turn is late as any pod is."""
    thresholds = limits.of(subject).values
    age = snapshot.age(since)
    is_turn = reading.cause == WAITS_ITS_TURN
    return age is not None and age > (thresholds.queue_wait_after if is_turn else thresholds.pending_after)


def _since(workload: QueuedWorkload) -> datetime | None:
    """Since its last try, where it has run before."""
    reserved = workload.condition("QuotaReserved")
    evicted = workload.condition("Evicted")
    known = [workload.created_at, evicted.since if evicted else None, reserved.since if reserved else None]
    return max((moment for moment in known if moment is not None), default=None)


def _owners(pod: Pod) -> tuple[OwnerKey, ...]:
    """Its owners and its root; an owner lives where its pod does. A pod group's workload is owned by its pods."""
    itself = OwnerKey("Pod", pod.namespace, pod.name)
    return (*pod.owners, pod.root if pod.root is not None else itself, itself)


def _key_of(group: PodGroup) -> OwnerKey:
    return OwnerKey("PodGroup", group.namespace, group.name, group.api_version)


def _subject(owners: tuple[OwnerKey, ...], itself: OwnerKey, snapshot: Snapshot) -> Subject:
    """The top of the owner chain."""
    top = owners[0] if owners else itself
    for _ in range(CHAIN):
        workload = snapshot.workload_by_key.get((top.kind, top.namespace, top.name))
        if workload is None or not workload.owners:
            break
        top = workload.owners[0]
    return Subject.of_owner(top)


def _hit(subject: Subject, reading: Reading, since: datetime | None, gpus: int, snapshot: Snapshot) -> Hit:
    who = printable(str(subject), 160)
    waited = span(snapshot.age(since))
    is_turn = reading.cause in QUEUED
    judged = (
        "That is queueing as designed: nothing is broken, and no GPU is held."
        if is_turn
        else "It holds nothing meanwhile, and more GPUs on the nodes would not help."
    )
    return Hit(
        subject=subject,
        cause=reading.cause,
        title=f"Not a GPU shortage: {who} waits {waited} for {counted(gpus, 'GPU')}: {reading.words}",
        summary=f"Its queue has not let it in, so that it has no pods: {reading.words}. {judged}",
        evidence=(
            Evidence.of_moment("waits since", since, "creation time and conditions of its queue object"),
            *reading.facts,
        ),
        fix=queue_fix(subject, reading),
        severity=Severity.INFO if is_turn else None,
        gpus=gpus,
    )
