"""The one currency: an immutable, typed picture of one cluster at one instant.

Nothing after `collect` can tell whether it came from a live cluster, a recording, the simulator or the
archive. Fields are only ever added, with defaults; a stored snapshot of any released version loads for ever.
"""

from collections import defaultdict
from datetime import datetime, timedelta
from functools import cached_property

from diagnostics.snapshot.devices import (
    Gang,
    Gpu,
    HostPeak,
    MemoryPeak,
    Metrics,
    Origin,
    Past,
    Stat,
    State,
    Window,
    XidSeen,
)
from diagnostics.snapshot.gpu_operator import OperatorResource
from diagnostics.snapshot.kubernetes import (
    GPU_RESOURCE_PREFIXES,
    Condition,
    Container,
    DeviceHealth,
    Event,
    Namespace,
    Node,
    OwnerKey,
    Pod,
    Service,
    Struct,
    Taint,
    Terminated,
    Toleration,
    Volume,
    Workload,
    gpu_resources,
)
from diagnostics.snapshot.policy import Policy
from diagnostics.snapshot.queues import Flavor, PodGroup, PodSet, Queue, QueuedWorkload
from diagnostics.snapshot.resource_claims import Allocation
from diagnostics.snapshot.signals import LogSignal
from diagnostics.snapshot.sources import ServedApi, Skipped, Source, SourceState, SourceStatus
from diagnostics.snapshot.storage import Storage
from diagnostics.snapshot.usage import ContainerUsage, DeviceCourse, Low, NodeUsage

__all__ = [
    "GPU_RESOURCE_PREFIXES",
    "Allocation",
    "Condition",
    "Container",
    "ContainerUsage",
    "DeviceCourse",
    "DeviceHealth",
    "Event",
    "Flavor",
    "Gang",
    "Gpu",
    "HostPeak",
    "LogSignal",
    "Low",
    "MemoryPeak",
    "Metrics",
    "Namespace",
    "Node",
    "NodeUsage",
    "OperatorResource",
    "Origin",
    "OwnerKey",
    "Past",
    "Pod",
    "PodGroup",
    "PodSet",
    "Policy",
    "Queue",
    "QueuedWorkload",
    "ServedApi",
    "Service",
    "Skipped",
    "Snapshot",
    "Source",
    "SourceState",
    "SourceStatus",
    "Stat",
    "State",
    "Storage",
    "Struct",
    "Taint",
    "Terminated",
    "Toleration",
    "Volume",
    "Window",
    "Workload",
    "XidSeen",
    "gpu_resources",
]


class Snapshot(Struct, frozen=True, kw_only=True):
    """One cluster at `taken_at` (UTC, which is "now" for every rule)."""

    taken_at: datetime
    cluster_id: str = ""
    """UID of the kube-system namespace, or `generated:…` where it may not be read."""
    cluster: str = ""
    """The name that people use for it."""
    server_version: str = ""
    clock_skew: timedelta | None = None
    """Server's clock minus ours, from its Date header; `taken_at` is already corrected by it."""
    sources: tuple[SourceStatus, ...] = ()
    apis: tuple[ServedApi, ...] = ()
    nodes: tuple[Node, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    pods: tuple[Pod, ...] = ()
    workloads: tuple[Workload, ...] = ()
    gangs: tuple[Gang, ...] = ()
    events: tuple[Event, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    services: tuple[Service, ...] = ()
    storage: Storage = Storage()
    policy: Policy = Policy()
    queues: tuple[Queue, ...] = ()
    queued: tuple[QueuedWorkload, ...] = ()
    """Kueue's Workloads."""
    pod_groups: tuple[PodGroup, ...] = ()
    operator_resources: tuple[OperatorResource, ...] = ()
    """ClusterPolicies and NVIDIADrivers of the GPU Operator."""
    dra: Allocation = Allocation()
    """Devices that drivers publish, and the claims on them (dynamic resource allocation)."""
    signals: tuple[LogSignal, ...] = ()
    logs_read: tuple[str, ...] = ()
    """Keys of the pods whose log tails were read: no signal from another pod means "not looked"."""
    exporters_down: tuple[str, ...] = ()
    """Exporters (scrape instances or addresses) that did not answer."""
    has_pod_labels: bool | None = None
    """Whether any GPU series names a workload's pod; None without series."""
    past: Past = Past()
    usage: tuple[ContainerUsage, ...] = ()
    """Of GPU pods alone; empty without a Prometheus that scrapes the kubelets."""
    gpu_courses: tuple[DeviceCourse, ...] = ()
    node_usage: tuple[NodeUsage, ...] = ()

    def source(self, name: Source) -> SourceStatus:
        """Status of one source; `absent` when it was never asked."""
        found = next((s for s in self.sources if s.name == name), None)
        return found or SourceStatus(name=name, state=SourceState.ABSENT, detail="not asked")

    @cached_property
    def node_by_name(self) -> dict[str, Node]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def pod_by_key(self) -> dict[str, Pod]:
        return {pod.key: pod for pod in self.pods}

    @cached_property
    def pods_by_node(self) -> dict[str, list[Pod]]:
        """Pods bound to each node, finished ones included."""
        found: dict[str, list[Pod]] = defaultdict(list)
        for pod in self.pods:
            if pod.node is not None:
                found[pod.node].append(pod)
        return found

    @cached_property
    def pods_by_root(self) -> dict[OwnerKey, list[Pod]]:
        found: dict[OwnerKey, list[Pod]] = defaultdict(list)
        for pod in self.pods:
            found[pod.root or OwnerKey("Pod", pod.namespace, pod.name, "v1", pod.uid)].append(pod)
        return found

    @cached_property
    def gpus_by_node(self) -> dict[str, list[Gpu]]:
        found: dict[str, list[Gpu]] = defaultdict(list)
        for gpu in self.gpus:
            found[gpu.node].append(gpu)
        return found

    @cached_property
    def gpus_by_pod(self) -> dict[str, list[Gpu]]:
        found: dict[str, list[Gpu]] = defaultdict(list)
        for gpu in self.gpus:
            for holder in gpu.holders:
                found[holder].append(gpu)
        return found

    @cached_property
    def workload_by_key(self) -> dict[tuple[str, str, str], Workload]:
        """(kind, namespace, name) -> workload."""
        return {(w.kind, w.namespace, w.name): w for w in self.workloads}

    @cached_property
    def events_by_object(self) -> dict[tuple[str, str, str], list[Event]]:
        """(kind, namespace, name) of what they are about -> events, oldest first."""
        found: dict[tuple[str, str, str], list[Event]] = defaultdict(list)
        for event in self.events:
            found[event.kind, event.namespace, event.name].append(event)
        return found

    @cached_property
    def signals_by_pod(self) -> dict[str, list[LogSignal]]:
        found: dict[str, list[LogSignal]] = defaultdict(list)
        for signal in self.signals:
            found[signal.pod_key].append(signal)
        return found

    @cached_property
    def usage_by_container(self) -> dict[tuple[str, str], ContainerUsage]:
        """(pod key, container) -> what it uses."""
        return {usage.key: usage for usage in self.usage}

    @cached_property
    def course_by_slot(self) -> dict[str, DeviceCourse]:
        return {course.slot: course for course in self.gpu_courses}

    @cached_property
    def gang_by_pod(self) -> dict[str, Gang]:
        return {member: gang for gang in self.gangs for member in gang.members}

    def age(self, since: datetime | None) -> timedelta | None:
        """How long ago `since` was; None when unknown; never negative (clocks differ by seconds)."""
        return None if since is None else max(timedelta(), self.taken_at - since)
