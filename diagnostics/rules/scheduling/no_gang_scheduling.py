"""A collective job waits for GPUs, and its pods are placed one by one.

## Meaning
The members of the job work only together, and nothing makes the scheduler start them together: each takes the next GPU
that is free. Some members run and wait for the rest, or all of them wait and some will start before the others can.

## Impact
Members that run hold GPUs without work until the rest starts; two such jobs can keep each other from ever starting.
A job that has all of its members is not slower for it.

## Evidence
Which members run and which have no node, from when on; GPUs that the running ones hold; who places the pods; queues and
gang schedulers that the cluster has.

## Not reported
Jobs under a gang scheduler or a queue; jobs of which all members run, however they came there; members that fail, or
were never made, which gang scheduling would not cure; members that wait for something else than GPUs; elastic jobs with
enough members; gangs whose GPUs are measured to be at work.

## References
https://kueue.sigs.k8s.io/docs/overview/
https://volcano.sh/en/docs/podgroup/
https://github.com/kubernetes/enhancements/tree/master/keps/sig-scheduling/4671-gang-scheduling
"""

from collections.abc import Iterator
from datetime import datetime

from diagnostics.findings import Confidence, Evidence, Hit, Severity, Subject
from diagnostics.fixes import Fix, in_order, kubectl, steps
from diagnostics.fixes.stopping import resume_owner
from diagnostics.limits import Limits
from diagnostics.quantities import span
from diagnostics.rules.base import rule
from diagnostics.rules.scheduling.board import Board
from diagnostics.rules.scheduling.gang_fix import suspend, when_whole
from diagnostics.rules.scheduling.gang_variants import installed, variants
from diagnostics.rules.scheduling.members import Members, Missing, is_at_work, members_of
from diagnostics.snapshot import Gang, Pod, Snapshot, Source
from diagnostics.text import counted, listed, printable

MOST_PODS = 8
"""Members that are named; the rest is counted."""


@rule(
    code="GPU305",
    slug="no-gang-scheduling",
    severity=Severity.WARNING,
    needs={Source.PODS},
    uses={Source.NODES, Source.EVENTS, Source.WORKLOADS, Source.CUSTOM, Source.WINDOW},
    hold=1,
)
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Hit]:
    board = Board(snapshot, limits)
    for gang in snapshot.gangs:
        if gang.gang_scheduler or gang.only_starts_together:
            continue
        members = members_of(gang, board)
        waiting = [m for m in members.missing if m.kind == "members-pending" and m.is_shortage]
        if not waiting or _has_enough(gang, members) or is_at_work(members, board):
            continue
        since = _since(members, waiting)
        age = snapshot.age(since)
        thresholds = limits.of(_subject(gang)).values
        wait = thresholds.partial_gang_after if members.running else thresholds.pending_after
        if since is not None and age is not None and age > wait:
            yield _hit(gang, members, waiting, since, board)


def _subject(gang: Gang) -> Subject:
    return Subject(gang.kind, gang.name, gang.namespace, gang.uid, gang.api_version)


def _has_enough(gang: Gang, members: Members) -> bool:
    """It runs with what it has, or one pod is all that is left of it."""
    if gang.min_available is not None and len(members.running) >= gang.min_available:
        return True
    return members.expected < 2


def _since(members: Members, waiting: list[Missing]) -> datetime | None:
    """When the oldest gap opened: the first member ran and another did not, or all began to wait."""
    began = [missing.since for missing in waiting if missing.since is not None]
    started = [m for pod in members.running if (m := pod.started_at or pod.created_at) is not None]
    if not began or (members.running and not started):
        return None
    return max(min(began), min(started)) if started else min(began)


