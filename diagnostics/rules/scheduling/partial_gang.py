"""A part of a collective job runs and holds GPUs, while the rest does not.

## Meaning
Some members of a gang run; others have no node, fail, or were never made. The job cannot take a step without them.

## Impact
The GPUs of the running members do nothing until the rest starts or the rendezvous times out, and others wait for them.
Two such jobs can hold what the other one needs, and then neither ever starts.

## Evidence
The gang's pods with their nodes, phases and container states; its expected size; why each missing member does not run;
activity of the held GPUs where it is measured. The age is taken from creation, start and end times of the pods.

## Not reported
Members that have succeeded; gangs of which no member runs (see `pending-gpu-pod`); members that start within
`partial_gang_after` of each other; elastic jobs and gangs with at least as many members as they can start with; gangs
whose GPUs are measured to be at work. Members without a pod while not all pods could be read: not judged.

## References
https://pytorch.org/docs/stable/elastic/run.html
https://kueue.sigs.k8s.io/docs/tasks/manage/setup_wait_for_pods_ready/
https://kubernetes.io/docs/concepts/workloads/controllers/job/
"""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

from diagnostics.findings import Confidence, Evidence, Hit, Severity, Subject, Unjudged
from diagnostics.limits import Limits
from diagnostics.quantities import span
from diagnostics.rules.base import rule
from diagnostics.rules.scheduling.board import Board
from diagnostics.rules.scheduling.gang_fix import gang_fix
from diagnostics.rules.scheduling.members import Members, ended_at, is_at_work, members_of
from diagnostics.snapshot import Gang, Pod, Snapshot, Source, SourceState
from diagnostics.text import counted, listed, printable

MOST_PODS = 8
"""Members that are named; the rest is counted."""


@rule(
    code="GPU302",
    slug="partial-gang",
    severity=Severity.CRITICAL,
    needs={Source.PODS},
    uses={Source.NODES, Source.EVENTS, Source.WORKLOADS, Source.WINDOW},
    caused_by=(
        "no-gang-scheduling",
        "pending-gpu-pod",
        "stuck-holder",
        "oom-killed",
        "cuda-out-of-memory",
        "fatal-xid",
    ),
    hold=1,
)
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Hit | Unjudged]:
    board = Board(snapshot, limits)
    all_seen = snapshot.source(Source.PODS).state is SourceState.OK
    partial = []
    for gang in snapshot.gangs:
        members = members_of(gang, board)
        if not _is_partial(gang, members) or is_at_work(members, board):
            continue
        if not all_seen and not members.missing:
            absent = counted(members.absent, "member")
            yield Unjudged(_subject(gang), f"not all pods could be read, and {absent} may be among the rest")
            continue
        since = _partial_since(members)
        age = snapshot.age(since)
        if (
            since is not None
            and age is not None
            and age > limits.of(_subject(gang)).values.partial_gang_after
        ):
            partial.append((gang, members, since, age))
    short = [gang for gang, members, _, _ in partial if _waits_for_gpus(members) and not gang.gang_scheduler]
    for gang, members, since, age in partial:
        rivals = [other for other in short if other is not gang and gang in short]
        yield _hit(gang, members, since, age, rivals, board)


def _subject(gang: Gang) -> Subject:
    return Subject(gang.kind, gang.name, gang.namespace, gang.uid, gang.api_version)


def _is_partial(gang: Gang, members: Members) -> bool:
    if not members.running or not (members.missing or members.absent):
        return False
    return gang.min_available is None or len(members.running) < gang.min_available


def _partial_since(members: Members) -> datetime | None:
    """When the oldest gap opened: the first member ran, and that member did not."""
    started = [pod.started_at or pod.created_at for pod in members.running]
    known = [moment for moment in started if moment is not None]
    if not known:
        return None
    first = min(known)
    gaps = [max(first, missing.since) for missing in members.missing if missing.since is not None]
    if members.absent:
        ends = [end for pod in members.ended if (end := ended_at(pod)) is not None]
        gaps.append(max(first, min(ends, default=first)))
    return min(gaps, default=None)


def _waits_for_gpus(members: Members) -> bool:
    return any(missing.is_shortage for missing in members.missing)


def _cause(members: Members, rivals: list[Gang]) -> str:
    counts = Counter(missing.kind for missing in members.missing)
    counts["members-failing"] += len(members.ended)
    counts["members-absent"] = members.absent - len(members.ended)
    order = ("members-failing", "members-pending", "members-absent")
    leading = max(order, key=lambda kind: counts[kind])
    return "no-gang-scheduling" if leading == "members-pending" and rivals else leading


