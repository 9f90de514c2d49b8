"""A node offers fewer GPUs than are fitted in it.

## Meaning
Allocatable is below the number of GPUs physically there. Some of them: the device plugin marked devices unhealthy.
All of them: the plugin is not registered, all devices are unhealthy, or the driver is not up. Where GPUs are given out
by claims (DRA): a device has a taint, or the driver no longer publishes it. Fitted = max(capacity / replicas, the label
`nvidia.com/gpu.count`, the past maximum); a PCI label without a count says "at least one, number unknown".

## Impact
The scheduler cannot use the missing GPUs: pods wait behind "Insufficient nvidia.com/gpu" while boards sit there.

## Evidence
Node capacity, allocatable and labels; device health in pod status (KEP-4680); the device plugin's pod on the node and
what its log says; ResourceSlices and their taints.

## Not reported
Time-sliced nodes, whose capacity is a multiple of the boards; MIG nodes by their instance counts; nodes younger than
`allocatable_after`, where the plugin has not registered yet; nodes that are not Ready; nodes whose GPUs are given out
by claims, which have none in their capacity, used or not.

## References
https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/
"""

from collections.abc import Iterator

from diagnostics.findings import Confidence, Evidence, Hit, Severity, Subject
from diagnostics.fixes import Fix, steps
from diagnostics.limits import Limits
from diagnostics.operator_components import COMPONENTS, component_label
from diagnostics.rules.base import rule
from diagnostics.rules.stack import unpublished
from diagnostics.rules.stack.component_cause import Cause, cause_at
from diagnostics.rules.stack.component_effect import HOW, SERVING
from diagnostics.rules.stack.component_fix import component_fix
from diagnostics.rules.stack.failing_places import failing_by_place
from diagnostics.rules.stack.failures import Failure
from diagnostics.rules.stack.lost_gpus import NOT_REGISTERED, UNHEALTHY, UNHEALTHY_OR_GONE, why_lost
from diagnostics.snapshot import Node, Pod, Snapshot, Source, gpu_resources
from diagnostics.snapshot.claims import is_served_by_claims, publishes_gpus
from diagnostics.text import counted, listed

PCI_LABELS = (
    "feature.node.kubernetes.io/pci-0302_10de.present",
    "feature.node.kubernetes.io/pci-0300_10de.present",
    "feature.node.kubernetes.io/pci-10de.present",
)
UPGRADING = {"upgrade-done", "upgrade-required", ""}
"""States of `gpu-driver-upgrade-state` in which no upgrade runs."""


@rule(
    code="GPU201",
    slug="fewer-gpus-than-fitted",
    severity=Severity.CRITICAL,
    needs={Source.NODES},
    uses={Source.PODS, Source.LOGS, Source.CLAIMS},
    caused_by=(
        *("device-plugin-waiting", "operator-component-failing"),
        *("fatal-xid", "lost-gpu", "reported-unhealthy"),
    ),
)
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Hit]:
    """One hit per node that misses GPUs."""
    failing = failing_by_place(snapshot, limits)
    for node in snapshot.nodes:
        subject = Subject.of_node(node)
        if node.is_ready is False:
            continue
        age = snapshot.age(node.created_at)
        if age is not None and age < limits.of(subject).values.allocatable_after:
            continue
        if publishes_gpus(node, snapshot.dra):
            yield from unpublished.hits(node, snapshot)
            continue
        if is_served_by_claims(node, snapshot.pods_by_node.get(node.name, []), snapshot.dra):
            continue
        devices = snapshot.gpus_by_node.get(node.name, [])
        offered = sum(gpu_resources(node.allocatable).values())
        if not devices and not offered and any(node.labels.get(label) == "true" for label in PCI_LABELS):
            yield _unknown_number(node, subject)
            continue
        lost = [gpu for gpu in devices if gpu.is_healthy is False]
        if lost:
            yield _known_number(snapshot, node, len(devices), len(lost), failing.get(subject, []))


def _unknown_number(node: Node, subject: Subject) -> Hit:
    label = next(label for label in PCI_LABELS if node.labels.get(label) == "true")
    present = node.labels.get("nvidia.com/gpu.present") == "true"
    cause = "driver-or-plugin-not-up" if present else "node-not-managed"
    why = (
        "the operator manages the node, but driver or plugin has not come up"
        if present
        else "the operator has not labelled the node, so none of its components run there"
    )
    return Hit(
        subject=subject,
        cause=cause,
        title=f"Node {node.name} has NVIDIA hardware but offers no GPU",
        summary=f"A PCI label shows at least one NVIDIA device (the number is unknown), yet the node advertises "
        f"no GPU: {why}.",
        evidence=(
            Evidence("PCI device", "present", source=f"label {label}"),
            Evidence("Capacity", _amount(node, node.capacity), "GPUs", "status.capacity"),
            Evidence("Allocatable", _amount(node, node.allocatable), "GPUs", "status.allocatable"),
            Evidence("Fitted", "at least 1, number unknown", "GPUs", "no nvidia.com/gpu.count label"),
        ),
        gpus=1,
        nodes=(node.name,),
        fix=_fix(node, all_lost=True),
    )


