"""What the next poll may know of this one and those before it: bounded, and made from one snapshot alone. Pure."""

from collections import defaultdict
from datetime import datetime, timedelta

from diagnostics.snapshot import Gpu, Past, Snapshot, XidSeen

MOST_XIDS = 16
"""Of one device: enough for every code that a failing GPU shows in a day."""


def past_after(previous: Snapshot, xid_recent: timedelta) -> Past:
    """History as of `previous`, which brings its own past: last activity, Xids not older than `xid_recent`, and the
    most GPUs that each node ever had.
    """
    earliest = previous.taken_at - xid_recent
    active = dict(previous.past.last_active)
    fitted = dict(previous.past.fitted)
    counts: dict[str, int] = defaultdict(int)
    for gpu in previous.gpus:
        if is_active(gpu):
            active[gpu.slot] = previous.taken_at
        if "/mig-" not in gpu.resource and (gpu.is_named or gpu.is_healthy is not False):
            counts[gpu.node] += 1
    for node, count in counts.items():
        fitted[node] = max(count, fitted.get(node, 0))
    names = {node.name for node in previous.nodes}
    return Past(
        taken_at=previous.taken_at,
        cluster_id=previous.cluster_id,
        last_active={slot: at for slot, at in active.items() if slot.partition("/")[0] in names},
        fitted={node: count for node, count in fitted.items() if node in names},
        xids=xids_known(previous, earliest),
    )


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
