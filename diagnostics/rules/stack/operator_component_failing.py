"""A component of the GPU operator fails on a node.

## Meaning
A pod of the driver, container toolkit, validator, device plugin, feature discovery, MIG manager or DCGM exporter does
not become ready on a node. The components wait for each other in that order, so the first one that fails for a reason
of its own is the cause; the others stand in `Init` and are its victims.

## Impact
Running pods keep their GPUs. New pods cannot get GPUs on the node while the driver, the toolkit or the plugin is
down; without the DCGM exporter nothing can be said about use, and without feature discovery the labels are missing.

## Evidence
State, reason, restarts and last message of each container of the operator's pods, by their labels; age from the pod's
own timestamps; which components of the node are ready; fresh GPU metrics of the node, which prove that its driver is
loaded.

## Not reported
Pods younger than `operator_failing_after`, and crash loops with fewer than `restarts_min` restarts; completed
validation pods; pods that are being replaced; components that only wait, which are named under the one they wait for.

## References
https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/troubleshooting.html
"""

from collections import defaultdict
from collections.abc import Iterator

from diagnostics.findings import Confidence, Evidence, Hit, Severity, Subject
from diagnostics.limits import Limits
from diagnostics.operator_components import COMPONENTS, ORDER, component_label, is_component_of_node
from diagnostics.quantities import span
from diagnostics.rules.base import rule
from diagnostics.rules.stack.component_fix import NOT_INJECTED, component_fix
from diagnostics.rules.stack.failures import Failure, failure_of
from diagnostics.snapshot import Pod, Snapshot, Source
from diagnostics.states import FRESH_FOR
from diagnostics.text import counted, listed, printable

HOW = {
    "image-pull": "its image cannot be pulled",
    "crash-loop": "it crashes again and again",
    "start-error": "its container cannot be started",
    "init-stuck": "it waits for another component",
    "not-ready": "it runs but does not become ready",
    "failed": "it failed",
}
SERVING = {"driver", "vGPU manager", "container toolkit", "device plugin", "DRA plugin", "validator"}
"""Without one of these no new pod gets a GPU on the node."""


@rule(
    code="GPU202",
    slug="operator-component-failing",
    severity=Severity.CRITICAL,
    needs={Source.PODS},
    uses={Source.NODES, Source.EVENTS, Source.METRICS},
    caused_by=("nvml-failing", "fabric-manager-down"),
    hold=1,
)
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Hit]:
    """One hit per node with a failing component, and one per failing controller of the operator."""
    by_place: dict[Subject, list[tuple[Pod, Failure]]] = defaultdict(list)
    for pod in snapshot.pods:
        label = component_label(pod)
        if label is None or pod.deletion_at is not None:
            continue
        failure = failure_of(pod)
        subject = _subject(snapshot, pod)
        if failure is None or not _is_old(snapshot, limits, subject, pod, failure):
            continue
        by_place[subject].append((pod, failure))
    for subject, failing in by_place.items():
        failing.sort(key=lambda pair: (pair[1].is_victim, ORDER[component_label(pair[0]) or "gpu-operator"]))
        yield _hit(snapshot, subject, failing)


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
    if failure.how == "crash-loop" and failure.container.restarts >= values.restarts_min:
        return True
    ready = pod.condition("Ready")
    not_ready_for = snapshot.age(ready.since if ready else None)
    return not_ready_for is None or not_ready_for >= values.operator_failing_after


def _hit(snapshot: Snapshot, subject: Subject, failing: list[tuple[Pod, Failure]]) -> Hit:
    pod, failure = failing[0]
    component = COMPONENTS[component_label(pod) or "gpu-operator"]
    slug = component.lower().replace(" ", "-")
    # Another component on the node may say aloud what the first one fails of.
    said = next((f.signature for _, f in failing if f.signature and not f.is_victim), None)
    cause = said or f"{slug}-{failure.how}"
    on_node = snapshot.pods_by_node.get(pod.node or "", [])
    reporting = _reporting(snapshot, pod.node)
    if cause == "driver-library-not-found" and reporting:
        cause = NOT_INJECTED
    victims = [COMPONENTS[component_label(p) or ""] for p, f in failing[1:] if f.is_victim]
    others = [COMPONENTS[component_label(p) or ""] for p, f in failing[1:] if not f.is_victim]
    gpus = _gpus_on(snapshot, pod.node)
    where = f"on node {subject.name}" if subject.kind == "Node" else f"({subject})"
    evidence = [
        Evidence("Pod", pod.key, source="metadata.name"),
        Evidence("Container", failure.container.name, source="status.containerStatuses[].name"),
        Evidence("State", failure.container.waiting_reason or failure.how, source="state.waiting.reason"),
        Evidence("Restarts", str(failure.container.restarts), "restarts", "restartCount"),
        Evidence("Age of the pod", span(snapshot.age(pod.created_at)), source="metadata.creationTimestamp"),
    ]
    ready = pod.condition("Ready")
    if failure.how != "crash-loop" and ready is not None:  # the condition's time starts again at each crash
        not_ready = span(snapshot.age(ready.since))
        evidence.append(Evidence("Not ready for", not_ready, source="Ready condition, lastTransitionTime"))
    evidence += [
        Evidence(
            "It said" if f is failure else f"{p.name} said",
            printable(f.message, 600),
            source="container message",
        )
        for p, f in failing
        if f.message and (f is failure or f.signature)
    ]
    if victims:
        evidence.append(Evidence("Waiting for it", listed(sorted(set(victims)), 8), source="init containers"))
    if others:
        evidence.append(Evidence("Also failing", listed(sorted(set(others)), 8), source="containerStatuses"))
    well = sorted({name for p in on_node if (name := _well(p))})
    if well:
        evidence.append(Evidence("Ready on the node", listed(well, 12), source="Ready condition"))
    if cause == NOT_INJECTED:
        evidence += [
            Evidence(
                "Driver", f"loaded: {counted(reporting, 'GPU')} of the node report metrics", source="DCGM"
            ),
            Evidence("Runtime class", pod.runtime_class or "none", source="spec.runtimeClassName"),
        ]
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
        cause=cause,
        title=f"{component[0].upper()}{component[1:]} fails {where}: {HOW[failure.how]}",
        summary=f"The {component} pod {pod.name} does not become ready: {HOW[failure.how]}.{waits} {effect}"
        + (_NOT_INJECTED_WORDS if cause == NOT_INJECTED else ""),
        evidence=tuple(evidence),
        severity=None if serving else Severity.WARNING,
        confidence=Confidence.MEDIUM if failure.is_victim else Confidence.HIGH,
        gpus=gpus if serving else 0,
        nodes=(pod.node,) if pod.node else (),
        pods=tuple(p.key for p, _ in failing),
        fix=component_fix(pod, failure, component, cause, on_node),
    )


_NOT_INJECTED_WORDS = (
    " The node's driver is loaded, as its metrics show: the container runtime does not hand the driver's libraries to "
    "this container."
)


def _reporting(snapshot: Snapshot, node: str | None) -> int:
    """GPUs of the node with a fresh sample: DCGM reads them through the driver."""
    ages = [
        snapshot.age(g.metrics.sampled_at) for g in snapshot.gpus_by_node.get(node or "", []) if g.metrics
    ]
    return sum(age is not None and age <= FRESH_FOR for age in ages)


def _well(pod: Pod) -> str | None:
    label = component_label(pod)
    return COMPONENTS[label] if label and pod.is_ready and failure_of(pod) is None else None


def _gpus_on(snapshot: Snapshot, node: str | None) -> int:
    return len(snapshot.gpus_by_node.get(node or "", []))
