"""What the next poll may know of this one and those before it: bounded, and made from one snapshot alone. Pure."""

from collections import defaultdict
from datetime import datetime, timedelta

from diagnostics.snapshot import Gpu, HostPeak, MemoryPeak, Node, OwnerKey, Past, Snapshot, XidSeen

MOST_XIDS = 16
"""Of one device: enough for every code that a failing GPU shows in a day."""

MOST_PEAKS = 2_000
"""Workloads whose memory peak is remembered; those not seen for longest go first."""

PEAKS_KEPT = timedelta(days=7)
"""A full load cycle of most services (ours)."""


def past_after(previous: Snapshot, xid_recent: timedelta) -> Past:
    """History as of `previous`, which brings its own past: last activity, Xids not older than `xid_recent`, the
    most GPUs that each node ever had, since when MIG changes are pending, and the memory that workloads needed at most.
    """
    earliest = previous.taken_at - xid_recent
    active = dict(previous.past.last_active)
    fitted = dict(previous.past.fitted)
    active |= {gpu.slot: previous.taken_at for gpu in previous.gpus if is_active(gpu)}
    for node in previous.nodes:
        count = boards_seen(node, previous.gpus_by_node.get(node.name, []))
        if count:
            fitted[node.name] = max(count, fitted.get(node.name, 0))
    names = {node.name for node in previous.nodes}
    return Past(
        taken_at=previous.taken_at,
        cluster_id=previous.cluster_id,
        last_active={slot: at for slot, at in active.items() if slot.partition("/")[0] in names},
        fitted={node: count for node, count in fitted.items() if node in names},
        xids=xids_known(previous, earliest),
        mig_pending=mig_pending(previous),
        incidents=previous.past.incidents,
        memory_peaks=memory_peaks(previous),
        host_peaks=host_peaks(previous),
    )


def mig_pending(previous: Snapshot) -> dict[str, datetime]:
    """Node -> since when its MIG configuration is pending or its node rebooting for it, over this poll and earlier."""
    before = previous.past.mig_pending
    return {
        node.name: before.get(node.name, previous.taken_at)
        for node in previous.nodes
        if node.labels.get("nvidia.com/mig.config.state") in {"pending", "rebooting"}
    }


def boards_seen(node: Node, gpus: list[Gpu]) -> int:
    """Whole GPUs of the node that are surely there: what is remembered is never forgotten.

    MIG instances are none, also where the strategy `single` hands them out as GPUs. Unnamed ones beyond
    `nvidia.com/gpu.count` are shares, whose label comes later than their capacity.
    """
    if "-MIG-" in node.labels.get("nvidia.com/gpu.product", ""):
        return 0
    whole = [gpu for gpu in gpus if "/mig-" not in gpu.resource and gpu.mig_profile is None]
    named = sum(gpu.is_named for gpu in whole)
    count = sum(gpu.is_named or gpu.is_healthy is not False for gpu in whole)
    label = node.gpu_count_label
    return count if label is None else min(count, max(named, label))


def is_active(gpu: Gpu) -> bool:
    """Some engine was active at the last sample."""
    metrics = gpu.metrics
    if metrics is None:
        return False
    values = (
        metrics.utilization_ratio,
        metrics.gr_engine_ratio,
        metrics.sm_active_ratio,
        metrics.dram_active_ratio,
    )
    return any(value is not None and value > 0 for value in values)


def xids_known(previous: Snapshot, earliest: datetime) -> dict[str, tuple[XidSeen, ...]]:
    """Slot -> dated Xids since `earliest`, from the snapshot's past and from its windows, the newest of each code.

    Forgotten where the GPU was put right: its gauge reads 0 again, which takes a restart of DCGM, and nothing marks it
    unhealthy.
    """
    known: dict[str, dict[int, XidSeen]] = defaultdict(dict)
    by_slot = {gpu.slot: gpu for gpu in previous.gpus}
    seen = [(slot, xid) for slot, xids in previous.past.xids.items() for xid in xids]
    seen += [(gpu.slot, xid) for gpu in previous.gpus if gpu.window for xid in gpu.window.xids]
    for slot, xid in seen:
        if xid.last_at is None or xid.last_at < earliest or is_put_right(by_slot.get(slot)):
            continue
        other = known[slot].get(xid.code)
        if other is None or other.last_at is None or other.last_at < xid.last_at:
            known[slot][xid.code] = xid
    return {
        slot: tuple(sorted(xids.values(), key=lambda x: x.last_at or earliest)[-MOST_XIDS:])
        for slot, xids in known.items()
    }


def is_put_right(gpu: Gpu | None) -> bool:
    """The device is there, says that no Xid occurred since DCGM started, and is not unhealthy."""
    return (
        gpu is not None and gpu.metrics is not None and gpu.metrics.xid == 0 and gpu.is_healthy is not False
    )


def memory_peaks(previous: Snapshot) -> dict[str, MemoryPeak]:
    """Workload -> the most memory that it used on one device, over this poll, its windows and those before.

    A device with several holders says nothing of one of them.
    """
    peaks = dict(previous.past.memory_peaks)
    for gpu in previous.gpus:
        used = _memory_bytes(gpu)
        pod = previous.pod_by_key.get(gpu.holders[0]) if len(gpu.holders) == 1 else None
        if used is None or pod is None:
            continue
        root = pod.root or OwnerKey("Pod", pod.namespace, pod.name)
        key = f"{root.kind}/{root.namespace}/{root.name}"
        before = peaks.get(key)
        if before is None or before.gpu_bytes < used or before.seen_at != previous.taken_at:
            most = used if before is None else max(used, before.gpu_bytes)
            peaks[key] = MemoryPeak(gpu_bytes=most, seen_at=previous.taken_at)
    if len(peaks) <= MOST_PEAKS:
        return peaks
    newest = sorted(peaks.items(), key=lambda item: (item[1].seen_at, item[1].gpu_bytes), reverse=True)
    return dict(newest[:MOST_PEAKS])


def host_peaks(previous: Snapshot) -> dict[str, HostPeak]:
    """Container of a workload -> the most host memory that it used, over this poll's window and those before.

    A peak is forgotten after `PEAKS_KEPT`, so that what was put right is not held against a workload for ever.
    """
    peaks = {k: p for k, p in previous.past.host_peaks.items() if previous.taken_at - p.at <= PEAKS_KEPT}
    for usage in previous.usage:
        pod = previous.pod_by_key.get(usage.pod)
        if pod is None or usage.rss_bytes is None:
            continue
        root = pod.root or OwnerKey("Pod", pod.namespace, pod.name)
        key = f"{root.kind}/{root.namespace}/{root.name}/{usage.container}"
        if (before := peaks.get(key)) is None or before.rss_bytes <= usage.rss_bytes.max:
            peaks[key] = HostPeak(rss_bytes=usage.rss_bytes.max, at=previous.taken_at)
    newest = sorted(peaks.items(), key=lambda item: (item[1].at, item[1].rss_bytes), reverse=True)
    return dict(newest[:MOST_PEAKS])


def _memory_bytes(gpu: Gpu) -> float | None:
    """At the last sample, or at most over the window, which is its present holder's alone."""
    now = gpu.metrics.memory_used_bytes if gpu.metrics is not None else None
    over = gpu.window.memory_used_bytes if gpu.window is not None else None
    found = [value for value in (now, over.max if over is not None else None) if value is not None]
    return max(found, default=None)
