"""Quotas, limit ranges, network policies, endpoints, classes of runtime and priority, and drain budgets on the wire."""

from typing import Any

import msgspec

from diagnostics.collect.wire.metadata import Amounts, MetaWire, Parts, Wire
from diagnostics.snapshot.policy import (
    DisruptionBudget,
    EndpointSlice,
    LimitRange,
    LimitRangeItem,
    NetworkPolicy,
    PriorityClass,
    ResourceQuota,
    RuntimeClass,
)

_SERVICE = "kubernetes.io/service-name"
_MOST_RULES = 100


class _QuotaStatus(Wire):
    hard: Amounts | None = None
    used: Amounts | None = None


class _QuotaSpec(Wire):
    hard: Amounts | None = None


class QuotaWire(Wire):
    metadata: MetaWire
    spec: _QuotaSpec = msgspec.field(default_factory=_QuotaSpec)
    status: _QuotaStatus = msgspec.field(default_factory=_QuotaStatus)


class _LimitWire(Wire):
    type: str = ""
    max: Amounts | None = None
    min: Amounts | None = None
    default: Amounts | None = None
    default_request: Amounts | None = None
    max_limit_request_ratio: Amounts | None = None


class _LimitsSpec(Wire):
    limits: list[_LimitWire] | None = None


class LimitRangeWire(Wire):
    metadata: MetaWire
    spec: _LimitsSpec = msgspec.field(default_factory=_LimitsSpec)


class _PolicySpec(Wire):
    pod_selector: dict[str, Any] | None = None
    policy_types: tuple[str, ...] | None = None
    ingress: tuple[dict[str, Any], ...] | None = None
    egress: tuple[dict[str, Any], ...] | None = None


class NetworkPolicyWire(Wire):
    metadata: MetaWire
    spec: _PolicySpec = msgspec.field(default_factory=_PolicySpec)


class _Target(Wire):
    kind: str = ""
    name: str = ""


class _EndpointState(Wire):
    ready: bool | None = None


class _Endpoint(Wire):
    target_ref: _Target | None = None
    conditions: _EndpointState | None = None


class _EndpointPort(Wire):
    port: int | None = None
    name: str | None = None


class EndpointSliceWire(Wire):
    metadata: MetaWire
    endpoints: list[_Endpoint] | None = None
    ports: list[_EndpointPort] | None = None


class RuntimeClassWire(Wire):
    metadata: MetaWire
    handler: str = ""


class PriorityClassWire(Wire):
    metadata: MetaWire
    value: int = 0
    preemption_policy: str | None = None
    global_default: bool | None = None


class _BudgetSpec(Wire):
    selector: dict[str, Any] | None = None


class _BudgetStatus(Wire):
    disruptions_allowed: int | None = None
    current_healthy: int | None = None
    desired_healthy: int | None = None


class BudgetWire(Wire):
    metadata: MetaWire
    spec: _BudgetSpec = msgspec.field(default_factory=_BudgetSpec)
    status: _BudgetStatus = msgspec.field(default_factory=_BudgetStatus)


class PolicyConverters:
    """One method a kind; they share what repeats."""

    def __init__(self) -> None:
        self._parts = Parts()

    def quota(self, wire: QuotaWire) -> ResourceQuota:
        amounts = self._parts.amounts
        return ResourceQuota(
            namespace=wire.metadata.namespace,
            name=wire.metadata.name,
            hard=amounts(wire.status.hard or wire.spec.hard),
            used=amounts(wire.status.used),
        )

    def limit_range(self, wire: LimitRangeWire) -> LimitRange:
        amounts = self._parts.amounts
        return LimitRange(
            namespace=wire.metadata.namespace,
            name=wire.metadata.name,
            items=tuple(
                LimitRangeItem(
                    type=one.type,
                    max=amounts(one.max),
                    min=amounts(one.min),
                    default=amounts(one.default),
                    default_request=amounts(one.default_request),
                    max_ratio=amounts(one.max_limit_request_ratio),
                )
                for one in wire.spec.limits or ()
            ),
        )

    def network_policy(self, wire: NetworkPolicyWire) -> NetworkPolicy:
        """A policy that names no types is about ingress, and about egress where it has such rules (API reference)."""
        spec = wire.spec
        types = spec.policy_types or (("Ingress", "Egress") if spec.egress else ("Ingress",))
        return NetworkPolicy(
            namespace=wire.metadata.namespace,
            name=wire.metadata.name,
            pod_selector=spec.pod_selector or {},
            types=types,
            ingress=(spec.ingress or ())[:_MOST_RULES] if "Ingress" in types else None,
            egress=(spec.egress or ())[:_MOST_RULES] if "Egress" in types else None,
        )

    def endpoint_slice(self, wire: EndpointSliceWire) -> EndpointSlice:
        """Readiness that is not said counts as ready (API reference)."""
        ready: list[str] = []
        not_ready: list[str] = []
        for one in wire.endpoints or ():
            if one.target_ref is not None and one.target_ref.kind == "Pod":
                is_ready = one.conditions is None or one.conditions.ready is not False
                (ready if is_ready else not_ready).append(self._parts.text(one.target_ref.name))
        return EndpointSlice(
            namespace=self._parts.text(wire.metadata.namespace),
            name=wire.metadata.name,
            service=(wire.metadata.labels or {}).get(_SERVICE, ""),
            ready=tuple(ready),
            not_ready=tuple(not_ready),
            ports=tuple((p.name or "", p.port) for p in wire.ports or () if p.port is not None),
        )


def runtime_class(wire: RuntimeClassWire) -> RuntimeClass:
    return RuntimeClass(name=wire.metadata.name, handler=wire.handler)


def priority_class(wire: PriorityClassWire) -> PriorityClass:
    return PriorityClass(
        name=wire.metadata.name,
        value=wire.value,
        preemption_policy=wire.preemption_policy or "PreemptLowerPriority",
        is_default=bool(wire.global_default),
    )


def budget(wire: BudgetWire) -> DisruptionBudget:
    status = wire.status
    return DisruptionBudget(
        namespace=wire.metadata.namespace,
        name=wire.metadata.name,
        selector=wire.spec.selector,
        allowed=status.disruptions_allowed,
        healthy=status.current_healthy,
        wanted=status.desired_healthy,
    )
