"""What a cluster allows: quotas and limits of namespaces, traffic rules, classes that pods name, drain budgets.

Each list is None where it could not be read.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from diagnostics.snapshot.kubernetes import Struct


class ResourceQuota(Struct, frozen=True, kw_only=True):
    """Amounts by the quota's own names (`requests.nvidia.com/gpu`, `limits.cpu`, `pods`), in base units."""

    namespace: str
    name: str
    hard: dict[str, float] = {}
    used: dict[str, float] = {}


class LimitRangeItem(Struct, frozen=True, kw_only=True):
    """What one Container, Pod or PersistentVolumeClaim may ask for, in base units."""

    type: str
    max: dict[str, float] = {}
    min: dict[str, float] = {}
    default: dict[str, float] = {}
    """Limits of a container that names none."""
    default_request: dict[str, float] = {}
    max_ratio: dict[str, float] = {}
    """Limit over request."""


class LimitRange(Struct, frozen=True, kw_only=True):
    namespace: str
    name: str
    items: tuple[LimitRangeItem, ...] = ()


class NetworkPolicy(Struct, frozen=True, kw_only=True):
    """Rules as the API has them; None where the policy says nothing of that direction."""

    namespace: str
    name: str
    pod_selector: dict[str, Any] = {}
    types: tuple[str, ...] = ()
    """Ingress, Egress."""
    ingress: tuple[dict[str, Any], ...] | None = None
    egress: tuple[dict[str, Any], ...] | None = None


class EndpointSlice(Struct, frozen=True, kw_only=True):
    """Who answers for a Service, by the names of the pods."""

    namespace: str
    name: str
    service: str = ""
    ready: tuple[str, ...] = ()
    not_ready: tuple[str, ...] = ()
    ports: tuple[tuple[str, int], ...] = ()


class RuntimeClass(Struct, frozen=True, kw_only=True):
    name: str
    handler: str = ""


class PriorityClass(Struct, frozen=True, kw_only=True):
    name: str
    value: int = 0
    preemption_policy: str = "PreemptLowerPriority"
    is_default: bool = False


class DisruptionBudget(Struct, frozen=True, kw_only=True):
    """A PodDisruptionBudget; `allowed` is how many of its pods may be evicted now."""

    namespace: str
    name: str
    selector: dict[str, Any] | None = None
    allowed: int | None = None
    healthy: int | None = None
    wanted: int | None = None
    """desiredHealthy."""


class Policy(Struct, frozen=True, kw_only=True):
    """What was read of it; traffic rules and endpoints of namespaces with GPU pods alone."""

    quotas: tuple[ResourceQuota, ...] | None = None
    limit_ranges: tuple[LimitRange, ...] | None = None
    network_policies: tuple[NetworkPolicy, ...] | None = None
    endpoint_slices: tuple[EndpointSlice, ...] | None = None
    runtime_classes: tuple[RuntimeClass, ...] | None = None
    priority_classes: tuple[PriorityClass, ...] | None = None
    budgets: tuple[DisruptionBudget, ...] | None = None

    @cached_property
    def quota_by_key(self) -> Mapping[tuple[str, str], ResourceQuota]:
        """(namespace, name) -> quota."""
        return {(quota.namespace, quota.name): quota for quota in self.quotas or ()}
