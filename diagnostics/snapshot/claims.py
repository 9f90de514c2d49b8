"""Whether a node's GPUs are given out by dynamic resource allocation (DRA), not by a device plugin."""

from collections.abc import Iterable

from diagnostics.snapshot.kubernetes import GPU_RESOURCE_PREFIXES, Node, Pod

DRA_PLUGIN = "nvidia-dra-driver-kubelet-plugin"
"""Label value of the pods of NVIDIA's DRA driver."""


def is_served_by_claims(node: Node, pods: Iterable[Pod]) -> bool:
    """True where `pods`, those on `node`, show DRA at work and no device plugin was ever registered.

    A plugin that is gone leaves its resource in the node's capacity, at 0; DRA puts none there. ResourceSlices
    are not read, so the number of such GPUs and their holders are not known.
    """
    if any(name.startswith(GPU_RESOURCE_PREFIXES) for name in node.capacity):
        return False
    return any(
        pod.resource_claims or DRA_PLUGIN in pod.labels.values() for pod in pods if not pod.is_finished
    )
