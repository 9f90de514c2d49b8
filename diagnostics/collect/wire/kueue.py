"""Kueue's queues and Workloads."""

from typing import Annotated

import msgspec

from diagnostics.collect.wire.metadata import Amounts, ConditionWire, MetaWire, Parts, Wire
from diagnostics.collect.wire.pods import ResourcesWire
from diagnostics.snapshot import Flavor, PodSet, Queue, QueuedWorkload

Amount = str | int | float
Count = Annotated[int, msgspec.Meta(ge=0)]
_TOPOLOGY = {
    "required": "kueue.x-k8s.io/podset-required-topology",
    "preferred": "kueue.x-k8s.io/podset-preferred-topology",
    "unconstrained": "kueue.x-k8s.io/podset-unconstrained-topology",
}


class _Quota(Wire):
    name: str
    nominal_quota: Amount | None = None
    borrowing_limit: Amount | None = None


class _FlavorQuotas(Wire):
    name: str
    resources: list[_Quota] | None = None


class _ResourceGroup(Wire):
    flavors: list[_FlavorQuotas] | None = None


class _Used(Wire):
    name: str
    total: Amount | None = None


class _FlavorUsage(Wire):
    name: str = ""
    resources: list[_Used] | None = None


class _KueueQueueSpec(Wire):
    """Of a ClusterQueue or of a LocalQueue; v1beta2 calls the cohort `cohortName`."""

    cluster_queue: str | None = None
    cohort: str | None = None
    cohort_name: str | None = None
    stop_policy: str | None = None
    resource_groups: list[_ResourceGroup] | None = None


class _KueueQueueStatus(Wire):
    conditions: tuple[ConditionWire, ...] | None = None
    flavors_reservation: list[_FlavorUsage] | None = None
    flavors_usage: list[_FlavorUsage] | None = None
    pending_workloads: int | None = None


class KueueQueueWire(Wire):
    metadata: MetaWire
    spec: _KueueQueueSpec
    status: _KueueQueueStatus | None = None


class KueueQueueConverter:
    """Converts one list of ClusterQueues or LocalQueues."""

    def __init__(self, kind: str, api_version: str) -> None:
        self._kind = kind
        self._api_version = api_version
        self._parts = Parts()

    def __call__(self, wire: KueueQueueWire) -> Queue:
        spec, status = wire.spec, wire.status or _KueueQueueStatus()
        stopped = spec.stop_policy or ""
        return Queue(
            system="kueue",
            kind=self._kind,
            namespace=wire.metadata.namespace,
            name=wire.metadata.name,
            api_version=self._api_version,
            parent=spec.cluster_queue or spec.cohort_name or spec.cohort or "",
            state="" if stopped == "None" else stopped,
            conditions=self._parts.conditions(status.conditions),
            flavors=tuple(
                self._flavor(flavor) for group in spec.resource_groups or () for flavor in group.flavors or ()
            ),
            used=self._used(status.flavors_reservation or status.flavors_usage or []),
            pending=status.pending_workloads,
        )

    def _flavor(self, wire: _FlavorQuotas) -> Flavor:
        quotas = wire.resources or ()
        nominal: Amounts = {q.name: q.nominal_quota for q in quotas if q.nominal_quota is not None}
        borrowing: Amounts = {q.name: q.borrowing_limit for q in quotas if q.borrowing_limit is not None}
        return Flavor(wire.name, self._parts.amounts(nominal), self._parts.amounts(borrowing))

    def _used(self, flavors: list[_FlavorUsage]) -> dict[str, float]:
        found: dict[str, float] = {}
        for flavor in flavors:
            raw: Amounts = {u.name: u.total for u in flavor.resources or () if u.total is not None}
            for name, amount in self._parts.amounts(raw).items():
                found[name] = found.get(name, 0.0) + amount
        return found


class _Container(Wire):
    resources: ResourcesWire | None = None
    restart_policy: str | None = None


class _PodSpec(Wire):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None


class _Annotated(Wire):
    annotations: dict[str, str] | None = None


class _Template(Wire):
    metadata: _Annotated | None = None
    spec: _PodSpec | None = None


class _TopologyRequest(Wire):
    required: str | None = None
    preferred: str | None = None
    unconstrained: bool | None = None


class _PodSetWire(Wire):
    name: str = "main"
    count: Count = 1
    template: _Template | None = None
    topology_request: _TopologyRequest | None = None


class _WorkloadSpec(Wire):
    active: bool | None = None
    queue_name: str | None = None
    priority: int | None = None
    pod_sets: list[_PodSetWire] | None = None


class _Admission(Wire):
    cluster_queue: str | None = None


class _WorkloadStatus(Wire):
    admission: _Admission | None = None
    conditions: tuple[ConditionWire, ...] | None = None


class QueuedWorkloadWire(Wire):
    metadata: MetaWire
    spec: _WorkloadSpec
    status: _WorkloadStatus | None = None


class QueuedWorkloadConverter:
    """Converts one list of Kueue's Workloads."""

    def __init__(self, api_version: str) -> None:
        self._api_version = api_version
        self._parts = Parts()

    def __call__(self, wire: QueuedWorkloadWire) -> QueuedWorkload:
        meta, spec, status = wire.metadata, wire.spec, wire.status or _WorkloadStatus()
        return QueuedWorkload(
            namespace=self._parts.text(meta.namespace),
            name=meta.name,
            uid=meta.uid or "",
            api_version=self._api_version,
            owners=self._parts.owners(meta.owner_references, meta.namespace),
            created_at=meta.creation_timestamp,
            queue=spec.queue_name or "",
            cluster_queue=(status.admission.cluster_queue or "") if status.admission else "",
            priority=spec.priority,
            is_active=spec.active is not False,
            pod_sets=tuple(self._pod_set(pods) for pods in spec.pod_sets or ()),
            conditions=self._parts.conditions(status.conditions),
        )

    def _pod_set(self, wire: _PodSetWire) -> PodSet:
        spec = (wire.template.spec if wire.template else None) or _PodSpec()
        requests: dict[str, float] = {}
        for container in (*(spec.containers or ()), *self._sidecars(spec)):
            for name, amount in self._asked(container).items():
                requests[name] = requests.get(name, 0.0) + amount
        for container in spec.init_containers or ():
            for name, amount in self._asked(container).items():
                requests[name] = max(requests.get(name, 0.0), amount)
        return PodSet(wire.name, wire.count, requests, _topology(wire))

    @staticmethod
    def _sidecars(spec: _PodSpec) -> list[_Container]:
        return [one for one in spec.init_containers or () if one.restart_policy == "Always"]

    def _asked(self, container: _Container) -> dict[str, float]:
        """A limit alone sets the request as well."""
        if container.resources is None:
            return {}
        limits, requests = container.resources.limits, container.resources.requests
        return self._parts.amounts({**(limits or {}), **(requests or {})})


def _topology(wire: _PodSetWire) -> str:
    asked = wire.topology_request
    if asked is not None:
        return next((name for name in _TOPOLOGY if getattr(asked, name)), "")
    notes = (wire.template and wire.template.metadata and wire.template.metadata.annotations) or {}
    return next((name for name, key in _TOPOLOGY.items() if notes.get(key)), "")
