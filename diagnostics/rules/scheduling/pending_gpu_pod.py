"""A pod that asks for GPUs has waited too long for a node.

## Meaning
A GPU pod is Pending without a node for longer than `pending_after`, or may not even be made, because of the queue that
its job waits in or because the API server refuses it (quota, limit range, a class that is missing). The cause is the
dominant reason, computed from nodes, pods and queues and checked against the scheduler's words. Where the nodes that
its selector, affinity or tolerations leave are full while GPUs are free on others, that is said.

## Impact
The workload does not start, or runs with fewer members than it wants. Nothing is wasted by the pod itself.

## Evidence
Conditions, nodeSelector, affinity, tolerations, volumes, gates and requests of the pod; labels, taints, capacity
and allocatable of all nodes; requests and priority of the pods that hold GPUs; FailedScheduling, FailedCreate and
volume events; volume claims with their classes and volumes, quotas, limit ranges, priority and runtime classes; for
device claims (DRA) the claims, their templates and classes, the devices that drivers publish, and what the server, the
kubelet or the driver refuses. A pod whose reason
has nothing to do with GPUs is reported as "not a GPU shortage".

## Not reported
Pods without GPUs, also with claims on other devices; a claim that waits for its first pod; pods that have a node (they
wait for images or volumes, see `stuck-holder`); young pods; pods for which an autoscaler has just ordered a node;
workloads that somebody suspended; jobs that wait their turn in a queue for less than `queue_wait_after`, which is what
queues are for. Finished pods hold nothing and are never blamed.

## References
https://kubernetes.io/docs/concepts/scheduling-eviction/kube-scheduler/
https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/
https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
https://kubernetes.io/docs/concepts/policy/resource-quotas/
https://kueue.sigs.k8s.io/docs/concepts/workload/
https://volcano.sh/en/docs/queue/
https://kubernetes.io/docs/concepts/storage/persistent-volumes/
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import timedelta

from diagnostics.findings import Confidence, Evidence, Hit, Severity, Subject
from diagnostics.limits import Limits
from diagnostics.quantities import span
from diagnostics.rules.base import rule
from diagnostics.rules.scheduling import claim_messages, queued_jobs, refused_creation
from diagnostics.rules.scheduling.board import Board, Reading
from diagnostics.rules.scheduling.kueue import WAITS_ITS_TURN
from diagnostics.rules.scheduling.pending_fix import pending_fix
from diagnostics.rules.scheduling.queued_jobs import QUEUED
from diagnostics.rules.scheduling.reasons import reading_of
from diagnostics.snapshot import Pod, Snapshot, Source
from diagnostics.snapshot.resource_claims import is_gpu_driver
from diagnostics.text import counted, listed, printable


@rule(
    code="GPU303",
    slug="pending-gpu-pod",
    severity=Severity.WARNING,
    needs={Source.PODS},
    uses={
        Source.NODES,
        Source.EVENTS,
        Source.WORKLOADS,
        Source.CUSTOM,
        Source.CLAIMS,
        Source.STORAGE,
        Source.POLICY,
    },
    caused_by=(
        *("fewer-gpus-than-fitted", "device-plugin-waiting"),
        *("operator-component-failing", "no-gpu-in-container"),
        *("stranded-gpus", "preemption-loop"),
    ),
    starved_by=("stuck-holder",),
    hold=1,
)
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Hit]:
    board = Board(snapshot, limits)
    waiting: dict[Subject, list[Pod]] = defaultdict(list)
    for pod in snapshot.pods:
        if (
            is_waiting_for_gpus(pod)
            and not _is_about_others(pod, snapshot)
            and _is_late(pod, snapshot, limits)
        ):
            waiting[subject_of(pod, snapshot)].append(pod)
    for subject, pods in waiting.items():
        hit = _hit(subject, pods, board)
        # Queueing as designed is silent for a day.
        oldest = max((age for pod in pods if (age := _waits_for(pod, snapshot)) is not None), default=None)
        wait = limits.of(subject).values.queue_wait_after
        if hit.cause != WAITS_ITS_TURN or (oldest is not None and oldest > wait):
            yield hit
    yield from refused_creation.hits(snapshot, limits)
    yield from claim_messages.hits(snapshot, limits)
    yield from queued_jobs.hits(snapshot, limits)


def is_waiting_for_gpus(pod: Pod) -> bool:
    """Pending without a node, with GPUs asked for by resource or (perhaps) by claim, and not being deleted."""
    asks = bool(pod.gpus or pod.resource_claims)
    return asks and pod.phase == "Pending" and pod.node is None and pod.deletion_at is None


def _is_about_others(pod: Pod, snapshot: Snapshot) -> bool:
    """All of its claims are known, and none is for a GPU."""
    known = [f"{pod.namespace}/{name}" in snapshot.dra.claim_by_key for name in pod.resource_claims]
    return not pod.gpus and bool(known) and all(known)


def subject_of(pod: Pod, snapshot: Snapshot) -> Subject:
    """The pod's root owner; a bare pod of a gang counts under its gang."""
    gang = snapshot.gang_by_pod.get(pod.key)
    if gang is not None and (pod.root is None or pod.root.kind == "Pod"):
        return Subject(gang.kind, gang.name, gang.namespace, gang.uid, gang.api_version)
    return Subject.of_pod(pod)


