"""Guided fix for a GPU with a fatal Xid: the mildest way that clears it, then what comes back, checks and escalates."""

from datetime import timedelta

import msgspec

from diagnostics.fixes import Fix, Risk, Step, StepKind, kubectl, reset_steps, steps
from diagnostics.quantities import span
from diagnostics.snapshot import Gpu, Pod, Snapshot
from diagnostics.xid import Xid, XidAction

PLUGIN_APP = "nvidia-device-plugin-daemonset"
MEMORY_XIDS = frozenset({48, 63, 64, 94, 95})
"""After which the state of row remapping says what a reset can do."""


def xid_fix(
    snapshot: Snapshot, gpus: list[Gpu], row: Xid, action: XidAction, xid_recent: timedelta, again: int = 0
) -> Fix:
    """`gpus`: one physical GPU, or its MIG instances. `again`: on how many occasions hardware of the node failed in 30
    days, where it fails again and again; else 0.
    """
    node, is_reset = gpus[0].node, action is XidAction.RESET_GPU
    alone = is_reset and can_be_reset_alone(snapshot, gpus)
    looks = (
        reset_steps.see_remapped_rows(
            gpus[0], snapshot.node_by_name.get(node), snapshot.pods_by_node.get(node, [])
        )
        if row.code in MEMORY_XIDS
        else ()
    )
    back = msgspec.structs.replace(steps.uncordon(node), kind=StepKind.RESTORE)
    if again:
        back = msgspec.structs.replace(
            back, why="Only after the board was examined and found sound, or replaced."
        )
    return Fix(
        summary=f"Take {node} out of scheduling and {action}"
        + (", which nobody holds: the node's other pods can stay" if alone else "")
        + (
            f"; the node failed {again} times in 30 days: have it examined before it goes back"
            if again
            else ""
        ),
        steps=(
            steps.see_pods_on_node(node),
            steps.read_kernel_log(node),
            *looks,
            steps.cordon(node),
            *repair(snapshot, gpus[0], action, alone=alone),
            see_all_offered(node),
            *((_examine(node, again),) if again else ()),
            back,
            steps.verify_finding_gone(
                f"No new Xid {row.code} on this GPU; the finding ends {span(xid_recent)} after the last."
            ),
            steps.escalate(
                "the hardware vendor",
                why=f"Do it now: hardware of {node} failed on {again} occasions in 30 days, and what put it right did "
                "not last. Show the list of its incidents."
                if again
                else f"Xid {row.code} again after a reset and a reboot points to the board, its slot or its power.",
                expect="The vendor asks for the kernel log, `nvidia-bug-report.sh` and DCGM's own diagnostic "
                "(`dcgmi diag -r 3` on the drained node), may run NVIDIA's field diagnostic, which is another "
                "program, and replaces the board if it fails.",
            ),
        ),
    )


def _examine(node: str, again: int) -> Step:
    return Step(
        kind=StepKind.VERIFY,
        title=f"Have the hardware of node {node} examined before it goes back",
        why=f"It failed on {again} occasions in 30 days, as the stored incidents of the node and its GPUs say: what "
        "put it right did not last, so that another reset alone is not enough. Keep it out of scheduling until then.",
        risk=Risk.READ_ONLY,
        expect="The examination, the vendor's where you have one, finds the board sound, or it was replaced.",
    )


def can_be_reset_alone(snapshot: Snapshot, gpus: list[Gpu]) -> bool:
    """Nobody holds it, and its architecture needs no reset of its neighbours: the node need not be drained."""
    major = reset_steps.compute_major(snapshot.node_by_name.get(gpus[0].node))
    is_free = not any(gpu.holders or gpu.holder_source == "count" for gpu in gpus)
    return is_free and major is not None and major >= reset_steps.AMPERE


def repair(snapshot: Snapshot, gpu: Gpu, action: XidAction, *, alone: bool) -> tuple[Step, ...]:
    """From the mildest to what loses something, then the device plugin anew: as a rule it takes back no GPU."""
    name, node = gpu.node, snapshot.node_by_name.get(gpu.node)
    pods = snapshot.pods_by_node.get(name, [])
    if action is not XidAction.RESET_GPU:
        return reset_steps.drain(name, pods, snapshot.policy.budgets), _by_hand(name, action)
    switches = reset_steps.switches_of(node, pods)
    return (
        *((reset_steps.stop_clients(name, switches),) if switches else ()),
        *(() if alone else (reset_steps.drain(name, pods, snapshot.policy.budgets),)),
        reset_steps.reset_gpu(gpu, node, pods),
        reset_steps.start_clients(name, switches) if switches else restart_plugin(name, pods),
    )


def _by_hand(node: str, action: XidAction) -> Step:
    title = {
        XidAction.REBOOT: f"Reboot node {node}, by power cycle if it does not come back whole",
        XidAction.CHECK_MECHANICALS: f"Power node {node} off and check the GPU's seating and power cables",
    }.get(action, f"Keep node {node} drained for the vendor's diagnosis")
    return Step(
        kind=StepKind.FIX,
        title=title,
        why="The state that the error left is not cleared by restarting pods. Everything that still runs on the node "
        "is lost; use the machine's own management.",
        risk=Risk.DESTRUCTIVE,
        expect="All GPUs of the node are listed again.",
    )


def restart_plugin(node: str, pods: list[Pod]) -> Step:
    plugins = [p for p in pods if p.labels.get("app") == PLUGIN_APP]
    namespace = plugins[0].namespace if plugins else steps.OPERATOR_NAMESPACE
    restart = steps.restart_pod_on_node(
        PLUGIN_APP,
        node,
        namespace,
        why="After the repair: the device plugin keeps a GPU that it marked unhealthy out until it starts anew. Before "
        "it, this would hand out a broken GPU. Running pods keep their GPUs.",
    )
    return msgspec.structs.replace(restart, kind=StepKind.RESTORE)


def see_all_offered(node: str) -> Step:
    return Step(
        kind=StepKind.VERIFY,
        title=f"Compare capacity and allocatable of node {node}",
        why="The repaired GPU has to be offered again before pods come back.",
        risk=Risk.READ_ONLY,
        command=kubectl.describe("node", node),
        expect="Allocatable equals capacity for the GPU resource, and is the number of GPUs fitted.",
    )
