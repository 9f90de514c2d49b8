"""Volume claims and storage classes of the simulated cluster, and what the scheduler makes of a pod's claims."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from diagnostics.simulator.workloads import SimPod

ZONE = "eu-north-1a"
"""Where all nodes are."""


MOST_ATTACHED = 25
"""Volumes that a node can attach."""


@dataclass(frozen=True)
class SimClass:
    name: str
    provisioner: str
    waits: bool = False
    """Binds once a pod uses the claim (WaitForFirstConsumer)."""
    is_default: bool = False


CLASSES = (
    SimClass("fast-block", "disk.csi.example.com", waits=True, is_default=True),
    SimClass("local-nvme", "kubernetes.io/no-provisioner", waits=True),
    SimClass("shared-files", "nfs.csi.example.com"),
)


@dataclass(frozen=True)
class SimClaim:
    namespace: str
    name: str
    storage_class: str
    created: datetime
    is_bound: bool = True
    zone: str = ""
    """Only nodes of this zone reach its volume; empty: all do."""
    size: str = "500Gi"
    selected_node: str = ""
    """The provisioner was asked to make the volume for this node."""
    one_pod_only: bool = False
    """Its access mode is ReadWriteOncePod."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def of_class(self) -> SimClass | None:
        return next((c for c in CLASSES if c.name == self.storage_class), None)

    @property
    def volume(self) -> str:
        return f"pvc-{self.namespace}-{self.name}" if self.is_bound else ""


def claims_of(pod: SimPod) -> list[str]:
    """Names of the claims that the pod mounts."""
    return [
        v["persistentVolumeClaim"]["claimName"]
        for v in pod.workload.template.volumes
        if "persistentVolumeClaim" in v
    ]


def refusal_for_all(pod: SimPod, claims: Mapping[str, SimClaim]) -> str:
    """What the scheduler says before it looks at a node; empty where it goes on. The trailing words are its own."""
    for name in claims_of(pod):
        claim = claims.get(f"{pod.namespace}/{name}")
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found. not found'
        if not claim.is_bound and (claim.of_class is None or not claim.of_class.waits):
            return "pod has unbound immediate PersistentVolumeClaims. not found"
    return ""


def refusal_of_node(found: Iterable[SimClaim], node: str, bound: Iterable[SimPod]) -> str:
    """Why a node that has all else is refused; empty where the volumes can be reached from it."""
    mounts = [(pod, f"{pod.namespace}/{name}") for pod in bound if pod.node for name in claims_of(pod)]
    for claim in found:
        if claim.one_pod_only and any(key == claim.key for _, key in mounts):
            return (
                "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
            )
        attached = {key for pod, key in mounts if pod.node == node}
        if claim.key not in attached and len(attached) >= MOST_ATTACHED:
            return "node(s) exceed max volume count"
        if claim.zone not in ("", ZONE):
            return "node(s) didn't match PersistentVolume's node affinity"
        if (
            not claim.is_bound
            and claim.of_class is not None
            and "no-provisioner" in claim.of_class.provisioner
        ):
            return "node(s) didn't find available persistent volumes to bind"
    return ""
