"""Kubernetes objects, cut down to the fields that rules, fixes and pages read.

Quantities are base units: CPU in cores, memory and storage in bytes, everything else a count
(`quantities.quantity`). Environment values, arguments and log lines are masked before they get here.
"""

from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from typing import Any

import msgspec

Resources = Mapping[str, float]
"""Resource name -> amount: CPU in cores, memory and storage in bytes, the rest in counts."""

GPU_RESOURCE_PREFIXES = ("nvidia.com/gpu", "nvidia.com/mig-", "amd.com/gpu", "gpu.intel.com/")
"""Extended resources that are GPUs or parts of one, as their device plugins name them."""


def gpu_resources(resources: Resources) -> dict[str, float]:
    """The GPU entries among `resources` with an amount above zero."""
    return {
        name: amount
        for name, amount in resources.items()
        if amount > 0 and name.startswith(GPU_RESOURCE_PREFIXES)
    }


class Struct(msgspec.Struct, frozen=True, omit_defaults=True, dict=True):
    """Frozen, small when stored, and able to cache look-ups."""


class OwnerKey(msgspec.Struct, frozen=True):
    """Names an object that owns pods: the top of an owner chain, or the bare pod itself."""

    kind: str
    namespace: str
    name: str
    api_version: str = ""
    uid: str = ""


class Condition(msgspec.Struct, frozen=True, omit_defaults=True):
    type: str
    status: str
    """`True`, `False` or `Unknown`."""
    reason: str = ""
    message: str = ""
    since: datetime | None = None
    """lastTransitionTime."""


class Taint(msgspec.Struct, frozen=True, omit_defaults=True):
    key: str
    effect: str
    value: str = ""
    added_at: datetime | None = None


class Toleration(msgspec.Struct, frozen=True, omit_defaults=True):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    seconds: int | None = None

    def tolerates(self, taint: Taint) -> bool:
        """The scheduler's rule: empty key with Exists matches all; empty effect matches all effects."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.operator == "Exists":
            return self.key in ("", taint.key)
        return self.key == taint.key and self.value == taint.value


class Node(Struct, frozen=True, kw_only=True):
    name: str
    uid: str = ""
    created_at: datetime | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    conditions: tuple[Condition, ...] = ()
    capacity: dict[str, float] = {}
    allocatable: dict[str, float] = {}
    kernel: str = ""
    os_image: str = ""
    kubelet_version: str = ""
    container_runtime: str = ""
    boot_id: str = ""
    rack: str | None = None
    """Value of the site's rack label, or of a known cloud label; None where nothing says."""
    zone: str | None = None
    nvlink_domain: str | None = None
    """Nodes with the same value share one NVLink fabric (`nvidia.com/gpu.clique` and its like)."""

    def condition(self, type_: str) -> Condition | None:
        return next((c for c in self.conditions if c.type == type_), None)

    @property
    def is_ready(self) -> bool | None:
        """None where the node has no Ready condition (nothing was said, not "healthy")."""
        ready = self.condition("Ready")
        return None if ready is None else ready.status == "True"

    @property
    def gpu_product(self) -> str | None:
        """GPU model without the sharing and MIG suffixes that feature discovery appends."""
        product = self.labels.get("nvidia.com/gpu.product")
        if not product:
            return None
        return product.removesuffix("-SHARED").split("-MIG-", 1)[0]

    @property
    def gpu_replicas(self) -> int:
        """Shares per GPU under time-slicing or MPS; 1 without sharing."""
        try:
            return max(1, int(self.labels.get("nvidia.com/gpu.replicas", "1")))
        except ValueError:
            return 1

    @property
    def gpu_count_label(self) -> int | None:
        """Physical GPUs as feature discovery counted them; None without the label."""
        try:
            return int(self.labels["nvidia.com/gpu.count"])
        except (KeyError, ValueError):
            return None

    @property
    def driver_version(self) -> str | None:
        """NVIDIA driver, from the current label or the legacy three."""
        full = self.labels.get("nvidia.com/cuda.driver-version.full")
        if full:
            return full
        parts = [self.labels.get(f"nvidia.com/cuda.driver.{p}", "") for p in ("major", "minor", "rev")]
        return ".".join(p for p in parts if p) or None


