"""Operator pods that cannot even be made: the API server refuses them to their DaemonSet, so that no pod fails."""

import re
from collections.abc import Iterator
from datetime import timedelta

from diagnostics.findings import Evidence, Hit, Severity, Subject
from diagnostics.fixes import Fix, Risk, Step, StepKind, in_order, kubectl, steps
from diagnostics.operator_components import COMPONENTS
from diagnostics.rules.stack.component_cause import has_hardware
from diagnostics.snapshot import Event, Snapshot, Workload
from diagnostics.text import printable

RECENT = timedelta(hours=1)
"""A refusal longer ago may have been put right; the controller tries again within minutes (ours)."""
_CAUSES = tuple(
    (re.compile(pattern), cause, words, repair)
    for pattern, cause, words, repair in (
        (
            r"violates PodSecurity|PodSecurityPolicy|unable to validate against any (?:pod )?security",
            "pod-security-refuses-operator",
            "The namespace's Pod Security level forbids privileged pods, which the operator's components are.",
            "Label the operator's namespace pod-security.kubernetes.io/enforce=privileged",
        ),
        (
            r"RuntimeClass \S{1,80} not found",
            "runtime-class-missing",
            "The pods name a RuntimeClass that does not exist.",
            "Create the RuntimeClass that the pods name, or let the operator make it",
        ),
        (
            r"quota",
            "quota-refuses-operator",
            "A quota of the namespace, often one on critical priority classes, leaves no room for the pods.",
            "Give the operator's namespace a ResourceQuota for its priority class",
        ),
        (
            r"no PriorityClass|failed calling webhook|denied the request|forbidden",
            "admission-refuses-operator",
            "An admission check of the cluster refuses the pods.",
            "Let the check that the message names admit the operator's pods",
        ),
    )
)


def refused_components(snapshot: Snapshot) -> Iterator[Hit]:
    """One hit per DaemonSet of the operator that has too few pods, and was told lately why it may not make them."""
    for workload in snapshot.workloads:
        component = _component(workload)
        if component is None or not workload.replicas or (workload.ready or 0) >= workload.replicas:
            continue
        key = ("DaemonSet", workload.namespace, workload.name)
        refusals = [e for e in snapshot.events_by_object.get(key, []) if e.reason == "FailedCreate"]
        age = snapshot.age(refusals[-1].last_at) if refusals else None
        if age is None or age > RECENT:
            continue
        yield from _hit(snapshot, workload, component, refusals[-1])


def _component(workload: Workload) -> str | None:
    if workload.kind != "DaemonSet":
        return None
    return COMPONENTS.get(workload.labels.get("app", "")) or COMPONENTS.get(workload.name)


def _hit(snapshot: Snapshot, workload: Workload, component: str, event: Event) -> Iterator[Hit]:
    found = next((row for row in _CAUSES if row[0].search(event.message)), None)
    if found is None:
        return
    _, cause, words, repair = found
    own = {p.node for p in snapshot.pods if any(o.uid == workload.uid and o.uid for o in p.owners)}
    lacking = tuple(n.name for n in snapshot.nodes if n.name not in own and has_hardware(n))
    name = printable(workload.name, 80)
    yield Hit(
        subject=Subject.of_owner(workload.key),
        cause=cause,
        title=f"{component[0].upper()}{component[1:]}: pods of DaemonSet {name} may not be made",
        summary=f"{workload.ready or 0} of {workload.replicas} {component} pods are ready, and the API server "
        f"refuses to make the others. {words}",
        evidence=(
            Evidence("Pods wanted", str(workload.replicas), "pods", "status.desiredNumberScheduled"),
            Evidence("Pods ready", str(workload.ready or 0), "pods", "status.numberReady"),
            Evidence("The API server said", printable(event.message, 400), source="event FailedCreate"),
        ),
        severity=None if component in {"driver", "container toolkit", "device plugin"} else Severity.WARNING,
        nodes=lacking,
        fix=_fix(workload, repair),
    )


def _fix(workload: Workload, repair: str) -> Fix:
    return Fix(
        f"Let the pods of DaemonSet {printable(workload.name, 80)} be made",
        in_order(
            steps.look(
                title=f"Read the events of DaemonSet {printable(workload.name, 80)}",
                why="The controller writes there what the API server answered it.",
                command=kubectl.describe("daemonset", workload.name, workload.namespace),
                expect="The FailedCreate event of the evidence.",
            ),
            Step(
                kind=StepKind.FIX,
                title=repair,
                why="It concerns the operator's namespace, and starts the component on every node that waits for it.",
                risk=Risk.DISRUPTIVE,
                expect="The controller makes the pods at its next attempt, some minutes later at most.",
            ),
            steps.verify_finding_gone("All pods of the DaemonSet are ready."),
            steps.escalate(
                "whoever sets the cluster's admission rules",
                why="Quotas, security levels and webhooks are theirs.",
                expect="An exception for the operator's namespace.",
            ),
        ),
    )
