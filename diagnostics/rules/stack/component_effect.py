"""What is missing on a node while one of its GPU components fails, by what the component does. Pure."""

from diagnostics.operator_components import COMPONENTS, component_label
from diagnostics.rules.stack.component_cause import Cause
from diagnostics.rules.stack.said import NO_LIBRARY
from diagnostics.snapshot import Pod, Snapshot

SERVING = {"driver", "vGPU manager", "container toolkit", "device plugin", "DRA plugin", "validator"}
"""Without one of these no new pod gets a GPU on the node."""
HOW = {
    "image-pull": "its image cannot be pulled",
    "crash-loop": "it crashes again and again",
    "start-error": "its container cannot be started",
    "sandbox": "its pod cannot be set up",
    "init-stuck": "it waits for another component",
    "not-ready": "it runs but does not become ready",
    "nothing-offered": "it runs, and offers no GPU",
    "failed": "it failed",
}
"""How it fails -> words."""
OFFERING = {"device plugin", "DRA plugin"}
_NEW_PODS = "No new pod can get a GPU there; running pods keep theirs."
_MISSING = {
    "feature discovery": "The labels that tell selectors and other components of the node's GPUs (model, memory, "
    "count, MIG) are not kept up to date, and can be missing.",
    "node feature discovery": "The labels that tell the operator what hardware a node has are not kept up to date.",
    "DCGM exporter": "The node's GPU metrics are missing: use, idle GPUs, heat and errors there are not seen.",
    "DCGM host engine": "An exporter that reads from it has no GPU metrics of the node.",
    "MIG manager": "A change of the node's MIG layout is not carried out.",
    "MPS control daemon": "Pods that share a GPU of the node by MPS cannot use it.",
    "node status exporter": "Its metrics of the operator's state on the node are missing.",
    "CUDA validator": "The test that CUDA works on the node has not passed.",
    "device plugin validator": "The test that a pod of the node gets a GPU has not passed.",
    "GPU operator": "Changed settings and new nodes are not acted on; what is set up goes on.",
}
"""Component that no pod needs to get a GPU -> what is not done without it."""
_NO_DRIVER = (
    " Containers that run keep their GPUs, but one that starts on the node from now on may be handed no driver "
    "either"
)


def effect_of(snapshot: Snapshot, pod: Pod, component: str, cause: Cause) -> str:
    """The consequence of one failing component, and of its cause for the GPU pods of its node."""
    if component in SERVING:
        return _NEW_PODS
    effect = _MISSING.get(component, "What it does for the node is missing.")
    if cause.slug not in NO_LIBRARY:
        return effect
    draws = ": the ready device plugin still draws pods there." if is_offering(snapshot, pod.node) else "."
    return effect + _NO_DRIVER + draws


def is_offering(snapshot: Snapshot, node: str | None) -> bool:
    """Whether a ready plugin offers the node's GPUs, so that new pods come."""
    here = snapshot.pods_by_node.get(node or "", [])
    return any(p.is_ready and COMPONENTS.get(component_label(p) or "") in OFFERING for p in here)
