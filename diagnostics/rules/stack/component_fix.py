"""Guided fix for an operator component that fails: what to read, the repair that its cause asks for, and a new try."""

from collections.abc import Sequence

from diagnostics.fixes import Fix, Risk, Step, StepKind, in_order, kubectl, steps
from diagnostics.operator_components import component_label
from diagnostics.rules.stack.failures import Failure
from diagnostics.rules.stack.repairs import repair
from diagnostics.rules.stack.said import NOT_USED
from diagnostics.snapshot import Pod
from diagnostics.text import printable

TOOLKIT = "nvidia-container-toolkit-daemonset"
_RESTARTS_RUNTIME = (
    " It restarts the container runtime: running containers go on, while pods of the node cannot be started or "
    "looked into for some seconds."
)


def component_fix(pod: Pod, failure: Failure, component: str, cause: str, on_node: Sequence[Pod]) -> Fix:
    """`on_node`: all pods of its node."""
    looks = [steps.describe_pod(pod)]
    if failure.how in {"crash-loop", "not-ready", "failed", "init-stuck", "nothing-offered"}:
        looks.append(
            steps.read_log(
                pod,
                failure.container.name,
                previous=failure.how == "crash-loop" and failure.container.restarts > 0,
                expect="The first error line names the reason: kernel, image, driver in use, or a hung GPU.",
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
    return Fix(
        f"Find out why the {component} does not start, repair that, and let the others follow",
        in_order(
            *looks,
            *(_injection(pod, on_node) if cause == NOT_USED else (repair(cause, failure.how),)),
            again,
            steps.verify_finding_gone(
                "All operator pods of the node are Ready and its GPUs are allocatable."
            ),
            steps.escalate(
                "the platform team or NVIDIA support",
                why="A driver that does not build or load needs another driver version or kernel.",
                expect="A driver and kernel pair from the operator's support matrix.",
            ),
        ),
    )


def _injection(pod: Pod, on_node: Sequence[Pod]) -> tuple[Step, ...]:
    """The driver is up and this container does not get its libraries: the way there is the container runtime."""
    name = pod.runtime_class or "nvidia"
    node = pod.node or ""
    toolkit = next((p for p in on_node if component_label(p) == TOOLKIT and not p.is_finished), None)
    looks = [
        steps.look(
            title=f"See whether RuntimeClass {printable(name, 60)} is there and which handler it names",
            why="A container gets the driver's libraries where the runtime class of its pod, or the node's default "
            "runtime, is NVIDIA's, or where the plugin asks for them by CDI.",
            command=kubectl.get_yaml("runtimeclass", name),
            expect="A handler that the container runtime of the node knows, `nvidia` as a rule.",
        )
    ]
    if toolkit is None:
        return (
            *looks,
            Step(
                kind=StepKind.FIX,
                title=f"Make NVIDIA's runtime known to the container runtime of node {node}",
                why="No container toolkit pod does it here, so it is the node's own set-up: `nvidia-ctk runtime "
                f"configure` on the node, then a restart of its container runtime.{_RESTARTS_RUNTIME}",
                risk=Risk.DISRUPTIVE,
                expect="The runtime's configuration names a handler `nvidia`.",
            ),
        )
    looks.append(
        steps.read_log(
            toolkit, expect="That it wrote the runtime's configuration and restarted it, or why it could not."
        )
    )
    repair = Step(
        kind=StepKind.FIX,
        title=f"Have the container toolkit set up the runtime of node {node} again",
        why=f"It writes the runtime's configuration when it starts.{_RESTARTS_RUNTIME}",
        risk=Risk.DISRUPTIVE,
        command=kubectl.delete_pod(toolkit.name, toolkit.namespace),
        expect="A new toolkit pod becomes Ready within two minutes, and its log says that it restarted the runtime.",
    )
    return *looks, repair
