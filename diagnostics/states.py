"""The state of a GPU: exactly one per device and instant; the first line that matches wins.

The order and the meaning are the glossary's (`docs/glossary.md`); the numbers stand in `limits.py`. Pure.
"""

from collections.abc import Sequence
from datetime import timedelta

from diagnostics.gpu_models import power_limit_w
from diagnostics.limits import Limits, Thresholds
from diagnostics.snapshot import (
    Container,
    Gpu,
    Node,
    Origin,
    Pod,
    Snapshot,
    Source,
    SourceState,
    Stat,
    State,
    Terminated,
    Window,
)

IMAGE_PULL_REASONS = frozenset(
    {"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"}
)
CONFIG_REASONS = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
FRESH_FOR = timedelta(minutes=5)
"""A sample older than this is not "now": ten times the exporter's default interval, and Prometheus' own lookback.

The source's status is finer (three scrapes); this bounds what any source may call fresh.
"""
DRAM_SATURATED_RATIO = 0.8
"""DRAM_ACTIVE of about 0.8 is practically saturated (DCGM field 1005)."""


def with_states(snapshot: Snapshot, limits: Limits) -> dict[str, tuple[State, bool]]:
    """Slot -> (state, unjudged) for every device of the snapshot."""
    judge = _Judge(snapshot, limits.site)
    return {gpu.slot: judge.state_of(gpu) for gpu in snapshot.gpus}


class _Judge:
    """Walks the definitions in their order; each method is one of them."""

    def __init__(self, snapshot: Snapshot, thresholds: Thresholds) -> None:
        self.snapshot = snapshot
        self.t = thresholds
        are_read = snapshot.source(Source.CLAIMS).state.is_usable
        self.knows_claims = are_read and "resourceclaims" not in snapshot.dra.unread
        self.hung = _hung_pods(snapshot, thresholds)
        self.blocked = _blocked_pods(snapshot)
        wanted = wanted_beside_a_gpu(snapshot, thresholds)
        self.stranded = {node.name: is_stranded(node, snapshot, wanted) for node in snapshot.nodes}

    def state_of(self, gpu: Gpu) -> tuple[State, bool]:
        """The first definition that matches, and whether `effective` is for want of data to judge."""
        node = self.snapshot.node_by_name.get(gpu.node)
        if is_unavailable(gpu, node):
            return State.UNAVAILABLE, False
        pods = [self.snapshot.pod_by_key[key] for key in gpu.holders if key in self.snapshot.pod_by_key]
        if not pods and gpu.origin is Origin.DRA and (gpu.claims or not gpu.device or not self.knows_claims):
            return State.NO_DATA, False  # allocated without a pod that is known, or nobody could tell
        if not pods:
            return (State.STRANDED if self.stranded.get(gpu.node) else State.FREE), False
        return self._by_holders(pods) or self._by_metrics(gpu, pods)

    def _by_holders(self, pods: list[Pod]) -> tuple[State, bool] | None:
        """What the holders' own objects say; a shared GPU is only as bad as its best holder."""
        if all(stuck_cause(pod, self.snapshot, self.t) for pod in pods):
            return State.STUCK, False
        if all(_is_starting(pod, self.snapshot, self.t) for pod in pods):
            return State.STARTING, False
        if all(pod.key in self.blocked for pod in pods):
            return State.BLOCKED, False
        return None

    def _by_metrics(self, gpu: Gpu, pods: list[Pod]) -> tuple[State, bool]:
        window = usable_window(gpu, self.snapshot, self.t)
        idle = is_idle(gpu, window, self.t) if window is not None else None
        if window is None or idle is None:
            return State.NO_DATA, False
        if all(pod.key in self.hung for pod in pods):
            return State.HUNG, False
        if idle:
            return (State.IDLE_HELD if has_resident_memory(window, self.t) else State.IDLE_EMPTY), False
        activity = effective_activity(window)
        if activity is None:
            return State.EFFECTIVE, True
        effective = activity >= self.t.effective_activity_min_ratio
        return (State.EFFECTIVE if effective else State.INEFFECTIVE), False


def is_unavailable(gpu: Gpu, node: Node | None) -> bool:
    """Node not Ready, GPU unhealthy or not allocatable, remap failed, or cordoned and held by nobody."""
    if node is not None and node.is_ready is False:
        return True
    if gpu.is_healthy is False or (gpu.metrics is not None and gpu.metrics.row_remap_failed):
        return True
    return node is not None and node.unschedulable and not gpu.holders


