"""Volcano's Queues, and the pod groups of three gang schedulers, Kubernetes' own in both of its forms."""

from typing import Annotated

import msgspec

from diagnostics.collect.wire.metadata import Amounts, ConditionWire, MetaWire, Parts, Wire
from diagnostics.snapshot import OwnerKey, PodGroup, Queue

Count = Annotated[int, msgspec.Meta(ge=0)]


class _VolcanoQueueSpec(Wire):
    capability: Amounts | None = None
    deserved: Amounts | None = None
    parent: str | None = None


class _VolcanoQueueStatus(Wire):
    state: str | None = None
    allocated: Amounts | None = None
    pending: int | None = None


class VolcanoQueueWire(Wire):
    metadata: MetaWire
    spec: _VolcanoQueueSpec
    status: _VolcanoQueueStatus | None = None


class VolcanoQueueConverter:
    """Converts one list of Volcano's Queues."""

    def __init__(self, api_version: str) -> None:
        self._api_version = api_version
        self._parts = Parts()

    def __call__(self, wire: VolcanoQueueWire) -> Queue:
        status = wire.status or _VolcanoQueueStatus()
        return Queue(
            system="volcano",
            kind="Queue",
            name=wire.metadata.name,
            api_version=self._api_version,
            parent=wire.spec.parent or "",
            state=status.state or "",
            capability=self._parts.amounts(wire.spec.capability),
            deserved=self._parts.amounts(wire.spec.deserved),
            used=self._parts.amounts(status.allocated),
            pending=status.pending,
        )


class _Gang(Wire):
    min_count: Count | None = None


class _Policy(Wire):
    gang: _Gang | None = None


class _PodGroupSpec(Wire):
    """Volcano and the coscheduling plugin say minMember, Kubernetes' own group has a policy."""

    min_member: Count | None = None
    min_resources: Amounts | None = None
    queue: str | None = None
    scheduling_policy: _Policy | None = None


class _PodGroupStatus(Wire):
    phase: str | None = None
    conditions: tuple[ConditionWire, ...] | None = None


class PodGroupWire(Wire):
    metadata: MetaWire
    spec: _PodGroupSpec
    status: _PodGroupStatus | None = None


class PodGroupConverter:
    """Converts one list of PodGroups of one system: volcano, coscheduling or native."""

    def __init__(self, system: str, api_version: str) -> None:
        self._system = system
        self._api_version = api_version
        self._parts = Parts()

    def __call__(self, wire: PodGroupWire) -> PodGroup:
        meta, spec, status = wire.metadata, wire.spec, wire.status or _PodGroupStatus()
        gang = spec.scheduling_policy.gang if spec.scheduling_policy else None
        return PodGroup(
            system=self._system,
            namespace=self._parts.text(meta.namespace),
            name=meta.name,
            api_version=self._api_version,
            owners=self._parts.owners(meta.owner_references, meta.namespace),
            created_at=meta.creation_timestamp,
            min_member=gang.min_count if gang is not None else spec.min_member,
            min_resources=self._parts.amounts(spec.min_resources),
            queue=spec.queue or "",
            phase=status.phase or "",
            conditions=self._parts.conditions(status.conditions),
        )


class _ControllerRef(Wire):
    kind: str
    name: str


class _GroupInWorkload(Wire):
    name: str
    policy: _Policy | None = None


class _GangWorkloadSpec(Wire):
    """KEP-4671 in `scheduling.k8s.io/v1alpha1`."""

    controller_ref: _ControllerRef | None = None
    pod_groups: tuple[_GroupInWorkload, ...] = ()


class GangWorkloadWire(Wire):
    metadata: MetaWire
    spec: _GangWorkloadSpec


class GangWorkload(msgspec.Struct, frozen=True):
    """The pod groups of one Workload, named as their pods name them: `workload/group`."""

    pod_groups: tuple[PodGroup, ...]


class GangWorkloadConverter:
    """Converts one list of Kubernetes' own Workloads, which hold pod groups with a policy each."""

    def __init__(self, api_version: str) -> None:
        self._api_version = api_version
        self._parts = Parts()

    def __call__(self, wire: GangWorkloadWire) -> GangWorkload:
        meta, ref = wire.metadata, wire.spec.controller_ref
        namespace = self._parts.text(meta.namespace)
        owners = (OwnerKey(ref.kind, namespace, ref.name),) if ref is not None else ()
        return GangWorkload(
            tuple(
                PodGroup(
                    system="native",
                    namespace=namespace,
                    name=f"{meta.name}/{group.name}",
                    api_version=self._api_version,
                    owners=owners,
                    created_at=meta.creation_timestamp,
                    min_member=group.policy.gang.min_count if group.policy and group.policy.gang else None,
                )
                for group in wire.spec.pod_groups
            )
        )