def _known_number(
    snapshot: Snapshot, node: Node, fitted: int, lost: int, failing: list[tuple[Pod, Failure]]
) -> Hit:
    """`failing`: components of the node, the leading one first."""
    all_lost = lost == fitted
    bad = [
        f"{d.device} ({pod.key})"
        for pod in snapshot.pods_by_node.get(node.name, [])
        for d in pod.devices
        if d.health == "Unhealthy" and not pod.is_finished
    ]
    evidence = [
        Evidence("Fitted", str(fitted), "GPUs", "max(capacity / replicas, nvidia.com/gpu.count, past)"),
        Evidence("Capacity", _amount(node, node.capacity), "GPUs", "status.capacity"),
        Evidence("Allocatable", _amount(node, node.allocatable), "GPUs", "status.allocatable"),
    ]
    if node.gpu_replicas > 1:
        evidence.append(Evidence("Shares per GPU", str(node.gpu_replicas), source="nvidia.com/gpu.replicas"))
    if bad:
        evidence.append(Evidence("Unhealthy device", listed(bad), source="allocatedResourcesStatus"))
    upgrade = node.labels.get("nvidia.com/gpu-driver-upgrade-state", "")
    upgrading = upgrade not in UPGRADING and upgrade != "upgrade-failed"
    if upgrade and upgrade != "upgrade-done":
        evidence.append(Evidence("Driver upgrade", upgrade, source="nvidia.com/gpu-driver-upgrade-state"))
    cause, meaning, told = why_lost(snapshot, node, all_lost=all_lost, upgrading=upgrading)
    evidence += told
    fix = _fix(node, all_lost=all_lost, is_marked=cause == UNHEALTHY)
    if all_lost and cause in {NOT_REGISTERED, UNHEALTHY_OR_GONE} and _serves(failing):
        root = cause_at(snapshot, failing)
        meaning += _why_it_fails(failing, root)
        fix = component_fix(snapshot, failing, root)
    return Hit(
        subject=Subject.of_node(node),
        cause=cause,
        title=f"Node {node.name} offers {fitted - lost} of {counted(fitted, 'fitted GPU')}",
        summary=f"{counted(lost, 'GPU')} of {fitted} cannot be scheduled. {meaning}",
        evidence=tuple(evidence),
        severity=Severity.INFO if upgrading else None,
        confidence=Confidence.MEDIUM if cause == UNHEALTHY_OR_GONE else Confidence.HIGH,
        gpus=lost,
        nodes=(node.name,),
        fix=fix,
    )


def _serves(failing: list[tuple[Pod, Failure]]) -> bool:
    """Whether the leading one of the failing components is needed to offer GPUs."""
    return bool(failing) and COMPONENTS.get(component_label(failing[0][0]) or "") in SERVING


def _why_it_fails(failing: list[tuple[Pod, Failure]], root: Cause) -> str:
    pod, failure = failing[0]
    component = COMPONENTS[component_label(pod) or "gpu-operator"]
    words = f" {root.words}" if root.words else ""
    return f" Its {component} fails: {root.short or HOW[failure.how]}.{words}"


def _amount(node: Node, amounts: dict[str, float]) -> str:
    named = {
        k: v for k, v in amounts.items() if k.startswith(("nvidia.com/gpu", "nvidia.com/mig-", "amd.com/gpu"))
    }
    return ", ".join(f"{name} {amount:.0f}" for name, amount in sorted(named.items())) or "none"


def _fix(node: Node, *, all_lost: bool, is_marked: bool = False) -> Fix:
    """`is_marked`: the device plugin took GPUs out, so that the hardware is in question."""
    look = [steps.describe_node(node.name), steps.see_operator_pods_on_node(node.name)]
    if not all_lost:
        look.append(steps.read_kernel_log(node.name))
    restart = steps.restart_pod_on_node(
        "nvidia-device-plugin-daemonset",
        node.name,
        why="Only after the cause is repaired: the plugin then finds the devices again. "
        + (
            "The node offers no GPU now, so that nothing is lost; pods that run keep theirs."
            if all_lost
            else "While it restarts, this node offers no GPU and new pods on it are refused."
        ),
    )
    summary = (
        "Find the first operator component that is not ready on the node"
        if all_lost
        else "Find out why the device plugin marked the GPU unhealthy"
    )
    return Fix(
        summary,
        (
            *look,
            restart,
            steps.verify_finding_gone("Allocatable equals the fitted number for two polls."),
            steps.escalate(
                "the hardware team",
                why="A device that is lost again after a reset is a hardware case.",
                expect="They ask for the result of DCGM's own diagnostic (`dcgmi diag -r 3`) on the drained node.",
            )
            if is_marked or not all_lost
            else steps.escalate(
                "the platform team",
                why="Nothing shows a fault of the boards: the operator's components on the node are theirs.",
                expect="They say which component of the node is not up, and why.",
            ),
        ),
    )
