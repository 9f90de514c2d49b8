"""The GPU Operator's own resources that are not ready although no component of theirs is seen to fail."""

from collections.abc import Iterator

from diagnostics.findings import Confidence, Evidence, Hit, Severity, Subject
from diagnostics.fixes import Fix, Risk, Step, StepKind, in_order, kubectl, steps
from diagnostics.limits import Limits
from diagnostics.quantities import span
from diagnostics.snapshot import Condition, OperatorResource, Snapshot
from diagnostics.text import printable

_RESOURCE = {"ClusterPolicy": "clusterpolicies.nvidia.com", "NVIDIADriver": "nvidiadrivers.nvidia.com"}
_OWN_FAULT = {
    "ReconcileFailed": (
        "operator-reconcile-failed",
        "The operator cannot carry out what it was asked for; its message says why.",
    ),
    "ConflictingNodeSelector": (
        "conflicting-node-selector",
        "Two NVIDIADriver resources claim the same nodes, so that the operator installs neither there.",
    ),
    "PrerequisiteNotMet": (
        "operator-prerequisite-missing",
        "Something that the operator needs in the cluster is not there; its message says what.",
    ),
}
"""Reason of a condition -> cause and words: faults of the resource, whatever its pods do."""


def not_ready(snapshot: Snapshot, limits: Limits, *, has_failing: bool) -> Iterator[Hit]:
    """One hit per resource that is not ready for too long. `has_failing`: a component was seen to fail, which explains
    why the operands of it are not ready."""
    # Its components are not ready on a node that is gone: that is no fault of theirs.
    is_node_away = any(node.is_ready is not True for node in snapshot.nodes)
    for resource in snapshot.operator_resources:
        subject = Subject(resource.kind, resource.name, uid=resource.uid, api_version=resource.api_version)
        if resource.state == "ignored":
            yield _hit(snapshot, resource, subject, None, "second-cluster-policy", _SECOND)
            continue
        condition = _telling(resource)
        if condition is None and resource.state != "notReady":
            continue
        age = snapshot.age((condition.since if condition else None) or resource.created_at)
        if age is None or age < limits.of(subject).values.operator_failing_after:
            continue
        own = _OWN_FAULT.get(condition.reason) if condition else None
        if own is not None:
            yield _hit(snapshot, resource, subject, condition, *own)
        elif not has_failing and not is_node_away:
            yield _hit(snapshot, resource, subject, condition, "operand-not-ready", _OPERAND)


_SECOND = "Only one ClusterPolicy counts; the operator ignores every other."
_OPERAND = (
    "The operator waits for components of which no pod is seen to fail: their pods may not have been made, or not be "
    "visible here."
)


def state_words(snapshot: Snapshot) -> tuple[str, str] | None:
    """(name, state and message) of the first resource that is not ready; None where all are, or none was read."""
    for resource in snapshot.operator_resources:
        condition = _telling(resource)
        if resource.state == "notReady" or condition is not None:
            said = f": {printable(condition.message, 200)}" if condition and condition.message else ""
            return f"{resource.kind} {resource.name}", f"{resource.state or 'not ready'}{said}"
    return None


def _telling(resource: OperatorResource) -> Condition | None:
    """The condition that says what is wrong: an error first, then Ready that is False."""
    error, ready = resource.condition("Error"), resource.condition("Ready")
    if error is not None and error.status == "True":
        return error
    return ready if ready is not None and ready.status == "False" else None


def _hit(
    snapshot: Snapshot,
    resource: OperatorResource,
    subject: Subject,
    condition: Condition | None,
    cause: str,
    words: str,
) -> Hit:
    evidence = [Evidence("State", resource.state or "none", source="status.state")]
    if condition is not None:
        evidence += [
            Evidence("Reason", printable(condition.reason, 80), source=f"{condition.type} condition"),
            Evidence(
                "It said",
                printable(condition.message, 400) or "nothing",
                source=f"{condition.type} condition",
            ),
            Evidence("For", span(snapshot.age(condition.since)), source="lastTransitionTime"),
        ]
    evidence += [
        Evidence(path, printable(value, 80), source="spec")
        for path, value in sorted(resource.settings.items())
        if path.startswith(("driver.", "version", "usePrecompiled"))
    ]
    ignored = cause == "second-cluster-policy"
    name = printable(resource.name, 80)
    return Hit(
        subject=subject,
        cause=cause,
        title=f"{resource.kind} {name} is {'ignored' if ignored else 'not ready'}",
        summary=f"The GPU Operator does not do what {resource.kind} {name} asks for. {words}",
        evidence=tuple(evidence),
        severity=Severity.INFO if ignored else Severity.WARNING,
        confidence=Confidence.MEDIUM if cause == "operand-not-ready" else Confidence.HIGH,
        fix=_fix(resource, ignored=ignored),
    )


def _fix(resource: OperatorResource, *, ignored: bool) -> Fix:
    plural = _RESOURCE.get(resource.kind, resource.kind)
    name = printable(resource.name, 80)
    title = f"Take back {resource.kind} {name}" if ignored else f"Correct {resource.kind} {name}"
    return Fix(
        f"Read what the operator says of {resource.kind} {name}, and correct that",
        in_order(
            steps.look(
                title=f"Read the conditions of {resource.kind} {name}",
                why="The operator writes there which of its states is not ready, and why it gave up.",
                command=kubectl.describe(plural, resource.name),
                expect="The reason that the evidence names, with the states that are not ready.",
            ),
            steps.look(
                title="See the operator's DaemonSets",
                why="DESIRED 0 means that no node has the label that the component selects, or that its taints are not "
                "tolerated.",
                command=kubectl.kubectl("get", "daemonsets", "-n", steps.OPERATOR_NAMESPACE, "-o", "wide"),
                expect="DESIRED and READY are equal for each component but one.",
            ),
            Step(
                kind=StepKind.FIX,
                title=title,
                why="A change concerns the component on every node that the resource selects: its pods restart there.",
                risk=Risk.DISRUPTIVE,
                expect="The state becomes `ready` within minutes.",
            ),
            steps.verify_finding_gone("The state is `ready`."),
            steps.escalate(
                "the platform team or NVIDIA support",
                why="An operator that cannot reconcile has its reason in its own log.",
                expect="They ask for the log of the gpu-operator Deployment.",
            ),
        ),
    )
