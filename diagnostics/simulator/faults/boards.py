"""Boards that are not lost yet, or without a word: memory, links, clocks, and what others say of them."""

from dataclasses import replace
from functools import partial

from diagnostics.simulator.devices import BUSES, Board, Device
from diagnostics.simulator.faults.entry import Fault, Twin
from diagnostics.simulator.lifecycle import running
from diagnostics.simulator.operator_stack import PLUGIN_DS
from diagnostics.simulator.timestamps import DAY, HOUR, MINUTE
from diagnostics.simulator.world import World

SINCE = 12 * MINUTE
REMAP, LINK, BUS, HEAT = ("gpu-02", 1), ("gpu-02", 2), ("gpu-01", 4), ("gpu-01", 5)
GONE, LEFT = ("gpu-12", 5), ("gpu-12", 4)
REPORTED = "gpu-03"

Place = tuple[str, int]


def _device(world: World, place: Place) -> Device:
    return world.nodes[place[0]].devices[place[1]]


def _slot(place: Place) -> str:
    return f"{place[0]}/00000000:{BUSES[place[1]]}:00.0"


def _board(world: World, *, place: Place, rule: str = "", cause: str = "", board: Board) -> None:
    """One board is so from SINCE on."""
    device = _device(world, place)
    if world.now >= world.before(SINCE):
        world.nodes[device.node].boards[device.uuid] = replace(board, since=world.before(SINCE))
    if rule:
        world.expect(rule, device, cause)


def _withdraw(world: World, device: Device) -> None:
    """Nobody holds it, and the device plugin has given it up."""
    node = world.nodes[device.node]
    node.free = [d for d in node.free if d != device]
    if world.now >= world.before(SINCE):
        node.unhealthy.add(device.uuid)


def _gone(world: World, *, is_offered: bool) -> None:
    """Its metrics end; the exporter does not find it any more."""
    device = _device(world, GONE)
    if not is_offered:
        _withdraw(world, device)
        world.expect("lost-gpu", device, "metrics ended, not offered any more")
    if world.now >= world.before(SINCE):
        world.nodes[device.node].vanished.add(device.uuid)


def _left(world: World, *, is_marked: bool) -> None:
    """A contained memory error of yesterday: the GPU works, and the plugin has never taken it back."""
    device = _device(world, LEFT)
    node, began = world.nodes[device.node], world.before(30 * HOUR)
    node.xids[device.uuid] = 94
    line = f"XidCriticalError: Xid=94 on Device={device.uuid}; marking device as unhealthy."
    if is_marked:
        _withdraw(world, device)
        world.expect("reported-unhealthy", device, "left unhealthy after a contained error")
    else:
        line = "Skipping non-nvmlEventTypeXidCriticalError event: {EventType:2 EventData:0}"
    started = max(node.created, began - DAY)
    node.stack[PLUGIN_DS] = replace(running(started), log=(f"I0601 05:00:00.000001 1 health.go:151] {line}",))


def _condition(world: World, *, said: tuple[str, str, str]) -> None:
    """Status, reason and message."""
    node = world.nodes[REPORTED]
    if world.now >= world.before(SINCE):
        node.conditions = (("AcceleratedHardwareReady", *said),)
    if said[0] == "False":
        world.expect("reported-unhealthy", node, said[1])


_BOARDS = (
    ("row-remap-pending", REMAP, "memory-errors", "remapped-rows", Board(row_remap_pending=True)),
    ("nvlink-recovering", LINK, "nvlink-errors", "few-crc-errors", Board(nvlink_recoveries_per_h=60)),
    ("pcie-narrow", BUS, "pcie-degraded", "idle-narrow-link", Board(pcie_width=8)),
    (
        "gpu-too-hot",
        HEAT,
        "clocks-held-down",
        "at-power-cap",
        Board(clock_event_reasons=0x40, sm_clock_most_mhz=1140, thermal_violation_ratio=0.7),
    ),
)
_HEALTHY = (
    ("remapped-rows", "the remap has been done", REMAP, Board(ecc_uncorrectable_per_h=0.0)),
    ("few-crc-errors", "some errors that the link repeats", LINK, Board(nvlink_crc_errors_per_min=3)),
    ("idle-narrow-link", "the GPU does not work", ("gpu-11", 3), Board(pcie_width=8)),
    (
        "at-power-cap",
        "it draws all the power that it may",
        HEAT,
        Board(clock_event_reasons=0x4, sm_clock_most_mhz=1500),
    ),
)
_NOT_READY = ("False", "NvidiaDoubleBitError", "double bit error detected on GPU 3")
_READY = ("True", "NvidiaAcceleratedHardwareIsReady", "Monitoring for the accelerated hardware is active")

FAULTS = (
    *(
        Fault(
            slug, rule, twin, "GPU", _slot(place), slug,
            partial(_board, place=place, rule=rule, cause=slug, board=board),
        )
        for slug, place, rule, twin, board in _BOARDS
    ),
    Fault(
        "gpu-vanished", "lost-gpu", "unmeasured-gpu", "GPU", _slot(GONE), "metrics ended",
        partial(_gone, is_offered=False), also=("fewer-gpus-than-fitted",),
    ),
    Fault(
        "xid-94-left-unhealthy", "reported-unhealthy", "xid-94-passed", "GPU", _slot(LEFT), "never taken back",
        partial(_left, is_marked=True), also=("fewer-gpus-than-fitted",),
    ),
    Fault(
        "hardware-not-ready", "reported-unhealthy", "hardware-ready", "Node", REPORTED, "a health agent says so",
        partial(_condition, said=_NOT_READY),
    ),
)  # fmt: skip
TWINS = (
    *(
        Twin(slug, decisive, partial(_board, place=place, board=board))
        for slug, decisive, place, board in _HEALTHY
    ),
    Twin("unmeasured-gpu", "the node offers it all the same", partial(_gone, is_offered=True)),
    Twin("xid-94-passed", "the plugin has passed over it", partial(_left, is_marked=False)),
    Twin("hardware-ready", "the condition is as it should be", partial(_condition, said=_READY)),
)
