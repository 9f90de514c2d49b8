"""Guided fix for free GPUs without CPU or memory beside them: look, move or shrink the takers, keep others away."""

from collections.abc import Sequence

from diagnostics.fixes import Fix, Risk, Step, StepKind, kubectl, manifests, steps
from diagnostics.rules.scheduling.owner_patch import in_words, patch_of_owner
from diagnostics.snapshot import Node, Pod
from diagnostics.text import printable

MOST_PATCHED = 2
TAINT = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def stranded_fix(node: Node, takers: Sequence[Pod], scarce: str, *, by_gpu_pods: bool) -> Fix:
    """`takers`: those that hold most of what is `scarce` (cpu or memory), the largest first."""
    summary = (
        "Ask for no more than the GPUs' share" if by_gpu_pods else "Keep pods without GPUs off GPU nodes"
    )
    return Fix(
        summary,
        (
            steps.describe_node(node.name),
            steps.see_pods_on_node(node.name),
            *(_look(pod) for pod in takers[:1]),
            *(() if by_gpu_pods or node.taints else (_keep_away(node),)),
            *(_shrink(pod, scarce, by_gpu_pods=by_gpu_pods) for pod in takers[:MOST_PATCHED]),
            steps.verify_finding_gone("A pod with a GPU fits on the node again, or its GPUs are taken."),
            steps.escalate(
                "the owners of the pods that take most",
                why="Only they know whether a request is what the pod uses, or more.",
                expect="Smaller requests, or other nodes for these pods.",
            ),
        ),
    )


def _look(pod: Pod) -> Step:
    return steps.look(
        title=f"Compare what {printable(pod.name, 120)} uses with what it asks for",
        why="A request reserves CPU and memory whether they are used or not. This needs metrics-server.",
        command=kubectl.kubectl("top", "pod", "-n", pod.namespace, "--containers", *kubectl.named(pod.name)),
        expect="Far less than its request: then the request can shrink.",
    )


def _shrink(pod: Pod, scarce: str, *, by_gpu_pods: bool) -> Step:
    """Its owner's template with a smaller request, or with nodes without GPUs."""
    boxes = [c.name for c in pod.containers if not c.is_init and c.requests.get(scarce)]
    spec: dict[str, object] = {
        "containers": [{"name": b, "resources": {"requests": {scarce: "<less>"}}} for b in boxes]
    }
    if not by_gpu_pods:
        rule = {"key": "nvidia.com/gpu.present", "operator": "DoesNotExist"}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}
        spec = {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}
    owner = pod.root.name if pod.root is not None else pod.name
    what = "a smaller request" if by_gpu_pods else "nodes without GPUs"
    return Step(
        kind=StepKind.FIX,
        title=f"Give {printable(owner, 120)} {what}",
        why="A change of a template replaces the pods that run, so choose a good moment. A bare pod or a Job must be "
        f"made anew.{in_words(pod, spec)}",
        risk=Risk.DISRUPTIVE,
        manifest=patch_of_owner(pod, spec),
        expect="Its pods leave room beside the GPUs.",
    )


def _keep_away(node: Node) -> Step:
    return Step(
        kind=StepKind.FIX,
        title=f"Let only pods that tolerate GPU nodes land on {printable(node.name, 80)}",
        why="The taint keeps new pods away; running ones stay. Every GPU pod, and every DaemonSet that must run here, "
        "then needs the toleration; the GPU Operator's components have it. Taint the whole pool, not one node.",
        risk=Risk.SAFE,
        command=kubectl.kubectl(
            "taint", "node", *kubectl.named(node.name), "nvidia.com/gpu=present:NoSchedule"
        ),
        manifest=manifests.to_yaml({"spec": {"tolerations": [TAINT]}}),
        expect="No new pod without the toleration lands there.",
    )
