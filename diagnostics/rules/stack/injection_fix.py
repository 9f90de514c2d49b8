"""Steps for a container without the driver's libraries: protect the node, read the toolkit, set it up anew."""

from collections.abc import Sequence

from msgspec.structs import replace

from diagnostics.fixes import Risk, Step, StepKind, kubectl, steps
from diagnostics.operator_components import component_label
from diagnostics.rules.stack.repairs import RESTARTS_RUNTIME, held_there
from diagnostics.rules.stack.said import NOT_INJECTED
from diagnostics.snapshot import Pod

TOOLKIT = "nvidia-container-toolkit-daemonset"
CONFIG = "/usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml"
"""Where the toolkit of the GPU Operator writes what its runtime reads, in its own container and on the node
(NVIDIA/nvidia-container-toolkit, cmd/nvidia-ctk-installer)."""


def injection_steps(pod: Pod, on_node: Sequence[Pod], cause: str, *, is_offering: bool) -> tuple[Step, ...]:
    """The way of the driver's libraries into this container is the container runtime.

    `is_offering`: new GPU pods still come to the node, where they may be handed no driver.
    """
    node = pod.node or ""
    toolkit = next((p for p in on_node if component_label(p) == TOOLKIT and not p.is_finished), None)
    found = [] if cause == NOT_INJECTED else [_see_class()]
    if toolkit is not None:
        found += _look_at(toolkit)
    if node:
        held = f"Those that a restart of the container runtime puts at risk.{held_there(on_node)}"
        found.append(replace(steps.see_pods_on_node(node), expect=held))
    if node and is_offering:
        why = "No new pod lands on it, and so none is started without a driver; running pods stay."
        found += [
            replace(steps.cordon(node), why=why),
            replace(steps.uncordon(node), kind=StepKind.RESTORE),
        ]
    if toolkit is None:
        repair = Step(
            kind=StepKind.FIX,
            title=f"Make NVIDIA's runtime known to the container runtime of node {node}",
            why="No container toolkit pod does it here, so it is the node's own set-up: `nvidia-ctk runtime "
            f"configure` on the node, then a restart of its container runtime.{RESTARTS_RUNTIME}{held_there(on_node)}",
            risk=Risk.DISRUPTIVE,
            expect="The runtime's configuration names a handler `nvidia`, and a new container has the driver.",
        )
    else:
        repair = Step(
            kind=StepKind.FIX,
            title=f"Have the container toolkit set up the runtime of node {node} again",
            why=f"It writes the runtime's configuration when it starts.{RESTARTS_RUNTIME}{held_there(on_node)}",
            risk=Risk.DISRUPTIVE,
            command=kubectl.delete_pod(toolkit.name, toolkit.namespace),
            expect="A new toolkit pod becomes Ready within two minutes, and its log says that it restarted the "
            "runtime.",
        )
    return *found, repair


def _see_class() -> Step:
    return steps.look(
        title="See whether RuntimeClass nvidia is there and which handler it names",
        why="A container gets the driver's libraries where the runtime class of its pod, or the node's default "
        "runtime, is NVIDIA's, or where the plugin asks for them by CDI.",
        command=kubectl.get_yaml("runtimeclass", "nvidia"),
        expect="A handler that the container runtime of the node knows, `nvidia` as a rule.",
    )


def _look_at(toolkit: Pod) -> list[Step]:
    return [
        steps.read_log(
            toolkit, expect="That it wrote the runtime's configuration and restarted it, or why it could not."
        ),
        steps.look(
            title="Read what the toolkit has set NVIDIA's runtime to",
            why="The runtime takes the driver's libraries from the `root` that stands there, and hands them over in "
            "the `mode` that stands there.",
            command=kubectl.run_in(toolkit.name, toolkit.namespace, "", "cat", CONFIG),
            expect="`root` under [nvidia-container-cli] is where the driver is: /run/nvidia/driver with the "
            "operator's driver pod, / with a driver of the node's own. Another one explains what is missing.",
        ),
    ]
