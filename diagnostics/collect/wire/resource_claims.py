"""Dynamic resource allocation on the wire: v1, v1beta2 and v1beta1 of resource.k8s.io, read into one shape.

v1beta1 differs in two places: a request is flat instead of under `exactly`, and a device has its content under `basic`
(Kubernetes API reference, resource.k8s.io).
"""

from sys import intern
from typing import Any

import msgspec

from diagnostics.collect.wire.metadata import MetaWire, Parts, Time, Wire
from diagnostics.masking import mask_text
from diagnostics.quantities import quantity
from diagnostics.snapshot import Taint, Toleration
from diagnostics.snapshot.resource_claims import (
    Alike,
    Allotted,
    Attribute,
    ClaimTemplate,
    Demand,
    Device,
    DeviceClass,
    DeviceRequest,
    ResourceClaim,
    ResourceSlice,
)

LONGEST_EXPRESSION = 10 * 1024
"""The API's own limit for a CEL selector."""


class _Attribute(Wire):
    string: str | None = None
    version: str | None = None
    number: int | None = msgspec.field(name="int", default=None)
    flag: bool | None = msgspec.field(name="bool", default=None)


class _Capacity(Wire):
    value: str | int | float


class _CounterSet(Wire):
    name: str = ""
    counter_set: str = ""
    counters: dict[str, _Capacity] = {}


class _Taint(Wire):
    key: str
    effect: str
    value: str | None = None
    time_added: Time | None = None


class _DeviceContent(Wire):
    attributes: dict[str, _Attribute] | None = None
    capacity: dict[str, _Capacity | str | int | float] | None = None
    consumes_counters: list[_CounterSet] | None = None
    taints: list[_Taint] | None = None
    node_name: str | None = None


class _Device(_DeviceContent):
    name: str = ""
    basic: _DeviceContent | None = None


class _Pool(Wire):
    name: str
    generation: int = 0
    resource_slice_count: int = 0


class _SliceSpec(Wire):
    driver: str
    pool: _Pool
    node_name: str | None = None
    all_nodes: bool | None = None
    node_selector: dict[str, Any] | None = None
    devices: list[_Device] | None = None
    shared_counters: list[_CounterSet] | None = None


class SliceWire(Wire):
    metadata: MetaWire
    spec: _SliceSpec


class _Cel(Wire):
    expression: str = ""


class _Selector(Wire):
    cel: _Cel | None = None


class _Toleration(Wire):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class _CapacityWanted(Wire):
    requests: dict[str, str | int | float] | None = None


class _Exact(Wire):
    device_class_name: str = ""
    selectors: list[_Selector] | None = None
    allocation_mode: str | None = None
    count: int | None = None
    admin_access: bool | None = None
    tolerations: list[_Toleration] | None = None
    capacity: _CapacityWanted | None = None


class _SubRequest(_Exact):
    name: str = ""


class _Request(_SubRequest):
    exactly: _Exact | None = None
    first_available: list[_SubRequest] | None = None


class _Constraint(Wire):
    requests: list[str] | None = None
    match_attribute: str | None = None


class _Devices(Wire):
    requests: list[_Request] | None = None
    constraints: list[_Constraint] | None = None


class _ClaimSpec(Wire):
    devices: _Devices | None = None


class _Result(Wire):
    driver: str
    pool: str
    device: str
    request: str = ""
    admin_access: bool | None = None


class _Results(Wire):
    results: list[_Result] | None = None


class _AllocationWire(Wire):
    devices: _Results | None = None


class _Consumer(Wire):
    resource: str = ""
    name: str = ""
    api_group: str | None = None


class _ClaimStatus(Wire):
    allocation: _AllocationWire | None = None
    reserved_for: list[_Consumer] | None = None


class ClaimWire(Wire):
    metadata: MetaWire
    spec: _ClaimSpec
    status: _ClaimStatus | None = None


class _TemplateSpec(Wire):
    spec: _ClaimSpec


class TemplateWire(Wire):
    metadata: MetaWire
    spec: _TemplateSpec


class _ClassSpec(Wire):
    selectors: list[_Selector] | None = None
    extended_resource_name: str | None = None


class ClassWire(Wire):
    metadata: MetaWire
    spec: _ClassSpec


