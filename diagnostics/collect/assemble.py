"""Joins what the sources gave into one Snapshot, by node, device and pod. Pure."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from diagnostics.collect import devices, racks, windows
from diagnostics.collect.node_messages import node_signals
from diagnostics.collect.readings import ClusterObjects, LogReadings, Readings
from diagnostics.collect.windows import RecentSamples
from diagnostics.gangs import gangs_of
from diagnostics.limits import Limits
from diagnostics.quantities import span
from diagnostics.snapshot import (
    Gpu,
    OwnerKey,
    Past,
    Pod,
    Snapshot,
    Source,
    SourceState,
    SourceStatus,
    Workload,
)
from diagnostics.states import with_states

FEWEST_POLLS = 2
"""One sample is no window."""
MAX_OWNER_CHAIN = 8
"""Owner references are data: a loop in them must end."""
_LWS_NAME = "leaderworkerset.sigs.k8s.io/name"


class Assembled(NamedTuple):
    """The snapshot, and the samples that make the next poll's windows (None where Prometheus makes them)."""

    snapshot: Snapshot
    recent: RecentSamples | None


def assemble(
    objects: ClusterObjects,
    readings: Readings,
    *,
    snapshot: Snapshot,
    logs: LogReadings,
    rack_label: str = "",
    past: Past | None = None,
    recent: RecentSamples | None = None,
    limits: Limits | None = None,
) -> Assembled:
    """`snapshot` (which brings `taken_at` and the cluster's name) filled with everything that was read.

    `recent`: samples of earlier polls, for clusters without Prometheus; their windows end with this poll's sample.
    """
    past, limits = past or Past(), limits or Limits()
    if past.cluster_id and objects.cluster_id and past.cluster_id != objects.cluster_id:
        # Another cluster answers under the same name: nothing of the old one is its own.
        past, recent = Past(), RecentSamples() if recent is not None else None
    pods = with_roots(objects.pods, objects.workloads)
    nodes = racks.placed(objects.nodes, rack_label)
    gpus = devices.joined(
        nodes, pods, readings.devices, past, recent.slots if recent else (), dra=objects.dra
    )
    statuses = readings.statuses
    if recent is not None:
        recent = windows.extended(recent, gpus, snapshot.taken_at, limits.site.window)
        gpus, window = _with_windows(gpus, recent, snapshot.taken_at, limits)
        statuses = (*(s for s in statuses if s.name is not Source.WINDOW), window)
    elif not readings.has_pod_labels:
        gpus = _without_predecessors(gpus, pods, snapshot.taken_at)
    filled = msgspec.structs.replace(
        snapshot,
        cluster_id=objects.cluster_id or snapshot.cluster_id,
        server_version=objects.server_version,
        sources=(*objects.statuses, *statuses, logs.status),
        apis=objects.apis,
        nodes=nodes,
        pods=pods,
        workloads=objects.workloads,
        events=objects.events,
        namespaces=objects.namespaces,
        services=objects.services,
        storage=objects.storage,
        policy=objects.policy,
        queues=objects.queues,
        queued=objects.queued,
        pod_groups=objects.pod_groups,
        operator_resources=objects.operator_resources,
        dra=objects.dra,
        gpus=gpus,
        gangs=gangs_of(pods, objects.workloads, objects.pod_groups, logs.signals),
        signals=(*logs.signals, *node_signals(nodes, objects.events)),
        logs_read=logs.pods_read,
        exporters_down=readings.exporters_down,
        has_pod_labels=readings.has_pod_labels,
        past=past,
    )
    states = with_states(filled, limits)
    judged = tuple(
        msgspec.structs.replace(gpu, state=states[gpu.slot][0], is_unjudged=states[gpu.slot][1])
        for gpu in filled.gpus
    )
    return Assembled(msgspec.structs.replace(filled, gpus=judged), recent)


def _without_predecessors(gpus: tuple[Gpu, ...], pods: tuple[Pod, ...], now: datetime) -> tuple[Gpu, ...]:
    """Without pod labels a window is the device's: it says nothing of a pod that started within it."""
    started = {pod.key: pod.started_at or pod.created_at for pod in pods}
    return tuple(
        msgspec.structs.replace(gpu, window=None)
        if gpu.window is not None
        and any(_began_within(started.get(h), gpu.window.span, now) for h in gpu.holders)
        else gpu
        for gpu in gpus
    )


