"""Guided fix for an operator component that fails: what to read, the repair that its cause asks for, and a new try."""

from collections.abc import Sequence

import msgspec

from diagnostics.fixes import Fix, Risk, Step, StepKind, in_order, kubectl, steps
from diagnostics.operator_components import COMPONENTS, component_label
from diagnostics.rules.stack.component_cause import DRIVERS, Cause
from diagnostics.rules.stack.component_effect import is_offering
from diagnostics.rules.stack.failures import Failure
from diagnostics.rules.stack.injection_fix import injection_steps
from diagnostics.rules.stack.repairs import RESTARTS_RUNTIME, held_there, repair
from diagnostics.rules.stack.said import NO_LIBRARY
from diagnostics.snapshot import Pod, Snapshot

_FIRST_LINE = "The first error line names the reason"


def component_fix(snapshot: Snapshot, failing: list[tuple[Pod, Failure]], cause: Cause) -> Fix:
    """`failing`: of one place, the leading one first."""
    pod, failure = failing[0]
    component = COMPONENTS[component_label(pod) or "gpu-operator"]
    looks = [steps.describe_pod(pod)]
    if failure.how in {"crash-loop", "not-ready", "failed", "init-stuck", "nothing-offered"}:
        looks.append(
            steps.read_log(
                pod,
                failure.container.name,
                previous=failure.how == "crash-loop" and failure.container.restarts > 0,
                expect=_in_log(component, cause.slug),
            )
        )
    if pod.node:
        looks.append(steps.see_operator_pods_on_node(pod.node, pod.namespace))
    again = Step(
        kind=StepKind.RESTORE,
        title=f"Have the kubelet try at once: restart this one {component} pod",
        why="Only after the cause is repaired: the back-off is up to five minutes. It touches this node alone.",
        risk=Risk.DISRUPTIVE,
        command=kubectl.delete_pod(pod.name, pod.namespace),
        expect="The new pod becomes Ready; the components that waited follow within minutes.",
    )
    on_node = snapshot.pods_by_node.get(pod.node or "", [])
    if cause.slug in NO_LIBRARY:
        repairs = injection_steps(pod, on_node, cause.slug, is_offering=is_offering(snapshot, pod.node))
    else:
        repairs = (_repair(cause.slug, failure.how, on_node),)
    return Fix(
        "Find out why the runtime hands over no driver, and have the container toolkit set it up again"
        if cause.slug in NO_LIBRARY
        else f"Find out why the {component} does not start, repair that, and let the others follow",
        in_order(
            *looks,
            *(step for step in repairs if step.kind is not StepKind.RESTORE),
            again,
            *(step for step in repairs if step.kind is StepKind.RESTORE),
            steps.verify_finding_gone(
                "All operator pods of the node are Ready and its GPUs are allocatable."
            ),
            _escalate(component, cause.slug),
        ),
    )


def _in_log(component: str, cause: str) -> str:
    if cause in NO_LIBRARY:
        return f"{_FIRST_LINE}: NVML's library (`libnvidia-ml.so.1`) is not found."
    if component in DRIVERS:
        return f"{_FIRST_LINE}: kernel, image, driver in use, or a hung GPU."
    return f"{_FIRST_LINE}."


def _repair(cause: str, how: str, on_node: Sequence[Pod]) -> Step:
    step = repair(cause, how)
    return (
        msgspec.structs.replace(step, why=step.why + held_there(on_node))
        if RESTARTS_RUNTIME in step.why
        else step
    )


def _escalate(component: str, cause: str) -> Step:
    to = "the platform team or NVIDIA support"
    if component in DRIVERS:
        return steps.escalate(
            to,
            why="A driver that does not build or load needs another driver version or kernel.",
            expect="A driver and kernel pair from the operator's support matrix.",
        )
    if cause in NO_LIBRARY:
        return steps.escalate(
            to,
            why="A toolkit that still hands over no driver after it set the runtime up again is set up wrongly, or not "
            "the one that the runtime calls.",
            expect="They compare the toolkit's configuration with where the driver of the node is installed.",
        )
    return steps.escalate(
        to,
        why=f"A {component} that fails again after the repair needs those who set the operator up.",
        expect="They ask for the log, the image and the settings of the component.",
    )
