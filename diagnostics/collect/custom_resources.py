"""Which reader each custom resource has, and how what they gave is told apart."""

from collections.abc import Callable, Iterable

import msgspec

from diagnostics.collect.custom_apis import JOBS, OPERATORS
from diagnostics.collect.wire.custom_workloads import CustomWorkloadConverter, CustomWorkloadWire
from diagnostics.collect.wire.gpu_operator import OperatorResourceConverter, OperatorResourceWire
from diagnostics.collect.wire.kueue import (
    KueueQueueConverter,
    KueueQueueWire,
    QueuedWorkloadConverter,
    QueuedWorkloadWire,
)
from diagnostics.collect.wire.listing import ItemReader
from diagnostics.collect.wire.pod_groups import (
    GangWorkload,
    GangWorkloadConverter,
    GangWorkloadWire,
    PodGroupConverter,
    PodGroupWire,
    VolcanoQueueConverter,
    VolcanoQueueWire,
)
from diagnostics.snapshot import OperatorResource, PodGroup, Queue, QueuedWorkload, ServedApi, Workload

Custom = Workload | Queue | QueuedWorkload | PodGroup | GangWorkload | OperatorResource
_POD_GROUPS = {
    "scheduling.volcano.sh": "volcano",
    "scheduling.x-k8s.io": "coscheduling",
    "scheduling.k8s.io": "native",
}


class CustomResources(msgspec.Struct, frozen=True):
    """What came of the custom resources, by what it is in the snapshot."""

    workloads: tuple[Workload, ...] = ()
    queues: tuple[Queue, ...] = ()
    queued: tuple[QueuedWorkload, ...] = ()
    pod_groups: tuple[PodGroup, ...] = ()
    operator_resources: tuple[OperatorResource, ...] = ()


def reader_of(resource: str) -> Callable[[ServedApi], ItemReader[Custom]]:
    """For a key of `custom_apis.CUSTOM`."""
    if resource in OPERATORS:
        return _operator_reader
    return _job_reader if resource in JOBS else _queue_reader


def told_apart(found: Iterable[Custom]) -> CustomResources:
    kinds: dict[type, list[Custom]] = {}
    for one in found:
        parts = one.pod_groups if isinstance(one, GangWorkload) else (one,)
        for part in parts:
            kinds.setdefault(type(part), []).append(part)
    each = (tuple(kinds.get(t, ())) for t in (Workload, Queue, QueuedWorkload, PodGroup, OperatorResource))
    return CustomResources(*each)  # type: ignore[arg-type]


def _job_reader(api: ServedApi) -> ItemReader[Custom]:
    return ItemReader(CustomWorkloadWire, CustomWorkloadConverter(api.kind, api.api_version))


def _operator_reader(api: ServedApi) -> ItemReader[Custom]:
    return ItemReader(OperatorResourceWire, OperatorResourceConverter(api.kind, api.api_version))


def _queue_reader(api: ServedApi) -> ItemReader[Custom]:
    if api.kind == "PodGroup":
        return ItemReader(PodGroupWire, PodGroupConverter(_POD_GROUPS[api.group], api.api_version))
    if api.kind == "Workload" and api.group == "scheduling.k8s.io":
        return ItemReader(GangWorkloadWire, GangWorkloadConverter(api.api_version))
    if api.kind == "Workload":
        return ItemReader(QueuedWorkloadWire, QueuedWorkloadConverter(api.api_version))
    if api.kind == "Queue":
        return ItemReader(VolcanoQueueWire, VolcanoQueueConverter(api.api_version))
    return ItemReader(KueueQueueWire, KueueQueueConverter(api.kind, api.api_version))
