"""What is shown for a failing component: its pod, what it says, who waits for it, and what is known of its node."""

from collections.abc import Iterator

from diagnostics.findings import Evidence
from diagnostics.operator_components import COMPONENTS, component_label
from diagnostics.quantities import span
from diagnostics.rules.stack.component_cause import Cause, ready_components, reporting
from diagnostics.rules.stack.failures import Failure
from diagnostics.rules.stack.operator_resources import state_words
from diagnostics.rules.stack.said import NO_LIBRARY
from diagnostics.snapshot import Pod, Snapshot
from diagnostics.text import counted, listed, printable

_BUILDS = (
    "driver-build-",
    "driver-release-",
    "precompiled-driver-",
    "driver-image-",
    "secure-boot-",
    "gpu-not-",
)

_HANDED = {
    "device plugin",
    "DRA plugin",
    "DCGM host engine",
    "DCGM exporter",
    "feature discovery",
    "MIG manager",
}
"""Components whose containers work with the driver's libraries as the runtime hands them over."""


def evidence_of(snapshot: Snapshot, failing: list[tuple[Pod, Failure]], cause: Cause) -> Iterator[Evidence]:
    """Facts of the leading failure, then of the others on its node."""
    pod, failure = failing[0]
    yield Evidence("Pod", pod.key, source="metadata.name")
    yield Evidence("Container", failure.container.name, source="status.containerStatuses[].name")
    state = failure.container.waiting_reason or failure.how
    yield Evidence("State", state, source="state.waiting.reason")
    yield Evidence("Restarts", str(failure.container.restarts), "restarts", "restartCount")
    yield Evidence("Age of the pod", span(snapshot.age(pod.created_at)), source="metadata.creationTimestamp")
    ready = pod.condition("Ready")
    # The condition's time starts again at each crash.
    if failure.how not in {"crash-loop", "nothing-offered"} and ready is not None:
        not_ready = span(snapshot.age(ready.since))
        yield Evidence("Not ready for", not_ready, source="Ready condition, lastTransitionTime")
    yield from _said(failing)
    victims = _names((p, f) for p, f in failing[1:] if f.is_victim or f.how == "sandbox")
    if victims:
        yield Evidence("Waiting for it", listed(victims, 8), source="init containers")
    others = _names((p, f) for p, f in failing[1:] if not (f.is_victim or f.how == "sandbox"))
    if others:
        yield Evidence("Also failing", listed(others, 8), source="containerStatuses")
    well = ready_components(snapshot, pod.node)
    if well:
        yield Evidence("Ready on the node", listed(well, 12), source="Ready condition")
    yield from _of_node(snapshot, pod, failure, cause)
    if (told := state_words(snapshot)) is not None:
        yield Evidence(told[0], told[1], source="status.state")


def _said(failing: list[tuple[Pod, Failure]]) -> Iterator[Evidence]:
    first = failing[0][1]
    for pod, failure in failing:
        if failure is not first and not failure.signature:
            continue
        label = "It said" if failure is first else f"{pod.name} said"
        if failure.message:
            yield Evidence(label, printable(failure.message, 600), source="container message")
        if failure.line and failure.line not in printable(failure.message, 4096):
            yield Evidence(label, printable(failure.line, 400), source=f"log of {failure.container.name}")


def _of_node(snapshot: Snapshot, pod: Pod, failure: Failure, cause: Cause) -> Iterator[Evidence]:
    if failure.how == "image-pull" and failure.container.image:
        yield Evidence("Image", printable(failure.container.image, 200), source="spec.containers[].image")
    node = snapshot.node_by_name.get(pod.node or "")
    if node is not None and cause.slug.startswith(_BUILDS):
        if node.kernel:
            yield Evidence("Kernel", node.kernel, source="status.nodeInfo.kernelVersion")
        if node.os_image:
            yield Evidence("Operating system", node.os_image, source="status.nodeInfo.osImage")
    upgrade = node.labels.get("nvidia.com/gpu-driver-upgrade-state", "") if node else ""
    if upgrade not in {"", "upgrade-done"}:
        yield Evidence("Driver upgrade", upgrade, source="nvidia.com/gpu-driver-upgrade-state")
    if cause.slug in NO_LIBRARY:
        count = reporting(snapshot, pod.node)
        if count:
            words = f"loaded: {counted(count, 'GPU')} of the node report metrics"
            yield Evidence("Driver", words, source="DCGM")
        yield Evidence("Runtime class", pod.runtime_class or "none", source="spec.runtimeClassName")
        if newest := _newest_start(snapshot, pod.node):
            yield Evidence(
                "Ready ones run for",
                f"{newest} at least: a container keeps what it was handed at its start",
                source="state.running.startedAt",
            )


def _newest_start(snapshot: Snapshot, node: str | None) -> str:
    """How long the ready components that need the driver's libraries run: why they may be ready all the same."""
    starts = [
        container.running_since
        for pod in snapshot.pods_by_node.get(node or "", [])
        if COMPONENTS.get(component_label(pod) or "", "") in _HANDED and pod.is_ready
        for container in pod.containers
        if container.running_since is not None and container.is_ready
    ]
    return span(snapshot.age(max(starts))) if starts else ""


def _names(pairs: Iterator[tuple[Pod, Failure]]) -> list[str]:
    return sorted({COMPONENTS[component_label(pod) or "gpu-operator"] for pod, _ in pairs})
