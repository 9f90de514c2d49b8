"""What goes wrong with the GPU Operator for a reason that its pods' logs name, and pods that a kubelet refuses."""

from dataclasses import replace

from diagnostics.simulator import lifecycle, operator_stack
from diagnostics.simulator.faults.entry import Fault, Twin
from diagnostics.simulator.operator_stack import DRIVER_DS, MIG_DS, PLUGIN_DS
from diagnostics.simulator.templates import single
from diagnostics.simulator.timestamps import MINUTE, seconds
from diagnostics.simulator.workloads import PodState
from diagnostics.simulator.world import World

AGE = 45 * MINUTE
FEWER, FAILING, WAITING = "fewer-gpus-than-fitted", "operator-component-failing", "device-plugin-waiting"
PENDING, NOT_APPLIED, REFUSED = "pending-gpu-pod", "mig-not-applied", "refused-at-admission"

_NO_HEADERS = (
    "Updating the package cache...",
    "Resolving Linux kernel version...",
    "Could not resolve Linux kernel version",
    "Stopping NVIDIA persistence daemon...",
    "Unloading NVIDIA driver kernel modules...",
)
_BUILT = (
    "Resolving Linux kernel version...",
    "Proceeding with Linux kernel version 5.15.0-122-generic",
    "Done, now waiting for signal",
)
_NO_LIBRARY = (
    "I1130 09:00:01.871307 1 main.go:256] Retrieving plugins.",
    "W1130 09:00:01.871782 1 factory.go:31] No valid resources detected, creating a null CDI handler",
    "I1130 09:00:01.871846 1 factory.go:107] Detected non-NVML platform: could not load NVML library: "
    "libnvidia-ml.so.1: cannot open shared object file: No such file or directory",
    "E1130 09:00:01.871900 1 factory.go:115] Incompatible platform detected",
    "I1130 09:00:01.871990 1 main.go:287] No devices found. Waiting indefinitely.",
)
_SKIPPED = (
    "I1130 09:00:01.002792 1 health.go:151] Skipping non-nvmlEventTypeXidCriticalError event: {Device:{Handle:0x7f0d} "
    "EventType:2 EventData:0 GpuInstanceId:4294967295 ComputeInstanceId:4294967295}",
)
_BLOCKED = (
    'level=info msg="Updating to MIG config: all-1g.10gb"',
    "The following GPUs could not be reset:",
    "  GPU 00000000:1B:00.0: In use by another client",
    "FATA[0008] Error applying MIG configuration with hooks: error resetting all GPUs: exit status 255",
)
_APPLIED = (
    'level=info msg="Updating to MIG config: all-disabled"',
    "MIG configuration applied successfully",
)


def _driver_build_failing(world: World) -> None:
    """No headers for the node's kernel: the driver is down, so the rest waits, nothing is offered, and a pod waits."""
    node = world.take_spare_node()
    since = world.before(AGE)
    if world.now >= since:
        node.driver_gone_since = since
        state = lifecycle.crash_looping(world.now, since, run_for_s=20, log=_NO_HEADERS)
        operator_stack.hold_up(node, DRIVER_DS, state, since)
    template = single("pretrain", 8, node_selector={"kubernetes.io/hostname": node.name})
    pod = world.add("Pod", "research/bert-pretrain", template, age=AGE - 5 * MINUTE)
    world.queue(pod)
    world.expect(FAILING, node, "the driver container finds no kernel headers")
    world.expect(FEWER, node, "without the driver no GPU is offered")
    world.expect(PENDING, pod, "its node offers no GPU")


def _driver_built(world: World) -> None:
    """One crash an hour ago; then the headers were there."""
    state = lifecycle.restarted(world.before(65 * MINUTE), 1, "Error")
    world.nodes["gpu-11"].stack[DRIVER_DS] = replace(state, restarts=1, log=_BUILT)


