"""GPUs that report an Xid: fatal ones, and those that are an application's fault or long past."""

from dataclasses import replace
from datetime import timedelta
from functools import partial

from diagnostics.simulator.devices import BUSES, Device
from diagnostics.simulator.faults.entry import Fault, Twin
from diagnostics.simulator.lifecycle import failed, restarted
from diagnostics.simulator.templates import single
from diagnostics.simulator.timestamps import HOUR, MINUTE
from diagnostics.simulator.world import World

SINCE = 10 * MINUTE
AGAIN = 15 * MINUTE
FALLEN_NODE, FALLEN_INDEX = "gpu-08", 3
SILENT_NODE, SILENT_INDEX = "gpu-07", 2
ECC_NODE, ECC_INDEX = "gpu-12", 7


def mark(world: World, device: Device, xid: int) -> None:
    """The exporter shows the code from now on, and the device plugin gives the GPU up."""
    node = world.nodes[device.node]
    node.xids[device.uuid] = xid
    node.unhealthy.add(device.uuid)


def _fallen(world: World) -> None:
    """A GPU of a training gang falls off the bus, and the other ranks wait for it for ever."""
    device = world.nodes[FALLEN_NODE].devices[FALLEN_INDEX]
    if world.now >= world.before(SINCE):
        mark(world, device, 79)
        world.nodes[FALLEN_NODE].fallen.add(device.uuid)
        world.workload("vision/seg-train").activity = "hung"
    world.expect("fatal-xid", device, "fallen off the bus")


def _silent(world: World) -> None:
    device = world.nodes[SILENT_NODE].devices[SILENT_INDEX]
    if world.now >= world.before(SINCE):
        mark(world, device, 119)
        world.workload("recsys/two-tower").activity = "hung"
    world.expect("fatal-xid", device, "the GPU's own processor does not answer")


def _uncontained(world: World) -> None:
    """Uncorrectable memory errors, again and again: 95, then 48, then 95. The pod that had the GPU is dead."""
    node = world.nodes[ECC_NODE]
    device = node.devices[ECC_INDEX]
    since = world.before(SINCE)
    if world.now >= since:
        mark(world, device, (95, 48)[(world.now - since) // AGAIN % 2])
    text = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
    pod = world.add("Pod", "robotics/grasp-train", single("grasp", 1), age=2 * HOUR)
    node.free.remove(device)
    node.free.insert(0, device)
    placed = world.place(pod, "gpu-12")
    if world.now >= since:
        state = failed(world.before(2 * HOUR), since, 1, log=(text,))
        world.pods[-1] = replace(placed, state=state)
    world.expect("fatal-xid", device, "uncontained memory error")


def _application(world: World, *, xid: int, age: timedelta = SINCE) -> None:
    """The program reads where it must not: its process dies and starts again, the GPU is well."""
    pod = world.add(
        "Pod", f"vision/kernel-lab-{xid}", single("lab", 1, restart_policy="Always"), age=3 * HOUR
    )
    if xid == 43:
        world.expect("application-xid", pod, "a fault of the program")
    since = world.before(age)
    if world.now < since:
        world.place(pod, world.pick_node(1))
        return
    placed = world.place(pod, world.pick_node(1), 0, restarted(since, 1, "Error", run_for_s=9000))
    world.nodes[placed.node].xids[placed.devices[0].uuid] = xid


def _standing(world: World) -> None:
    """The gauge still shows the last error, of six hours ago; the GPU has trained ever since."""
    device = world.nodes["gpu-02"].devices[6]
    if world.now >= world.before(6 * HOUR):
        world.nodes["gpu-02"].xids[device.uuid] = 94


def _slot(node: str, index: int) -> str:
    return f"{node}/00000000:{BUSES[index]}:00.0"


def _fault(code: int, twin: str, name: str, cause: str) -> Fault:
    apply = {79: _fallen, 95: _uncontained, 119: _silent}[code]
    return Fault(
        f"xid-{code}", "fatal-xid", twin, "GPU", name, cause, apply,
        also=("fewer-gpus-than-fitted", "reported-unhealthy", "lost-gpu"),
    )  # fmt: skip


FAULTS = (
    Fault(
        "xid-43",
        "application-xid",
        "xid-69-of-before",
        "Pod",
        "kernel-lab-43",
        "a fault of the program",
        partial(_application, xid=43),
        namespace="vision",
    ),
    _fault(79, "standing-xid", _slot(FALLEN_NODE, FALLEN_INDEX), "fallen off the bus"),
    _fault(95, "application-xid", _slot(ECC_NODE, ECC_INDEX), "uncontained memory error"),
    _fault(119, "application-xid-13", _slot(SILENT_NODE, SILENT_INDEX), "GSP RPC timeout"),
)
TWINS = (
    Twin(
        "xid-69-of-before",
        "the code stands since before anybody looked",
        partial(_application, xid=69, age=2 * HOUR),
    ),
    Twin("standing-xid", "the code is hours old and has not changed", _standing),
    Twin(
        "application-xid",
        "Xid 31: the application's fault",
        partial(_application, xid=31),
        also=("application-xid",),
    ),
    Twin(
        "application-xid-13",
        "Xid 13: the application's fault",
        partial(_application, xid=13),
        also=("application-xid",),
    ),
)
