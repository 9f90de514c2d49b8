"""Guided fix for a pod that a kubelet refused: see that the node is well now, then have a new pod made."""

from diagnostics.fixes import Fix, Risk, Step, StepKind, in_order, kubectl, steps
from diagnostics.snapshot import Node, Pod
from diagnostics.text import printable

PLUGIN = "nvidia-device-plugin-daemonset"
_PLUGIN_FIRST = {"devices-unavailable-on-node", "device-plugin-lost-driver", "device-plugin-was-restarting"}


def admission_fix(pod: Pod, node: Node | None, cause: str, *, bare: bool) -> Fix:
    """`bare`: nobody makes a new pod."""
    looks = [steps.describe_pod(pod)]
    if node is not None:
        looks.append(steps.describe_node(node.name))
        looks.append(steps.see_operator_pods_on_node(node.name))
        if cause == "gpus-given-away-before":
            looks.append(steps.see_pods_on_node(node.name))
    return Fix(
        _SUMMARIES.get(cause, "See that the node offers GPUs, then have a new pod made"),
        in_order(
            *looks,
            *_first(pod, node, cause),
            _anew(pod, bare=bare),
            steps.verify_finding_gone("A new pod of the same owner runs."),
            steps.escalate(
                "the platform team",
                why="New nodes should keep GPU pods away until their GPUs are there: a start-up taint that the "
                "operator takes off, and an autoscaler that waits for the resource.",
                expect="They know how nodes join the cluster.",
            ),
        ),
    )


_SUMMARIES = {
    "shared-replica-request-gt-1": "Ask for one share, or run on nodes whose GPUs are not shared",
    "topology-not-aligned": "Ask for what one NUMA node has, or for a node with another topology policy",
    "lost-gpu-blocks-allocation": "Get the lost GPU out of the way before pods are sent there",
    "devices-unavailable-on-node": "Repair the node's device plugin first",
}


def _first(pod: Pod, node: Node | None, cause: str) -> tuple[Step, ...]:
    """What has to be right before a new pod has a chance."""
    if cause == "shared-replica-request-gt-1":
        return (
            _change(
                "Ask for one share, or choose nodes whose GPUs are whole",
                "Shares of one GPU are no more of it. With time slicing the plugin's failRequestsGreaterThanOne can be "
                "switched off, with MPS it cannot; a node selector on the label nvidia.com/gpu.replicas=1 finds whole "
                "GPUs.",
            ),
        )
    if cause == "topology-not-aligned":
        return (
            _change(
                "Ask for fewer CPUs or GPUs per pod, or have the node's policy changed",
                "The policy `restricted` or `single-numa-node` of the kubelet refuses what does not come from one NUMA "
                "node.",
            ),
        )
    if node is None or cause not in _PLUGIN_FIRST | {"lost-gpu-blocks-allocation"}:
        return ()
    return (
        steps.restart_pod_on_node(
            PLUGIN,
            node.name,
            why="Only where allocatable is still below what is fitted, and after its cause is repaired: the plugin "
            "then finds the devices again. While it restarts, this node offers no GPU.",
        ),
    )


def _change(title: str, why: str) -> Step:
    return Step(
        kind=StepKind.FIX,
        title=title,
        why=why,
        risk=Risk.DISRUPTIVE,
        expect="The new pod is admitted and starts.",
    )


def _anew(pod: Pod, *, bare: bool) -> Step:
    name = printable(pod.name, 80)
    why = (
        "A refused pod never starts. Nobody makes a new one: keep its manifest before it is deleted, and create it "
        "again."
        if bare
        else "A refused pod never starts; it holds nothing and is only in the way. Its controller makes a new one."
    )
    return Step(
        kind=StepKind.RESTORE,
        title=f"Delete the refused pod {name}" + (" and create it again" if bare else ""),
        why=why,
        risk=Risk.DISRUPTIVE,
        command=kubectl.delete_pod(pod.name, pod.namespace),
        expect="The new pod is admitted and runs.",
    )
