"""Guided fixes for a pod that holds GPUs and cannot work; forced deletion last, where nothing else can help."""

import re

import msgspec

from diagnostics.fixes import Fix, Risk, Step, StepKind, in_order, kubectl, steps
from diagnostics.fixes.rolling import old_pod_first
from diagnostics.fixes.stopping import stop_owner
from diagnostics.rules.scheduling.holders import Trouble
from diagnostics.rules.scheduling.owner_patch import in_words, owner_kind, patch_of_owner
from diagnostics.snapshot import Gpu, Pod, Snapshot
from diagnostics.text import listed, printable

_ENDING = frozenset({"terminating", "process-does-not-end"})
_NGC_TAG = re.compile(r"nvcr\.io/nvidia/\S+:(\d\d)\.(\d\d)(?!\d)")
_SUMMARIES = {
    "crash-loop": "Find why it crashes; stop it until that is repaired",
    "image-pull": "Name an image that exists and may be pulled",
    "mount-failed": "Get its volumes mounted",
    "sandbox-failed": "Repair what keeps its sandbox from being made",
    "config-error": "Give it the configuration that it names",
    "not-starting": "Find out what it waits for",
    "not-ready": "Find out why it does not become ready",
    "terminating": "Find out what keeps it from ending",
    "process-does-not-end": "Find out why its process does not end",
    "finalizer-left": "Have the controller of its finalizer let it go",
    "unknown-node-lost": "Settle whether its node is dead, then release the pod",
}


def holder_fix(pod: Pod, trouble: Trouble, snapshot: Snapshot) -> Fix:
    """Read-only steps first; what stops or deletes the pod last, with what is lost."""
    make = {
        "crash-loop": _crash,
        "image-pull": _image,
        "mount-failed": _mount,
        "finalizer-left": _finalizer,
        "unknown-node-lost": _lost,
        "not-ready": _logs,
    }.get(trouble.cause, _look)
    own = _ending(pod, snapshot) if trouble.cause in _ENDING else make(pod)
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
            f"{_about_tag(failing[0].image if failing else '')}{in_words(pod, spec)}",
            risk=Risk.DISRUPTIVE,
            manifest=patch_of_owner(pod, spec),
            expect="The new pod pulls its image and starts.",
        ),
    )


def _about_tag(image: str) -> str:
    """NGC calls its releases by year and month (NVIDIA, framework containers' release notes)."""
    found = _NGC_TAG.match(image)
    if found is None:
        return ""
    month = found[2]
    wrong = f", and there is no month {month}" if not 1 <= int(month) <= 12 else ""
    return f" Tags of NGC images are YY.MM, year and month{wrong}; some end in a variant such as -py3."


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


def _what_is_left(pod: Pod) -> Step:
    return steps.look(
        title="See which finalizers and containers are left",
        why="A finalizer waits for its controller; a container that runs on waits for its processes to end.",
        command=kubectl.get_yaml("pod", pod.name, pod.namespace),
        expect="metadata.finalizers, and containers that are still running.",
    )


def _finalizer(pod: Pod) -> tuple[Step, ...]:
    names = listed([printable(name, 80) for name in pod.finalizers])
    return (
        _what_is_left(pod),
        steps.escalate(
            f"whoever runs the controller of finalizer {names}",
            why="The API server removes the pod when its finalizers are gone, which their controller takes off when it "
            "has put its own things in order. It may be down or uninstalled. Deleting by force does not pass by them.",
            expect="The controller takes it off, or says that it may be taken off by hand.",
        ),
    )


def _ending(pod: Pod, snapshot: Snapshot) -> tuple[Step, ...]:
    node = pod.node or ""
    has_xid = any(_had_xid(gpu, snapshot) for gpu in snapshot.gpus_by_node.get(node, []))
    log = steps.read_kernel_log(node)
    if not has_xid:
        log = msgspec.structs.replace(
            log,
            why="A process that waits inside the kernel leaves its mark there.",
            expect="Lines such as `blocked for more than 120 seconds` with the process, or errors of a file system or "
            "the driver. Xids were not seen on this node. The debug pod is privileged: delete it afterwards.",
        )
    return (
        _what_is_left(pod),
        steps.describe_node(node),
        _process_states(node),
        log,
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


def _had_xid(gpu: Gpu, snapshot: Snapshot) -> bool:
    last = gpu.metrics.xid if gpu.metrics is not None else None
    return bool(last or (gpu.window and gpu.window.xids) or snapshot.past.xids.get(gpu.slot))


def _process_states(node: str) -> Step:
    """Creates a privileged debug pod, as reading the kernel log does."""
    return Step(
        kind=StepKind.DIAGNOSE,
        title=f"See in which state its process is on node {node}",
        why="The kubelet sends SIGTERM, and SIGKILL after the grace period: only a process that waits inside the "
        "kernel survives that.",
        risk=Risk.SAFE,
        command=kubectl.kubectl(
            "debug", f"node/{node}", "-it", "--image=busybox:1.36", "--profile=sysadmin", "--",
            "chroot", "/host", "ps", "-eo", "pid,stat,wchan:24,args",
        ),
        expect="STAT D: it waits for the driver or storage, named in WCHAN. Z: it has ended, and its parent does not "
        "collect it. S or R: it was not killed, so look at the kubelet and the container runtime. No such process: "
        "only the report is missing. The debug pod is privileged: delete it afterwards.",
    )  # fmt: skip


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
