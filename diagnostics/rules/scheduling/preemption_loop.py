"""Pods that hold GPUs are preempted again and again, so that nobody gets his work done.

## Meaning
A workload lost its pods to preemption several times within an hour: it comes back, and is pushed out again. Either two
workloads push each other out, or one pod pushes others out and still does not start, or ever new pods of higher
priority come.

## Impact
Each round costs the start of the pods that are ended and all that they had not saved, and GPUs stand still meanwhile.

## Evidence
Preempted events of the last hour, counted in rounds (one preemption may end many pods); the pods for which room was
made; priorities and preemption policies; owners of pods that are gone, by their names.

## Not reported
Fewer than `preemptions_min` rounds; a last round longer ago than `preemptions_recent`; pods without GPUs; one
preemption that ends many pods at once: that is what priorities are for.

## References
https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/
"""

from collections.abc import Iterator, Sequence

from diagnostics.findings import Confidence, Evidence, Hit, Severity, Subject
from diagnostics.limits import Limits
from diagnostics.quantities import span
from diagnostics.rules.base import rule
from diagnostics.rules.scheduling.preemption_fix import preemption_fix
from diagnostics.rules.scheduling.preemptions import Preemption, by_victim, preemptions, rounds
from diagnostics.snapshot import Pod, Snapshot, Source
from diagnostics.text import counted, listed, printable

MOST_NAMED = 6


@rule(
    code="GPU306",
    slug="preemption-loop",
    severity=Severity.WARNING,
    needs={Source.PODS, Source.EVENTS},
    uses={Source.WORKLOADS, Source.POLICY},
    hold=1,
)
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Hit]:
    victims = by_victim(preemptions(snapshot))
    for subject, found in victims.items():
        thresholds = limits.of(subject).values
        age = snapshot.age(found[-1].at)
        is_loop = rounds(found) >= thresholds.preemptions_min
        if not is_loop or age is None or age > thresholds.preemptions_recent:
            continue
        if not _has_gpus(subject, found, snapshot):
            continue
        other = _other_side(subject, found, victims)
        # Two that push each other out are one loop: it is told once.
        if (
            other is not None
            and str(other) < str(subject)
            and rounds(victims[other]) >= thresholds.preemptions_min
        ):
            continue
        yield _hit(subject, found, other, snapshot)


def _has_gpus(subject: Subject, found: Sequence[Preemption], snapshot: Snapshot) -> bool:
    """The victim's controller or its pods ask for GPUs, or a pod that pushes it out does."""
    workload = snapshot.workload_by_key.get((subject.kind, subject.namespace, subject.name))
    if workload is not None and workload.spec:
        return True
    if any(pod.gpus for pod in _living(subject, snapshot)):
        return True
    return any(one.by_pod is not None and one.by_pod.gpus for one in found)


def _living(subject: Subject, snapshot: Snapshot) -> list[Pod]:
    return [
        pod
        for pod in snapshot.pods
        if pod.namespace == subject.namespace and not pod.is_finished and Subject.of_pod(pod) == subject
    ]


def _other_side(
    subject: Subject, found: Sequence[Preemption], victims: dict[Subject, list[Preemption]]
) -> Subject | None:
    """A workload that pushes this one out, and is pushed out by it."""
    pushers = {one.by for one in found if one.by is not None and one.by != subject}
    mutual = [by for by in pushers if any(one.by == subject for one in victims.get(by, ()))]
    return min(mutual, key=str, default=None)


def _hit(subject: Subject, found: Sequence[Preemption], other: Subject | None, snapshot: Snapshot) -> Hit:
    pods = _living(subject, snapshot)
    pushers = list({one.by_pod.key: one.by_pod for one in found if one.by_pod is not None}.values())
    unplaced = [pod for pod in pushers if pod.node is None and pod.phase == "Pending"]
    number = rounds(found)
    who = printable(str(subject), 160)
    if other is not None:
        cause, why = "pods-preempt-each-other", f"it and {printable(str(other), 160)} push each other out"
    elif unplaced and len({one.by_text for one in found}) < number:
        name = printable(unplaced[0].key, 160)
        cause, why = "preemptor-never-starts", f"room is made for pod {name}, which still does not start"
    else:
        cause, why = (
            "victim-comes-back",
            "it comes back each time, and pods of higher priority push it out again",
        )
    nodes = tuple(dict.fromkeys(one.node for one in found if one.node))
    victims = list(dict.fromkeys(printable(one.victim_pod, 160) for one in found))
    return Hit(
        subject=subject,
        cause=cause,
        title=f"{who} was preempted {number} times within {span(found[-1].at - found[0].at)}: {why}",
        summary=f"{who} lost pods to preemption {number} times in the last hour, last "
        f"{span(snapshot.age(found[-1].at))} ago: {why}. Each round loses what was not saved.",
        evidence=(
            Evidence("rounds of preemption", str(number), "rounds", "events Preempted of the last hour"),
            Evidence("pods that were ended", listed(victims, MOST_NAMED), source="events Preempted"),
            Evidence("room was made for", _pushers(found), source="message of the events"),
            Evidence.of_moment("last", found[-1].at, "lastTimestamp or series of the events"),
            *_priorities(pods, pushers),
            *(
                (
                    Evidence(
                        "on nodes",
                        listed([printable(n, 80) for n in nodes], MOST_NAMED),
                        source="events Preempted",
                    ),
                )
                if nodes
                else ()
            ),
        ),
        fix=preemption_fix(subject, pushers[0] if pushers else None, snapshot),
        confidence=Confidence.HIGH if pushers else Confidence.MEDIUM,
        gpus=max((pod.gpu_count for pod in (*pods, *pushers)), default=0),
        nodes=nodes,
        pods=tuple(pod.key for pod in (*pods, *pushers)),
    )


def _pushers(found: Sequence[Preemption]) -> str:
    known = {f"{printable(one.by_pod.key, 160)}" for one in found if one.by_pod is not None}
    gone = {one.by_text for one in found if one.by_pod is None}
    parts = sorted(known) + ([f"{counted(len(gone), 'pod')} gone since"] if gone else [])
    return listed(parts, MOST_NAMED)


def _priorities(pods: Sequence[Pod], pushers: Sequence[Pod]) -> Iterator[Evidence]:
    for label, given in (("its priority", pods), ("priority of those that push it out", pushers)):
        values = sorted({pod.priority for pod in given if pod.priority is not None})
        if values:
            yield Evidence(label, listed([str(v) for v in values]), source="spec.priority of the pods")
