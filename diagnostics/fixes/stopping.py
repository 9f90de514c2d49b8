"""The step that stops a workload and so releases its GPUs: scaled down, suspended, or else deleted."""

from typing import Any

from diagnostics.fixes import Risk, Step, StepKind, kubectl, manifests
from diagnostics.snapshot import OwnerKey, Pod
from diagnostics.text import printable


def stop_owner(pod: Pod, lost: str = "Its running pods end and lose what is not checkpointed.") -> Step:
    """Scale down, suspend, or delete: whatever makes the owner give its GPUs back until the cause is repaired.

    `lost`: what a suspended owner loses, as a sentence.
    """
    root = pod.root
    kind = root.kind if root is not None else "Pod"
    if root is not None and kind in {"Deployment", "StatefulSet", "ReplicaSet", "LeaderWorkerSet"}:
        command = kubectl.kubectl(
            "scale", kind.lower(), "-n", root.namespace, "--replicas=0", *kubectl.named(root.name)
        )
        why = "Releases the GPUs until the cause is repaired. Pods of the same owner that work stop as well."
        return _stopping(
            f"Scale {kind} {printable(root.name, 120)} to zero meanwhile", why, command, Risk.DISRUPTIVE
        )
    if root is not None and _suspend(root, True) is not None:
        command = _suspending(root, True)
        why = f"Releases the GPUs until the cause is repaired. {lost}"
        return _stopping(
            f"Suspend {kind} {printable(root.name, 120)} meanwhile", why, command, Risk.DISRUPTIVE
        )
    lost = "A bare pod is not made anew, and its log goes with it."
    if kind != "Pod":
        lost = f"Its {kind} makes it anew unless it is stopped first; its log goes."
    title = f"Delete pod {printable(pod.name, 120)}"
    return _stopping(
        title, f"Releases its GPUs. {lost}", kubectl.delete_pod(pod.name, pod.namespace), Risk.DESTRUCTIVE
    )


def resume_owner(pod: Pod, when: str) -> tuple[Step, ...]:
    """What undoes `stop_owner` where that suspends; nothing for other kinds, whose number of pods is not known here.

    `when`: the condition under which it may be, such as `when 8 GPUs are free`.
    """
    root = pod.root
    if root is None or _suspend(root, False) is None:
        return ()
    return (
        Step(
            kind=StepKind.RESTORE,
            title=f"Resume {root.kind} {printable(root.name, 120)}, only {when}",
            why="Resumed earlier, a part of its members takes GPUs and waits for the rest again; a gang scheduler or "
            "queue that it was put under counts for it. It starts from its last checkpoint, where it has one. Only if "
            "it was suspended and still is: one that was made anew is not. Not for a job that Kueue manages: Kueue "
            "resumes it itself.",
            risk=Risk.SAFE,
            command=_suspending(root, False),
            expect="Its pods are made again.",
        ),
    )


def _suspending(root: OwnerKey, is_suspended: bool) -> str:
    group = root.api_version.rpartition("/")[0]
    kind = root.kind.lower()
    resource = kind if group in ("", "batch") else f"{kind}.{group}"
    body = manifests.to_json({"spec": _suspend(root, is_suspended)})
    return kubectl.kubectl(
        "patch", resource, "-n", root.namespace, "--type=merge", "-p", body, *kubectl.named(root.name)
    )


def _suspend(root: OwnerKey, is_suspended: bool) -> dict[str, Any] | None:
    """The field that suspends this kind of owner; None where it has none."""
    if root.kind in {"PyTorchJob", "MPIJob", "TFJob", "XGBoostJob"}:
        return {"runPolicy": {"suspend": is_suspended}}
    is_batch = root.kind == "Job" and root.api_version in ("", "batch/v1")
    can = is_batch or root.kind in {"JobSet", "TrainJob", "RayJob", "RayCluster"}
    return {"suspend": is_suspended} if can else None


def _stopping(title: str, why: str, command: str, risk: Risk) -> Step:
    return Step(
        kind=StepKind.FIX,
        title=title,
        why=why,
        risk=risk,
        command=command,
        expect="Its GPUs are free within its grace period.",
    )