def _hit(gang: Gang, members: Members, waiting: list[Missing], since: datetime, board: Board) -> Hit:
    snapshot = board.snapshot
    subject = _subject(gang)
    who = printable(str(subject), 160)
    held = sum(pod.gpu_count for pod in members.running)
    pod = waiting[0].pod
    age = span(snapshot.age(since))
    has_cost = bool(members.running)
    running, expected = len(members.running), members.expected
    gpus = counted(held, "GPU")
    title = (
        f"{who} is placed pod by pod: {running} of {expected} members hold {gpus}, and the rest waits {age}"
        if has_cost
        else f"{who} is placed pod by pod: all {len(waiting)} members that wait may start one at a time"
    )
    summary = (
        f"Its members work only together, and its scheduler starts each as soon as one fits. {gpus} "
        f"{'does' if held == 1 else 'do'} nothing meanwhile; with gang scheduling they would be others' until all fit."
        if has_cost
        else "Its members work only together, and its scheduler starts each as soon as one fits. None runs yet; when "
        "GPUs come free one by one, the first members will hold theirs until the last has one."
    )
    schedulers = installed(snapshot)
    return Hit(
        subject=subject,
        cause="no-gang-scheduling" if has_cost else "may-start-in-part",
        title=title,
        summary=summary,
        evidence=(
            Evidence(
                "collective", gang.collective, source="kind, labels, command and environment of its pods"
            ),
            Evidence(
                "members", f"{running} run, {expected} expected", "pods", "phase of its pods, and its size"
            ),
            Evidence(
                "without a node", _named([m.pod for m in waiting]), source="status and events of these pods"
            ),
            Evidence.of_moment("waits since", since, "creation and start times of its pods"),
            *(_holding(members.running, held) if has_cost else ()),
            Evidence(
                "placed by", printable(pod.scheduler or "default-scheduler", 80), source="spec.schedulerName"
            ),
            Evidence(
                "could start it as a whole here",
                _ways(schedulers, snapshot),
                source="APIs that the cluster serves",
            ),
        ),
        fix=_fix(gang, members, waiting, board),
        confidence=Confidence.HIGH if gang.size is not None else Confidence.MEDIUM,
        severity=None if has_cost else Severity.INFO,
        gpus=held or sum(m.pod.gpu_count for m in waiting),
        nodes=tuple(dict.fromkeys(p.node for p in members.running if p.node)),
        pods=(*(p.key for p in members.running), *(m.pod.key for m in waiting)),
    )


def _ways(schedulers: tuple[str, ...], snapshot: Snapshot) -> str:
    has_sets = any(api.group == "jobset.x-k8s.io" for api in snapshot.apis)
    named = ["Kueue (also as a JobSet)" if has_sets and name == "Kueue" else name for name in schedulers]
    return listed(named) if named else "nothing that is installed"


def _holding(running: tuple[Pod, ...], held: int) -> tuple[Evidence, ...]:
    return (
        Evidence("running", _named(running), source="status.phase and spec.nodeName of its pods"),
        Evidence("GPUs held meanwhile", str(held), "GPUs", "resources of the running members"),
    )


def _named(pods: list[Pod] | tuple[Pod, ...]) -> str:
    return listed([printable(pod.name, 120) for pod in pods], MOST_PODS)


def _fix(gang: Gang, members: Members, waiting: list[Missing], board: Board) -> Fix:
    names = [pod.name for pod in (*members.running, *(m.pod for m in waiting))][:16]
    pod = waiting[0].pod
    back = resume_owner(pod, when_whole(pod, members, board)) if installed(board.snapshot) else ()
    return Fix(
        "Have all members started together, or none",
        in_order(
            steps.look(
                title="See which members run and which do not",
                why="The rest may have started since.",
                command=kubectl.kubectl("get", "pods", "-n", gang.namespace, "-o", "wide", "--", *names),
                expect="The members named in the evidence.",
            ),
            steps.describe_pod(pod),
            *((suspend(pod, members),) if back else ()),
            *variants(gang, pod, board.snapshot),
            *back,
            steps.verify_finding_gone("All members run, or none holds a GPU."),
        ),
    )
