"""Guided fix for a partial gang: why the rest does not run, then give the GPUs back, then start all or none."""

from diagnostics.fixes import Fix, Step, in_order, kubectl, steps
from diagnostics.fixes.stopping import resume_owner, stop_owner
from diagnostics.rules.scheduling.gang_variants import variants
from diagnostics.rules.scheduling.members import Members
from diagnostics.snapshot import Gang, Snapshot


def gang_fix(gang: Gang, members: Members, snapshot: Snapshot) -> Fix:
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
            stop_owner(first),
            *(variants(gang, first, snapshot) if not gang.gang_scheduler else ()),
            *resume_owner(first),
            steps.verify_finding_gone("All members run, or none holds a GPU."),
        ),
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
