"""Members of a gang: which run, which do not and why, and how many there should be."""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from diagnostics.rules.scheduling.board import Board
from diagnostics.rules.scheduling.holders import trouble_of
from diagnostics.rules.scheduling.reasons import reading_of
from diagnostics.snapshot import Gang, Pod, Snapshot
from diagnostics.states import effective_activity, usable_window
from diagnostics.text import printable


class Missing(msgspec.Struct, frozen=True):
    """A member that does not run."""

    pod: Pod
    kind: str
    """`members-pending` without a node, `members-failing` on one."""
    why: str
    since: datetime | None
    """From when its objects prove that it does not run."""
    is_shortage: bool = False
    """It waits for GPUs."""


class Members(msgspec.Struct, frozen=True):
    """All members of one gang, told apart."""

    running: tuple[Pod, ...]
    missing: tuple[Missing, ...]
    absent: int
    """Members that should be there and have no pod."""
    ended: tuple[Pod, ...]
    """Failed pods in place of which nothing runs, the latest first; at most `absent`."""
    expected: int
    """Running and missing and absent ones together; members that have succeeded are not expected again."""


def members_of(gang: Gang, board: Board) -> Members:
    """The gang's members as they are now."""
    snapshot = board.snapshot
    pods = [snapshot.pod_by_key[key] for key in gang.members if key in snapshot.pod_by_key]
    running = tuple(pod for pod in pods if runs(pod, board))
    missing = tuple(_missing(pod, board) for pod in pods if not runs(pod, board))
    finished = finished_of(gang, pods, snapshot)
    absent = max(0, (_wanted(gang, finished, snapshot) or 0) - len(pods))
    failed = sorted((p for p in finished if p.phase == "Failed"), key=_ended_at, reverse=True)
    return Members(running, missing, absent, tuple(failed[:absent]), len(pods) + absent)


def runs(pod: Pod, board: Board) -> bool:
    """Started on its node, not on its way out, and not known to be unable to work."""
    if pod.phase != "Running" or pod.deletion_at is not None:
        return False
    if any(c.waiting_reason == "CrashLoopBackOff" for c in pod.containers):
        return False
    return trouble_of(pod, board.snapshot, board.limits.of(pod).values) is None


def is_at_work(members: Members, board: Board) -> bool:
    """The held GPUs are measured, and they are at work: then nothing waits for the missing members."""
    snapshot = board.snapshot
    gpus = [(pod, gpu) for pod in members.running for gpu in snapshot.gpus_by_pod.get(pod.key, [])]
    if not gpus:
        return False
    for pod, gpu in gpus:
        thresholds = board.limits.of(pod).values
        window = usable_window(gpu, snapshot, thresholds)
        activity = effective_activity(window) if window is not None else None
        if activity is None or activity < thresholds.effective_activity_min_ratio:
            return False
    return True


def _missing(pod: Pod, board: Board) -> Missing:
    if pod.node is None:
        reading = reading_of(pod, board)
        return Missing(
            pod, "members-pending", f"no node: {reading.words}", pod.created_at, reading.is_shortage is True
        )
    trouble = trouble_of(pod, board.snapshot, board.limits.of(pod).values)
    if trouble is not None:
        return Missing(pod, "members-failing", trouble.words, trouble.since or _not_ready_since(pod))
    if pod.deletion_at is not None:
        return Missing(pod, "members-failing", "it is being deleted", pod.deletion_at)
    waiting = next((c for c in pod.containers if c.waiting_reason), None)
    reason = (
        printable(waiting.waiting_reason, 60) if waiting else f"phase {printable(pod.phase, 20) or 'unknown'}"
    )
    last = waiting.last_terminated.finished_at if waiting and waiting.last_terminated else None
    return Missing(pod, "members-failing", reason, last or pod.started_at or pod.created_at)


def _not_ready_since(pod: Pod) -> datetime | None:
    ready = pod.condition("Ready")
    since = ready.since if ready is not None and ready.status != "True" else None
    return since or pod.created_at


def finished_of(gang: Gang, pods: Iterable[Pod], snapshot: Snapshot) -> list[Pod]:
    """Finished GPU pods under the gang's owners (a gang keeps only those that have not finished)."""
    roots = {pod.root for pod in pods if pod.root is not None and pod.root.kind != "Pod"}
    found = [p for root in roots for p in snapshot.pods_by_root.get(root, []) if p.is_finished and p.gpus]
    # The groups of a LeaderWorkerSet share an owner, and their pods never finish by themselves.
    return [] if gang.kind == "LeaderWorkerSet" else found


def _wanted(gang: Gang, finished: list[Pod], snapshot: Snapshot) -> int | None:
    """GPU pods that should be there now; None where nothing says."""
    if gang.size is None:
        return None
    done = sum(pod.phase == "Succeeded" for pod in finished)
    workload = snapshot.workload_by_key.get((gang.kind, gang.namespace, gang.name))
    if workload is not None and workload.is_suspended:
        return None
    if workload is not None and workload.kind == "Job" and done:
        # Without completions, a Job starts no new pod once one has succeeded.
        return min(gang.size, workload.completions - done) if workload.completions is not None else None
    return gang.size - done


def _ended_at(pod: Pod) -> tuple[float, str]:
    end = ended_at(pod)
    return (end.timestamp() if end else 0.0, pod.key)


def ended_at(pod: Pod) -> datetime | None:
    """When the last container of a finished pod ended; None where nothing says."""
    ends = [c.terminated.finished_at for c in pod.containers if c.terminated and c.terminated.finished_at]
    return max(ends, default=None)
