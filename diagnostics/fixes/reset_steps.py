"""Steps around the reset of one GPU: what has to leave its node, the reset itself, and what comes back after it."""

from collections.abc import Mapping, Sequence

from diagnostics.fixes import Risk, Step, StepKind, kubectl
from diagnostics.operator_components import COMPONENTS, component_label
from diagnostics.placement import labels_match
from diagnostics.snapshot import Gpu, Node, Pod
from diagnostics.snapshot.policy import DisruptionBudget
from diagnostics.text import counted, listed, printable

AMPERE, HOPPER = 8, 9
"""Major compute capabilities. From Ampere on GPUs with NVLink are reset one by one; on Ampere with NVSwitch Fabric
Manager has to run for it, from Hopper on not (nvidia-smi manual, `--gpu-reset`)."""
SWITCH = "nvidia.com/gpu.deploy."
"""Prefix of the node labels by which the GPU operator runs a component on a node (`true`) or not (`false`)."""
_SWITCHES = {
    "nvidia-device-plugin-daemonset": "device-plugin",
    "nvidia-device-plugin-mps-control-daemon": "mps-control-daemon",
    "nvidia-dcgm": "dcgm",
    "nvidia-dcgm-exporter": "dcgm-exporter",
    "gpu-feature-discovery": "gpu-feature-discovery",
    "nvidia-mig-manager": "mig-manager",
}
"""Components that keep GPUs open, by their pods' label -> end of the node label."""
_CLIENTS = {
    *_SWITCHES,
    *(label for label in COMPONENTS if label.endswith(("plugin", "plugin-ds", "dcgm-exporter"))),
}
_DRIVER = "nvidia-driver-daemonset"


def compute_major(node: Node | None) -> int | None:
    """Major compute capability of a node's GPUs as feature discovery labels it; None where it does not."""
    try:
        return int(node.labels["nvidia.com/gpu.compute.major"]) if node else None
    except (KeyError, ValueError):
        return None


def drain(node: str, pods: Sequence[Pod] = (), budgets: Sequence[DisruptionBudget] | None = None) -> Step:
    """`pods`: those of the node, so that the step names what it evicts, and what a disruption budget holds back."""
    moving = [
        p for p in pods if not p.is_finished and not any(o.kind in {"DaemonSet", "Node"} for o in p.owners)
    ]
    holders = [f"{printable(p.key, 120)} ({counted(p.gpu_count, 'GPU')})" for p in moving if p.holds_gpus]
    bare = [printable(p.key, 120) for p in moving if not p.owners]
    why = "Loses the emptyDir data of every evicted pod; jobs lose what they have not checkpointed."
    if holders:
        why += f" It evicts these that hold GPUs: {listed(holders, 8)}."
    if bare:
        why += (
            f" It refuses to begin because of {listed(bare, 8)}, which nothing makes again: with `--force` they are "
            "gone for good."
        )
    held_back = _held_back(moving, budgets or ())
    if held_back:
        why += (
            f" It waits as long as these budgets allow no eviction: {listed(held_back, 6)}. Ask the owners to start "
            "more replicas elsewhere, rather than go around a budget."
        )
    return Step(
        kind=StepKind.FIX,
        title=f"Evict the pods of node {node}",
        why=why,
        risk=Risk.DESTRUCTIVE,
        command=kubectl.kubectl(
            "drain", "--ignore-daemonsets", "--delete-emptydir-data", *kubectl.named(node)
        ),
        expect="Only DaemonSet pods are left on the node.",
    )


def _held_back(moving: Sequence[Pod], budgets: Sequence[DisruptionBudget]) -> list[str]:
    """Budgets that allow no eviction now, with how many of these pods they select."""
    found = []
    for budget in budgets:
        chosen = [
            p for p in moving if p.namespace == budget.namespace and labels_match(budget.selector, p.labels)
        ]
        if chosen and budget.allowed == 0:
            name = printable(f"{budget.namespace}/{budget.name}", 160)
            found.append(f"{name} ({counted(len(chosen), 'pod')} here)")
    return found


def switches_of(node: Node | None, pods: Sequence[Pod]) -> dict[str, str]:
    """Node label -> its value, for each component on the node that keeps GPUs open and has such a label."""
    names = sorted({SWITCH + s for p in pods if (s := _SWITCHES.get(component_label(p) or ""))})
    return {name: node.labels[name] for name in names if node and node.labels.get(name)}


def stop_clients(node: str, switches: Mapping[str, str]) -> Step:
    """Take the components that keep GPUs open off one node; a drain leaves them, since they are DaemonSets."""
    return Step(
        kind=StepKind.FIX,
        title=f"Stop what else keeps the GPUs of node {node} open",
        why="A GPU is reset only when no process has it open, and a drain leaves DaemonSets alone. Meanwhile the "
        "node has no GPU metrics and takes no new GPU pods; running pods keep their GPUs.",
        risk=Risk.DISRUPTIVE,
        command=_label(node, dict.fromkeys(switches, "false")),
        expect="The pods of these components leave the node within a minute.",
    )


