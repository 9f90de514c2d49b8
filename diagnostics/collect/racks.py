"""Rack, zone and NVLink domain of each node, from the site's label or from the known ones. Pure."""

import msgspec

from diagnostics.snapshot import Node

RACK_LABELS = (
    "network.topology.nvidia.com/leaf",
    "network.topology.nvidia.com/block",
    "cloud.google.com/gce-topology-subblock",
    "topology.gke.io/rack",
    "topology.k8s.aws/network-node-layer-3",
    "node.coreweave.cloud/rack",
    "backend.coreweave.cloud/leafgroup",
    "ib.coreweave.cloud/leafgroup",
    "oci.oraclecloud.com/rdma.local_block_id",
    "oci.oraclecloud.com/host.rack_id",
)
"""Labels of clouds and of NVIDIA topograph whose value is one leaf switch or rack (`kubernetes_gpu.md` section 2)."""

NVLINK_LABELS = (
    "nvidia.com/gpu.clique",
    "network.topology.nvidia.com/accelerator",
    "ds.coreweave.com/nvlink.domain",
    "topology.k8s.aws/ultraserver-id",
)
ZONE_LABEL = "topology.kubernetes.io/zone"


def placed(nodes: tuple[Node, ...], rack_label: str = "") -> tuple[Node, ...]:
    """Nodes with rack, zone and NVLink domain; None where no label says.

    Without `rack_label`, the known labels are tried, then any label called `rack` in whatever domain.
    """
    return tuple(
        msgspec.structs.replace(
            node,
            rack=_rack(node.labels, rack_label),
            zone=node.labels.get(ZONE_LABEL) or None,
            nvlink_domain=_first(node.labels, NVLINK_LABELS),
        )
        for node in nodes
    )


def _rack(labels: dict[str, str], rack_label: str) -> str | None:
    if rack_label:
        return labels.get(rack_label) or None
    known = _first(labels, RACK_LABELS)
    if known:
        return known
    own = sorted(key for key in labels if key.rpartition("/")[2] == "rack")
    return (labels[own[0]] or None) if own else None


def _first(labels: dict[str, str], keys: tuple[str, ...]) -> str | None:
    return next((labels[key] for key in keys if labels.get(key)), None)
