"""A component of the GPU operator fails on a node.

## Meaning
A pod of the driver, container toolkit, validator, device plugin, feature discovery, MIG manager or DCGM exporter does
not become ready on a node. The components wait for each other in that order, so the first one that fails for a reason
of its own is the cause; the others stand in `Init` and are its victims. Or the operator itself says, in its
ClusterPolicy or an NVIDIADriver, that it cannot do what it was asked for.

## Impact
Running pods keep their GPUs. New pods cannot get GPUs on the node while the driver, the toolkit or the plugin is
down; without the DCGM exporter nothing can be said about use, and without feature discovery the labels are missing.

## Evidence
State, reason, restarts and last message of each container of the operator's pods, by their labels; the lines of their
logs and events that name a cause; image, kernel and operating system of the node; age from the pod's own timestamps;
which components of the node are ready; fresh GPU metrics of the node, which prove that its driver is loaded; the
node's driver upgrade state; the state of the ClusterPolicy; what the API server answers a DaemonSet.

## Not reported
Pods younger than `operator_failing_after`, and crash loops with fewer than `restarts_min` restarts; completed
validation pods; pods that are being replaced; components that only wait, which are named under the one they wait for;
a device plugin that runs on a node without NVIDIA hardware and has nothing to do there.

## References
https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/troubleshooting.html
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial

from diagnostics.findings import Confidence, Hit, Severity, Subject
from diagnostics.limits import Limits
from diagnostics.operator_components import COMPONENTS, ORDER, component_label, is_component_of_node
from diagnostics.rules.base import rule
from diagnostics.rules.stack.component_cause import Cause, cause_at
from diagnostics.rules.stack.component_evidence import evidence_of
from diagnostics.rules.stack.component_fix import component_fix
from diagnostics.rules.stack.failures import Failure, failure_of
from diagnostics.rules.stack.operator_resources import not_ready
from diagnostics.rules.stack.quiet_plugin import offers_nothing
from diagnostics.rules.stack.unmade_pods import refused_components
from diagnostics.rules.stack.upgrades import failed_upgrades
from diagnostics.snapshot import Event, LogSignal, Pod, Snapshot, Source
from diagnostics.text import counted

HOW = {
    "image-pull": "its image cannot be pulled",
    "crash-loop": "it crashes again and again",
    "start-error": "its container cannot be started",
    "sandbox": "its pod cannot be set up",
    "init-stuck": "it waits for another component",
    "not-ready": "it runs but does not become ready",
    "nothing-offered": "it runs, and offers no GPU",
    "failed": "it failed",
}
SERVING = {"driver", "vGPU manager", "container toolkit", "device plugin", "DRA plugin", "validator"}
"""Without one of these no new pod gets a GPU on the node."""
_TOOLKIT = "nvidia-container-toolkit-daemonset"


@rule(
    code="GPU202",
    slug="operator-component-failing",
    severity=Severity.CRITICAL,
    needs={Source.PODS},
    uses={Source.NODES, Source.EVENTS, Source.METRICS, Source.LOGS, Source.CUSTOM, Source.WORKLOADS},
    caused_by=("nvml-failing", "fabric-manager-down"),
    hold=1,
)
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Hit]:
    """One hit per node with a failing component, per failing controller, and per ClusterPolicy that fails by itself."""
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
    for subject, failing in by_place.items():
        failing.sort(key=partial(_place, failing))
        yield _hit(snapshot, subject, failing)
    yield from failed_upgrades(snapshot, {subject.name for subject in by_place})
    refused = list(refused_components(snapshot))
    yield from refused
    yield from not_ready(snapshot, limits, has_failing=bool(by_place or refused))


def _told(snapshot: Snapshot, pod: Pod) -> tuple[list[LogSignal], list[Event]]:
    events = snapshot.events_by_object.get(("Pod", pod.namespace, pod.name), [])
    return snapshot.signals_by_pod.get(pod.key, []), [e for e in events if not e.uid or e.uid == pod.uid]


def _place(failing: list[tuple[Pod, Failure]], pair: tuple[Pod, Failure]) -> tuple[bool, int]:
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


def _hit(snapshot: Snapshot, subject: Subject, failing: list[tuple[Pod, Failure]]) -> Hit:
    pod, failure = failing[0]
    component = COMPONENTS[component_label(pod) or "gpu-operator"]
    cause: Cause = cause_at(snapshot, failing)
    victims = [p for p, f in failing[1:] if f.is_victim or f.how == "sandbox"]
    gpus = len(snapshot.gpus_by_node.get(pod.node or "", []))
    where = f"on node {subject.name}" if subject.kind == "Node" else f"({subject})"
    serving = component in SERVING
    verb = "waits" if len(victims) == 1 else "wait"
    waits = f" {counted(len(victims), 'other component')} on the node {verb} for it." if victims else ""
    effect = (
        "No new pod can get a GPU there; running pods keep theirs."
        if serving
        else "GPUs stay usable, but what this component does is missing."
    )
    return Hit(
        subject=subject,
        cause=cause.slug,
        title=f"{component[0].upper()}{component[1:]} fails {where}: {cause.short or HOW[failure.how]}",
        summary=f"The {component} pod {pod.name} does not become ready: {HOW[failure.how]}.{waits} {effect}"
        + (f" {cause.words}" if cause.words else ""),
        evidence=tuple(evidence_of(snapshot, failing, cause)),
        severity=None if serving else Severity.WARNING,
        confidence=cause.confidence or (Confidence.MEDIUM if failure.is_victim else Confidence.HIGH),
        gpus=gpus if serving else 0,
        nodes=(pod.node,) if pod.node else (),
        pods=tuple(p.key for p, _ in failing),
        fix=component_fix(pod, failure, component, cause.slug, snapshot.pods_by_node.get(pod.node or "", [])),
    )
