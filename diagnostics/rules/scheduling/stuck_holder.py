"""A pod holds GPUs and cannot work.

## Meaning
The scheduler counts the GPUs of a bound pod until it has finished or is gone. This pod is in a crash loop, cannot pull
its image or mount its volumes, was to end and does not, or lies on a node that is lost.

## Impact
Its GPUs do nothing, and nobody else gets them. Pods that wait for GPUs may wait for these.

## Evidence
Phase, deletionTimestamp and its grace period, finalizers, container states, restarts and exit codes of bound pods;
memory in use on their GPUs; the Ready condition of their nodes; mount and sandbox events.

## Not reported
Failed and Succeeded pods, evicted and rejected ones included: they hold nothing, even with a finalizer left. Pods
within their grace period; young pods; fewer than `restarts_min` restarts; a container that has run for
`recovered_after` after crashes; pods that wait for a node, which hold nothing yet (see `pending-gpu-pod`).

## References
https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/
https://kubernetes.io/docs/tasks/run-application/force-delete-stateful-set-pod/
https://kubernetes.io/docs/concepts/cluster-administration/node-shutdown/#non-graceful-node-shutdown
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

from diagnostics.findings import Confidence, Evidence, Hit, Severity, Subject
from diagnostics.limits import Limits
from diagnostics.rules.base import rule
from diagnostics.rules.scheduling.holder_fix import holder_fix
from diagnostics.rules.scheduling.holders import Trouble, trouble_of
from diagnostics.snapshot import Pod, Snapshot, Source
from diagnostics.text import counted, listed, printable

MOST_PODS = 6
"""Pods whose facts are spelled out; the rest is counted."""


@rule(
    code="GPU304",
    slug="stuck-holder",
    severity=Severity.WARNING,
    needs={Source.PODS},
    uses={Source.NODES, Source.EVENTS, Source.WORKLOADS},
    caused_by=(
        "oom-killed",
        "cuda-out-of-memory",
        "small-shm",
        "probe-killed",
        "fatal-xid",
        "image-needs-newer-driver",
        "no-kernel-for-gpu",
        "nvml-failing",
        "no-gpu-in-container",
        "fabric-manager-down",
    ),
)
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Hit]:
    stuck: dict[Subject, list[tuple[Pod, Trouble]]] = defaultdict(list)
    for pod in snapshot.pods:
        if not pod.holds_gpus:
            continue
        trouble = trouble_of(pod, snapshot, limits.of(pod).values)
        if trouble is not None:
            stuck[Subject.of_pod(pod)].append((pod, trouble))
    for subject, found in stuck.items():
        yield _hit(subject, found, snapshot)


def _hit(subject: Subject, found: list[tuple[Pod, Trouble]], snapshot: Snapshot) -> Hit:
    found = sorted(found, key=lambda pair: pair[0].key)
    held: Counter[str] = Counter()
    for pod, trouble in found:
        held[trouble.cause] += pod.gpu_count
    leading = max(held, key=lambda cause: (held[cause], cause))
    pod, trouble = next(pair for pair in found if pair[1].cause == leading)
    gpus = sum(p.gpu_count for p, _ in found)
    who = (
        f"Pod {printable(pod.key, 160)}"
        if len(found) == 1
        else f"{len(found)} pods of {printable(str(subject), 160)}"
    )
    verb = "holds" if len(found) == 1 else "hold"
    nodes = tuple(dict.fromkeys(p.node for p, _ in found if p.node))
    others = [f"{cause} ({counted(number, 'GPU')})" for cause, number in held.items() if cause != leading]
    pods = [
        f"{printable(p.name, 120)} {p.gpu_count} on {printable(p.node or '', 80)} ({t.cause})"
        for p, t in found
    ]
    return Hit(
        subject=subject,
        cause=leading,
        title=f"{who} {verb} {counted(gpus, 'GPU')} and cannot work: {trouble.words}",
        summary=f"The scheduler counts these GPUs as taken although {trouble.words}. They come free only when "
        "the pod has ended or is gone; if it can work again, it uses them itself."
        + (f" Others of them: {listed(others)}." if others else ""),
        evidence=(
            Evidence("GPUs held", listed(pods, MOST_PODS), source="spec.nodeName and resources of the pods"),
            *(fact for _, t in found[:MOST_PODS] for fact in t.facts),
        ),
        fix=holder_fix(pod, trouble, snapshot),
        confidence=Confidence.HIGH if trouble.is_sure else Confidence.MEDIUM,
        gpus=gpus,
        waste_gpus=float(gpus),
        nodes=nodes,
        pods=tuple(p.key for p, _ in found),
    )
