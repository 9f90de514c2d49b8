"""A GPU pod was evicted because of local disk space, or is bound to be.

## Meaning
Logs, the writable layer and emptyDir volumes on disk are ephemeral storage. The kubelet evicts a pod that exceeds
its own limit or the size limit of one of its volumes, and evicts pods to save a node whose disk runs full. An
emptyDir that may hold more than the pod's ephemeral-storage limit never gets there: the limit evicts first.

## Impact
The pod fails for good and its GPUs' work since the last checkpoint is lost; a node under disk pressure takes no new
pods.

## Evidence
Status reason Evicted with the kubelet's message, the node's condition DiskPressure, size limits of volumes and
ephemeral-storage limits of the containers.

## Not reported
Evictions for memory or process ids, preemption, drains and deletions: not about disks. Volumes in memory. Evictions
longer ago than `oom_killed_recent`, or whose owner succeeded since. `No space left on device` on a volume of its own (a
claim): nothing is evicted for it. Nodes without GPUs.

## References
https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/
https://kubernetes.io/docs/concepts/storage/ephemeral-storage/
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from diagnostics.findings import Confidence, Evidence, Hit, Severity, Subject
from diagnostics.fixes import Fix, Risk, Step, StepKind, steps
from diagnostics.limits import Limits
from diagnostics.quantities import gib, span
from diagnostics.rules.base import rule
from diagnostics.rules.memory import evictions
from diagnostics.rules.memory.evictions import Eviction, eviction_of
from diagnostics.rules.memory.failing import was_made_good
from diagnostics.snapshot import Condition, Node, Pod, Snapshot, Source, Volume
from diagnostics.text import counted, listed, printable

NEVER_REACHED = "emptydir-above-ephemeral-limit"
_OF_DISK = {evictions.POD_LIMIT, evictions.VOLUME_LIMIT, evictions.NODE_DISK}
_Case = tuple[Pod, Eviction]


@rule(
    code="GPU408",
    slug="storage-eviction",
    severity=Severity.WARNING,
    needs={Source.PODS},
    uses={Source.NODES, Source.EVENTS},
    hold=1,
)
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Hit]:
    """Per GPU node under disk pressure one hit with the pods it cost; else one per owner of evicted pods; and one per
    owner whose volume its own limit contradicts."""
    found: dict[Subject, list[_Case]] = defaultdict(list)
    by_node: dict[str, list[_Case]] = defaultdict(list)
    pressed = {node.name: (node, condition) for node, condition in _pressed(snapshot)}
    for pod in snapshot.pods:
        if not pod.gpus or (eviction := eviction_of(snapshot, pod)) is None or was_made_good(snapshot, pod):
            continue
        age = snapshot.age(eviction.at)
        if eviction.cause not in _OF_DISK or (
            age is not None and age > limits.of(pod).values.oom_killed_recent
        ):
            continue
        if eviction.cause == evictions.NODE_DISK and pod.node in pressed:
            by_node[pod.node].append((pod, eviction))
        else:
            found[Subject.of_pod(pod)].append((pod, eviction))
    for name, (node, condition) in pressed.items():
        yield _node_hit(snapshot, node, condition, by_node[name])
    for subject, cases in found.items():
        yield _pod_hit(snapshot, subject, cases)
    yield from _contradictions(snapshot, found)


def _pressed(snapshot: Snapshot) -> Iterator[tuple[Node, Condition]]:
    for node in snapshot.nodes:
        condition = node.condition("DiskPressure")
        if condition is not None and condition.status == "True" and snapshot.gpus_by_node.get(node.name):
            yield node, condition


def _pod_hit(snapshot: Snapshot, subject: Subject, cases: Sequence[_Case]) -> Hit:
    pod, eviction = max(cases, key=lambda case: (str(case[1].at or ""), case[0].key))
    pods = tuple(sorted(p.key for p, _ in cases))
    age = snapshot.age(eviction.at)
    ago = f"{span(age)} ago" if age is not None else "at an unknown time"
    return Hit(
        subject=subject,
        cause=eviction.cause,
        title=f"{subject}: {counted(len(pods), 'pod')} evicted, {_TITLES[eviction.cause]}",
        summary=f"{_sentence(pod, eviction)} The kubelet evicted the pod {ago}; an evicted pod never runs "
        f"again, and what "
        "was on its local disk is gone. It is disk space, not memory and not the GPU.",
        evidence=tuple(_evidence(pod, eviction, pods)),
        fix=_pod_fix(pod, eviction),
        confidence=Confidence.HIGH,
        gpus=pod.gpu_count,
        nodes=tuple(sorted({p.node for p, _ in cases if p.node})),
        pods=pods,
    )


_TITLES = {
    evictions.POD_LIMIT: "over its ephemeral-storage limit",
    evictions.VOLUME_LIMIT: "an emptyDir over its size limit",
    evictions.NODE_DISK: "the node's disk was full",
}


def _sentence(pod: Pod, eviction: Eviction) -> str:
    limit = gib(eviction.limit_bytes) if eviction.limit_bytes is not None else "its limit"
    if eviction.cause == evictions.VOLUME_LIMIT:
        return (
            f"Pod {pod.name} wrote more than {limit} to the emptyDir volume {printable(eviction.volume, 80)}."
        )
    if eviction.cause == evictions.POD_LIMIT:
        who = (
            f"Container {printable(eviction.container, 80)} of pod {pod.name}"
            if eviction.container
            else f"Pod {pod.name}"
        )
        return (
            f"{who} wrote more than {limit} to local disk: logs, its own layer and emptyDir volumes together."
        )
    most = ""
    if eviction.container and eviction.used_bytes is not None:
        most = f", container {printable(eviction.container, 80)} using {gib(eviction.used_bytes)} of it"
    return f"The local disk of node {pod.node} ran full{most}."


def _evidence(pod: Pod, eviction: Eviction, pods: tuple[str, ...]) -> Iterator[Evidence]:
    yield Evidence("reason", "Evicted", source=f"{pod.key}: status.reason")
    yield Evidence("message", printable(pod.message, 500), source=f"{pod.key}: status.message")
    for container in pod.containers:
        if (limit := container.limits.get("ephemeral-storage")) is not None:
            source = f"{pod.key}: spec, container {container.name}, resources.limits"
            yield Evidence("ephemeral-storage limit", gib(limit), source=source)
    for volume in pod.volumes:
        if volume.kind == "emptyDir" and volume.size_limit_bytes and volume.medium != "Memory":
            source = f"{pod.key}: spec.volumes, emptyDir.sizeLimit"
            yield Evidence(
                f"size limit of {printable(volume.name, 80)}", gib(volume.size_limit_bytes), source=source
            )
    yield Evidence(counted(len(pods), "pod"), listed(pods), source="pods of the owner that were evicted so")


def _edit(title: str, why: str, expect: str) -> Step:
    return Step(kind=StepKind.FIX, title=title, why=why, risk=Risk.DISRUPTIVE, expect=expect)


def _pod_fix(pod: Pod, eviction: Eviction) -> Fix:
    limit = gib(eviction.limit_bytes) if eviction.limit_bytes is not None else "the limit"
    change = {
        evictions.VOLUME_LIMIT: _edit(
            f"Give volume {printable(eviction.volume, 80)} the room that is written, or write elsewhere",
            f"Raise its sizeLimit above {limit}, and the pod's ephemeral-storage request and limit with it, since the "
            "volume counts towards them. Checkpoints and model caches that are to last belong on a volume claim.",
            "Use of the volume stays below its limit over a whole run.",
        ),
        evictions.POD_LIMIT: _edit(
            "Write less to local disk, or ask for what is written",
            f"Raise request and limit of ephemeral-storage above {limit}, or put checkpoints, data sets and caches "
            "(HF_HOME, TRITON_CACHE_DIR, TMPDIR) on a volume claim, which does not count.",
            "Local use stays below the limit over a whole run.",
        ),
        evictions.NODE_DISK: _edit(
            "Ask for the local disk that the pod needs",
            "With an ephemeral-storage request the scheduler chooses a node with room, and pods that use "
            "more than they "
            "asked for go first. The kubelet removes unused images by itself before it evicts.",
            "The pod runs on a node whose disk has room for it.",
        ),
    }[eviction.cause]
    return Fix(
        summary=change.title,
        steps=(
            steps.describe_pod(pod),
            *([steps.describe_node(pod.node)] if pod.node and eviction.cause == evictions.NODE_DISK else []),
            change,
            steps.verify_finding_gone("A new pod of the owner runs for a whole load cycle and is not evicted."),
            steps.escalate(
                "the owner of the workload", why="What is written, and whether it has to last, is the "
                "program's choice.",
                expect="A place for checkpoints and caches, and a figure for the rest.",
            ),
        ),
    )  # fmt: skip


def _node_hit(snapshot: Snapshot, node: Node, condition: Condition, cases: Sequence[_Case]) -> Hit:
    pods = tuple(sorted(p.key for p, _ in cases))
    lost = f" It cost {counted(len(pods), 'GPU pod')} so far." if pods else ""
    age = snapshot.age(condition.since)
    since = f" for {span(age)}" if age is not None else ""
    told = printable(condition.message, 200) or "True"
    return Hit(
        subject=Subject.of_node(node),
        cause=evictions.NODE_DISK,
        title=f"Node {node.name} has too little disk space left: it evicts pods and takes no new ones",
        summary=f"The kubelet has reported DiskPressure{since}.{lost} Until space is free again its GPUs "
                f"cannot be given "
        "to new pods.",
        evidence=(
            Evidence("DiskPressure", told, source=f"node {node.name}: status.conditions"),
            *(
                Evidence("evicted", printable(f"{p.key}: {p.message}", 400), source=f"{p.key}: status.message")
                for p, _ in cases[:5]
            ),
        ),
        fix=Fix(
            summary=f"Free local disk on node {node.name}",
            steps=(
                steps.describe_node(node.name),
                steps.see_pods_on_node(node.name),
                _edit(
                    "Have the pods that write most write elsewhere, or enlarge the node's disk",
                    "The kubelet has already removed unused images and dead containers. What remains "
                    "belongs to running "
                    "pods (emptyDir volumes, logs, their own layers) or to the host itself.",
                    "DiskPressure turns False; the kubelet keeps it for some minutes after space is free.",
                ),
                steps.verify_finding_gone("The condition DiskPressure is False."),
                steps.escalate(
                    "whoever runs the nodes", why="Disks, image garbage collection and log rotation are set there.",
                    expect="A disk that fits the images and caches of GPU work, often 50 GB an image.",
                ),
            ),
        ),
        confidence=Confidence.HIGH,
        gpus=len(snapshot.gpus_by_node.get(node.name, ())),
        nodes=(node.name,),
        pods=pods,
    )  # fmt: skip


def _contradictions(snapshot: Snapshot, known: dict[Subject, list[_Case]]) -> Iterator[Hit]:
    seen: set[Subject] = set(known)
    for pod in snapshot.pods:
        subject = Subject.of_pod(pod)
        if not pod.gpus or pod.is_finished or subject in seen:
            continue
        limits = [c.limits["ephemeral-storage"] for c in pod.containers if "ephemeral-storage" in c.limits]
        if not limits:
            continue
        wide = next(
            (v for v in pod.volumes if _on_disk(v) and (v.size_limit_bytes or 0.0) > sum(limits)), None
        )
        if wide is not None:
            seen.add(subject)
            yield _static_hit(subject, pod, wide, sum(limits))


def _on_disk(volume: Volume) -> bool:
    return volume.kind == "emptyDir" and volume.medium != "Memory"


def _static_hit(subject: Subject, pod: Pod, volume: Volume, limit: float) -> Hit:
    name = printable(volume.name, 80)
    return Hit(
        subject=subject,
        cause=NEVER_REACHED,
        severity=Severity.INFO,
        title=f"{subject}: volume {name} may hold more than the pod may use of local disk",
        summary=f"The emptyDir {name} is limited to {gib(volume.size_limit_bytes)}, the pod's "
                f"ephemeral-storage limit is "
        f"{gib(limit)}, and the volume counts towards it: the pod is evicted at {gib(limit)}.",
        evidence=(
            Evidence(
                f"size limit of {name}", gib(volume.size_limit_bytes), source=f"{pod.key}: spec.volumes, "
                f"emptyDir.sizeLimit"
            ),
            Evidence("ephemeral-storage limit", gib(limit), source=f"{pod.key}: spec, sum over its containers"),
        ),
        fix=Fix(
            summary="Bring the volume's size and the ephemeral-storage limit together",
            steps=(
                steps.describe_pod(pod),
                _edit(
                    f"Raise the ephemeral-storage limit above {gib(volume.size_limit_bytes)}, or lower the volume's",
                    "Logs and the container's own layer need room beside the volume. The request should "
                    "follow, so that "
                    "the scheduler finds a node with that much disk.",
                    "The limit is above the sum of the volumes.",
                ),
                steps.verify_finding_gone("The volume's size limit is below the pod's ephemeral-storage limit."),
            ),
        ),
        confidence=Confidence.HIGH,
        gpus=pod.gpu_count,
        nodes=(pod.node,) if pod.node else (),
        pods=(pod.key,),
    )  # fmt: skip
