"""Guided fix for a MIG layout that is not applied: read why, free the GPUs or choose another layout, try again."""

from collections.abc import Collection

import msgspec

from diagnostics.fixes import Fix, Risk, Step, StepKind, in_order, kubectl, steps
from diagnostics.rules.stack.repairs import repair
from diagnostics.snapshot import Node, Pod
from diagnostics.text import listed, printable

_CONFIG = "nvidia.com/mig.config"
_LAYOUT = {"mig-config-unknown", "mig-profile-not-supported"}


def mig_fix(
    node: Node, managers: list[Pod], holders: list[Pod], cause: str, known: Collection[str] | None
) -> Fix:
    """`holders`: pods that hold GPUs of the node. `known`: profiles of its GPUs, None where they are not known."""
    looks = [
        steps.read_log(pod, expect="The first error after `Updating to MIG config`.") for pod in managers[:1]
    ]
    looks = [*looks, steps.describe_node(node.name), steps.see_pods_on_node(node.name)]
    if cause in _LAYOUT:
        return Fix(
            "Ask for a layout that the GPUs have",
            in_order(*looks, _other_layout(node, known), *_end()),
        )
    freeing: list[Step] = [steps.cordon(node.name)]
    freeing += [_move(pod) for pod in holders[:4]]
    freeing.append(repair(cause, "mig-mode-change-reset-blocked"))
    return Fix(
        "Free the GPUs of whatever has them open, and let the MIG manager try again",
        in_order(
            *looks,
            *freeing,
            *([_again(managers[0])] if managers else []),
            msgspec.structs.replace(steps.uncordon(node.name), kind=StepKind.RESTORE),
            *_end(),
        ),
    )


def _other_layout(node: Node, known: Collection[str] | None) -> Step:
    names = f" Its GPUs have {listed(sorted(known), 12)}." if known else ""
    name = next(
        (f"all-{profile}" for profile in sorted(known or ()) if profile.startswith("1g.")), "all-disabled"
    )
    return Step(
        kind=StepKind.FIX,
        title=f"Give node {node.name} a layout that its GPUs support",
        why=f"`{name}` is one of the default layouts.{names} The MIG manager restarts the device plugin of the node "
        "when it applies one, and pods that use the GPUs have to leave first.",
        risk=Risk.DISRUPTIVE,
        command=kubectl.kubectl(
            "label", "node", "--overwrite", *kubectl.named(node.name), f"{_CONFIG}={name}"
        ),
        expect="The label nvidia.com/mig.config.state goes to `success`.",
    )


def _move(pod: Pod) -> Step:
    return Step(
        kind=StepKind.FIX,
        title=f"End pod {printable(pod.name, 80)}, or wait until it is done",
        why="It holds GPUs of the node. It loses what it has not saved; its controller starts it elsewhere.",
        risk=Risk.DESTRUCTIVE,
        command=kubectl.delete_pod(pod.name, pod.namespace),
        expect="No pod of the node holds a GPU.",
    )


def _again(manager: Pod) -> Step:
    return Step(
        kind=StepKind.RESTORE,
        title="Have the MIG manager of this node try again",
        why="It applies the layout when it starts. It restarts the device plugin of the node, which offers no GPU "
        "meanwhile.",
        risk=Risk.DISRUPTIVE,
        command=kubectl.delete_pod(manager.name, manager.namespace),
        expect="The label nvidia.com/mig.config.state goes to `success`.",
    )


def _end() -> tuple[Step, ...]:
    return (
        steps.verify_finding_gone("The MIG state says `success`, and the node offers the new instances."),
        steps.escalate(
            "the platform team",
            why="Where nothing visible has the GPUs open, the drained node has to be rebooted.",
            expect="After the reboot the MIG manager applies the layout before pods start.",
        ),
    )