def _began_within(began: datetime | None, span_: timedelta, now: datetime) -> bool:
    return began is None or now - began < span_


def _with_windows(
    gpus: tuple[Gpu, ...], recent: RecentSamples, taken_at: datetime, limits: Limits
) -> tuple[tuple[Gpu, ...], SourceStatus]:
    """Windows from our own samples, and how far they carry."""
    span_ = limits.site.window
    found = windows.windows_of(recent, taken_at, span_)
    gpus = tuple(msgspec.structs.replace(gpu, window=found.get(gpu.slot, gpu.window)) for gpu in gpus)
    if len(recent.polls) < FEWEST_POLLS:
        detail = "a window of metrics needs Prometheus, or earlier polls of this cluster"
        return gpus, SourceStatus(name=Source.WINDOW, state=SourceState.ABSENT, detail=detail)
    since = taken_at - recent.polls[0].at
    needed = limits.site.window_coverage_min_ratio * span_
    if since < needed:
        detail = f"{span(since)} of the {span(span_)} that rules judge by have been polled so far"
        return gpus, SourceStatus(name=Source.WINDOW, state=SourceState.PARTIAL, detail=detail)
    return gpus, SourceStatus(name=Source.WINDOW, state=SourceState.OK, items=len(found))


def with_roots(pods: tuple[Pod, ...], workloads: tuple[Workload, ...]) -> tuple[Pod, ...]:
    """Each pod with the top of its owner chain, as far as the owners could be read."""
    known = {(w.kind, w.namespace, w.name): w for w in workloads}
    leaders = {(pod.namespace, pod.name): pod for pod in pods if _LWS_NAME in pod.labels}
    return tuple(msgspec.structs.replace(pod, root=_root(pod, known, leaders)) for pod in pods)


def _root(
    pod: Pod, known: Mapping[tuple[str, str, str], Workload], leaders: Mapping[tuple[str, str], Pod]
) -> OwnerKey:
    if not pod.owners or pod.owners[0].kind == "Node":
        return OwnerKey("Pod", pod.namespace, pod.name, "v1", pod.uid)
    owner = _within(pod.owners[0], pod.namespace)
    for _ in range(MAX_OWNER_CHAIN):
        workload = known.get((owner.kind, owner.namespace, owner.name))
        if workload is None:
            # The workers' StatefulSet of a LeaderWorkerSet is owned by the leader's pod.
            above = leaders.get((owner.namespace, owner.name)) if owner.kind == "Pod" else None
            if above is None or not above.owners:
                return _deployment_of(pod, owner)
            owner = _within(above.owners[0], pod.namespace)
            continue
        if not workload.owners:
            return _leader_worker_set(pod, owner, known)
        owner = _within(workload.owners[0], pod.namespace)
    return owner


def _leader_worker_set(pod: Pod, owner: OwnerKey, known: Mapping[tuple[str, str, str], Workload]) -> OwnerKey:
    """The LeaderWorkerSet that the pod names, where the chain ends at one of its StatefulSets."""
    named = known.get(("LeaderWorkerSet", pod.namespace, pod.labels.get(_LWS_NAME, "")))
    return named.key if named is not None and owner.kind == "StatefulSet" else owner


def _deployment_of(pod: Pod, owner: OwnerKey) -> OwnerKey:
    """The Deployment behind a ReplicaSet that was not read, by the hash that it puts into both names.

    Else the subject of a finding would change with every poll in which the ReplicaSets cannot be read.
    """
    suffix = f"-{pod.labels.get('pod-template-hash', '')}"
    if owner.kind == "ReplicaSet" and len(suffix) > 1 and owner.name.endswith(suffix):
        return OwnerKey("Deployment", owner.namespace, owner.name.removesuffix(suffix), owner.api_version)
    return owner


def _within(owner: OwnerKey, namespace: str) -> OwnerKey:
    """Owner references name no namespace: an owner lives where its dependent does."""
    return owner if owner.namespace else msgspec.structs.replace(owner, namespace=namespace)
