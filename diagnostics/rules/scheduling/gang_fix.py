"""Guided fix for a partial gang: why the rest does not run, then give the GPUs back, then start all or none."""

from datetime import timedelta

from diagnostics.fixes import Fix, Step, in_order, kubectl, steps
from diagnostics.fixes.stopping import resume_owner, stop_owner
from diagnostics.rules.scheduling.board import Board
from diagnostics.rules.scheduling.gang_variants import variants
from diagnostics.rules.scheduling.members import Members
from diagnostics.snapshot import Gang, Pod
from diagnostics.text import counted

SOON = timedelta(minutes=1)
"""Pods of one start are made within this."""


def gang_fix(gang: Gang, members: Members, board: Board) -> Fix:
    failing = [m.pod for m in members.missing if m.kind == "members-failing"]
    pending = [m.pod for m in members.missing if m.kind == "members-pending"]
    first = members.running[0]
    return Fix(
        "Start the missing members, or give the GPUs back until all can start together",
        in_order(
            steps.look(
                title="See which members run and which do not",
                why="The rest may have started since.",
                command=kubectl.kubectl(
                    "get", "pods", "-n", gang.namespace, "-o", "wide", "--", *_names(members)
                ),
                expect="The members named in the evidence.",
            ),
            *(steps.describe_pod(pod) for pod in pending[:1]),
            *(
                steps.read_log(
                    pod, previous=any(c.restarts for c in pod.containers), expect="Why this member ends."
                )
                for pod in failing[:1]
            ),
            *(steps.read_log(pod, expect="Why this member ended.") for pod in members.ended[:1]),
            *((_see_creation(gang),) if members.absent else ()),
            steps.read_log(
                first,
                expect="A rendezvous that waits for the missing members. It blames the network; look at the members.",
            ),
            suspend(first, members),
            *(variants(gang, first, board.snapshot) if not gang.gang_scheduler else ()),
            *resume_owner(first, when_whole(first, members, board)),
            steps.verify_finding_gone("All members run, or none holds a GPU."),
        ),
    )


def suspend(pod: Pod, members: Members) -> Step:
    """Stops the gang's owner, and says so where nothing was computed that could be lost."""
    if not _never_ran_whole(members):
        return stop_owner(pod)
    held = counted(sum(pod.gpu_count for pod in members.running), "GPU")
    who = f"{len(members.running)} of {members.expected} members hold {held} for nothing"
    if not members.running:
        who = "none of its members runs"
    return stop_owner(
        pod, f"Its members have never run all at once, so that nothing computed is lost: {who}."
    )


def _never_ran_whole(members: Members) -> bool:
    """Each missing member has waited without a node since before the first that runs had started."""
    if members.absent or members.ended or any(m.pod.node is not None for m in members.missing):
        return False
    starts = [pod.started_at or pod.created_at for pod in members.running]
    made = [m.pod.created_at for m in members.missing]
    known = [moment for moment in starts if moment is not None]
    if None in made or len(known) < len(starts):
        return False
    return not known or all(moment is not None and moment <= min(known) + SOON for moment in made)


def when_whole(pod: Pod, members: Members, board: Board) -> str:
    """`when 64 GPUs are free at once where it may run (now 24)`; `pod`: a member, for the others."""
    pods = (*members.running, *(m.pod for m in members.missing))
    held = sum(one.gpu_count for one in members.running)
    needed = sum(one.gpu_count for one in pods) + members.absent * pod.gpu_count
    if not needed or not pod.gpus or not board.rooms:
        return "when all of its members fit at once where it may run"
    fits = sum(room.takes(pod.effective_requests) for room in board.reach(pod).admitting)
    own = f", besides the {held} of its own" if held else ""
    verb = "is" if needed == 1 else "are"
    return (
        f"when {counted(needed, 'GPU')} {verb} free at once where it may run "
        f"(now {fits * pod.gpu_count}{own})"
    )


def _names(members: Members) -> list[str]:
    return [pod.name for pod in (*members.running, *(m.pod for m in members.missing))][:16]


def _see_creation(gang: Gang) -> Step:
    return steps.look(
        title="See why its owner makes no more pods",
        why="A quota, a back-off limit, or a failed part of the job stands in the owner's conditions and events.",
        command=kubectl.describe(gang.kind.lower(), gang.name, gang.namespace),
        expect="FailedCreate events, or a condition such as Failed.",
    )
