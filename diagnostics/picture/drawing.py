"""From a snapshot to its picture."""

from collections import defaultdict
from collections.abc import Iterable

from diagnostics.limits import Limits
from diagnostics.marks import is_fresh, working_activity
from diagnostics.picture.demanding import Demanding
from diagnostics.picture.devices import Devices, GpuCell, NodeLine, Owner
from diagnostics.picture.stored import Picture
from diagnostics.picture.workloads import PodLine, ReachLine, WorkloadLine, Workloads
from diagnostics.snapshot import GPU_RESOURCE_PREFIXES, Gang, Gpu, Node, Pod, Snapshot, Source, gpu_resources
from diagnostics.states import is_crash_looping
from diagnostics.text import printable

MOST_CHARACTERS = 300
"""Of what Kubernetes says about a pod."""
PODS_IN_PART = "Pods were read only in part"

QUEUE_KEYS = (
    "kueue.x-k8s.io/queue-name",
    "volcano.sh/queue-name",
    "scheduling.volcano.sh/queue-name",
    "yunikorn.apache.org/queue",
    "kai.scheduler/queue",
    "queue",
)
"""Labels or annotations of a pod or its owner that name its queue, each as its scheduler's documentation has it."""

_ALONE = Gang(kind="", namespace="", name="")


def drawn(snapshot: Snapshot, limits: Limits | None = None) -> Picture:
    """The picture of `snapshot`; what counts as a crash loop is a limit of the site."""
    limits, demanding = limits or Limits(), Demanding(snapshot)
    pods: dict[Owner, list[Pod]] = defaultdict(list)
    owner_of: dict[str, Owner] = {}
    for pod in snapshot.pods:
        if pod.gpus or pod.resource_claims or pod.key in snapshot.gpus_by_pod:
            owner = _owner(pod)
            pods[owner].append(pod)
            owner_of[pod.key] = owner
    for key in snapshot.gpus_by_pod:
        if key not in owner_of:
            # Only the metrics know of it.
            namespace, _, name = key.partition("/")
            pods.setdefault(owner_of.setdefault(key, Owner("Pod", namespace, name)), [])
    owners = tuple(sorted(pods, key=lambda o: (o.namespace, o.kind, o.name)))
    places = {owner: place for place, owner in enumerate(owners)}
    place_of = {key: places[owner] for key, owner in owner_of.items()}
    return Picture(
        Devices(
            snapshot.taken_at,
            tuple(_node(node, snapshot, place_of) for node in _gpu_nodes(snapshot)),
            owners,
            doubt_of(snapshot, Source.NODES, "Nodes were read only in part"),
            doubt_of(snapshot, Source.METRICS, "GPU metrics"),
        ),
        Workloads(
            snapshot.taken_at,
            tuple(_workload(owner, pods[owner], snapshot, limits, demanding) for owner in owners),
            doubt_of(snapshot, Source.PODS, PODS_IN_PART),
        ),
    )


def _owner(pod: Pod) -> Owner:
    root = pod.root
    return (
        Owner("Pod", pod.namespace, pod.name) if root is None else Owner(root.kind, root.namespace, root.name)
    )


def doubt_of(snapshot: Snapshot, source: Source, what: str) -> str:
    """Why `what` may be missing, in a sentence; empty when all was read."""
    status = snapshot.source(source)
    return "" if status.state == "ok" else f"{what} ({status.state}): {status.detail or 'no reason given'}."


def _gpu_nodes(snapshot: Snapshot) -> list[Node]:
    """Nodes that have, had or should have GPUs."""
    found = [
        node
        for node in snapshot.nodes
        if node.name in snapshot.gpus_by_node
        or gpu_resources(node.capacity)
        or node.gpu_product
        or node.labels.get("nvidia.com/gpu.present") == "true"
    ]
    return sorted(found, key=lambda node: node.name)


def _node(node: Node, snapshot: Snapshot, place_of: dict[str, int]) -> NodeLine:
    gpus = in_order(snapshot.gpus_by_node.get(node.name, ()))
    return NodeLine(
        name=node.name,
        rack=node.rack,
        zone=node.zone,
        nvlink_domain=node.nvlink_domain,
        model=node.gpu_product or next((gpu.model for gpu in gpus if gpu.model), None),
        driver=node.driver_version,
        readiness=node.is_ready,
        is_cordoned=node.unschedulable,
        troubles=_troubles(node),
        allocatable=_allocatable(node),
        created_at=node.created_at,
        gpus=tuple(_cell(gpu, snapshot, place_of) for gpu in gpus),
    )


def in_order(gpus: Iterable[Gpu]) -> list[Gpu]:
    """As nvidia-smi numbers them, those without a number last."""
    return sorted(gpus, key=lambda gpu: (gpu.index is None, gpu.index or 0, gpu.slot))