def slice_of(wire: SliceWire) -> ResourceSlice:
    """Raises ValueError for an amount that is none."""
    spec = wire.spec
    return ResourceSlice(
        name=wire.metadata.name,
        driver=intern(spec.driver),
        pool=intern(spec.pool.name),
        generation=spec.pool.generation,
        pool_slices=spec.pool.resource_slice_count,
        node=spec.node_name or "",
        is_everywhere=bool(spec.all_nodes),
        node_selector=spec.node_selector or {},
        devices=tuple([_device(one, spec.driver) for one in spec.devices or ()]),
        counters={one.name: _amounts(one.counters) for one in spec.shared_counters or ()},
    )


def _device(wire: _Device, driver: str) -> Device:
    content = wire.basic or wire
    return Device(
        name=wire.name,
        attributes={
            _qualified(name, driver): value
            for name, one in (content.attributes or {}).items()
            for value in (_value(one),)
            if value is not None
        },
        capacity={
            _qualified(name, driver): quantity(one.value if isinstance(one, _Capacity) else one)
            for name, one in (content.capacity or {}).items()
        },
        counters={one.counter_set: _amounts(one.counters) for one in content.consumes_counters or ()},
        taints=tuple(
            Taint(intern(t.key), intern(t.effect), t.value or "", t.time_added) for t in content.taints or ()
        ),
        node=content.node_name or "",
    )


def _qualified(name: str, driver: str) -> str:
    return intern(name if "/" in name else f"{driver}/{name}")


def _value(wire: _Attribute) -> Attribute | None:
    for value in (wire.string, wire.version):
        if value is not None:
            return intern(value)
    return wire.flag if wire.number is None else wire.number


def _amounts(counters: dict[str, _Capacity]) -> dict[str, float]:
    return {intern(name): quantity(one.value) for name, one in counters.items()}


def _expressions(wires: list[_Selector] | None) -> tuple[str, ...]:
    return tuple(mask_text(one.cel.expression[:LONGEST_EXPRESSION]) for one in wires or () if one.cel)


def _request(name: str, wire: _Exact) -> DeviceRequest:
    wanted = wire.capacity.requests if wire.capacity else None
    return DeviceRequest(
        name=name,
        device_class=wire.device_class_name,
        selectors=_expressions(wire.selectors),
        wants_all=wire.allocation_mode == "All",
        count=1 if wire.count is None else wire.count,
        is_admin=bool(wire.admin_access),
        tolerations=tuple(
            Toleration(
                t.key or "", t.operator or "Equal", t.value or "", t.effect or "", t.toleration_seconds
            )
            for t in wire.tolerations or ()
        ),
        capacity={name: quantity(value) for name, value in (wanted or {}).items()},
    )


def _demand(spec: _ClaimSpec) -> Demand:
    devices = spec.devices or _Devices()
    requests = []
    for one in devices.requests or ():
        if one.first_available:
            subs = tuple(_request(sub.name, sub) for sub in one.first_available)
            requests.append(DeviceRequest(name=one.name, alternatives=subs))
        else:
            requests.append(_request(one.name, one.exactly or one))
    alike = tuple(
        Alike(c.match_attribute, tuple(c.requests or ()))
        for c in devices.constraints or ()
        if c.match_attribute
    )
    return Demand(requests=tuple(requests), alike=alike)


class ClaimConverter:
    """Converts the claims of one list."""

    def __init__(self) -> None:
        self._parts = Parts()

    def __call__(self, wire: ClaimWire) -> ResourceClaim:
        meta, status = wire.metadata, wire.status or _ClaimStatus()
        results = (
            status.allocation.devices.results if status.allocation and status.allocation.devices else None
        )
        return ResourceClaim(
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid or "",
            owners=self._parts.owners(meta.owner_references, meta.namespace),
            demand=_demand(wire.spec),
            is_allocated=status.allocation is not None,
            allotted=tuple(
                Allotted(intern(r.driver), intern(r.pool), r.device, r.request, bool(r.admin_access))
                for r in results or ()
            ),
            pods=tuple(
                f"{meta.namespace}/{one.name}"
                for one in status.reserved_for or ()
                if one.resource == "pods" and not one.api_group
            ),
        )


def template_of(wire: TemplateWire) -> ClaimTemplate:
    return ClaimTemplate(
        namespace=wire.metadata.namespace, name=wire.metadata.name, demand=_demand(wire.spec.spec)
    )


def class_of(wire: ClassWire) -> DeviceClass:
    return DeviceClass(
        name=wire.metadata.name,
        selectors=_expressions(wire.spec.selectors),
        extended_resource=wire.spec.extended_resource_name or "",
    )
