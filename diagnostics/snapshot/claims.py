"""Whether a node's GPUs are given out by dynamic resource allocation (DRA), not by a device plugin."""

from collections.abc import Iterable

from diagnostics.snapshot.kubernetes import GPU_RESOURCE_PREFIXES, Node, Pod
from diagnostics.snapshot.resource_claims import Allocation, is_gpu_driver

DRA_PLUGIN = "nvidia-dra-driver-kubelet-plugin"
"""Label value of the pods of NVIDIA's DRA driver."""


def publishes_gpus(node: Node, dra: Allocation) -> bool:
    """A driver publishes GPUs of this node."""
    return any(
        is_gpu_driver(one.driver) and (one.node == node.name or any(d.node == node.name for d in one.devices))
        for one in dra.current
    )


def is_served_by_claims(node: Node, pods: Iterable[Pod], dra: Allocation) -> bool:
    """True where a driver publishes the node's GPUs; or where `pods`, those on `node`, show DRA at work and no device
    plugin was ever registered.

    A plugin that is gone leaves its resource in the node's capacity, at 0; DRA puts none there. The pods are asked
    because slices may not be readable; then neither the number of such GPUs nor their holders are known.
    """
    if publishes_gpus(node, dra):
        return True
    if any(name.startswith(GPU_RESOURCE_PREFIXES) for name in node.capacity):
        return False
    return any(
        pod.resource_claims or DRA_PLUGIN in pod.labels.values() for pod in pods if not pod.is_finished
    )
