"""The slowest link between the nodes of a job, from what labels and pods say of the network."""

from collections.abc import Sequence

from diagnostics.snapshot import Node, Pod
from diagnostics.text import listed, printable

_RDMA_RESOURCES = (
    "rdma/",
    "vpc.amazonaws.com/efa",
    "nvidia.com/hostdev",
    "nvidia.com/rdma",
    "openshift.io/mlnx",
)


def slowest_link(nodes: Sequence[Node], pods: Sequence[Pod]) -> str:
    """What their traffic passes at its slowest, in words."""
    domains = {node.nvlink_domain for node in nodes}
    if len(domains) == 1 and None not in domains:
        return f"NVLink inside the domain {printable(domains.pop() or '', 80)}"
    return f"{_network(nodes)}{_transport(pods)}"


def _network(nodes: Sequence[Node]) -> str:
    zones = {node.zone for node in nodes if node.zone}
    racks = {node.rack for node in nodes if node.rack}
    if len(zones) > 1:
        return f"the network between zones {_names(zones)}"
    if len(racks) > 1:
        return f"the network between racks {_names(racks)}"
    if len(racks) == 1 and all(node.rack for node in nodes):
        return f"the switch of rack {_names(racks)}"
    return "the network between hosts"


def _names(names: set[str]) -> str:
    return listed(sorted(printable(name, 80) for name in names), 4)


def _transport(pods: Sequence[Pod]) -> str:
    """Without an RDMA device or the host's network a pod has only the pod network."""
    if any(pod.host_network for pod in pods):
        return ""
    asks = any(name.startswith(_RDMA_RESOURCES) for pod in pods for name in pod.effective_requests)
    return "" if asks else " (by TCP: the pods ask for no RDMA device)"
