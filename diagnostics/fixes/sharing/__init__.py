"""Several pods on one GPU by MIG, MPS or time-slicing: what each isolates, and the steps that set it up on a node.

Sources: NVIDIA k8s-device-plugin, "Shared Access to GPUs"; GPU Operator, "Time-Slicing GPUs" and "GPU Operator with
MIG"; NVIDIA MIG User Guide.
"""

from diagnostics.fixes import Step, mildest_first, steps
from diagnostics.fixes.reset_steps import compute_major
from diagnostics.fixes.sharing.mig_layout import cut, cuttable
from diagnostics.fixes.sharing.plugin_config import mps, time_slicing, unshared
from diagnostics.fixes.sharing.ways import ISOLATION, Way, holders_on
from diagnostics.mig_profiles import larger, memory_gb, profile_in, supported
from diagnostics.snapshot import Node, Snapshot
from diagnostics.text import printable

__all__ = [
    "ISOLATION",
    "Way",
    "cut",
    "cuttable",
    "divided",
    "larger_slice",
    "mps",
    "offering",
    "time_slicing",
]

VOLTA = 7
"""Major compute capability."""
SHARED = ".shared"
"""End of a resource's name where the device plugin renames what it shares."""
FEWEST = 2
"""Shares per GPU to begin with, where nothing says how many are wanted: the fewest that share at all (ours)."""
MOST_MODELS = 6
"""GPU models that a step names."""


def offering(resource: str, snapshot: Snapshot) -> tuple[Step, ...]:
    """Steps after which a node offers `resource`, which none does: a MIG slice, a shared GPU, or a shared slice.

    Nothing for any other resource, or where no node's GPU model could.
    """
    whole = resource.removesuffix(SHARED)
    is_shared = whole != resource
    found: tuple[Step, ...] = ()
    profile = profile_in(whole) if whole.startswith("nvidia.com/mig-") else None
    if profile is not None and whole == f"nvidia.com/mig-{profile}":
        if not is_shared or not any(n.capacity.get(whole) for n in snapshot.nodes):
            places = cuttable(profile, snapshot)
            if not places:
                return (_no_model_has(profile, snapshot),)
            found = cut(places[0], profile, snapshot)
    elif whole != "nvidia.com/gpu" or not is_shared:
        return ()
    if not is_shared:
        return found
    node = _emptiest(whole, snapshot)
    if node is not None:
        found += time_slicing(node, whole, FEWEST, snapshot, renamed=True)
    return found


def divided(node: Node, snapshot: Snapshot) -> tuple[Step, ...]:
    """Steps that give each pod on a shared GPU of `node` a part of the memory that others cannot take.

    By MIG where the model can be cut into as many instances as it has shares, which keeps faults apart as well; else by
    MPS. Nothing where the device plugin does not share the node's GPUs, or where they are divided already.
    """
    shares = node.gpu_replicas
    if shares < FEWEST or _is_cut(node):
        return ()
    known = supported(node.gpu_product or "") or {}
    enough = [p for p, most in known.items() if most >= shares]
    if enough:
        layout = cut(node, max(enough, key=lambda p: (memory_gb(p), p)), snapshot)
        return mildest_first(*unshared(node), *layout) if layout else ()
    if node.labels.get("nvidia.com/gpu.sharing-strategy") == "mps" or _is_before_volta(node):
        return ()
    renamed = any(name.endswith(SHARED) and amount for name, amount in node.capacity.items())
    return mps(node, shares, snapshot, renamed=renamed)


def larger_slice(node: Node, profile: str, snapshot: Snapshot) -> tuple[Step, ...]:
    """Steps for a pod whose MIG slice is too small: where a larger one is offered, else a layout that has one."""
    bigger = larger(node.gpu_product or "", profile)
    offered = [
        (p, other.name)
        for p in bigger
        for other in snapshot.nodes
        if other.allocatable.get(f"nvidia.com/mig-{p}")
    ]
    if offered or not bigger:
        return ()
    return cut(node, bigger[0], snapshot)


def _no_model_has(profile: str, snapshot: Snapshot) -> Step:
    products = sorted({n.gpu_product for n in snapshot.nodes if n.gpu_product})
    told = [
        f"{printable(p, 80)} has {', '.join(supported(p) or ()) or 'no profile that is known'}"
        for p in products
    ]
    have = f" {'; '.join(told[:MOST_MODELS])}." if told else ""
    return steps.escalate(
        "whoever plans the cluster's GPUs",
        why=f"No ready node here is known to have GPUs that can be cut into {profile}.{have}",
        expect="A profile that a model here has, or nodes with another model.",
    )


def _emptiest(resource: str, snapshot: Snapshot) -> Node | None:
    """The ready node that offers `resource` unshared with the fewest pods on its GPUs."""
    found = [
        n
        for n in snapshot.nodes
        if n.allocatable.get(resource) and n.is_ready and n.gpu_replicas < FEWEST and not n.unschedulable
    ]
    return min(found, key=lambda n: (holders_on(n, snapshot), n.name), default=None)


def _is_cut(node: Node) -> bool:
    return "-MIG-" in node.labels.get("nvidia.com/gpu.product", "") or any(
        name.startswith("nvidia.com/mig-") and amount for name, amount in node.capacity.items()
    )


def _is_before_volta(node: Node) -> bool:
    """Before it MPS limits no client's memory (MPS documentation, "Volta MPS")."""
    return (compute_major(node) or VOLTA) < VOLTA
