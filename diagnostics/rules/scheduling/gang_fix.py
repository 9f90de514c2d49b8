"""Guided fix for a partial gang: why the rest does not run, then give the GPUs back, then start all or none."""

from typing import Any

from diagnostics.fixes import Fix, Risk, Step, StepKind, in_order, kubectl, manifests, steps
from diagnostics.rules.scheduling.members import Members
from diagnostics.rules.scheduling.owner_patch import patch_of_owner, stop_owner
from diagnostics.snapshot import Gang, Pod, Snapshot


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
            *(_all_or_none(gang, first, snapshot) if not gang.gang_scheduler else ()),
            stop_owner(first),
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


def _all_or_none(gang: Gang, pod: Pod, snapshot: Snapshot) -> tuple[Step, ...]:
    """A queue or gang scheduler that this cluster serves; else the advice to get one."""
    groups = {api.group: api.api_version for api in snapshot.apis}
    why = (
        "The default scheduler places pods one by one, so that a part of a job can hold GPUs while the rest waits. "
        "Starting all or none says nothing about where the pods land: topology is a setting of its own."
    )
    title = "At its next start, have all members started or none"
    expect = "Either all members run, or none holds a GPU."
    if "kueue.x-k8s.io" in groups:
        labels = {"kueue.x-k8s.io/queue-name": "<local queue>"}
        head: dict[str, Any] = {"apiVersion": gang.api_version} if gang.api_version else {}
        head |= {
            "kind": gang.kind,
            "metadata": {"name": gang.name, "namespace": gang.namespace, "labels": labels},
        }
        return (_step(title, why + " Kueue admits a whole job at once.", manifests.to_yaml(head), expect),)
    if "scheduling.volcano.sh" in groups:
        return (_step(title, why, patch_of_owner(pod, {"schedulerName": "volcano"}), expect),)
    return (
        steps.escalate(
            "whoever runs the cluster's schedulers",
            why=why + " This cluster serves neither Kueue nor Volcano.",
            expect="A queue or a gang scheduler for jobs of several pods.",
        ),
    )


def _step(title: str, why: str, manifest: str, expect: str) -> Step:
    return Step(kind=StepKind.FIX, title=title, why=why, risk=Risk.SAFE, manifest=manifest, expect=expect)
