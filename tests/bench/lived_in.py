"""A large cluster in the middle of its day: GPUs in every state, pods that wait, hundreds of open findings."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import cycle, islice

from msgspec.structs import replace

from diagnostics.findings import Diagnosis, Finding, Subject, fingerprint
from diagnostics.snapshot import Condition, Gpu, Metrics, Node, OwnerKey, Pod, Snapshot, State

MODELS = ("NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB", "NVIDIA-L40S")
FREED, WAITING, FOUND = 40, 300, 400
"""Workloads that have ended, pods that wait, open findings."""
_STATES = (State.IDLE_HELD, State.INEFFECTIVE, State.IDLE_EMPTY, State.INEFFECTIVE, State.HUNG, State.STUCK)
_NONE_FITS = (
    "0/1000 nodes are available: 14 node(s) had untolerated taint(s), 986 Insufficient nvidia.com/gpu."
)


def lived_in(snapshots: Iterator[Snapshot]) -> Iterator[Snapshot]:
    """The same clusters with some jobs over, others waiting, and every eighth workload not at work."""
    for snapshot in snapshots:
        roots = {pod.key: pod.root for pod in snapshot.pods}
        owners = sorted(
            {root for gpu in snapshot.gpus for key in gpu.holders if (root := roots[key])}, key=str
        )
        jobs = [owner for owner in owners if owner.kind == "Job"]
        over = set(jobs[5 :: len(jobs) // FREED])
        states = dict(zip(owners[3::8], cycle(_STATES)))
        kept = [pod for pod in snapshot.pods if pod.root not in over or not pod.gpus]
        gone = {pod.key for pod in snapshot.pods} - {pod.key for pod in kept}
        yield replace(
            snapshot,
            nodes=tuple(_of_its_model(node) for node in snapshot.nodes),
            pods=(*kept, *_waiting(snapshot)),
            gpus=tuple(_seen(gpu, gone, states, roots) for gpu in snapshot.gpus),
        )


def many(diagnosis: Diagnosis, snapshot: Snapshot) -> Diagnosis:
    """What was found, told of many more subjects as well: every second of them a symptom of one before."""
    owners = sorted({pod.root for pod in snapshot.pods if pod.root and pod.gpus}, key=str)
    subjects = [
        *(Subject.of_owner(owner) for owner in owners[: FOUND // 2]),
        *(Subject.of_node(node) for node in snapshot.nodes[: FOUND // 4]),
        *(Subject(kind="GPU", name=gpu.slot) for gpu in snapshot.gpus[:: len(snapshot.gpus) // (FOUND // 4)]),
    ]
    more: list[Finding] = []
    for subject, like in zip(subjects, cycle(diagnosis.findings)):
        identity = fingerprint(snapshot.cluster_id, like.code, subject)
        title = like.title.replace(like.subject.name, subject.name)
        causes = (more[-1].id,) if len(more) % 2 else ()
        more.append(replace(like, id=identity, subject=subject, title=title, caused_by=causes))
    known = {finding.id for finding in diagnosis.findings}
    return replace(diagnosis, findings=(*diagnosis.findings, *(one for one in more if one.id not in known)))


def _of_its_model(node: Node) -> Node:
    return replace(node, labels={**node.labels, "nvidia.com/gpu.product": _model(node.name)})


def _model(node: str) -> str:
    return MODELS[sum(node.encode()) % len(MODELS)]


def _seen(gpu: Gpu, gone: set[str], states: dict[OwnerKey, State], roots: dict[str, OwnerKey | None]) -> Gpu:
    holders = tuple(holder for holder in gpu.holders if holder not in gone)
    model = _model(gpu.node)
    if not holders:
        return replace(gpu, model=model, holders=(), state=State.FREE if gpu.holders else gpu.state)
    root = roots.get(holders[0])
    state = states.get(root) if root else None
    if state is None:
        return replace(gpu, model=model, holders=holders)
    idle = state in {State.IDLE_HELD, State.IDLE_EMPTY, State.STUCK}
    metrics = _still(gpu.metrics) if idle and gpu.metrics else gpu.metrics
    return replace(gpu, model=model, holders=holders, state=state, metrics=metrics)


def _still(metrics: Metrics) -> Metrics:
    return replace(
        metrics,
        utilization_ratio=0.0,
        gr_engine_ratio=0.0,
        sm_active_ratio=0.0,
        dram_active_ratio=0.0,
        power_w=70.0,
    )


def _waiting(snapshot: Snapshot) -> list[Pod]:
    """Gangs of eight that ask for eight GPUs each, and single pods that ask for one to eight."""
    like = next(pod for pod in snapshot.pods if pod.root and pod.root.kind == "Job" and pod.gpus and pod.node)
    return list(islice(_queue(like, snapshot.taken_at), WAITING))


def _queue(like: Pod, now: datetime) -> Iterator[Pod]:
    number = 0
    while True:
        size = 8 if number % 3 == 0 else 1
        since = now - timedelta(minutes=7 * number + 3)
        root = OwnerKey("Job", like.namespace, f"queued-{number}", "batch/v1", f"uid-queued-{number}")
        refused = Condition("PodScheduled", "False", "Unschedulable", _NONE_FITS, since)
        for index in range(size):
            yield replace(
                like,
                name=f"{root.name}-{index}",
                uid=f"{root.uid}-{index}",
                root=root,
                owners=(root,),
                created_at=since,
                started_at=None,
                node=None,
                phase="Pending",
                conditions=(refused,),
                containers=tuple(
                    replace(one, state="", running_since=None, is_ready=False, devices=())
                    for one in like.containers
                ),
            )
        number += 1
