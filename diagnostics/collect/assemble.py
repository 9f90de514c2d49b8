"""Joins what the sources gave into one Snapshot, by node, device and pod. Pure."""

from collections.abc import Mapping

import msgspec

from diagnostics.collect import devices, racks
from diagnostics.collect.readings import ClusterObjects, LogReadings, Readings
from diagnostics.gangs import gangs_of
from diagnostics.limits import Limits
from diagnostics.snapshot import (
    OwnerKey,
    Past,
    Pod,
    Snapshot,
    Workload,
)
from diagnostics.states import with_states

MAX_OWNER_CHAIN = 8
"""Owner references are data: a loop in them must end."""


def assemble(
    objects: ClusterObjects,
    readings: Readings,
    *,
    snapshot: Snapshot,
    logs: LogReadings,
    rack_label: str = "",
    past: Past | None = None,
    limits: Limits | None = None,
) -> Snapshot:
    """`snapshot` (which brings `taken_at` and the cluster's name) filled with everything that was read."""
    past = past or Past()
    pods = with_roots(objects.pods, objects.workloads)
    nodes = racks.placed(objects.nodes, rack_label)
    gpus = devices.joined(nodes, pods, readings.devices, past)
    filled = msgspec.structs.replace(
        snapshot,
        cluster_id=objects.cluster_id or snapshot.cluster_id,
        server_version=objects.server_version,
        sources=(*objects.statuses, *readings.statuses, logs.status),
        apis=objects.apis,
        nodes=nodes,
        pods=pods,
        workloads=objects.workloads,
        events=objects.events,
        namespaces=objects.namespaces,
        services=objects.services,
        gpus=gpus,
        gangs=gangs_of(pods, objects.workloads),
        signals=logs.signals,
        logs_read=logs.pods_read,
        exporters_down=readings.exporters_down,
        has_pod_labels=readings.has_pod_labels,
        past=past,
    )
    states = with_states(filled, limits or Limits())
    judged = tuple(
        msgspec.structs.replace(gpu, state=states[gpu.slot][0], is_unjudged=states[gpu.slot][1])
        for gpu in filled.gpus
    )
    return msgspec.structs.replace(filled, gpus=judged)


def with_roots(pods: tuple[Pod, ...], workloads: tuple[Workload, ...]) -> tuple[Pod, ...]:
    """Each pod with the top of its owner chain, as far as the owners could be read."""
    known = {(w.kind, w.namespace, w.name): w for w in workloads}
    return tuple(msgspec.structs.replace(pod, root=_root(pod, known)) for pod in pods)


def _root(pod: Pod, known: Mapping[tuple[str, str, str], Workload]) -> OwnerKey:
    if not pod.owners or pod.owners[0].kind == "Node":
        return OwnerKey("Pod", pod.namespace, pod.name, "v1", pod.uid)
    owner = _within(pod.owners[0], pod.namespace)
    for _ in range(MAX_OWNER_CHAIN):
        workload = known.get((owner.kind, owner.namespace, owner.name))
        if workload is None or not workload.owners:
            return owner
        owner = _within(workload.owners[0], pod.namespace)
    return owner


def _within(owner: OwnerKey, namespace: str) -> OwnerKey:
    """Owner references name no namespace: an owner lives where its dependent does."""
    return owner if owner.namespace else msgspec.structs.replace(owner, namespace=namespace)