def _hit(
    gang: Gang, members: Members, since: datetime, age: timedelta, rivals: list[Gang], board: Board
) -> Hit:
    held = sum(pod.gpu_count for pod in members.running)
    subject = _subject(gang)
    who = printable(str(subject), 160)
    count = f"{len(members.running)} of {members.expected}"
    return Hit(
        subject=subject,
        cause=_cause(members, rivals),
        title=f"{who}: {count} members run, and hold {counted(held, 'GPU')} for nothing for {span(age)}",
        summary=f"The members of this job work only together. {count} run; {_rest(members)}. Until the rest starts, "
        f"{counted(held, 'GPU')} {'waits' if held == 1 else 'wait'} with them." + _rival_words(rivals),
        evidence=(
            Evidence(
                "collective", gang.collective, source="kind, labels, command and environment of its pods"
            ),
            Evidence(
                "members",
                f"{len(members.running)} run, {members.expected} expected",
                "pods",
                "phase of its pods, and the size that its owner or launcher names",
            ),
            Evidence.of_moment("partial since", since, "creation, start and end times of its pods"),
            Evidence("GPUs held for nothing", str(held), "GPUs", "resources of the running members"),
            Evidence(
                "running",
                _running_words(members.running),
                source="status.phase and spec.nodeName of its pods",
            ),
            *_missing_facts(members),
            Evidence(
                "gang scheduler",
                gang.gang_scheduler or "none: its pods are placed one by one",
                source="its pods",
            ),
            *(
                Evidence("waits for GPUs as well", printable(str(_subject(r)), 160), source="its pods")
                for r in rivals
            ),
        ),
        fix=gang_fix(gang, members, board),
        confidence=Confidence.HIGH if gang.size is not None or members.missing else Confidence.MEDIUM,
        gpus=held,
        waste_gpus=float(held),
        nodes=tuple(dict.fromkeys(p.node for p in members.running if p.node)),
        pods=(*(p.key for p in members.running), *(m.pod.key for m in members.missing)),
    )


def _rest(members: Members) -> str:
    parts = []
    waiting = [m for m in members.missing if m.kind == "members-pending"]
    failing = [m for m in members.missing if m.kind == "members-failing"]
    if waiting:
        parts.append(f"{counted(len(waiting), 'member')} without a node")
    if failing:
        parts.append(f"{counted(len(failing), 'member')} on a node but not at work")
    if members.ended:
        parts.append(f"{counted(len(members.ended), 'member')} failed and not made anew")
    if members.absent > len(members.ended):
        parts.append(f"{counted(members.absent - len(members.ended), 'member')} without a pod")
    return listed(parts)


def _rival_words(rivals: list[Gang]) -> str:
    if not rivals:
        return ""
    names = listed([printable(str(_subject(rival)), 120) for rival in rivals], 3)
    return f" It may wait for ever: {names} is in the same state, and each holds GPUs that the other needs."


def _running_words(running: tuple[Pod, ...]) -> str:
    return listed(
        [f"{printable(p.name, 120)} on {printable(p.node or 'a node', 80)} ({p.gpu_count})" for p in running],
        MOST_PODS,
    )


def _missing_facts(members: Members) -> Iterator[Evidence]:
    for missing in members.missing[:MOST_PODS]:
        label = f"does not run: {printable(missing.pod.name, 120)}"
        yield Evidence(label, missing.why, source=f"status of pod {printable(missing.pod.key, 160)}")
    if len(members.missing) > MOST_PODS:
        yield Evidence(
            "more that do not run", str(len(members.missing) - MOST_PODS), "pods", "status of its pods"
        )
    for pod in members.ended[:MOST_PODS]:
        yield Evidence(
            f"failed: {printable(pod.name, 120)}", _end_words(pod), source=f"status of pod {pod.key}"
        )
    if members.absent > len(members.ended):
        number = str(members.absent - len(members.ended))
        yield Evidence("without a pod", number, "members", "size of the job minus its pods")


def _end_words(pod: Pod) -> str:
    ends = [
        f"{printable(c.name, 60)}: {printable(c.terminated.reason, 60) or 'ended'}, exit code {c.terminated.exit_code}"
        for c in pod.containers
        if c.terminated is not None and c.terminated.exit_code
    ]
    return (
        listed(ends) if ends else printable(f"{pod.reason} {pod.message}".strip(), 200) or "no reason given"
    )
