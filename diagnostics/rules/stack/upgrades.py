"""Driver upgrades that the operator gave up on: a label on the node says so, and no pod need fail there."""

from collections.abc import Collection, Iterator

from diagnostics.findings import Evidence, Hit, Severity, Subject
from diagnostics.fixes import Fix, Risk, Step, StepKind, kubectl, steps
from diagnostics.operator_components import COMPONENTS, component_label
from diagnostics.snapshot import Node, Pod, Snapshot

LABEL = "nvidia.com/gpu-driver-upgrade-state"


def failed_upgrades(snapshot: Snapshot, known: Collection[str]) -> Iterator[Hit]:
    """One hit per node whose driver upgrade failed, but for the nodes that are `known` to fail for another reason."""
    for node in snapshot.nodes:
        if node.labels.get(LABEL) == "upgrade-failed" and node.name not in known:
            yield _hit(snapshot, node)


def _hit(snapshot: Snapshot, node: Node) -> Hit:
    pods = snapshot.pods_by_node.get(node.name, [])
    driver = next((p for p in pods if COMPONENTS.get(component_label(p) or "") == "driver"), None)
    return Hit(
        subject=Subject.of_node(node),
        cause="driver-upgrade-failed",
        title=f"Driver upgrade failed on node {node.name}",
        summary="The operator gave up the upgrade of the driver there and leaves the node as it is"
        + (", cordoned." if node.unschedulable else "."),
        evidence=(
            Evidence("Driver upgrade", "upgrade-failed", source=LABEL),
            Evidence("Cordoned", "yes" if node.unschedulable else "no", source="spec.unschedulable"),
        ),
        severity=Severity.WARNING,
        gpus=len(snapshot.gpus_by_node.get(node.name, [])),
        nodes=(node.name,),
        fix=Fix("Find out what held the upgrade up, and let the operator try again", _steps(node, driver)),
    )


def _steps(node: Node, driver: Pod | None) -> tuple[Step, ...]:
    looks = [steps.see_operator_pods_on_node(node.name)]
    if driver is not None:
        looks.append(steps.describe_pod(driver))
        looks.append(
            steps.read_log(driver, expect="The step that failed: unload, install, load, or a drain.")
        )
    again = Step(
        kind=StepKind.FIX,
        title=f"Let the operator upgrade the driver of node {node.name} again",
        why="Only after the cause is repaired. The operator then moves the GPU pods of this node away, as its upgrade "
        "policy says, and reloads the driver: what they have not saved is lost.",
        risk=Risk.DESTRUCTIVE,
        command=kubectl.kubectl(
            "label", "node", "--overwrite", *kubectl.named(node.name), f"{LABEL}=upgrade-required"
        ),
        expect="The label goes on to `upgrade-done`, and the node is uncordoned.",
    )
    return (
        *looks,
        again,
        steps.verify_finding_gone("The label says `upgrade-done`."),
        steps.escalate(
            "the platform team",
            why="An upgrade that fails twice needs another driver version or a reboot.",
            expect="A version from the operator's support matrix.",
        ),
    )