def wanted_beside_a_gpu(snapshot: Snapshot, t: Thresholds) -> list[tuple[float, float]]:
    """(cores, bytes) of a typical request for one GPU, and of each pod that waits for GPUs."""
    waiting = (
        p.effective_requests for p in snapshot.pods if p.node is None and p.phase == "Pending" and p.gpus
    )
    found = [(requests.get("cpu", 0.0), requests.get("memory", 0.0)) for requests in waiting]
    return [(t.typical_cpu_cores_per_gpu, t.typical_memory_bytes_per_gpu), *found]


def is_stranded(node: Node, snapshot: Snapshot, wanted: Sequence[tuple[float, float]]) -> bool:
    """A free GPU that nothing that is `wanted_beside_a_gpu` could use: the node lacks CPU or memory."""
    held = [p for p in snapshot.pods_by_node.get(node.name, []) if not p.is_finished]
    left = {
        name: node.allocatable.get(name, 0.0) - sum(p.effective_requests.get(name, 0.0) for p in held)
        for name in ("cpu", "memory")
    }
    if "cpu" not in node.allocatable or "memory" not in node.allocatable:
        return False
    return all(cpu > left["cpu"] or memory > left["memory"] for cpu, memory in wanted)


def stuck_cause(pod: Pod, snapshot: Snapshot, t: Thresholds) -> str | None:
    """Why a holder cannot work: `unknown-node-lost`, `terminating`, `crash-loop`, `image-pull`, `config-error`,
    `mount-failed` or `not-ready`; None when it can, or when it is too early to say.
    """
    if not pod.holds_gpus:
        return None
    if pod.phase == "Unknown":
        return "unknown-node-lost"
    if pod.deletion_at is not None:
        late = snapshot.taken_at - pod.deletion_at > t.terminating_grace
        return "terminating" if late else None
    return _stuck_container(pod, snapshot, t) or _stuck_start(pod, snapshot, t)


def _stuck_container(pod: Pod, snapshot: Snapshot, t: Thresholds) -> str | None:
    for container in pod.containers:
        if is_crash_looping(container, snapshot, t):
            return "crash-loop"
        if container.waiting_reason in CONFIG_REASONS and _is_old(pod, snapshot, t.pending_after):
            return "config-error"
        if container.waiting_reason in IMAGE_PULL_REASONS and _is_old(pod, snapshot, t.pending_after):
            return "image-pull"
    return None


def is_crash_looping(container: Container, snapshot: Snapshot, t: Thresholds) -> bool:
    """It crashes again and again, whether it waits now, runs, or has just ended.

    Between two crashes a container without a readiness probe is ready. It has recovered when it runs for
    `recovered_after`, or did so before its last crash: the kubelet forgets its back-off then.
    """
    if container.restarts < t.restarts_min:
        return False
    if container.waiting_reason == "CrashLoopBackOff":
        return True
    last = container.terminated or container.last_terminated
    if last is None or not ended_badly(last) or container.state not in {"running", "terminated"}:
        return False
    started, finished = last.started_at, last.finished_at
    if started is not None and finished is not None and finished - started >= t.recovered_after:
        return False
    since = container.running_since if container.state == "running" else last.finished_at
    age = snapshot.age(since)
    return age is not None and age < t.recovered_after


def ended_badly(ended: Terminated) -> bool:
    """Ended with an error; an init container can be OOMKilled with exit code 0."""
    return ended.reason == "OOMKilled" or ended.exit_code not in (0, None) or bool(ended.signal)


def _stuck_start(pod: Pod, snapshot: Snapshot, t: Thresholds) -> str | None:
    if _waits_for_mounts(pod) and _is_old(pod, snapshot, t.starting_for):
        return "mount-failed"
    ready = pod.condition("Ready")
    # Without the condition the kubelet has said nothing, and without a phase the pod may have finished.
    if ready is None or ready.status == "True" or not pod.phase:
        return None
    age = snapshot.age(ready.since or pod.started_at or pod.created_at)
    return "not-ready" if age is not None and age > t.not_ready_stuck_after else None


def _waits_for_mounts(pod: Pod) -> bool:
    return pod.phase == "Pending" and any(c.waiting_reason == "ContainerCreating" for c in pod.containers)


def _is_old(pod: Pod, snapshot: Snapshot, limit: timedelta) -> bool:
    age = snapshot.age(pod.started_at or pod.created_at)
    return age is not None and age > limit


def _is_starting(pod: Pod, snapshot: Snapshot, t: Thresholds) -> bool:
    age = snapshot.age(pod.started_at or pod.created_at)
    return not pod.is_ready and age is not None and age <= t.starting_for


