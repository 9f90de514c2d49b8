"""The three ways to share a GPU, what each isolates and what it does not, and what all of them begin with."""

from enum import StrEnum

import msgspec

from diagnostics.fixes import Step, StepKind, kubectl, steps
from diagnostics.snapshot import Node, Snapshot
from diagnostics.text import listed, printable

MOST_HOLDERS = 6
"""Holders that a step names; the rest is counted."""


class Way(StrEnum):
    TIME_SLICING = "time-slicing"
    MPS = "mps"
    MIG = "mig"


ISOLATION = {
    Way.TIME_SLICING: "Time-slicing isolates nothing: the pods take turns, any of them can take all of the memory, and "
    "a fault of one can end the others. Two shares are no more compute than one, and most metrics cannot be told apart "
    "by pod. For small loads that trust each other.",
    Way.MPS: "MPS holds each client to an equal part of the GPU's memory and compute, but not its faults: a fatal one "
    "can end every client of the GPU. It shares whole GPUs only, never MIG instances, and the device plugin calls its "
    "support experimental.",
    Way.MIG: "MIG divides memory and compute in hardware and keeps faults apart. Instances have no NVLink or "
    "peer-to-peer path to each other, so that no collective job over several of them runs at the GPU's speed. Changing "
    "a layout needs GPUs that nothing uses.",
}
"""What a tenant is safe from, and what not (device plugin: "Shared Access to GPUs"; MIG User Guide)."""


def emptied(node: Node, snapshot: Snapshot) -> tuple[Step, ...]:
    """A look at what holds the GPUs of the node, and no new pod on it; what runs ends by itself."""
    holders = [printable(p.key, 120) for p in snapshot.pods_by_node.get(node.name, ()) if p.holds_gpus]
    now = f"Now there is {listed(holders, MOST_HOLDERS)}." if holders else "Now there is none."
    look = steps.look(
        title=f"See which pods hold GPUs of node {printable(node.name, 120)}",
        why=f"Its GPUs are divided anew only when there is none. {now} Their owners end them, or they come to "
        "their end; a change under them would put others beside them, or fail.",
        command=kubectl.pods_on_node(node.name, holding=True),
        expect="No pod that asks for GPUs, before the step that divides them.",
    )
    if node.unschedulable:
        return (look,)
    why = "For the change of its GPUs that follows: no new pod lands on it; running pods stay."
    return (look, msgspec.structs.replace(steps.cordon(node.name), why=why))


def holders_on(node: Node, snapshot: Snapshot) -> int:
    """Pods that hold GPUs of the node."""
    return sum(pod.holds_gpus for pod in snapshot.pods_by_node.get(node.name, ()))


def back(node: Node) -> tuple[Step, ...]:
    """The node takes pods again, unless it took none before."""
    if node.unschedulable:
        return ()
    return (msgspec.structs.replace(steps.uncordon(node.name), kind=StepKind.RESTORE),)


def label(node: Node, key: str, value: str) -> str:
    return kubectl.kubectl("label", "node", "--overwrite", *kubectl.named(node.name), f"{key}={value}")


def is_of_a_cloud(node: Node) -> bool:
    """A node whose cloud runs the device plugin and takes sharing from the node pool (GKE)."""
    return "cloud.google.com/gke-accelerator" in node.labels
