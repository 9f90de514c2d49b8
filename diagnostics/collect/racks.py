"""Rack, zone and NVLink domain of each node, from the site's label or from the known ones. Pure."""

import msgspec

from diagnostics.snapshot import Node

RACK_LABELS = (
    "network.topology.nvidia.com/leaf",
    "network.topology.nvidia.com/block",
    "cloud.google.com/gce-topology-subblock",
    "topology.gke.io/rack",
    "node.coreweave.cloud/rack",
    "backend.coreweave.cloud/leafgroup",
    "ib.coreweave.cloud/leafgroup",
    "oci.oraclecloud.com/rdma.local_block_id",
    "oci.oraclecloud.com/host.rack_id",
)
"""Labels of clouds and of NVIDIA topograph whose value is one leaf switch or rack, from the providers' documents."""

EKS_LAYER = "topology.k8s.aws/network-node-layer-"
"""Followed by a number: layer 1 is the spine, the highest that a node has is the switch closest to it."""

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
    known = _first(labels, RACK_LABELS) or _closest_layer(labels)
    if known:
        return known
    own = sorted(key for key in labels if key.rpartition("/")[2] == "rack")
    return (labels[own[0]] or None) if own else None


def _closest_layer(labels: dict[str, str]) -> str | None:
    layers = [
        (key.removeprefix(EKS_LAYER), value) for key, value in labels.items() if key.startswith(EKS_LAYER)
    ]
    numbered = [
        (int(layer), value) for layer, value in layers if layer.isdecimal() and len(layer) < 3 and value
    ]
    return max(numbered)[1] if numbered else None


def _first(labels: dict[str, str], keys: tuple[str, ...]) -> str | None:
    return next((labels[key] for key in keys if labels.get(key)), None)