class DeviceHealth(msgspec.Struct, frozen=True):
    """One device of a container, from `allocatedResourcesStatus` (KEP-4680)."""

    resource: str
    device: str
    """Resource id: for the NVIDIA plugin the GPU's UUID, with `::<n>` under sharing."""
    health: str
    """Healthy, Unhealthy or Unknown."""


class Terminated(msgspec.Struct, frozen=True, omit_defaults=True):
    reason: str = ""
    exit_code: int | None = None
    signal: int | None = None
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class Container(Struct, frozen=True, kw_only=True):
    """A container's spec and status in one; the status part stays at its defaults before the kubelet speaks."""

    name: str
    image: str = ""
    is_init: bool = False
    is_sidecar: bool = False
    """An init container with restartPolicy Always: it runs beside the others."""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    """Values outside the allow-list are masked; names always stay."""
    requests: dict[str, float] = {}
    limits: dict[str, float] = {}
    mounts: dict[str, str] = {}
    """Mount path -> volume name."""
    is_privileged: bool = False
    state: str = ""
    """waiting, running, terminated; empty when the kubelet has said nothing."""
    waiting_reason: str = ""
    waiting_message: str = ""
    running_since: datetime | None = None
    terminated: Terminated | None = None
    last_terminated: Terminated | None = None
    restarts: int = 0
    is_ready: bool = False
    devices: tuple[DeviceHealth, ...] = ()

    @property
    def gpus(self) -> dict[str, float]:
        """GPU resources of this container (limits; for extended resources they equal the requests)."""
        return gpu_resources({**self.requests, **self.limits})


