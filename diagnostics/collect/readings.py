"""What the two kinds of sources hand to assemble: Kubernetes objects, and device readings."""

from datetime import datetime

import msgspec

from diagnostics.snapshot import (
    Allocation,
    Event,
    LogSignal,
    Metrics,
    Namespace,
    Node,
    OperatorResource,
    Pod,
    PodGroup,
    Queue,
    QueuedWorkload,
    ServedApi,
    Service,
    SourceStatus,
    Window,
    Workload,
)
from diagnostics.snapshot.policy import Policy
from diagnostics.snapshot.storage import Storage


class ClusterObjects(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one pass over the Kubernetes API gave, with a status for each source."""

    cluster_id: str = ""
    """UID of kube-system; empty where it may not be read."""
    server_version: str = ""
    server_time: datetime | None = None
    """From the Date header of the first answer."""
    apis: tuple[ServedApi, ...] = ()
    statuses: tuple[SourceStatus, ...] = ()
    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    workloads: tuple[Workload, ...] = ()
    events: tuple[Event, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    services: tuple[Service, ...] = ()
    storage: Storage = Storage()
    policy: Policy = Policy()
    queues: tuple[Queue, ...] = ()
    queued: tuple[QueuedWorkload, ...] = ()
    pod_groups: tuple[PodGroup, ...] = ()
    operator_resources: tuple[OperatorResource, ...] = ()
    dra: Allocation = Allocation()


class DeviceReading(msgspec.Struct, frozen=True, kw_only=True):
    """One device as the metrics name it; assemble finds its node and joins it with the API's view."""

    node_hints: tuple[str, ...] = ()
    """Candidates for the node's name, best first: Hostname label, `node`, `kubernetes_node`, `instance` …"""
    uuid: str | None = None
    pci: str | None = None
    """Lower case, eight-digit domain: `00000000:0f:00.0`."""
    index: int | None = None
    model: str | None = None
    driver: str | None = None
    mig_profile: str | None = None
    mig_instance: str | None = None
    pods: tuple[str, ...] = ()
    """`namespace/name` from the metric's labels; the exporter's own pod is never among them."""
    metrics: Metrics
    window: Window | None = None


class Readings(msgspec.Struct, frozen=True, kw_only=True):
    """All devices of one pass over the GPU metrics, with the status of METRICS and of WINDOW."""

    devices: tuple[DeviceReading, ...] = ()
    statuses: tuple[SourceStatus, ...] = ()
    exporters_down: tuple[str, ...] = ()
    """Instances or URLs of exporters that did not answer."""
    has_pod_labels: bool | None = None
    """Whether any series names a workload's pod; None without series."""


class LogReadings(msgspec.Struct, frozen=True, kw_only=True):
    """What the log tails of failing pods gave, with the status of LOGS."""

    status: SourceStatus
    signals: tuple[LogSignal, ...] = ()
    pods_read: tuple[str, ...] = ()
    """Keys of the pods whose tails were read."""
