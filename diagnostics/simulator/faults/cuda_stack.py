"""Images, drivers and container runtimes that do not go together, and the same things where they do."""

from dataclasses import replace

from diagnostics.simulator.faults.entry import Fault, Twin
from diagnostics.simulator.lifecycle import crash_looping, restarted, running
from diagnostics.simulator.templates import single
from diagnostics.simulator.timestamps import HOUR, MINUTE, seconds
from diagnostics.simulator.workloads import PodTemplate
from diagnostics.simulator.world import World

AGE = 45 * MINUTE
NEWER_DRIVER = "image-needs-newer-driver"


def _image(cuda: str) -> str:
    return f"docker.io/pytorch/pytorch:2.9.1-cuda{cuda}-cudnn9-runtime"


def _failing(world: World, name: str, image: str, log: tuple[str, ...], rule: str, cause: str) -> None:
    """A Deployment of one GPU pod that ends with these words at each start."""
    deployment = world.add(
        "Deployment", f"vision/{name}", single(name, 1, image=image, restart_policy="Always"), age=AGE
    )
    state = crash_looping(world.now, world.before(AGE), run_for_s=9, log=log)
    world.place(deployment, world.pick_node(1), 0, state)
    world.expect(rule, deployment, cause)


def _well(world: World, name: str, image: str, log: tuple[str, ...] = ()) -> None:
    template = single(name, 1, image=image, restart_policy="Always")
    deployment = world.add("Deployment", f"vision/{name}", template, age=5 * HOUR)
    state = running(deployment.created + seconds(4))
    world.place(deployment, world.pick_node(1), 0, replace(state, log=log))


def _too_new(world: World) -> None:
    log = (
        "Traceback (most recent call last):",
        '  File "/workspace/mask-train.py", line 31, in main',
        "    torch._C._cuda_init()",
        "RuntimeError: The NVIDIA driver on your system is too old (found version 12040). Please update your GPU "
        "driver by downloading and installing a new version.",
    )
    _failing(world, "mask-train", _image("13.0"), log, NEWER_DRIVER, "CUDA 13.0 on a driver of branch 550")


def _no_kernels(world: World) -> None:
    """PyTorch on CUDA 11.1 has code up to Ampere, and the nodes have Hopper."""
    log = (
        "UserWarning: ",
        "NVIDIA H100 80GB HBM3 with CUDA capability sm_90 is not compatible with the current PyTorch installation.",
        "The current PyTorch install supports CUDA capabilities sm_37 sm_50 sm_60 sm_70 sm_75 sm_80 sm_86.",
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
    )
    image = "docker.io/pytorch/pytorch:1.9.1-cuda11.1-cudnn8-runtime"
    _failing(world, "pose-eval", image, log, "no-kernel-for-gpu", "a build without code for the node's GPU")


def _lower_architecture(world: World) -> None:
    """Built for Hopper among others, and says at its start for which."""
    log = ("INFO arch list: ['sm_70', 'sm_75', 'sm_80', 'sm_86', 'sm_90', 'sm_100', 'sm_120']",)
    _well(world, "pose-eval", _image("12.8"), log)


def _driver_upgraded(world: World) -> None:
    """Packages of the host were upgraded under a loaded module: what starts now fails, what runs goes on."""
    node = world.take_spare_node(keep=1)
    log = ("Failed to initialize NVML: Driver/library version mismatch", "NVML library version: 550.127")
    template = single("tile-index", 1, restart_policy="Always")
    deployment = world.add("Deployment", "vision/tile-index", template, age=AGE)
    world.place(deployment, node.name, 0, crash_looping(world.now, world.before(AGE), run_for_s=2, log=log))
    world.expect("nvml-failing", node, "driver library and kernel module differ")


def _nvml_well(world: World) -> None:
    """The same program on a driver that was upgraded and reloaded."""
    _well(world, "tile-index", _image("12.4"), ("NVML initialised, driver library version: 550.90.07",))


def _no_fabric(world: World) -> None:
    """NVSwitches that nobody has set up."""
    node = world.take_spare_node(keep=8)
    log = (
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling "
        "NumCudaDevices() that might have already set an error? Error 802: system not yet initialized",
    )
    deployment = world.add("Deployment", "vision/warp-train", _eight("warp-train"), age=AGE)
    world.place(deployment, node.name, 0, crash_looping(world.now, world.before(AGE), run_for_s=7, log=log))
    world.expect("fabric-manager-down", node, "CUDA answers 802: no fabric manager")


def _fabric_came_late(world: World) -> None:
    """It met 802 once, an hour ago while the node booted, and has worked since."""
    deployment = world.add("Deployment", "vision/warp-train", _eight("warp-train"), age=5 * HOUR)
    state = restarted(world.before(65 * MINUTE), 1, "Error", run_for_s=5)
    world.place(deployment, world.take_spare_node(keep=8).name, 0, state)


def _eight(name: str) -> PodTemplate:
    return single(name, 8, memory="256Gi", restart_policy="Always")


def _minor_version(world: World) -> None:
    """CUDA 12.8 on the same driver, which serves 12.4: minor version compatibility."""
    _well(world, "mask-train", _image("12.8"))


FAULTS = (
    Fault(
        "image-too-new",
        NEWER_DRIVER,
        "image-newer-minor",
        "Deployment",
        "mask-train",
        "image's CUDA is of a newer major version than the driver",
        _too_new,
        namespace="vision",
        also=("stuck-holder",),
    ),
)
TWINS = (Twin("image-newer-minor", "the image's CUDA is newer by its minor version alone", _minor_version),)
