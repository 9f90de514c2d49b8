"""Nodes, and namespaces and services, which are as plain."""

import msgspec

from diagnostics.collect.wire.metadata import (
    Amounts,
    ConditionWire,
    FrozenWire,
    Memo,
    MetaWire,
    Parts,
    Time,
    Wire,
)
from diagnostics.snapshot import Namespace, Node, Service, Taint


class _TaintWire(FrozenWire, frozen=True):
    key: str
    effect: str
    value: str | None = None
    time_added: Time | None = None


class _NodeSpec(Wire):
    taints: tuple[_TaintWire, ...] | None = None
    unschedulable: bool | None = None


class _NodeInfo(Wire):
    kernel_version: str = ""
    os_image: str = ""
    kubelet_version: str = ""
    container_runtime_version: str = ""
    boot_id: str = msgspec.field(name="bootID", default="")


class _NodeStatus(Wire):
    capacity: Amounts | None = None
    allocatable: Amounts | None = None
    conditions: tuple[ConditionWire, ...] | None = None
    node_info: _NodeInfo | None = None


class NodeWire(Wire):
    metadata: MetaWire
    spec: _NodeSpec
    status: _NodeStatus


class NamespaceWire(Wire):
    metadata: MetaWire


class _Port(Wire):
    port: int
    name: str | None = None


class _ServiceSpec(Wire):
    selector: dict[str, str] | None = None
    cluster_ip: str | None = msgspec.field(name="clusterIP", default=None)
    type: str | None = None
    ports: list[_Port] | None = None
    publish_not_ready_addresses: bool | None = None


class ServiceWire(Wire):
    metadata: MetaWire
    spec: _ServiceSpec


class NodeConverter:
    """Converts the nodes of one list. Rack, zone and NVLink domain are left to assemble."""

    def __init__(self) -> None:
        self._parts = Parts()
        self._taints = Memo(_taints)

    def __call__(self, wire: NodeWire) -> Node:
        parts, meta, status = self._parts, wire.metadata, wire.status
        info = status.node_info or _NodeInfo()
        return Node(
            name=meta.name,
            uid=meta.uid or "",
            created_at=meta.creation_timestamp,
            labels=parts.labels(meta.labels),
            annotations=parts.annotations(meta.annotations),
            unschedulable=bool(wire.spec.unschedulable),
            taints=self._taints[wire.spec.taints] if wire.spec.taints else (),
            conditions=parts.conditions(status.conditions),
            capacity=parts.amounts(status.capacity),
            allocatable=parts.amounts(status.allocatable),
            kernel=parts.text(info.kernel_version),
            os_image=parts.text(info.os_image),
            kubelet_version=parts.text(info.kubelet_version),
            container_runtime=parts.text(info.container_runtime_version),
            boot_id=info.boot_id,
        )


def _taints(wires: tuple[_TaintWire, ...]) -> tuple[Taint, ...]:
    return tuple(Taint(wire.key, wire.effect, wire.value or "", wire.time_added) for wire in wires)


class NamespaceConverter:
    """Converts the namespaces of one list."""

    def __init__(self) -> None:
        self._parts = Parts()

    def __call__(self, wire: NamespaceWire) -> Namespace:
        meta = wire.metadata
        return Namespace(
            name=meta.name,
            uid=meta.uid or "",
            labels=self._parts.labels(meta.labels),
            annotations=self._parts.annotations(meta.annotations),
        )


class ServiceConverter:
    """Converts the Services of one list."""

    def __init__(self) -> None:
        self._parts = Parts()

    def __call__(self, wire: ServiceWire) -> Service:
        spec = wire.spec
        return Service(
            namespace=wire.metadata.namespace,
            name=wire.metadata.name,
            selector=self._parts.labels(spec.selector),
            labels=self._parts.labels(wire.metadata.labels),
            cluster_ip=spec.cluster_ip or "",
            type=spec.type or "",
            ports=tuple((port.name or "", port.port) for port in spec.ports or ()),
            publish_not_ready_addresses=bool(spec.publish_not_ready_addresses),
        )
