"""Which pods of the operator fail at each place, the one that explains the others first. Pure."""

from collections import defaultdict
from functools import partial

from diagnostics.findings import Subject
from diagnostics.limits import Limits
from diagnostics.operator_components import ORDER, component_label, is_component_of_node
from diagnostics.rules.stack.failures import Failure, failure_of
from diagnostics.rules.stack.quiet_plugin import offers_nothing
from diagnostics.snapshot import Event, LogSignal, Pod, Snapshot

_TOOLKIT = "nvidia-container-toolkit-daemonset"


def failing_by_place(snapshot: Snapshot, limits: Limits) -> dict[Subject, list[tuple[Pod, Failure]]]:
    """Node, or controller of the operator -> its failing pods that are no start-up any more, the leading one first."""
    by_place: dict[Subject, list[tuple[Pod, Failure]]] = defaultdict(list)
    for pod in snapshot.pods:
        label = component_label(pod)
        if label is None or pod.deletion_at is not None:
            continue
        failure = failure_of(pod, *_told(snapshot, pod)) or offers_nothing(snapshot, pod)
        subject = _subject(snapshot, pod)
        if failure is None or not _is_old(snapshot, limits, subject, pod, failure):
            continue
        by_place[subject].append((pod, failure))
    for failing in by_place.values():
        failing.sort(key=partial(_place, tuple(failing)))
    return dict(by_place)


def _told(snapshot: Snapshot, pod: Pod) -> tuple[list[LogSignal], list[Event]]:
    events = snapshot.events_by_object.get(("Pod", pod.namespace, pod.name), [])
    return snapshot.signals_by_pod.get(pod.key, []), [e for e in events if not e.uid or e.uid == pod.uid]


def _place(failing: tuple[tuple[Pod, Failure], ...], pair: tuple[Pod, Failure]) -> tuple[bool, int]:
    """Those that fail by themselves first, each kind in the order in which they wait for each other."""
    pod, failure = pair
    label = component_label(pod) or "gpu-operator"
    # The runtime handler that a sandbox lacks comes from the toolkit, and that waits for the driver.
    waits = failure.how == "sandbox" and any(
        ORDER[component_label(p) or "gpu-operator"] <= ORDER[_TOOLKIT] for p, _ in failing if p is not pod
    )
    return failure.is_victim or waits, ORDER[label]


def _subject(snapshot: Snapshot, pod: Pod) -> Subject:
    if pod.node is None or not is_component_of_node(pod):
        return Subject.of_pod(pod)
    node = snapshot.node_by_name.get(pod.node)
    return Subject.of_node(node) if node else Subject(kind="Node", name=pod.node, api_version="v1")


def _is_old(snapshot: Snapshot, limits: Limits, subject: Subject, pod: Pod, failure: Failure) -> bool:
    """Old enough to be no start-up: by the pod's age, and by its restarts or how long it has not been ready.

    Without a readiness probe a container counts as ready while it runs, so the Ready condition's time starts again
    at every crash: a crash loop is told by its restarts.
    """
    values = limits.of(subject).values
    age = snapshot.age(pod.started_at or pod.created_at)
    if age is None or age < values.operator_failing_after:
        return False
    if failure.how == "nothing-offered":
        return True
    if failure.how == "crash-loop" and failure.container.restarts >= values.restarts_min:
        return True
    ready = pod.condition("Ready")
    not_ready_for = snapshot.age(ready.since if ready else None)
    return not_ready_for is None or not_ready_for >= values.operator_failing_after