class Volume(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    kind: str
    """Key of the volume source: `persistentVolumeClaim`, `emptyDir`, `secret`, …"""
    claim: str = ""
    medium: str = ""
    size_limit_bytes: float | None = None
    path: str = ""
    """Of a hostPath: the file, directory or device of the node."""


class Pod(Struct, frozen=True, kw_only=True):
    namespace: str
    name: str
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owners: tuple[OwnerKey, ...] = ()
    """ownerReferences, the controller first."""
    root: OwnerKey | None = None
    """Top of the owner chain as far as it could be read; set by assemble; the pod itself when bare."""
    created_at: datetime | None = None
    started_at: datetime | None = None
    deletion_at: datetime | None = None
    """deletionTimestamp: time of the request PLUS the grace period."""
    deletion_grace_s: int | None = None
    finalizers: tuple[str, ...] = ()
    node: str | None = None
    nominated_node: str | None = None
    ip: str = ""
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    containers: tuple[Container, ...] = ()
    """Init containers first (`is_init`), then the others."""
    overhead: dict[str, float] = {}
    scheduler: str = ""
    scheduling_gates: tuple[str, ...] = ()
    priority: int | None = None
    preemption_policy: str = ""
    restart_policy: str = ""
    node_selector: dict[str, str] = {}
    affinity: dict[str, Any] = {}
    topology_spread: tuple[dict[str, Any], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[str, ...] = ()
    """Names of the claims in spec.resourceClaims (dynamic resource allocation); one not made yet has the pod's."""
    claim_templates: dict[str, str] = {}
    """Name in `resource_claims` -> the template that the claim is made from."""
    claimed_gpus: dict[str, float] = {}
    """GPUs that its claims ask for or were given, by the resource that stands for them; set when they are read."""
    runtime_class: str = ""
    host_network: bool = False
    hostname: str = ""
    subdomain: str = ""
    grace_period_s: int | None = None
    pod_group: str = ""
    """spec.schedulingGroup.podGroupName or spec.workloadRef (native gang scheduling)."""

    @property
    def key(self) -> str:
        """`namespace/name`: unique at one instant."""
        return f"{self.namespace}/{self.name}"

    def condition(self, type_: str) -> Condition | None:
        return next((c for c in self.conditions if c.type == type_), None)

    @cached_property
    def effective_requests(self) -> dict[str, float]:
        """What the scheduler reserves, per resource.

        max(apps + sidecars, max over ordinary init containers of itself + the sidecars started before it)
        + overhead: the rule of KEP-753 (sidecar containers).
        """
        running: dict[str, float] = {}
        peak_init: dict[str, float] = {}
        sidecars: dict[str, float] = {}
        for container in self.containers:
            wants = {**container.limits, **container.requests}
            if container.is_init and not container.is_sidecar:
                for name in wants.keys() | sidecars.keys():
                    need = wants.get(name, 0) + sidecars.get(name, 0)
                    peak_init[name] = max(peak_init.get(name, 0), need)
                continue
            for name, amount in wants.items():
                running[name] = running.get(name, 0) + amount
                if container.is_sidecar:
                    sidecars[name] = sidecars.get(name, 0) + amount
        names = running.keys() | peak_init.keys() | self.overhead.keys()
        return {
            name: max(running.get(name, 0), peak_init.get(name, 0)) + self.overhead.get(name, 0)
            for name in names
        }

    @cached_property
    def gpus(self) -> dict[str, float]:
        """GPU resources that this pod asks for, by resource name, those of its claims among them."""
        asked = gpu_resources(self.effective_requests)
        for name, amount in self.claimed_gpus.items():
            asked[name] = asked.get(name, 0.0) + amount
        return asked

    @property
    def gpu_count(self) -> int:
        """GPU devices (or MIG instances, or shares) that this pod asks for, over all resource names."""
        return int(sum(self.gpus.values()))

    @property
    def is_finished(self) -> bool:
        return self.phase in {"Succeeded", "Failed"}

    @property
    def holds_gpus(self) -> bool:
        """The scheduler counts its GPUs: bound and not finished; Terminating and Unknown still hold."""
        return bool(self.gpus) and self.node is not None and not self.is_finished

    @property
    def is_ready(self) -> bool:
        ready = self.condition("Ready")
        return ready is not None and ready.status == "True"

    @property
    def devices(self) -> tuple[DeviceHealth, ...]:
        return tuple(d for c in self.containers for d in c.devices)


class Workload(Struct, frozen=True, kw_only=True):
    """A controller of pods; `spec` is kept, masked, where its pods ask for GPUs (fixes are diffs against it)."""

    kind: str
    namespace: str
    name: str
    api_version: str = ""
    uid: str = ""
    created_at: datetime | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owners: tuple[OwnerKey, ...] = ()
    replicas: int | None = None
    """Pods that the spec wants at once (replicas, parallelism, desiredNumberScheduled)."""
    ready: int | None = None
    completions: int | None = None
    is_indexed: bool = False
    """A Job with completionMode Indexed."""
    is_suspended: bool = False
    conditions: tuple[Condition, ...] = ()
    spec: dict[str, Any] = {}

    @property
    def key(self) -> OwnerKey:
        return OwnerKey(self.kind, self.namespace, self.name, self.api_version, self.uid)


class Event(Struct, frozen=True, kw_only=True):
    """An event of either API, with the times that are really set: the scheduler leaves the old ones null."""

    namespace: str = ""
    type: str = ""
    reason: str = ""
    message: str = ""
    kind: str = ""
    name: str = ""
    """Kind and name of the object that it is about."""
    uid: str = ""
    component: str = ""
    host: str = ""
    count: int = 1
    first_at: datetime | None = None
    last_at: datetime | None = None


class Namespace(Struct, frozen=True, kw_only=True):
    name: str
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class Service(Struct, frozen=True, kw_only=True):
    namespace: str
    name: str
    selector: dict[str, str] = {}
    labels: dict[str, str] = {}
    cluster_ip: str = ""
    """`None` (the word) for a headless Service."""
    type: str = ""
    ports: tuple[tuple[str, int], ...] = ()
    publish_not_ready_addresses: bool = False
