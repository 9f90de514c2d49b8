"""A node whose hardware fails again and again, far more often than its neighbours.

## Meaning
Over the last 30 days hardware incidents of this node and of its GPUs opened on `lemon_incidents_min` occasions or more,
and several times as often as on the median node. Each was put right, and none for good.

## Impact
Large jobs that land on it fail again and again, and start over from their last checkpoint. Resets and reboots cost more
than a repair would.

## Evidence
Hardware incidents of earlier polls by node, from the stored history. Those that open within 6 hours are one failure.

## Not reported
One-shot runs, which have no history. One failure that several rules see. Incidents of software and of scheduling.
Trouble that all nodes have, such as a driver update: it is no property of one.

## References
https://arxiv.org/abs/2410.21680
"""

from collections.abc import Iterator

from diagnostics.findings import Confidence, Evidence, Hit, Severity, Subject
from diagnostics.fixes import Fix, steps
from diagnostics.limits import Limits
from diagnostics.rules.base import rule
from diagnostics.rules.hardware.board_fix import vendor
from diagnostics.rules.hardware.offenders import offenders
from diagnostics.snapshot import Node, Snapshot, Source
from diagnostics.text import counted


@rule(
    code="GPU108",
    slug="lemon-node",
    severity=Severity.WARNING,
    needs={Source.NODES},
    hold=1,
)
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Hit]:
    """One hit per repeat offender."""
    for node, count, usual, others in offenders(snapshot, limits):
        yield _hit(snapshot, node, count, usual, others)


def _hit(snapshot: Snapshot, node: Node, count: int, usual: float, others: int) -> Hit:
    gpus = snapshot.gpus_by_node.get(node.name, [])
    return Hit(
        subject=Subject.of_node(node),
        cause="repeat-offender",
        title=f"Node {node.name} failed {count} times in 30 days",
        summary=f"On {counted(count, 'occasion')} in 30 days hardware incidents of node {node.name} and its GPUs "
        f"opened; on the median node on {usual:g}. What put it right did not last: have it examined before it gets "
        "large jobs again.",
        evidence=(
            Evidence(
                "failures of this node", str(count), "in 30 days", "stored hardware incidents of Node and GPU"
            ),
            Evidence("median of the other nodes", f"{usual:g}", "in 30 days", f"{others} nodes"),
        ),
        confidence=Confidence.MEDIUM,
        gpus=len(gpus),
        nodes=(node.name,),
        fix=Fix(
            f"Keep large jobs off {node.name} and have its hardware examined",
            (
                steps.describe_node(node.name),
                steps.see_pods_on_node(node.name),
                steps.read_kernel_log(node.name),
                steps.cordon(node.name),
                steps.verify_finding_gone(
                    "No further incident for 30 days; uncordon the node after it was examined."
                ),
                vendor(
                    "A node that fails again and again after resets needs parts: show the list of its incidents."
                ),
            ),
        ),
    )
