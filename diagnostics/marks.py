"""How each device stands at one poll, for the ledger: its mark, from its state, its sample and its holders. Pure."""

import zlib
from collections.abc import Callable

from diagnostics.limits import Thresholds
from diagnostics.snapshot import Gpu, OwnerKey, Snapshot, State
from diagnostics.states import DRAM_SATURATED_RATIO, FRESH_FOR, power_limit_of
from diagnostics.stretches import NOBODY, Mark

BY_OBJECTS = frozenset(
    {State.UNAVAILABLE, State.STRANDED, State.FREE, State.STUCK, State.STARTING, State.BLOCKED}
)
"""States that Kubernetes objects decide; the others are decided by the samples of each interval."""

WorkloadKey = Callable[[OwnerKey], int]


def marks_of(snapshot: Snapshot, thresholds: Thresholds, workload_key: WorkloadKey) -> dict[str, Mark]:
    """Slot -> mark of every device. `workload_key` numbers the root owners that hold devices."""
    waiting = _waiting_pods(snapshot, thresholds)
    return {gpu.slot: _mark(gpu, snapshot, thresholds, workload_key, waiting) for gpu in snapshot.gpus}


def _mark(gpu: Gpu, snapshot: Snapshot, t: Thresholds, workload_key: WorkloadKey, waiting: set[str]) -> Mark:
    pods = [snapshot.pod_by_key[key] for key in gpu.holders if key in snapshot.pod_by_key]
    holders = tuple(sorted(workload_key(pod.root or _bare(pod.key)) for pod in pods)) or NOBODY
    who = zlib.crc32("\n".join(sorted(pod.uid or pod.key for pod in pods)).encode()) if pods else 0
    if gpu.state is None or gpu.state in BY_OBJECTS:
        return Mark(gpu.state or State.NO_DATA, holders, who)
    if not is_fresh(gpu, snapshot) or gpu.holder_source == "count":
        return Mark(State.NO_DATA, holders, who)
    if pods and all(pod.key in waiting for pod in pods):
        return Mark(State.HUNG, holders, who)
    quiet = is_quiet(gpu, t)
    if quiet is None:
        return Mark(State.NO_DATA, holders, who)
    if quiet:
        used = gpu.metrics.memory_used_bytes if gpu.metrics else None
        resident = used is not None and used > t.idle_memory_resident_bytes
        return Mark(State.IDLE_HELD if resident else State.IDLE_EMPTY, holders, who)
    activity = working_activity(gpu)
    if activity is None:
        return Mark(State.EFFECTIVE, holders, who, 0.0, is_unjudged=True)
    needed = t.effective_activity_min_ratio
    state = State.EFFECTIVE if activity >= needed else State.INEFFECTIVE
    return Mark(state, holders, who, max(0.0, 1 - activity / needed) if needed else 0.0)


def _bare(key: str) -> OwnerKey:
    namespace, _, name = key.partition("/")
    return OwnerKey("Pod", namespace, name, "v1")


def is_fresh(gpu: Gpu, snapshot: Snapshot) -> bool:
    """It has a sample that may stand for this poll."""
    age = snapshot.age(gpu.metrics.sampled_at) if gpu.metrics is not None else None
    return age is not None and age <= FRESH_FOR


def is_quiet(gpu: Gpu, t: Thresholds) -> bool | None:
    """No engine is active in this sample and power is in the idle band; None where activity is not collected."""
    m = gpu.metrics
    if m is None:
        return None
    values = [
        value
        for value in (
            m.utilization_ratio,
            m.gr_engine_ratio,
            m.sm_active_ratio,
            m.tensor_active_ratio,
            m.dram_active_ratio,
        )
        if value is not None
    ]
    if not values:
        return None
    if max(values) > t.idle_activity_max_ratio:
        return False
    limit = power_limit_of(gpu)
    return m.power_w is None or limit is None or m.power_w <= t.idle_power_max_ratio * limit


def working_activity(gpu: Gpu) -> float | None:
    """max(SM_ACTIVE, DRAM_ACTIVE / 0.8) of this sample, at most 1; None where neither is collected."""
    m = gpu.metrics
    if m is None:
        return None
    values = [] if m.sm_active_ratio is None else [m.sm_active_ratio]
    if m.dram_active_ratio is not None:
        values.append(m.dram_active_ratio / DRAM_SATURATED_RATIO)
    return min(1.0, max(values)) if values else None


def _waiting_pods(snapshot: Snapshot, t: Thresholds) -> set[str]:
    """Members of collective gangs on all of whose GPUs this sample looks like a collective that waits."""
    found: set[str] = set()
    for gang in snapshot.gangs:
        gpus = [gpu for key in gang.members for gpu in snapshot.gpus_by_pod.get(key, [])]
        if gang.collective and gpus and all(_waits(gpu, t) for gpu in gpus):
            found.update(gang.members)
    return found


def _waits(gpu: Gpu, t: Thresholds) -> bool:
    m, limit = gpu.metrics, power_limit_of(gpu)
    if m is None or limit is None:
        return False
    values = (m.utilization_ratio, m.dram_active_ratio, m.tensor_active_ratio, m.power_w)
    if any(value is None for value in values):
        return False
    utilization, dram, tensor, power = (value for value in values if value is not None)
    return (
        utilization >= t.hung_utilization_min_ratio
        and dram < t.hung_dram_max_ratio
        and tensor < t.hung_tensor_max_ratio
        and power < t.hung_power_max_ratio * limit
    )
