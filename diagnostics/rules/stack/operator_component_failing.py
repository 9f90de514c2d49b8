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

from collections.abc import Iterator

from diagnostics.findings import Confidence, Hit, Severity, Subject
from diagnostics.limits import Limits
from diagnostics.operator_components import COMPONENTS, component_label
from diagnostics.rules.base import rule
from diagnostics.rules.stack.component_cause import Cause, cause_at
from diagnostics.rules.stack.component_effect import HOW, SERVING, effect_of
from diagnostics.rules.stack.component_evidence import evidence_of
from diagnostics.rules.stack.component_fix import component_fix
from diagnostics.rules.stack.failing_places import failing_by_place
from diagnostics.rules.stack.failures import Failure
from diagnostics.rules.stack.operator_resources import not_ready
from diagnostics.rules.stack.unmade_pods import refused_components
from diagnostics.rules.stack.upgrades import failed_upgrades
from diagnostics.snapshot import Pod, Snapshot, Source
from diagnostics.text import counted


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
    by_place = failing_by_place(snapshot, limits)
    for subject, failing in by_place.items():
        yield _hit(snapshot, subject, failing)
    yield from failed_upgrades(snapshot, {subject.name for subject in by_place})
    refused = list(refused_components(snapshot))
    yield from refused
    yield from not_ready(snapshot, limits, has_failing=bool(by_place or refused))


def _hit(snapshot: Snapshot, subject: Subject, failing: list[tuple[Pod, Failure]]) -> Hit:
    pod, failure = failing[0]
    component = COMPONENTS[component_label(pod) or "gpu-operator"]
    cause: Cause = cause_at(snapshot, failing)
    victims = [p for p, f in failing[1:] if f.is_victim or f.how == "sandbox"]
    gpus = len(snapshot.gpus_by_node.get(pod.node or "", []))
    where = f"on node {subject.name}" if subject.kind == "Node" else f"({subject})"
    serving = component in SERVING
    effect = effect_of(snapshot, pod, component, cause)
    verb = "waits" if len(victims) == 1 else "wait"
    waits = f" {counted(len(victims), 'other component')} on the node {verb} for it." if victims else ""
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
        fix=component_fix(snapshot, failing, cause),
    )
