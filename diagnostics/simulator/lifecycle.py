"""States of a pod as functions of time: running, waiting, crash-looping, being deleted, ended."""

from dataclasses import replace
from datetime import datetime, timedelta

from diagnostics.simulator.timestamps import seconds
from diagnostics.simulator.workloads import Exit, PodState

FIRST_BACKOFF_S = 10
LONGEST_BACKOFF_S = 300


def running(started: datetime) -> PodState:
    return PodState(started=started, changed=started + seconds(2))


def unschedulable() -> PodState:
    """Waits for a node; why is worked out from the cluster."""
    return PodState(phase="Pending", is_ready=False, unscheduled="Unschedulable")


def gated() -> PodState:
    return PodState(
        phase="Pending",
        is_ready=False,
        unscheduled="SchedulingGated",
        unscheduled_message="Scheduling is blocked due to non-empty scheduling gates",
    )


def crash_cycle(since_first_start: timedelta, run_for_s: float) -> tuple[int, timedelta, bool]:
    """Of a container that ends `run_for_s` after each start: restarts so far, the age of the last start, and
    whether it runs. The kubelet waits 10 s after the first end, twice as long after each next one, and 5
    minutes at the most (Kubernetes documentation, "Pod Lifecycle", restart policy)."""
    age = since_first_start.total_seconds()
    restarts, start, wait = 0, 0.0, FIRST_BACKOFF_S
    while wait < LONGEST_BACKOFF_S and start + run_for_s + wait <= age:
        start += run_for_s + wait
        wait = min(wait * 2, LONGEST_BACKOFF_S)
        restarts += 1
    if wait >= LONGEST_BACKOFF_S:
        more = max(0, int((age - start) // (run_for_s + LONGEST_BACKOFF_S)))
        restarts, start = restarts + more, start + more * (run_for_s + LONGEST_BACKOFF_S)
    return restarts, seconds(age - start), age - start < run_for_s


def crash_looping(
    now: datetime,
    first_start: datetime,
    *,
    run_for_s: float = 20,
    code: int = 1,
    reason: str = "Error",
    message: str = "",
    log: tuple[str, ...] = (),
) -> PodState:
    """Starts, ends after `run_for_s`, is started again after a longer and longer pause. Without a readiness
    probe it is ready while it runs, so that its Ready condition changes at each start and each end."""
    restarts, age, runs = crash_cycle(max(now - first_start, timedelta(0)), run_for_s)
    start = now - age
    before = _exit_before(start, restarts)
    if runs:
        last = Exit(code, reason, before - seconds(run_for_s), before, message) if restarts else None
        return PodState(
            started=start, restarts=restarts, last_exit=last, changed=start, log=log, is_looping=True
        )
    end = start + seconds(run_for_s)
    return PodState(
        is_ready=False,
        restarts=restarts,
        waiting="CrashLoopBackOff",
        last_exit=Exit(code, reason, start, end, message),
        changed=end,
        log=log,
        is_looping=True,
    )


def _exit_before(start: datetime, restarts: int) -> datetime:
    wait = min(FIRST_BACKOFF_S * 2 ** max(0, min(restarts, 10) - 1), LONGEST_BACKOFF_S)
    return start - seconds(wait if restarts else 0)


def image_pull_failing(image: str, since: datetime) -> PodState:
    """Bound to a node, and its image cannot be had."""
    error = (
        f"rpc error: code = NotFound desc = failed to pull and unpack image {image!r}: failed to resolve "
        f"reference {image!r}: {image}: not found"
    ).replace("'", '"')
    return PodState(
        phase="Pending",
        is_ready=False,
        waiting="ImagePullBackOff",
        waiting_message=f'Back-off pulling image "{image}": ErrImagePull: {error}',
        changed=since,
    )


def init_waiting(at: int, since: datetime) -> PodState:
    """An init container waits for something that does not come."""
    return PodState(phase="Pending", is_ready=False, init_at=at, started=since, changed=since)


def init_crash_looping(now: datetime, first_start: datetime, at: int, message: str = "") -> PodState:
    """The pod is never ready meanwhile, unlike one whose app container starts again and again."""
    state = crash_looping(now, first_start, run_for_s=2, message=message)
    waiting = "CrashLoopBackOff" if state.waiting else ""
    return replace(
        state,
        phase="Pending",
        is_ready=False,
        init_at=at,
        init_waiting=waiting,
        waiting="",
        changed=first_start,
    )


def terminating(state: PodState, asked: datetime, grace_seconds: int) -> PodState:
    """Deletion was asked for; the object stays until the kubelet says that the containers are gone."""
    return replace(state, deleted=asked, grace_seconds=grace_seconds)


def succeeded(started: datetime, finished: datetime) -> PodState:
    done = Exit(0, "Completed", started, finished)
    return PodState(phase="Succeeded", is_ready=False, started=started, exit=done, changed=finished)


def failed(
    started: datetime, finished: datetime, code: int, reason: str = "Error", log: tuple[str, ...] = ()
) -> PodState:
    end = Exit(code, reason, started, finished)
    return PodState(phase="Failed", is_ready=False, started=started, exit=end, changed=finished, log=log)


def restarted(
    started: datetime, code: int, reason: str, restarts: int = 1, run_for_s: float = 3600
) -> PodState:
    """Runs again after an end that is still in `lastState`."""
    ended = started - seconds(3)
    last = Exit(code, reason, ended - seconds(run_for_s), ended)
    return replace(running(started), restarts=restarts, last_exit=last)


def period(
    now: datetime, epoch: datetime, length: timedelta, age_at_epoch: timedelta
) -> tuple[datetime, int]:
    """Of something that comes again every `length`: when its current turn began, and the turn's number. Keeps
    a young thing young for as long as the cluster lives: at the epoch the turn is `age_at_epoch` old."""
    zero = epoch - age_at_epoch
    turn = (now - zero) // length
    return zero + turn * length, turn
