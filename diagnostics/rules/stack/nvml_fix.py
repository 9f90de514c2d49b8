"""Guided fixes for a driver that does not answer: each cause of GPU205 has its own repair."""

import msgspec

from diagnostics.fixes import Fix, Risk, Step, StepKind, in_order, kubectl, steps
from diagnostics.fixes.reset_steps import drain
from diagnostics.snapshot import Container, Pod, Snapshot
from diagnostics.text import printable

_SUMMARY = {
    "driver-library-mismatch": "Reload the driver of the drained node: library and module have to be one version",
    "driver-not-loaded": "Find out why the kernel module is not loaded, and load it",
    "driver-not-responding": "Find the GPU that hangs in the kernel log",
    "device-access-lost-after-reload": "Start the pod anew, and let the runtime give devices by CDI",
    "cuda-initialisation-fails": "Find out which device file is missing, and start the pod anew",
    "nvml-insufficient-permissions": "Let the container open the devices that it was given",
}


def nvml_fix(snapshot: Snapshot, cause: str, pod: Pod, container: Container) -> Fix:
    """`cause`: a cause of GPU205; `pod`: one that says so."""
    node = pod.node or ""
    looks = [
        steps.describe_pod(pod),
        steps.read_log(
            pod,
            container.name,
            previous=container.terminated is None and container.last_terminated is not None,
            expect="NVML's words, and when they began.",
        ),
    ]
    is_of_node = cause in {"driver-library-mismatch", "driver-not-loaded", "driver-not-responding"}
    if is_of_node and node:
        looks += [
            steps.see_operator_pods_on_node(node),
            steps.see_pods_on_node(node),
            steps.read_kernel_log(node),
        ]
    repairs = _of_node(snapshot, cause, node) if is_of_node else _of_pod(cause, pod)
    return Fix(
        summary=_SUMMARY[cause],
        steps=in_order(
            *looks,
            *repairs,
            *_restored(cause, node),
            steps.verify_finding_gone("No container says so any more, and new GPU pods start on the node."),
            steps.escalate(
                "the platform team",
                why="The driver belongs to the node's image or to the GPU Operator.",
                expect="One driver version in library and module, loaded at every boot.",
            ),
        ),
    )  # fmt: skip


def _restored(cause: str, node: str) -> list[Step]:
    if cause != "driver-library-mismatch" or not node:
        return []
    return [msgspec.structs.replace(steps.uncordon(node), kind=StepKind.RESTORE)]


def _step(title: str, why: str, risk: Risk, expect: str, command: str = "") -> Step:
    return Step(kind=StepKind.FIX, title=title, why=why, risk=risk, expect=expect, command=command)


def _of_node(snapshot: Snapshot, cause: str, node: str) -> list[Step]:
    where = f"node {printable(node, 80)}"
    if cause == "driver-library-mismatch":
        return [
            *(
                [
                    steps.cordon(node),
                    drain(node, snapshot.pods_by_node.get(node, []), snapshot.policy.budgets),
                ]
                if node
                else []
            ),
            _step(
                f"Reload NVIDIA's kernel modules on {where}, or reboot it",
                "With no GPU client left the modules can be unloaded and loaded again; a reboot does the same. What "
                "still runs on the node ends. Where packages upgrade themselves, hold back the driver's.",
                Risk.DESTRUCTIVE,
                "`nvidia-smi` on the node lists its GPUs again.",
            ),
        ]
    if cause == "driver-not-loaded":
        return [
            _step(
                f"Load the driver on {where}",
                "The driver pod of the GPU Operator does it, or `modprobe nvidia` where the driver is part of the "
                "host. The kernel log says why it failed: another kernel, Secure Boot, nouveau, or no such device.",
                Risk.DISRUPTIVE,
                "`nvidia-smi` on the node lists its GPUs.",
            )
        ]
    return [
        _step(
            f"Repair the GPU of {where} that the kernel log names",
            "An Xid of a hung or lost GPU asks for a reset of it, or a reboot of the drained node; GPU pods of the "
            "node lose what they have not saved. Without an Xid the driver itself hangs.",
            Risk.DESTRUCTIVE,
            "`nvidia-smi` on the node answers within seconds.",
        )
    ]


def _of_pod(cause: str, pod: Pod) -> list[Step]:
    if cause == "nvml-insufficient-permissions":
        return [
            _step(
                "Allow the devices in the node's policy",
                "SELinux needs the container toolkit's policy module, or the type `container_use_devices` on; a "
                "container that runs as another user needs the device files' group. The pod starts anew.",
                Risk.DISRUPTIVE,
                "nvidia-smi inside the container lists its GPUs.",
            )
        ]
    if cause == "cuda-initialisation-fails":
        return [
            _step(
                "Have the node make its device files, /dev/nvidia-uvm among them",
                "The module nvidia-uvm makes it when it is loaded: `nvidia-modprobe -u -c 0` on the node, or the "
                "driver pod of the operator. The container toolkit hands over what is there when a container starts.",
                Risk.SAFE,
                "/dev/nvidia-uvm is there on the node.",
            ),
            _again(pod),
        ]
    return [
        _again(pod),
        _step(
            "Then keep it from coming back",
            "With CDI (the GPU Operator's default from 25.10, `cdi.enabled`) the runtime itself knows the devices, "
            "and a reload of systemd takes none away. Without it: no `systemctl daemon-reload` on nodes with GPU "
            "pods. Changing the operator restarts the container runtime of its nodes.",
            Risk.DISRUPTIVE,
            "A reload of systemd leaves new pods with their GPUs.",
        ),
    ]


def _again(pod: Pod) -> Step:
    bare = "" if pod.owners else " Nobody makes a bare pod again: create it from its manifest."
    return _step(
        f"Start pod {printable(pod.name, 80)} anew",
        f"A new container gets its devices afresh; what this one has not saved is lost.{bare}",
        Risk.DISRUPTIVE,
        "The new container finds its GPUs.",
        kubectl.delete_pod(pod.name, pod.namespace),
    )
