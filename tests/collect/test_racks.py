"""Racks, zones and NVLink domains from the labels of the clouds, of NVIDIA and of the site."""

import pytest

from diagnostics.collect.racks import placed
from tests.builders import node


def rack(labels: dict[str, str], rack_label: str = "") -> str | None:
    return placed((node(labels=labels),), rack_label)[0].rack


@pytest.mark.parametrize(
    "labels",
    [
        {"network.topology.nvidia.com/spine": "wide", "network.topology.nvidia.com/leaf": "close"},
        {"network.topology.nvidia.com/datacenter": "wide", "network.topology.nvidia.com/block": "close"},
        {
            "cloud.google.com/gce-topology-block": "wide",
            "cloud.google.com/gce-topology-subblock": "close",
            "cloud.google.com/gce-topology-host": "host",
        },
        {"topology.gke.io/cluster": "wide", "topology.gke.io/rack": "close", "topology.gke.io/host": "host"},
        {f"topology.k8s.aws/network-node-layer-{n}": v for n, v in ((1, "wide"), (2, "mid"), (3, "close"))},
        {f"topology.k8s.aws/network-node-layer-{n}": v for n, v in ((4, "close"), (3, "mid"), (1, "wide"))},
        {
            "backend.coreweave.cloud/fabric": "wide",
            "backend.coreweave.cloud/superpod": "mid",
            "backend.coreweave.cloud/leafgroup": "close",
        },
        {"ib.coreweave.cloud/superpod": "wide", "ib.coreweave.cloud/leafgroup": "close"},
        {"node.coreweave.cloud/rack": "close", "backend.coreweave.cloud/leafgroup": "leaf"},
        {
            "oci.oraclecloud.com/rdma.hpc_island_id": "wide",
            "oci.oraclecloud.com/rdma.network_block_id": "mid",
            "oci.oraclecloud.com/rdma.local_block_id": "close",
            "oci.oraclecloud.com/rdma.host_id": "host",
        },
        {"oci.oraclecloud.com/host.network_block_id": "wide", "oci.oraclecloud.com/host.rack_id": "close"},
        {"topology.example.com/rack": "close"},
    ],
    ids=lambda labels: next(iter(labels)),
)
def test_the_closest_switch_or_rack_of_a_cloud_is_the_rack(labels: dict[str, str]) -> None:
    assert rack(labels) == "close"


@pytest.mark.parametrize(
    "labels",
    [
        {"topology.kubernetes.io/zone": "z"},
        {"topology.k8s.aws/network-node-layer-": "x", "topology.k8s.aws/network-node-layer-99999": "y"},
        {"topology.k8s.aws/network-node-layer-3": ""},
        {"kubernetes.azure.com/agentpool": "gpu"},
    ],
    ids=["zone alone", "no layers", "empty", "azure"],
)
def test_where_no_label_says_there_is_no_rack(labels: dict[str, str]) -> None:
    assert rack(labels) is None


def test_the_sites_own_label_wins_and_is_the_only_one_asked() -> None:
    labels = {"example.com/row": "r7", "network.topology.nvidia.com/leaf": "leaf-1"}
    assert rack(labels, "example.com/row") == "r7"
    assert rack(labels, "example.com/other") is None


@pytest.mark.parametrize(
    "label",
    [
        "nvidia.com/gpu.clique",
        "network.topology.nvidia.com/accelerator",
        "ds.coreweave.com/nvlink.domain",
        "topology.k8s.aws/ultraserver-id",
    ],
)
def test_nodes_of_one_nvlink_domain_are_known_by_its_label(label: str) -> None:
    found = placed((node(labels={label: "d1", "topology.kubernetes.io/zone": "z1"}),))[0]
    assert (found.nvlink_domain, found.zone) == ("d1", "z1")
