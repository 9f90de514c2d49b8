"""The GPU that a container saw: its size, its MIG profile and who else holds it, from snapshot and log."""

import re
from collections.abc import Iterable, Sequence

import msgspec

from diagnostics.snapshot import Gpu, LogSignal, Node, Origin, Pod, Snapshot


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the GPU that a container saw, from the snapshot and from listings in its log."""

    total_bytes: float | None = None
    nominal_bytes: float | None = None
    """Of the whole card, from the node's label `nvidia.com/gpu.memory`."""
    mig_profile: str | None = None
    mig_bytes: float | None = None
    sharers: tuple[str, ...] = ()
    """Other pods that hold the same GPU."""
    is_shared: bool | None = None
    """Handed out as replicas or held by several pods; None when the GPU is not known."""
    names: tuple[str, ...] = ()
    """Index and slot of each GPU of the pod, in words."""
    left_bytes: float | None = None
    """Most in use on one of its GPUs while no container of the pod runs; None where it was not measured then."""


def device_of(snapshot: Snapshot, pod: Pod, signals: Iterable[LogSignal]) -> Device:
    """The pod's GPU: of several, the one that the message names by index is not told apart (indices in a
    container are its own), so only what holds for all of them is said."""
    gpus = [g for g in snapshot.gpus_by_pod.get(pod.key, ()) if g.is_named]
    node = snapshot.node_by_name.get(pod.node or "")
    profile, mig_bytes = _mig(pod, gpus, signals)
    totals = {g.metrics.memory_total_bytes for g in gpus if g.metrics}
    sharers = {h for g in gpus for h in g.holders if h != pod.key}
    return Device(
        total_bytes=totals.pop() if len(totals) == 1 else None,
        nominal_bytes=_nominal(node),
        mig_profile=profile,
        mig_bytes=mig_bytes,
        sharers=tuple(sorted(sharers)),
        is_shared=bool(sharers) or any(g.replicas > 1 or g.origin is Origin.SHARED for g in gpus)
        if gpus
        else None,
        names=tuple(f"{g.slot} (index {g.index})" if g.index is not None else g.slot for g in gpus),
        left_bytes=_left(pod, gpus),
    )


def _left(pod: Pod, gpus: Sequence[Gpu]) -> float | None:
    """From samples that are younger than the end of the pod's last container."""
    ends = [
        e.finished_at for c in pod.containers if (e := c.terminated or c.last_terminated) and e.finished_at
    ]
    if not ends or any(c.state == "running" for c in pod.containers):
        return None
    metrics = [g.metrics for g in gpus if g.metrics]
    used = [
        m.memory_used_bytes
        for m in metrics
        if m.memory_used_bytes is not None and m.sampled_at is not None and m.sampled_at > max(ends)
    ]
    return max(used) if used and len(used) == len(gpus) else None


def _nominal(node: Node | None) -> float | None:
    try:
        mib = float(node.labels["nvidia.com/gpu.memory"]) if node else 0.0
    except (KeyError, ValueError):
        return None
    return mib * 2**20 or None


def _mig(pod: Pod, gpus: Sequence[Gpu], signals: Iterable[LogSignal]) -> tuple[str | None, float | None]:
    """Profile and memory of the MIG instance: from the device, the log's own listing, or the resource
    name."""
    resources = [r.removeprefix("nvidia.com/mig-") for r in pod.gpus if r.startswith("nvidia.com/mig-")]
    told = [s.words.get("profile", "") for s in signals if s.signal == "mig-device"]
    profiles = {p for p in (*(g.mig_profile for g in gpus), *told, *resources) if p}
    if len(profiles) != 1:
        return None, None
    profile = profiles.pop()
    size = re.search(r"(\d{1,4})gb", profile)
    return profile, float(size[1]) * 2**30 if size else None