def usable_window(gpu: Gpu, snapshot: Snapshot, t: Thresholds) -> Window | None:
    """The device's window where it is covered enough, its sample fresh and its holder known; else None."""
    window = gpu.window
    if window is None or gpu.metrics is None or gpu.holder_source == "count":
        return None
    if window.coverage_ratio < t.window_coverage_min_ratio or window.span < t.idle_after:
        return None
    age = snapshot.age(gpu.metrics.sampled_at)
    if age is None or age > FRESH_FOR:
        return None
    return window


def peak_activity(window: Window) -> float | None:
    """Largest engine activity in the window over all collected kinds, 0 to 1; None when none is collected."""
    stats = (
        window.utilization_ratio,
        window.gr_engine_ratio,
        window.sm_active_ratio,
        window.tensor_active_ratio,
        window.dram_active_ratio,
    )
    peaks = [stat.max for stat in stats if stat is not None]
    return max(peaks) if peaks else None


def effective_activity(window: Window) -> float | None:
    """max(SM_ACTIVE, DRAM_ACTIVE / 0.8), mean over the window; None where neither is collected."""
    values = []
    if window.sm_active_ratio is not None:
        values.append(window.sm_active_ratio.mean)
    if window.dram_active_ratio is not None:
        values.append(min(1.0, window.dram_active_ratio.mean / DRAM_SATURATED_RATIO))
    return max(values) if values else None


def power_limit_of(gpu: Gpu) -> float | None:
    """Watts: the enforced limit where reported, else the model's datasheet maximum, else None."""
    if gpu.metrics is not None and gpu.metrics.power_limit_w:
        return gpu.metrics.power_limit_w
    return power_limit_w(gpu.model)


def is_idle(gpu: Gpu, window: Window, t: Thresholds) -> bool | None:
    """No engine activity over the window and power in the idle band; None where activity is not collected."""
    peak = peak_activity(window)
    if peak is None:
        return None
    if peak > t.idle_activity_max_ratio:
        return False
    limit = power_limit_of(gpu)
    if window.power_w is None or limit is None:
        return True
    return window.power_w.mean <= t.idle_power_max_ratio * limit


def has_resident_memory(window: Window, t: Thresholds) -> bool:
    used = window.memory_used_bytes
    return used is not None and used.mean > t.idle_memory_resident_bytes


def looks_hung(gpu: Gpu, window: Window, t: Thresholds) -> bool:
    """The signature of a collective that waits: busy by utilisation, no memory or tensor work, power flat and low."""
    limit = power_limit_of(gpu)
    stats = (window.utilization_ratio, window.dram_active_ratio, window.tensor_active_ratio, window.power_w)
    if limit is None or any(stat is None for stat in stats):
        return False
    utilization, dram, tensor, power = (stat for stat in stats if stat is not None)
    return (
        utilization.min >= t.hung_utilization_min_ratio
        and dram.max < t.hung_dram_max_ratio
        and tensor.max < t.hung_tensor_max_ratio
        and power.mean < t.hung_power_max_ratio * limit
        and _is_flat(power, t.hung_power_flat_ratio)
    )


def _is_flat(stat: Stat, limit: float) -> bool:
    return stat.mean > 0 and (stat.max - stat.min) / stat.mean <= limit


def _hung_pods(snapshot: Snapshot, t: Thresholds) -> set[str]:
    """Members of gangs in which every GPU of every running member shows the signature."""
    found: set[str] = set()
    for gang in snapshot.gangs:
        if not gang.collective:
            continue
        held = [gpu for key in gang.members for gpu in snapshot.gpus_by_pod.get(key, [])]
        windows = [(gpu, usable_window(gpu, snapshot, t)) for gpu in held]
        if held and all(window is not None and looks_hung(gpu, window, t) for gpu, window in windows):
            found.update(gang.members)
    return found


def _blocked_pods(snapshot: Snapshot) -> set[str]:
    """Running members of collective gangs of which some member neither runs nor has finished."""
    found: set[str] = set()
    all_seen = snapshot.source(Source.PODS).state is SourceState.OK
    for gang in snapshot.gangs:
        if not gang.collective:
            continue
        members = [snapshot.pod_by_key[key] for key in gang.members if key in snapshot.pod_by_key]
        running = [pod for pod in members if pod.phase == "Running" and pod.deletion_at is None]
        missing = len(members) - len(running)
        if gang.size is not None and all_seen:  # a member that could not be read may well run
            missing = max(missing, gang.size - len(running) - _succeeded(snapshot, members))
        enough = gang.min_available is not None and len(running) >= gang.min_available
        if running and missing > 0 and not enough:
            found.update(pod.key for pod in running)
    return found


def _succeeded(snapshot: Snapshot, members: list[Pod]) -> int:
    root = next((pod.root for pod in members if pod.root), None)
    if root is None:
        return 0
    return sum(pod.phase == "Succeeded" for pod in snapshot.pods_by_root.get(root, []))