def _is_late(pod: Pod, snapshot: Snapshot, limits: Limits) -> bool:
    thresholds = limits.of(pod).values
    age = _waits_for(pod, snapshot)
    if age is None or age <= thresholds.pending_after:
        return False
    ordered = [
        event.last_at
        for event in snapshot.events_by_object.get(("Pod", pod.namespace, pod.name), ())
        if event.reason == "TriggeredScaleUp" and event.last_at is not None
    ]
    if not ordered:
        return True
    # A new node takes some minutes to start, and some more until its GPUs are advertised.
    return snapshot.taken_at - max(ordered) > thresholds.pending_after + thresholds.allocatable_after


def _waits_for(pod: Pod, snapshot: Snapshot) -> timedelta | None:
    scheduled = pod.condition("PodScheduled")
    return snapshot.age(pod.created_at or (scheduled.since if scheduled else None))


def _hit(subject: Subject, pods: list[Pod], board: Board) -> Hit:
    pods = sorted(pods, key=lambda p: p.key)
    by_kind: dict[str, Reading] = {}
    readings = {}
    for pod in pods:
        kind = _alike(pod)
        if kind not in by_kind:
            by_kind[kind] = reading_of(pod, board)
        readings[pod.key] = by_kind[kind]
    causes = Counter(reading.cause for reading in readings.values())
    leading = max(causes, key=lambda cause: (causes[cause], cause))
    pod = next(pod for pod in pods if readings[pod.key].cause == leading)
    reading = readings[pod.key]
    ages = [age for p in pods if (age := _waits_for(p, board.snapshot)) is not None]
    who = (
        f"Pod {printable(pod.key, 160)}"
        if len(pods) == 1
        else f"{len(pods)} pods of {printable(str(subject), 160)}"
    )
    asked = sum(p.gpu_count for p in pods)
    gpus = counted(asked, "GPU") if asked else "a device claim"
    verb = "waits" if len(pods) == 1 else "wait"
    return Hit(
        subject=subject,
        cause=reading.cause,
        title=("Not a GPU shortage: " if reading.is_shortage is False else "")
        + f"{who} {verb} {span(max(ages, default=None))} for {gpus}: {reading.words}",
        summary=_summary(reading),
        evidence=(*_age_facts(pods, ages), *reading.facts, *_other_facts(causes, leading)),
        fix=pending_fix(pod, reading, board.snapshot),
        confidence=_confidence(pod, reading, board.snapshot),
        severity=Severity.INFO if reading.cause in QUEUED else None,
        gpus=asked,
        nodes=tuple(dict.fromkeys(name for r in readings.values() for name in r.nodes)),
        pods=tuple(p.key for p in pods),
    )


def _alike(pod: Pod) -> str:
    """Equal for pods of one owner that must have the same reading."""
    scheduled = pod.condition("PodScheduled")
    parts = (
        sorted(pod.effective_requests.items()),
        sorted(pod.node_selector.items()),
        pod.affinity,
        pod.tolerations,
        pod.scheduler,
        pod.scheduling_gates,
        pod.nominated_node,
        pod.priority,
        pod.resource_claims,
        [volume.claim for volume in pod.volumes if volume.claim],
        scheduled.message if scheduled else None,
    )
    return repr(parts)


def _confidence(pod: Pod, reading: Reading, snapshot: Snapshot) -> Confidence:
    if not pod.gpus:  # a claim that is not there may have been for any device
        drivers = {one.driver for one in snapshot.dra.slices}
        return Confidence.MEDIUM if drivers and all(map(is_gpu_driver, drivers)) else Confidence.LOW
    return Confidence.HIGH if reading.is_sure else Confidence.MEDIUM


def _summary(reading: Reading) -> str:
    said = next((fact.value for fact in reading.facts if fact.label == "scheduler says"), None)
    quoted = f' Its scheduler says: "{printable(said, 600)}"' if said else " Its scheduler has left no words."
    closed = reading.shut_out
    if closed is not None and reading.cause == "no-capacity":
        return f"GPUs are lacking only where it may run: {reading.words}, closed to it by {closed.by_what}.{quoted}"
    if closed is not None:
        quoted = f" Besides, {closed.elsewhere}, closed to it by {closed.by_what}.{quoted}"
    if reading.is_shortage:
        return f"GPUs are lacking where the pod could run: {reading.words}.{quoted}"
    if reading.is_shortage is None:
        return f"The pod has no node: {reading.words}. Whether GPUs are lacking cannot be told from here.{quoted}"
    return f"This is not a GPU shortage: {reading.words}. More GPUs would not help.{quoted}"


def _age_facts(pods: list[Pod], ages: list[timedelta]) -> tuple[Evidence, ...]:
    oldest = min(pods, key=lambda p: (p.created_at is None, p.created_at or 0, p.key)) if ages else pods[0]
    source = f"metadata.creationTimestamp of pod {printable(oldest.key, 160)}"
    facts = [Evidence.of_moment("waits since", oldest.created_at, source)]
    if len(pods) > 1:
        names = listed([printable(p.key, 160) for p in pods], 6)
        facts.append(Evidence("waiting pods", names, source="status.phase of the pods"))
    return tuple(facts)


def _other_facts(causes: Counter[str], leading: str) -> tuple[Evidence, ...]:
    others = [f"{cause} ({counted(number, 'pod')})" for cause, number in causes.items() if cause != leading]
    return (
        (Evidence("other reasons among them", listed(others), source="computed per pod"),) if others else ()
    )
