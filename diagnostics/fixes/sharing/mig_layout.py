"""MIG: which nodes can be cut into a profile, and the steps that cut one.

Sources: GPU Operator, "GPU Operator with MIG" (node labels `nvidia.com/mig.config`, `nvidia.com/mig.config.state`);
mig-parted's default configurations (`all-<profile>`); NVIDIA MIG User Guide.
"""

from diagnostics.fixes import Risk, Step, StepKind, steps
from diagnostics.fixes.sharing.ways import ISOLATION, Way, back, emptied, holders_on, is_of_a_cloud, label
from diagnostics.mig_profiles import supported
from diagnostics.operator_components import COMPONENTS, component_label
from diagnostics.snapshot import Node, Snapshot
from diagnostics.text import counted, printable

LABEL = "nvidia.com/mig.config"
STATE = "nvidia.com/mig.config.state"
AMPERE = "8"


def cuttable(profile: str, snapshot: Snapshot) -> tuple[Node, ...]:
    """Ready nodes whose GPU model has `profile`, those with the fewest pods on their GPUs first."""
    found = [
        node
        for node in snapshot.nodes
        if node.is_ready
        and not node.unschedulable
        and node.labels.get("nvidia.com/mig.capable") != "false"
        and profile in (supported(node.gpu_product or "") or {})
    ]
    return tuple(sorted(found, key=lambda node: (holders_on(node, snapshot), node.name)))


def cut(node: Node, profile: str, snapshot: Snapshot) -> tuple[Step, ...]:
    """Steps that cut all GPUs of `node` into `profile`; nothing where its model is not known to have that."""
    known = supported(node.gpu_product or "") or {}
    if profile not in known:
        return ()
    if is_of_a_cloud(node):
        return (_of_node_pool(node, profile),)
    if not _has_manager(snapshot):
        return (_by_hand(node, profile),)
    table = ", ".join(f"{name} ({most} per GPU)" for name, most in known.items())
    reset = ""
    if node.labels.get("nvidia.com/gpu.compute.major") == AMPERE:
        reset = " This generation needs a GPU reset when MIG is switched on; in a virtual machine, a reboot."
    name = printable(node.name, 120)
    return (
        *emptied(node, snapshot),
        Step(
            kind=StepKind.FIX,
            title=f"Cut the GPUs of node {name} into {profile}",
            why=f"{ISOLATION[Way.MIG]}{reset} The layout all-{profile} is for all GPUs of the node: pods that ask for "
            "whole GPUs no longer fit on it. The MIG manager stops the node's GPU components meanwhile. Profiles of "
            f"{printable(node.gpu_product or '', 80)} (NVIDIA MIG User Guide): {table}.{_goes_back(node)}",
            risk=Risk.DISRUPTIVE,
            command=label(node, LABEL, f"all-{profile}"),
            expect=f"The label {STATE} goes to `success`, and {_offers(node, profile, snapshot)}",
        ),
        *back(node),
    )


def _goes_back(node: Node) -> str:
    now = node.labels.get(LABEL, "")
    return f" The layout that it has now is {printable(now, 80)}." if now else ""


def _offers(node: Node, profile: str, snapshot: Snapshot) -> str:
    """What the node offers then, which the plugin's strategy decides."""
    most = (supported(node.gpu_product or "") or {}).get(profile, 1)
    count = counted(most, "instance")
    own = next(
        (r.settings["mig.strategy"] for r in snapshot.operator_resources if "mig.strategy" in r.settings), ""
    )
    product = f"{node.gpu_product}-MIG-{profile}"
    single = (
        f"as nvidia.com/gpu, with the label nvidia.com/gpu.product={printable(product, 120)} to select them"
    )
    match node.labels.get("nvidia.com/mig.strategy") or own:
        case "mixed":
            return f"the node offers {count} per GPU as nvidia.com/mig-{profile}."
        case "single":
            return (
                f"the node offers {count} per GPU {single}. The name nvidia.com/mig-{profile} would need strategy "
                "mixed, which changes the names on every node with MIG."
            )
    return (
        f"the node offers {count} per GPU: as nvidia.com/mig-{profile} under strategy mixed, {single} under single. "
        "Under none it offers none of them."
    )


def _has_manager(snapshot: Snapshot) -> bool:
    if any(COMPONENTS.get(component_label(p) or "") == "MIG manager" for p in snapshot.pods):
        return True
    # The operator starts one as soon as a node is capable of MIG.
    return any(
        r.kind == "ClusterPolicy" and r.settings.get("migManager.enabled") == "true"
        for r in snapshot.operator_resources
    )


def _of_node_pool(node: Node, profile: str) -> Step:
    return steps.escalate(
        f"whoever runs the node pool of {printable(node.name, 120)}",
        why=f"{ISOLATION[Way.MIG]} Here the cloud cuts the GPUs, and the layout is a setting of a node pool: "
        f"gpu-partition-size={profile}. A pool is made anew for it.",
        expect="A pool whose nodes have that partition size; its instances are offered as nvidia.com/gpu.",
    )


def _by_hand(node: Node, profile: str) -> Step:
    return steps.escalate(
        f"whoever runs node {printable(node.name, 120)}",
        why=f"{ISOLATION[Way.MIG]} No MIG manager runs here, so that a label changes nothing: {profile} is set "
        "on the cordoned, empty node with nvidia-mig-parted or nvidia-smi, and the device plugin of this node started "
        "anew with a MIG strategy.",
        expect=f"`nvidia-smi -L` on the node lists instances of {profile}, and the node offers them.",
    )
