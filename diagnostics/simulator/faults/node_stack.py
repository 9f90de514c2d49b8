"""Nodes that offer fewer GPUs than they have, and GPU Operator components that do not come up."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from diagnostics.simulator import lifecycle, operator_stack
from diagnostics.simulator.devices import SimNode, split
from diagnostics.simulator.faults.entry import Apply, Fault, Twin
from diagnostics.simulator.operator_stack import (
    DRIVER_DS,
    DRIVER_IMAGE,
    EXPORTER_DS,
    GFD_DS,
    MIG_DS,
    PLUGIN_DS,
    TOOLKIT_DS,
    VALIDATOR_DS,
)
from diagnostics.simulator.timestamps import MINUTE
from diagnostics.simulator.world import World

AGE = 45 * MINUTE
FEWER = "fewer-gpus-than-fitted"
FAILING = "operator-component-failing"
WAITING = "device-plugin-waiting"

_NO_NVML = (
    "E1130 factory.go:87] Failed to initialize NVML: ERROR_LIBRARY_NOT_FOUND.\n"
    "E1130 main.go:132] error starting plugins: error creating plugin manager: unable to create plugin manager: "
    "nvml init failed: ERROR_LIBRARY_NOT_FOUND"
)
_MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"
_NO_ENGINE = 'level=fatal msg="Error starting nv-hostengine: DCGM initialization error"'
_DRIVER = "Could not unload NVIDIA driver kernel modules, driver is in use"
_TOOLKIT = (
    'level=error msg="unable to update containerd config: open /etc/containerd/config.toml: '
    'read-only file system"'
)
_GFD = "E1130 main.go:120] error creating NVML labeler: failed to initialize NVML: ERROR_LIBRARY_NOT_FOUND"
_MIG = 'level=error msg="Error: unable to apply MIG config: 8 clients are using the GPU"'


def _one_unhealthy(world: World) -> None:
    """The device plugin has marked one GPU, which nobody holds, and offers seven of eight."""
    node = world.nodes["gpu-10"]
    device = node.free.pop()
    if world.now >= world.before(AGE):
        node.unhealthy.add(device.uuid)
    world.expect(FEWER, node, "one GPU marked unhealthy by the device plugin")


def _plugin_gone(world: World) -> None:
    node = world.take_spare_node()
    since = world.before(AGE)
    if world.now >= since:
        node.lose_plugin(since, world.now)
        state = lifecycle.crash_looping(world.now, since, run_for_s=3, message=_NO_NVML)
        node.stack[PLUGIN_DS], node.stack_created[PLUGIN_DS] = state, since - MINUTE
    _both(world, node, "the device plugin crash-loops")


def _driver_gone(world: World) -> None:
    """After a reboot the new driver image cannot be pulled; whatever waits for the driver stays at Init:0."""
    node = world.take_spare_node()
    since = world.before(AGE)
    if world.now >= since:
        node.driver_gone_since = since
        image = DRIVER_IMAGE
        operator_stack.hold_up(node, DRIVER_DS, lifecycle.image_pull_failing(image, since), since)
    _both(world, node, "the driver image cannot be pulled")


def _driver_crashing(world: World) -> None:
    """The driver's container ends again and again; whatever waits for it stays at Init:0, the device plugin too."""
    node = world.take_spare_node()
    since = world.before(AGE)
    if world.now >= since:
        node.driver_gone_since = since
        state = lifecycle.crash_looping(world.now, since, run_for_s=40, message=_DRIVER)
        operator_stack.hold_up(node, DRIVER_DS, state, since)
    world.expect(WAITING, node, "the device plugin waits for a driver that crash-loops")
    _both(world, node, "the driver crash-loops")


def _toolkit_gone(world: World) -> None:
    node = world.take_spare_node()
    since = world.before(AGE)
    if world.now >= since:
        node.lose_plugin(since, world.now)
        node.exporter_gone_since = since
        state = lifecycle.crash_looping(world.now, since, run_for_s=6, message=_TOOLKIT)
        operator_stack.hold_up(node, TOOLKIT_DS, state, since)
    _both(world, node, "the container toolkit crash-loops")


def _validator_failing(world: World) -> None:
    node = world.take_spare_node()
    since = world.before(AGE)
    if world.now >= since:
        node.lose_plugin(since, world.now)
        state = lifecycle.init_crash_looping(world.now, since, 0, _MISMATCH)
        node.stack[VALIDATOR_DS], node.stack_created[VALIDATOR_DS] = state, since - MINUTE
    _both(world, node, "the driver validation fails: driver and library versions differ")


def _both(world: World, node: SimNode, cause: str) -> None:
    world.expect(FAILING, node, cause)
    world.expect(FEWER, node, cause)


def _side_component(world: World, *, name: str, node: str, message: str, cause: str) -> None:
    """A component whose failure takes no GPU away."""
    home, since = world.nodes[node], world.before(AGE)
    if world.now >= since:
        home.stack[name] = lifecycle.crash_looping(world.now, since, run_for_s=5, message=message)
        if name == EXPORTER_DS:
            home.exporter_gone_since = since
        if name == MIG_DS:
            home.labels |= {"nvidia.com/mig.config": "all-1g.10gb", "nvidia.com/mig.config.state": "failed"}
    world.expect(FAILING, home, cause)


