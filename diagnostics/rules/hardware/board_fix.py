"""Guided fix for a board that has to be reset, repaired or replaced, whatever showed it: out first, back last."""

import msgspec

from diagnostics.fixes import Fix, Step, StepKind, steps
from diagnostics.rules.hardware.cards import Card
from diagnostics.rules.hardware.xid_fix import can_be_reset_alone, repair, see_all_offered
from diagnostics.snapshot import Snapshot
from diagnostics.xid import XidAction


def board_fix(
    snapshot: Snapshot,
    card: Card,
    action: XidAction,
    *,
    summary: str,
    gone: str,
    why_escalate: str,
    look: tuple[Step, ...] = (),
) -> Fix:
    """`look`: further steps that only look. `gone`: what the next polls show when it is repaired."""
    gpus, node = list(card.gpus), card.node
    alone = action is XidAction.RESET_GPU and can_be_reset_alone(snapshot, gpus)
    return Fix(
        summary=summary,
        steps=(
            steps.see_pods_on_node(node),
            *look,
            steps.read_kernel_log(node),
            steps.cordon(node),
            *repair(snapshot, card.gpu, action, alone=alone),
            see_all_offered(node),
            msgspec.structs.replace(steps.uncordon(node), kind=StepKind.RESTORE),
            steps.verify_finding_gone(gone),
            vendor(why_escalate),
        ),
    )


def watch_fix(card: Card, gone: str, why_escalate: str) -> Fix:
    """Nothing to repair yet."""
    return Fix(
        summary=f"Watch {card.name} on {card.node}; it can stay in service",
        steps=(
            steps.see_pods_on_node(card.node),
            steps.read_kernel_log(card.node),
            steps.verify_finding_gone(gone),
            vendor(why_escalate),
        ),
    )


def vendor(why: str) -> Step:
    """The last step: what has to be shown when a repair did not hold."""
    return steps.escalate(
        "the hardware vendor",
        why=why,
        expect="The vendor asks for the kernel log, `nvidia-bug-report.sh` and DCGM's own diagnostic "
        "(`dcgmi diag -r 3` on the drained node), may run NVIDIA's field diagnostic, which is another program, and "
        "replaces the board if it fails.",
    )
