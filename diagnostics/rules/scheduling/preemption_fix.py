"""Guided fix for a preemption loop: see who pushes whom, then let one side wait instead of pushing."""

from diagnostics.findings import Subject
from diagnostics.fixes import Fix, Risk, Step, StepKind, in_order, kubectl, manifests, steps
from diagnostics.rules.scheduling.owner_patch import change, delete_waiting
from diagnostics.snapshot import Pod, Snapshot
from diagnostics.text import printable


def preemption_fix(victim: Subject, pusher: Pod | None, snapshot: Snapshot) -> Fix:
    """`pusher`: a pod for which room was made; None where all of them are gone."""
    return Fix(
        "Let one side wait instead of pushing the other out",
        in_order(
            steps.look(
                title="See who was preempted, when and for whom",
                why="Each event names the pod that room was made for, by UID since Kubernetes 1.27.",
                command=kubectl.kubectl(
                    "get", "events", "-n", victim.namespace, "--field-selector", "reason=Preempted"
                ),
                expect="The same workload again and again.",
            ),
            steps.look(
                title="Compare the priorities",
                why="A pod pushes out pods of lower priority, unless its class has preemptionPolicy Never.",
                command=kubectl.kubectl("get", "priorityclass"),
                expect="The values that the evidence names.",
            ),
            *(_never(pusher, snapshot) if pusher is not None else ()),
            steps.verify_finding_gone("No new Preempted event for half an hour."),
            steps.escalate(
                "the owners of both workloads",
                why="Who may push whom out is theirs to settle. Work that can wait belongs into a queue with a quota, "
                "which starts it when there is room for all of it, and not under a high priority.",
                expect="One priority for both, a class that does not preempt, or a queue.",
            ),
        ),
    )


def _never(pusher: Pod, snapshot: Snapshot) -> tuple[Step, ...]:
    """A class of the same value that waits its turn at the head of the queue, and the template that names it."""
    kept = next((c for c in snapshot.policy.priority_classes or () if c.value == pusher.priority), None)
    name = f"{kept.name}-waiting" if kept is not None else "high-waiting"
    document = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": pusher.priority or 0,
        "preemptionPolicy": "Never",
        "description": "Goes first when there is room, and pushes nobody out.",
    }
    changed = change(
        pusher,
        "Let the pods that push others out use it",
        "Their priority stays, and they wait for room instead of making it.",
        {"priorityClassName": name},
        "No new Preempted event that names one of them.",
    )
    return (
        Step(
            kind=StepKind.FIX,
            title=f"Make a priority class that pushes nobody out: {printable(name, 80)}",
            why="Its pods still go first when room comes free. The class alone changes nothing until a pod names it.",
            risk=Risk.SAFE,
            manifest=manifests.to_yaml(document),
            expect="`kubectl get priorityclass` shows it.",
        ),
        changed,
        *(delete_waiting(pusher, (changed,)) if pusher.node is None else ()),
    )
