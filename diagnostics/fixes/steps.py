"""Steps that two or more rules share. Read-only first; whatever changes something says what it disturbs."""

from diagnostics.fixes import Risk, Step, StepKind, kubectl
from diagnostics.snapshot import Pod

OPERATOR_NAMESPACE = "gpu-operator"


def look(*, title: str, why: str, command: str = "", expect: str) -> Step:
    """Something that only reads."""
    return Step(
        kind=StepKind.DIAGNOSE, title=title, why=why, risk=Risk.READ_ONLY, command=command, expect=expect
    )


def describe_pod(pod: Pod) -> Step:
    return look(
        title=f"Read the state and events of pod {pod.name}",
        why="Conditions, container states and the last hour's events stand together there.",
        command=kubectl.describe("pod", pod.name, pod.namespace),
        expect="Its state and events as they are now: as the evidence above tells them, unless it changed since.",
    )


def read_log(pod: Pod, container: str = "", *, previous: bool = False, expect: str) -> Step:
    which = "the log of the container before its last restart" if previous else "the log"
    return look(
        title=f"Read {which} of {pod.name}",
        why="The first error in the log names the cause; later ones are often consequences.",
        command=kubectl.logs(pod.name, pod.namespace, container, previous=previous),
        expect=expect,
    )


def see_pods_on_node(node: str) -> Step:
    return look(
        title=f"See which pods hold something on node {node}",
        why="Only pods that are bound and not finished hold GPUs; Terminating ones still do.",
        command=kubectl.pods_on_node(node, holding=True),
        expect="All pods that hold something there now, and nobody unexpected.",
    )


def see_operator_pods_on_node(node: str, namespace: str = OPERATOR_NAMESPACE) -> Step:
    return look(
        title=f"See which operator pods are ready on node {node}",
        why="They wait for each other: driver, container toolkit, validator, device plugin. The first that is not "
        "ready is the one to look at.",
        command=kubectl.pods_on_node(node, namespace, holding=True),
        expect="READY and STATUS of each: the first that is not Running.",
    )


def describe_node(node: str) -> Step:
    return look(
        title=f"Compare capacity, allocatable and conditions of node {node}",
        why="Capacity is what was registered, allocatable what is healthy, the difference is what is lost. Five "
        "minutes after the device plugin stopped, the kubelet sets capacity to 0 as well.",
        command=kubectl.describe("node", node),
        expect="Capacity and allocatable of its GPUs, and the node's conditions, as they are now.",
    )


def read_kernel_log(node: str) -> Step:
    """Creates a privileged debug pod, so it is not read-only; it stays until it is deleted."""
    return Step(
        kind=StepKind.DIAGNOSE,
        title=f"Read the kernel log of node {node}",
        why="NVRM lines carry the Xid with its time, PCI address and process; metrics keep only the last code.",
        risk=Risk.SAFE,
        command=kubectl.kubectl(
            "debug", f"node/{node}", "-it", "--image=busybox:1.36", "--profile=sysadmin", "--",
            "chroot", "/host", "dmesg", "-T",
        ),
        expect="Lines with `NVRM: Xid`. The debug pod is privileged: delete it afterwards.",
    )  # fmt: skip


def cordon(node: str) -> Step:
    return Step(
        kind=StepKind.FIX,
        title=f"Take node {node} out of scheduling",
        why="No new pod lands on it; running pods stay.",
        risk=Risk.SAFE,
        command=kubectl.kubectl("cordon", *kubectl.named(node)),
        expect="`kubectl get node` shows SchedulingDisabled.",
    )


def uncordon(node: str) -> Step:
    return Step(
        kind=StepKind.FIX,
        title=f"Put node {node} back into scheduling",
        why="After the repair was verified.",
        risk=Risk.SAFE,
        command=kubectl.kubectl("uncordon", *kubectl.named(node)),
        expect="The node is Ready without SchedulingDisabled.",
    )


def restart_pod_on_node(app: str, node: str, namespace: str = OPERATOR_NAMESPACE, *, why: str) -> Step:
    """Restart one DaemonSet's pod on one node; never the whole DaemonSet, which would touch every node."""
    return Step(
        kind=StepKind.FIX,
        title=f"Restart {app} on node {node} only",
        why=why,
        risk=Risk.DISRUPTIVE,
        command=kubectl.kubectl(
            "delete", "pod", "-n", namespace, "-l", f"app={app}", "--field-selector", f"spec.nodeName={node}"
        ),
        expect="A new pod of it on that node becomes Ready within two minutes.",
    )


def verify_finding_gone(what: str) -> Step:
    return Step(
        kind=StepKind.VERIFY,
        title="Wait for the next polls",
        why="The finding closes by itself when the cluster says so in two polls, not because a step was done.",
        risk=Risk.READ_ONLY,
        expect=what,
    )


def escalate(to: str, *, why: str, expect: str) -> Step:
    return Step(
        kind=StepKind.ESCALATE, title=f"Escalate to {to}", why=why, risk=Risk.READ_ONLY, expect=expect
    )