def _restarted_once(world: World, *, name: str) -> None:
    """The same component crashed an hour ago, once, and has been well since."""
    home = world.nodes["gpu-11"]
    state = lifecycle.restarted(world.before(65 * MINUTE), 1, "Error")
    home.stack[name] = replace(state, restarts=1)


def _rolled(world: World, *, name: str) -> None:
    """The same pod is being replaced in a rolling update: for less than a minute, every two hours."""
    start, _ = lifecycle.period(world.now, world.epoch, 120 * MINUTE, MINUTE / 2)
    home = world.nodes["gpu-11"]
    home.stack_created[name] = start
    if world.now - start < MINUTE:
        home.stack[name] = lifecycle.init_waiting(0, start)


def _healthy_split(world: World) -> None:
    """Seven whole GPUs are offered because the eighth is split into MIG instances."""
    split_last(world, "gpu-10")


def split_last(world: World, node: str) -> SimNode:
    """The node's last GPU becomes seven instances of 10 GB. It must be free."""
    home = world.nodes[node]
    parts = split(world.config.seed, home.devices[-1], "1g.10gb", 7)
    home.free = [d for d in home.free if d is not home.devices[-1]] + parts
    home.devices = [*home.devices[:-1], *parts]
    return home


def _fault(
    slug: str, node: str, cause: str, apply: Apply, twin: str, also: tuple[str, ...] = (FEWER,)
) -> Fault:
    return Fault(slug, FAILING, twin, "Node", node, cause, apply, also=also)


def _side(name: str, node: str, message: str, cause: str) -> Callable[[World], None]:
    return partial(_side_component, name=name, node=node, message=message, cause=cause)


FAULTS = (
    Fault("unhealthy-gpu", FEWER, "split-gpu", "Node", "gpu-10", "unhealthy device: 7 of 8", _one_unhealthy),
    Fault(
        "plugin-crash-loop",
        FEWER,
        "plugin-restarted",
        "Node",
        "gpu-11",
        "device plugin crash loop: 0 of 8",
        _plugin_gone,
        also=(FAILING,),
    ),
    _fault(
        "driver-pull-failing", "gpu-11", "driver image pull", _driver_gone, "driver-rolled", (FEWER, WAITING)
    ),
    _fault(
        "toolkit-crash-loop",
        "gpu-11",
        "toolkit crash loop",
        _toolkit_gone,
        "toolkit-restarted",
        (FEWER, WAITING),
    ),
    Fault(
        "plugin-behind-driver",
        WAITING,
        "plugin-rolled",
        "Node",
        "gpu-11",
        "device plugin waits for a driver that crash-loops",
        _driver_crashing,
        also=(FAILING, FEWER),
    ),
    _fault(
        "validator-failing",
        "gpu-11",
        "driver/library mismatch",
        _validator_failing,
        "validator-rolled",
        (FEWER, "nvml-failing"),
    ),
    _fault(
        "exporter-crash-loop",
        "gpu-08",
        "dcgm-exporter crash loop",
        _side(EXPORTER_DS, "gpu-08", _NO_ENGINE, "dcgm-exporter crash-loops: no metrics of the node"),
        "exporter-restarted",
        (),
    ),
    _fault(
        "gfd-crash-loop",
        "gpu-05",
        "GPU feature discovery crash loop",
        _side(GFD_DS, "gpu-05", _GFD, "GPU feature discovery crash-loops"),
        "gfd-restarted",
        (),
    ),
    _fault(
        "mig-manager-failing",
        "gpu-02",
        "MIG configuration not applied",
        _side(MIG_DS, "gpu-02", _MIG, "the MIG manager cannot apply its configuration"),
        "mig-manager-restarted",
        ("mig-not-applied",),
    ),
)
TWINS = (
    Twin("split-gpu", "the eighth GPU is split into MIG instances, not unhealthy", _healthy_split),
    Twin("plugin-restarted", "one crash an hour ago", partial(_restarted_once, name=PLUGIN_DS)),
    Twin("driver-rolled", "the pod is half a minute old", partial(_rolled, name=DRIVER_DS)),
    Twin(
        "plugin-rolled",
        "the plugin is half a minute old, and the driver well",
        partial(_rolled, name=PLUGIN_DS),
    ),
    Twin("toolkit-restarted", "one crash an hour ago", partial(_restarted_once, name=TOOLKIT_DS)),
    Twin("validator-rolled", "the pod is half a minute old", partial(_rolled, name=VALIDATOR_DS)),
    Twin("exporter-restarted", "one crash an hour ago", partial(_restarted_once, name=EXPORTER_DS)),
    Twin("gfd-restarted", "one crash an hour ago", partial(_restarted_once, name=GFD_DS)),
    Twin("mig-manager-restarted", "one crash an hour ago", partial(_restarted_once, name=MIG_DS)),
)
