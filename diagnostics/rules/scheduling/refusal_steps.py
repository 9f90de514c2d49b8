"""Guided fixes for pods that the API server refuses to make, each cause with its own."""

from collections.abc import Callable

from diagnostics.findings import Subject
from diagnostics.fixes import Fix, Step, in_order, kubectl, steps
from diagnostics.rules.scheduling.refusal_kinds import Told
from diagnostics.text import printable


def refusal_fix(subject: Subject, told: Told, namespace: str) -> Fix:
    """Read what refuses, then change the request or have the rule changed, then see pods appear."""
    summary, make = _CAUSES[told.cause]
    return Fix(
        summary,
        in_order(
            *make(subject, told, namespace),
            steps.verify_finding_gone("The controller makes its pods at its next try, within some minutes."),
        ),
    )


def _quota(subject: Subject, told: Told, namespace: str) -> tuple[Step, ...]:
    return (
        steps.look(
            title="See what the quota counts and who uses it",
            why="A quota counts every pod of the namespace that has not finished, Pending ones included. It may be "
            "about CPU, memory or the number of pods, not about GPUs.",
            command=kubectl.describe("resourcequota", told.name, namespace),
            expect="Used is at or near Hard for the resource that the evidence names.",
        ),
        steps.look(
            title="List the pods that use it up",
            why="Something that is no longer needed may hold the quota.",
            command=kubectl.kubectl("get", "pods", "-n", namespace, "-o", "wide"),
            expect="Running or Pending pods whose requests add up to Used.",
        ),
        steps.escalate(
            "whoever owns the namespace's quota",
            why="Raising a quota takes a share from others: that is a decision, not a repair.",
            expect=f"A quota that leaves room for {printable(subject.name, 120)}, or a smaller request.",
        ),
    )


def _unnamed(subject: Subject, told: Told, namespace: str) -> tuple[Step, ...]:
    return (
        steps.look(
            title="See which resources the quota counts",
            why="Under such a quota every container must say what it asks for, unless a LimitRange has a default.",
            command=kubectl.describe("resourcequota", told.name, namespace),
            expect="The resources that the refusal names.",
        ),
        _ask_owner(subject, "Every container of its template names these requests or limits."),
    )


def _scopes(subject: Subject, told: Told, namespace: str) -> tuple[Step, ...]:
    return (
        steps.look(
            title="See which quotas the namespace has",
            why="Some priorities may only be used where a quota with that scope allows it.",
            command=kubectl.kubectl("get", "resourcequota", "-n", namespace, "-o", "yaml"),
            expect="No quota whose scopeSelector names the priority class.",
        ),
        _ask_owner(subject, "Another priority class, or a quota that allows this one here."),
    )


def _limit(subject: Subject, told: Told, namespace: str) -> tuple[Step, ...]:
    return (
        steps.look(
            title="Read the limits of the namespace",
            why="A LimitRange bounds what one container or pod may ask for, and gives defaults where nothing is asked.",
            command=kubectl.kubectl("describe", "limitrange", "-n", namespace),
            expect="The bound that the refusal names.",
        ),
        _ask_owner(subject, "A request within the bounds, or a bound that fits GPU work."),
    )


def _priority(subject: Subject, told: Told, namespace: str) -> tuple[Step, ...]:
    return (
        steps.look(
            title="List the priority classes",
            why="A pod may only name one that exists; they belong to the whole cluster.",
            command=kubectl.kubectl("get", "priorityclass"),
            expect=f"None of the name {printable(told.name, 120)}.",
        ),
        _ask_owner(subject, "Its template names a class of the list, or the class is created."),
    )


def _runtime(subject: Subject, told: Told, namespace: str) -> tuple[Step, ...]:
    return (
        steps.look(
            title="List the runtime classes",
            why="The GPU Operator creates `nvidia` when its toolkit is set up. With CDI, the default since 25.10, GPU "
            "pods need no runtime class at all.",
            command=kubectl.kubectl("get", "runtimeclass"),
            expect=f"None of the name {printable(told.name, 120)}.",
        ),
        _ask_owner(
            subject, "Its template names a class of the list or none, or the operator creates the class."
        ),
    )


def _ask_owner(subject: Subject, expect: str) -> Step:
    return steps.escalate(
        f"the owner of {printable(str(subject), 160)}, or whoever runs the namespace",
        why="The rule was set on purpose, or the template was written for another cluster: one of them has to change.",
        expect=expect,
    )


_Maker = Callable[[Subject, Told, str], tuple[Step, ...]]
_CAUSES: dict[str, tuple[str, _Maker]] = {
    "namespace-resource-quota-exceeded": ("Free quota in the namespace, or have it raised", _quota),
    "request-missing-for-quota": ("Say how much each container asks for", _unnamed),
    "priority-class-not-allowed": ("Use a priority that is allowed here", _scopes),
    "limit-range-violated": ("Ask for what the limit range allows", _limit),
    "priority-class-missing": ("Name a priority class that exists", _priority),
    "runtime-class-missing": ("Name a runtime class that exists, or none", _runtime),
}