def start_clients(node: str, switches: Mapping[str, str]) -> Step:
    return Step(
        kind=StepKind.RESTORE,
        title=f"Let the components that were stopped on node {node} run again",
        why="After the repair. The device plugin starts anew with it, so that it offers a GPU again that it had "
        "marked unhealthy.",
        risk=Risk.SAFE,
        command=_label(node, switches),
        expect="Their pods become Ready within two minutes.",
    )


def _label(node: str, labels: Mapping[str, str]) -> str:
    return kubectl.kubectl(
        "label", "node", "--overwrite", *kubectl.named(node), *(f"{k}={v}" for k, v in labels.items())
    )


def reset_gpu(gpu: Gpu, node: Node | None = None, pods: Sequence[Pod] = ()) -> Step:
    """`pods`: those of the node. Where the driver runs in a container, `nvidia-smi` is there and not on the host."""
    which = _number(gpu)
    command = _on_node(gpu.node, pods, "nvidia-smi", "--gpu-reset", "-i", which)
    others = sorted({p.name for p in pods if _is_client_without_switch(p, node)})
    also = f" Stop {listed([printable(name, 80) for name in others])} on this node first." if others else ""
    return Step(
        kind=StepKind.FIX,
        title=f"Reset GPU {which} on node {gpu.node}",
        why="Clears the device's state. It needs a GPU that no process has open, monitoring included; every process "
        f"on it is lost.{also} {_scope(compute_major(node))}",
        risk=Risk.DESTRUCTIVE,
        command=command,
        expect="`GPU … was successfully reset.` Where it says that the GPU is in use, persistence mode may hold it "
        "(`nvidia-smi -pm 0` for this GPU). If it still refuses, reboot the drained node instead.",
    )


def see_remapped_rows(gpu: Gpu, node: Node | None = None, pods: Sequence[Pod] = ()) -> tuple[Step, ...]:
    """Whether a bad row of its memory waits for the reset, or could not be replaced. No step for GPUs that are known to
    be older than Ampere, which retire pages and remap no rows. `pods`: those of the node.
    """
    major, which = compute_major(node), _number(gpu)
    if major is not None and major < AMPERE:
        return ()
    look = Step(
        kind=StepKind.DIAGNOSE,
        title=f"See the remapped rows of GPU {which} on node {gpu.node}",
        why="Says whether a reset can mend its memory. While the GPU is split by MIG it may show nothing.",
        # Without a driver's container it takes a debug pod.
        risk=Risk.READ_ONLY if _driver(pods) is not None else Risk.SAFE,
        command=_on_node(gpu.node, pods, "nvidia-smi", "-q", "-d", "ROW_REMAPPER", "-i", which),
        expect="`Pending: Yes`: the reset puts a spare row in the bad one's place. `Remapping Failure Occurred: Yes`: "
        "no reset mends it, and the board is to be replaced once the field diagnostic confirms it. Both `No`: no "
        "repair waits."
        + ("" if _driver(pods) is not None else " The debug pod is privileged: delete it afterwards."),
    )
    return (look,)


def _number(gpu: Gpu) -> str:
    """By which `nvidia-smi` knows it."""
    return gpu.pci or gpu.uuid or str(gpu.index)


def _driver(pods: Sequence[Pod]) -> Pod | None:
    return next((p for p in pods if component_label(p) == _DRIVER and not p.is_finished), None)


def _on_node(node: str, pods: Sequence[Pod], *words: str) -> str:
    driver = _driver(pods)
    if driver is None:
        return kubectl.kubectl(
            "debug", f"node/{node}", "-it", "--image=busybox:1.36", "--profile=sysadmin", "--",
            "chroot", "/host", *words,
        )  # fmt: skip
    container = next((c.name for c in driver.containers if c.name == "nvidia-driver-ctr"), "")
    return kubectl.run_in(driver.name, driver.namespace, container, *words)


def _is_client_without_switch(pod: Pod, node: Node | None) -> bool:
    label = component_label(pod)
    if label not in _CLIENTS or pod.is_finished:
        return False
    return not (node and node.labels.get(SWITCH + _SWITCHES.get(label, "")))


def _scope(major: int | None) -> str:
    if major is None:
        return (
            "Before Ampere, GPUs that NVLink connects are reset all together; from Ampere on one by one, on Ampere "
            "with NVSwitch only while Fabric Manager runs."
        )
    if major < AMPERE:
        return "GPUs that NVLink connects with it have to be reset in the same command."
    if major < HOPPER:
        return "It is reset alone; on a board with NVSwitch only while Fabric Manager runs."
    return "It is reset alone: its neighbours go on."