def cell_name(gpu: Gpu) -> str:
    """`GPU 3`, as nvidia-smi numbers it, or the end of its slot."""
    place = gpu.slot.removeprefix(f"{gpu.node}/")
    if gpu.index is None:
        return place
    return f"GPU {gpu.index}" if not gpu.mig_profile else f"GPU {gpu.index} {gpu.mig_profile}"


def _troubles(node: Node) -> tuple[str, ...]:
    words = []
    for condition in node.conditions:
        if condition.type == "Ready" and condition.status != "True":
            words.append("not ready" if condition.status == "False" else "state unknown")
        elif condition.type != "Ready" and condition.status == "True":
            words.append(condition.type)
    if node.unschedulable:
        words.append("cordoned")
    return tuple(words)


def _allocatable(node: Node) -> int | None:
    """0 where its plugin was registered once and has gone; None where no plugin ever was."""
    if not any(name.startswith(GPU_RESOURCE_PREFIXES) for name in node.allocatable):
        return None
    return int(
        sum(
            amount if "/mig-" in name else amount // node.gpu_replicas
            for name, amount in gpu_resources(node.allocatable).items()
        )
    )


def _cell(gpu: Gpu, snapshot: Snapshot, place_of: dict[str, int]) -> GpuCell:
    m = gpu.metrics if is_fresh(gpu, snapshot) else None
    total = m.memory_total_bytes if m else None
    used = m.memory_used_bytes if m else None
    activity = working_activity(gpu) if m else None
    return GpuCell(
        cell_name(gpu),
        gpu.slot.removeprefix(f"{gpu.node}/"),
        gpu.state,
        gpu.is_unjudged,
        tuple(place_of[key] for key in gpu.holders),
        gpu.holders,
        gpu.mig_profile or gpu.resource,
        gpu.replicas,
        m.utilization_ratio if m else None,
        None if activity is None else round(activity, 3),
        None if used is None or not total else round(used / total, 3),
        m.temperature_c if m else None,
        m.power_w if m else None,
    )


def _workload(
    owner: Owner, pods: list[Pod], snapshot: Snapshot, limits: Limits, demanding: Demanding
) -> WorkloadLine:
    gang = next((g for pod in pods if (g := snapshot.gang_by_pod.get(pod.key))), None) or _ALONE
    controller = snapshot.workload_by_key.get((owner.kind, owner.namespace, owner.name))
    wanted = gang.size if gang.size is not None else controller.replicas if controller else None
    named = [*((controller.labels, controller.annotations) if controller else ())]
    if pods:
        named += [pods[0].labels, pods[0].annotations]
    return WorkloadLine(
        owner=owner,
        pods=tuple(
            pod_line(pod, snapshot, limits, demanding.reach_of(pod))
            for pod in sorted(pods, key=lambda pod: pod.name)
        ),
        wanted=wanted,
        min_available=gang.min_available,
        gang_scheduler=gang.gang_scheduler,
        system=gang.system,
        collective=gang.collective,
        queue=next((words[key] for key in QUEUE_KEYS for words in named if words.get(key)), ""),
        priority=max((pod.priority for pod in pods if pod.priority is not None), default=None),
        gang=_gang_beside(owner, gang),
        demands=demanding.lines_of(pods),
    )


def _gang_beside(owner: Owner, gang: Gang) -> Owner | None:
    found = Owner(gang.kind, gang.namespace, gang.name)
    return None if gang is _ALONE or found == owner else found


def pod_line(pod: Pod, snapshot: Snapshot, limits: Limits, reach: ReachLine | None = None) -> PodLine:
    """One pod, whether it asks for GPUs or not."""
    restarts = sum(container.restarts for container in pod.containers)
    return PodLine(
        pod.name,
        pod.phase,
        pod.node,
        pod.gpus,
        0 if pod.claimed_gpus else len(pod.resource_claims),
        pod.created_at,
        pod.started_at,
        pod.deletion_at,
        pod.is_ready,
        restarts,
        printable(_trouble(pod), MOST_CHARACTERS),
        restarts > 0 and _is_crash_looping(pod, snapshot, limits),
        reach,
    )


def _is_crash_looping(pod: Pod, snapshot: Snapshot, limits: Limits) -> bool:
    thresholds = limits.of(pod).values
    return not pod.is_finished and any(is_crash_looping(c, snapshot, thresholds) for c in pod.containers)


def _trouble(pod: Pod) -> str:
    if pod.phase == "Pending" and pod.node is None:
        scheduled = pod.condition("PodScheduled")
        if pod.scheduling_gates:
            return f"scheduling gates: {', '.join(pod.scheduling_gates)}"
        return (
            "" if scheduled is None or scheduled.status == "True" else scheduled.message or scheduled.reason
        )
    waiting = next((c for c in pod.containers if c.waiting_reason), None)
    if waiting is not None and waiting.waiting_reason not in {"ContainerCreating", "PodInitializing"}:
        words = f"{waiting.waiting_reason}: {waiting.waiting_message}".removesuffix(": ")
        return f"{waiting.name}: {words}"
    return pod.reason or pod.message
