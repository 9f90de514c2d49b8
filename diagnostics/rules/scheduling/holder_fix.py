"""Guided fixes for a pod that holds GPUs and cannot work; forced deletion last, where nothing else can help."""

from diagnostics.fixes import Fix, Risk, Step, StepKind, in_order, kubectl, steps
from diagnostics.fixes.rolling import old_pod_first
from diagnostics.fixes.stopping import stop_owner
from diagnostics.rules.scheduling.holders import Trouble
from diagnostics.rules.scheduling.owner_patch import in_words, owner_kind, patch_of_owner
from diagnostics.snapshot import Pod, Snapshot
from diagnostics.text import printable

_SUMMARIES = {
    "crash-loop": "Find why it crashes; stop it until that is repaired",
    "image-pull": "Name an image that exists and may be pulled",
    "mount-failed": "Get its volumes mounted",
    "sandbox-failed": "Repair what keeps its sandbox from being made",
    "config-error": "Give it the configuration that it names",
    "not-starting": "Find out what it waits for",
    "not-ready": "Find out why it does not become ready",
    "terminating": "Find out what keeps it from ending",
    "unknown-node-lost": "Settle whether its node is dead, then release the pod",
}


def holder_fix(pod: Pod, trouble: Trouble, snapshot: Snapshot) -> Fix:
    """Read-only steps first; what stops or deletes the pod last, with what is lost."""
    make = {
        "crash-loop": _crash,
        "image-pull": _image,
        "mount-failed": _mount,
        "terminating": _terminating,
        "unknown-node-lost": _lost,
        "not-ready": _logs,
    }.get(trouble.cause, _look)
    own = make(pod)
    if trouble.cause == "image-pull":
        own = old_pod_first(own, pod, snapshot)
    return Fix(
        _SUMMARIES[trouble.cause],
        in_order(
            steps.describe_pod(pod),
            *own,
            steps.verify_finding_gone("The pod works, or is gone and its GPUs are free."),
        ),
    )


def _look(pod: Pod) -> tuple[Step, ...]:
    return tuple(steps.describe_node(node) for node in [pod.node] if node)


def _logs(pod: Pod) -> tuple[Step, ...]:
    return (
        steps.read_log(pod, expect="What it is doing: loading a model, waiting for a peer, or an error."),
        *_look(pod),
    )


def _crash(pod: Pod) -> tuple[Step, ...]:
    looping = max(pod.containers, key=lambda c: c.restarts, default=None)
    return (
        steps.read_log(
            pod,
            looping.name if looping else "",
            previous=True,
            expect="The error that ended it; exit code 137 with reason OOMKilled is host memory, not the GPU's.",
        ),
        stop_owner(pod),
    )


def _image(pod: Pod) -> tuple[Step, ...]:
    failing = [
        c
        for c in pod.containers
        if c.state == "waiting" and c.image and c.waiting_reason != "PodInitializing"
    ]
    spec = {"containers": [{"name": c.name, "image": "<image that exists>"} for c in failing[:1]]}
    return (
        steps.look(
            title="Read why the pull fails",
            why="The event tells a wrong name or tag, a missing pull secret, and an unreachable registry apart.",
            command=kubectl.events_of("pod", pod.name, pod.namespace),
            expect="`not found`, `unauthorized`, or a network error.",
        ),
        Step(
            kind=StepKind.FIX,
            title="Correct the image, or its pull secret",
            why="A change of the template makes the owner replace its pods, those that work included."
            f"{in_words(pod, spec)}",
            risk=Risk.DISRUPTIVE,
            manifest=patch_of_owner(pod, spec),
            expect="The new pod pulls its image and starts.",
        ),
    )


def _mount(pod: Pod) -> tuple[Step, ...]:
    claims = [volume.claim for volume in pod.volumes if volume.claim][:3]
    return (
        *(
            steps.look(
                title=f"Read the state of volume claim {printable(claim, 80)}",
                why="A ReadWriteOnce volume can be attached to one node only; a lost node keeps its attachment.",
                command=kubectl.describe("pvc", claim, pod.namespace),
                expect="Bound, its access mode, and who uses it (Used By).",
            )
            for claim in claims
        ),
        steps.look(
            title="See to which nodes volumes are attached",
            why="`Multi-Attach` means that the volume is still attached to another node.",
            command=kubectl.kubectl("get", "volumeattachments"),
            expect="At most one node for each ReadWriteOnce volume.",
        ),
        steps.escalate(
            "whoever runs the storage",
            why="Detaching by force from a node that still writes damages the file system.",
            expect="The volume is free for this node, or the pod gets another one.",
        ),
    )


def _terminating(pod: Pod) -> tuple[Step, ...]:
    node = pod.node or ""
    return (
        steps.look(
            title="See which finalizers and containers are left",
            why="A finalizer waits for its controller; a container that runs on waits for its processes to end.",
            command=kubectl.get_yaml("pod", pod.name, pod.namespace),
            expect="metadata.finalizers, and containers that are still running.",
        ),
        steps.describe_node(node),
        steps.read_kernel_log(node),
        _ask_about_node(
            why="A process in uninterruptible sleep ends with the driver or storage call that it waits for, or with a "
            "reboot of the drained node.",
            expect="The process ends, and the kubelet reports the pod as gone.",
        ),
        _force(
            pod,
            "the process may still run on the node: it keeps the GPU in use while the scheduler thinks it free",
        ),
    )


def _lost(pod: Pod) -> tuple[Step, ...]:
    return (
        *_look(pod),
        _ask_about_node(
            why="Only the machine's power state or its provider can say that it is off: a node that cannot be reached "
            "may still run its pods.",
            expect="The node is back, or is known to be off.",
        ),
        _force(pod, "if the node is not dead, the old process goes on beside the new one"),
    )


def _ask_about_node(*, why: str, expect: str) -> Step:
    """Before the last resort, which needs the answer: so it looks, and does not escalate."""
    return steps.look(title="Ask whoever runs the node", why=why, expect=expect)


def _force(pod: Pod, what: str) -> Step:
    is_bare = owner_kind(pod) == "Pod"
    return Step(
        kind=StepKind.FIX,
        title=f"Last resort: remove pod {printable(pod.name, 120)} from the API by force",
        why=f"Only after the node is confirmed dead. It frees the scheduler's count, not the device: {what}. Two "
        "writers on one volume or two processes of one rank corrupt data and checkpoints.",
        risk=Risk.DESTRUCTIVE,
        command=kubectl.delete_pod(pod.name, pod.namespace, force=True),
        expect="The pod is gone from the API; "
        + (
            "no owner makes it anew." if is_bare else f"its {printable(owner_kind(pod), 60)} makes a new one."
        ),
    )
