"""The kubelet refused a pod that the scheduler had given GPUs to.

## Meaning
The scheduler counts what a node advertises; the kubelet and the device plugin have the last word. A pod that they
refuse is Failed before it ever ran, and is not tried again: on a node whose plugin was not registered yet, with
unhealthy devices, with more shares than may be asked for, or where somebody else had given the GPUs away.

## Impact
A bare pod stays Failed for ever. A controller makes another one, which may be refused the same way, again and again.

## Evidence
Reason and message of the pod; when its node was made and came up; what the node offers now; other pods of the same
owner, which show whether it was replaced.

## Not reported
Pods whose owner has a later pod that runs or is done; refusals longer ago than `admission_recent`; pods that ask for no
GPU; evictions and shutdowns, which are no refusals. Refused pods hold no GPU.

## References
https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/
https://github.com/kubernetes/kubernetes/issues/125579
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from diagnostics.findings import Confidence, Evidence, Hit, Severity, Subject
from diagnostics.limits import Limits
from diagnostics.quantities import span
from diagnostics.rules.base import rule
from diagnostics.rules.stack.admission import Refusal, refusal_of, refused_at
from diagnostics.rules.stack.admission_fix import admission_fix
from diagnostics.snapshot import Node, Pod, Snapshot, Source, gpu_resources
from diagnostics.text import counted, printable

_AGAIN_AND_AGAIN = 3


@rule(
    code="GPU209",
    slug="refused-at-admission",
    severity=Severity.WARNING,
    needs={Source.PODS},
    uses={Source.NODES},
    caused_by=("fewer-gpus-than-fitted", "device-plugin-waiting", "operator-component-failing", "fatal-xid"),
    hold=1,
)
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Hit]:
    """One hit per owner whose newest pods were refused and not replaced."""
    for root, pods in snapshot.pods_by_root.items():
        refused = [pod for pod in pods if refusal_of(pod) is not None]
        if not refused:
            continue
        latest = max(refused, key=lambda pod: (_at(pod), pod.name))
        subject = Subject.of_owner(root)
        age = snapshot.age(refused_at(latest))
        if age is None or age > limits.of(subject).values.admission_recent:
            continue
        if _is_replaced(pods, latest, len(refused)):
            continue
        yield _hit(snapshot, limits, subject, latest, refused)


def _is_replaced(pods: list[Pod], latest: Pod, count: int) -> bool:
    """A later pod runs or is done; one that only waits replaces it unless refusals come again and again."""
    enough = {"Running", "Succeeded"} | ({"Pending"} if count < _AGAIN_AND_AGAIN else set())
    return any(pod is not latest and _at(pod) >= _at(latest) and pod.phase in enough for pod in pods)


def _at(pod: Pod) -> float:
    at = refused_at(pod)
    return at.timestamp() if at else 0.0


def _hit(snapshot: Snapshot, limits: Limits, subject: Subject, pod: Pod, refused: list[Pod]) -> Hit:
    node = snapshot.node_by_name.get(pod.node or "")
    refusal = refusal_of(pod) or Refusal("", "", "")
    cause, words, confidence = _cause(limits, pod, node, refusal)
    evidence = [
        Evidence("Reason", printable(pod.reason, 80), source="status.reason"),
        Evidence("The kubelet said", printable(pod.message, 400) or "nothing", source="status.message"),
        Evidence("Refused", f"{span(snapshot.age(refused_at(pod)))} ago", source="status.startTime"),
        Evidence("Pods refused", str(len(refused)), "pods", "status.phase, status.reason"),
    ]
    if node is not None:
        offered = sum(gpu_resources(node.allocatable).values())
        evidence.append(Evidence("Node offers now", f"{offered:.0f}", "GPUs", "status.allocatable"))
        if node.created_at:
            made = f"{span(snapshot.age(node.created_at))} ago"
            evidence.append(Evidence("Node made", made, source="metadata.creationTimestamp"))
    bare = subject.kind == "Pod"
    fate = "Nobody makes a new one." if bare else "Its controller has not brought another one to run."
    return Hit(
        subject=subject,
        cause=cause,
        title=f"{subject} was refused by the kubelet of {printable(pod.node or 'its node', 80)}: "
        f"{printable(pod.reason, 60)}",
        summary=f"{counted(len(refused), 'pod')} with {counted(pod.gpu_count, 'GPU')} each was bound to a node and "
        f"refused there; a refused pod never starts. {words} {fate}",
        evidence=tuple(evidence),
        confidence=confidence,
        gpus=pod.gpu_count,
        nodes=(pod.node,) if pod.node else (),
        pods=tuple(p.key for p in refused[-8:]),
        fix=admission_fix(pod, node, cause, bare=bare),
    )


def _cause(limits: Limits, pod: Pod, node: Node | None, refusal: Refusal) -> tuple[str, str, Confidence]:
    """Cause, what it means, and how sure it is. What the message itself names comes first."""
    if refusal.cause:
        return refusal.cause, refusal.words, Confidence.HIGH
    offered = sum(gpu_resources(node.allocatable).values()) if node else None
    if offered == 0:
        words = "The node offers no GPU now either: its device plugin or its devices are what is wrong."
        return "devices-unavailable-on-node", words, Confidence.HIGH
    settling = limits.of(Subject.of_pod(pod)).values.node_settling
    if _was_coming_up(node, refused_at(pod), settling):
        words = (
            "The node had only just come up: the pod was bound before the device plugin had registered its GPUs. The "
            "node is well now."
        )
        return "pod-bound-before-device-plugin-ready", words, Confidence.HIGH
    if refusal.says_plugin_away:
        words = (
            "The device plugin was not registered at that moment, as after a restart of it or of the kubelet. The node "
            "offers GPUs again."
        )
        return "device-plugin-was-restarting", words, Confidence.MEDIUM
    words = (
        "The kubelet had already given the node's GPUs away: a second scheduler, a static pod, or a pod that was still "
        "on its way out."
    )
    return "gpus-given-away-before", words, Confidence.MEDIUM


_LATE = timedelta(minutes=5)
"""A kubelet admits the pods that it finds before the node is called Ready."""


def _was_coming_up(node: Node | None, at: datetime | None, settling: timedelta) -> bool:
    """The node was made, or became ready after a boot, shortly before the refusal."""
    if node is None or at is None:
        return False
    ready = node.condition("Ready")
    times = [t for t in (node.created_at, ready.since if ready else None) if t is not None]
    return any(-_LATE <= at - t <= settling for t in times)
