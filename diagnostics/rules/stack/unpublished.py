"""GPU201 on a node whose GPUs are given out by claims: devices that are tainted, unhealthy or not published."""

from collections.abc import Iterator, Sequence

from diagnostics.findings import Evidence, Hit, Subject
from diagnostics.fixes import Fix, kubectl, steps
from diagnostics.snapshot import Gpu, Node, Snapshot
from diagnostics.text import counted, listed, printable

_MEANING = {
    "device-tainted": "A taint keeps claims off them; with the effect NoExecute it evicts the pods that have them.",
    "device-not-published": "The driver publishes fewer devices than the node has: it no longer finds the others.",
    "unhealthy-device": "The kubelet says that they are unhealthy.",
}


def hits(node: Node, snapshot: Snapshot) -> Iterator[Hit]:
    """At most one."""
    devices = snapshot.gpus_by_node.get(node.name, [])
    lost = [gpu for gpu in devices if gpu.is_healthy is False]
    if not lost:
        return
    tainted = [gpu for gpu in lost if gpu.taints]
    silent = [gpu for gpu in lost if not gpu.device]
    cause = "device-tainted" if tainted else "device-not-published" if silent else "unhealthy-device"
    name = printable(node.name, 120)
    yield Hit(
        subject=Subject.of_node(node),
        cause=cause,
        title=f"Node {name} offers {len(devices) - len(lost)} of {counted(len(devices), 'GPU')} to claims",
        summary=f"{counted(len(lost), 'GPU')} of {len(devices)} cannot be allocated. {_MEANING[cause]}",
        evidence=tuple(_facts(tainted, silent, devices)),
        gpus=len(lost),
        nodes=(node.name,),
        fix=_fix(node),
    )


def _facts(tainted: Sequence[Gpu], silent: Sequence[Gpu], devices: Sequence[Gpu]) -> Iterator[Evidence]:
    published = sum(bool(gpu.device) for gpu in devices)
    yield Evidence("Published", str(published), "devices", "ResourceSlices of the node")
    if silent:
        source = "max(nvidia.com/gpu.count, past) minus the published boards"
        yield Evidence("Not published", str(len(silent)), "GPUs", source)
    for gpu in tainted[:8]:
        said = listed([printable(f"{t.key}={t.value}:{t.effect}", 160) for t in gpu.taints])
        yield Evidence(f"Taint of {printable(gpu.device, 160)}", said, source="ResourceSlice")


def _fix(node: Node) -> Fix:
    return Fix(
        "Find out why the driver tainted the device, or no longer finds it",
        (
            steps.look(
                title="Read the devices and taints of the node",
                why="The key and value of a taint say why: an Xid, a lost GPU, or an administrator's DeviceTaintRule.",
                command=kubectl.kubectl("get", "resourceslices", "-o", "yaml"),
                expect="The slices of this node, with each device and its taints.",
            ),
            steps.read_kernel_log(node.name),
            steps.verify_finding_gone("All devices are published without a taint for two polls."),
            steps.escalate(
                "the hardware team",
                why="A device that is lost again after a reset is a hardware case.",
                expect="They ask for the result of DCGM's own diagnostic (`dcgmi diag -r 3`) on the drained node.",
            ),
        ),
    )
