"""Guided fixes for application Xids: look at the program, or try the GPU with another one."""

from diagnostics.fixes import Fix, Risk, Step, StepKind, kubectl, steps
from diagnostics.rules.hardware.board_fix import vendor
from diagnostics.rules.hardware.cards import Card
from diagnostics.snapshot import Pod
from diagnostics.text import printable


def application_fix(card: Card, pod: Pod | None, code: int) -> Fix:
    """The GPU stays in service. `pod`: one of the program's, where known."""
    name = printable(pod.name, 120) if pod is not None else "the program"
    look = (
        (steps.read_log(pod, previous=pod_restarted(pod), expect="The first CUDA error with its stack."),)
        if pod is not None
        else (steps.see_pods_on_node(card.node),)
    )
    return Fix(
        summary=f"Debug {name}; leave {card.name} on {card.node} in service",
        steps=(
            *look,
            steps.read_kernel_log(card.node),
            Step(
                kind=StepKind.FIX,
                title=f"Run {name} under compute-sanitizer, in a pod of its own",
                why="It names the kernel and the access that failed. It makes the program many times slower, so that "
                "it belongs beside the service and not into it: `compute-sanitizer --tool memcheck <command>`.",
                risk=Risk.SAFE,
                expect="Lines with `Invalid __global__ read` or their like, with the kernel's name.",
            ),
            steps.verify_finding_gone(f"No new Xid {code} of this program."),
            steps.escalate(
                "those who look after the nodes",
                why=f"Only if the same program fails on {card.name} of {card.node} and runs on another GPU.",
                expect="They try the GPU with another program, and DCGM's diagnostic on the drained node.",
            ),
        ),
    )


def pod_restarted(pod: Pod) -> bool:
    return any(c.restarts for c in pod.containers)


def suspect_fix(card: Card) -> Fix:
    node = card.node
    return Fix(
        summary=f"Take {node} out of scheduling when its jobs end, and test {card.name}",
        steps=(
            steps.see_pods_on_node(node),
            steps.look(
                title=f"See where the same programs run on other GPUs than those of {node}",
                why="A program that fails here and nowhere else clears the program.",
                command=kubectl.pods_on_node(node, holding=True),
                expect="Pods of the workloads in the evidence; look for their siblings on other nodes.",
            ),
            steps.read_kernel_log(node),
            steps.cordon(node),
            steps.verify_finding_gone(
                "The test finds nothing, or the board was replaced; then uncordon the node."
            ),
            vendor(
                "An application's Xid that follows the GPU is a fault of the board, and DCGM's diagnostic shows it."
            ),
        ),
    )