def _runtime_not_used(world: World) -> None:
    """The device plugin was started by plain runc: it runs, is ready, and offers nothing."""
    node = world.take_spare_node()
    since = world.before(AGE)
    if world.now >= since:
        node.lose_plugin(since, world.now)
        node.stack[PLUGIN_DS] = replace(lifecycle.running(since), log=_NO_LIBRARY)
        node.stack_created[PLUGIN_DS] = since
    world.expect(FAILING, node, "the container runtime does not hand the driver to the device plugin")
    world.expect(FEWER, node, "the device plugin offers nothing")


def _event_skipped(world: World) -> None:
    """The plugin saw an event that is no critical Xid, and offers all GPUs."""
    since = world.before(AGE)
    world.nodes["gpu-11"].stack[PLUGIN_DS] = replace(lifecycle.running(since), log=_SKIPPED)
    world.nodes["gpu-11"].stack_created[PLUGIN_DS] = since


def _mig(world: World, *, config: str, state: str, log: tuple[str, ...]) -> None:
    node = world.nodes["gpu-10"]
    since = world.before(AGE)
    if world.now >= since:
        node.labels |= {"nvidia.com/mig.config": config, "nvidia.com/mig.config.state": state}
        node.stack[MIG_DS] = replace(lifecycle.running(since), log=log)
        node.stack_created[MIG_DS] = since


def _mig_reset_blocked(world: World) -> None:
    _mig(world, config="all-1g.10gb", state="failed", log=_BLOCKED)
    world.expect(NOT_APPLIED, world.nodes["gpu-10"], "the GPUs cannot be reset for the MIG change")


def _mig_applied(world: World) -> None:
    _mig(world, config="all-disabled", state="success", log=_APPLIED)


def _refused(world: World, *, is_replaced: bool) -> None:
    """A pod was bound to a node that had just booted, before the device plugin had registered."""
    node = world.nodes[world.pick_node(1)]
    booted = world.before(AGE)
    if world.now >= booted:
        node.boots += 1
        node.ready_since = booted
    at = booted + seconds(20)
    refused = PodState(
        phase="Failed",
        is_ready=False,
        reason="UnexpectedAdmissionError",
        message="Pod was rejected: Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. "
        "Requested: 1, Available: 0, which is unexpected",
        changed=at,
    )
    kind = "Job" if is_replaced else "Pod"
    job = world.add(kind, "research/eval-mmlu", single("eval", 1), created=at, is_indexed=False)
    world.place(job, node.name, "first", refused)
    if is_replaced:
        world.place(job, node.name, "second", created=at + MINUTE)
    else:
        world.expect(REFUSED, job, "bound before the device plugin was ready")


FAULTS = (
    Fault(
        "driver-build-failing", FAILING, "driver-built", "Node", "gpu-11", "no kernel headers for the driver build",
        _driver_build_failing, also=(FEWER, WAITING, PENDING),
    ),
    Fault(
        "runtime-not-used", FAILING, "plugin-skips-event", "Node", "gpu-11", "plugin started without NVIDIA's runtime",
        _runtime_not_used, also=(FEWER,),
    ),
    Fault(
        "mig-reset-blocked", NOT_APPLIED, "mig-applied", "Node", "gpu-10", "MIG change: reset blocked",
        _mig_reset_blocked,
    ),
    Fault(
        "refused-pod", REFUSED, "refused-and-replaced", "Pod", "eval-mmlu", "refused: plugin not registered yet",
        lambda world: _refused(world, is_replaced=False), "research",
    ),
)  # fmt: skip
TWINS = (
    Twin("driver-built", "one crash an hour ago, then the headers were there", _driver_built),
    Twin("plugin-skips-event", "the plugin has its driver and ignores a harmless event", _event_skipped),
    Twin("mig-applied", "the layout was applied", _mig_applied),
    Twin(
        "refused-and-replaced",
        "its controller made another pod, which runs",
        lambda world: _refused(world, is_replaced=True),
    ),
)
