"""Images, drivers and container runtimes that do not go together, and the same things where they do."""

from dataclasses import replace
from functools import partial

from diagnostics.simulator.faults.entry import Apply, Fault, Twin
from diagnostics.simulator.lifecycle import crash_looping, restarted, running
from diagnostics.simulator.templates import single
from diagnostics.simulator.timestamps import HOUR, MINUTE, seconds
from diagnostics.simulator.workloads import TOLERATES_GPU, PodTemplate, container
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


def _without_request(name: str, *env: tuple[str, str]) -> PodTemplate:
    """A program that uses CUDA and asks for no GPU, on nodes that have some."""
    box = container(
        name,
        _image("12.4"),
        cpu="4",
        memory="16Gi",
        command=["python", f"{name}.py"],
        env=[{"name": key, "value": value} for key, value in env],
    )
    return PodTemplate(containers=[box], tolerations=[TOLERATES_GPU])


def _nobody_asked(world: World) -> None:
    log = (
        "Traceback (most recent call last):",
        "    torch._C._cuda_init()",
        "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a "
        "driver from http://www.nvidia.com/Download/index.aspx",
    )
    deployment = world.add("Deployment", "vision/ocr-batch", _without_request("ocr-batch"), age=AGE)
    state = crash_looping(world.now, world.before(AGE), run_for_s=11, log=log)
    world.place(deployment, world.pick_node(0), 0, state)
    world.expect("no-gpu-in-container", deployment, "the container asks for no GPU")


def _asked(world: World) -> None:
    """The same program with a GPU that it asked for."""
    _well(world, "ocr-batch", _image("12.4"))


def _sees_all(world: World, *, visible: str) -> None:
    template = _without_request("preview", ("NVIDIA_VISIBLE_DEVICES", visible))
    deployment = world.add("Deployment", "vision/preview", template, age=5 * HOUR, activity="loaded-idle")
    world.place(deployment, world.pick_node(0), 0, running(deployment.created + seconds(4)))
    if visible == "all":
        world.expect("gpu-used-unrequested", deployment, "it sees every GPU of its node")


def _eight(name: str) -> PodTemplate:
    return single(name, 8, memory="256Gi", restart_policy="Always")


def _minor_version(world: World) -> None:
    """CUDA 12.8 on the same driver, which serves 12.4: minor version compatibility."""
    _well(world, "mask-train", _image("12.8"))


def _fault(slug: str, rule: str, twin: str, name: str, cause: str, apply: Apply, *also: str) -> Fault:
    return Fault(slug, rule, twin, "Deployment", name, cause, apply, namespace="vision", also=also)


def _node_fault(slug: str, rule: str, twin: str, cause: str, apply: Apply) -> Fault:
    return Fault(slug, rule, twin, "Node", "gpu-11", cause, apply, also=("stuck-holder",))


FAULTS = (
    _fault(
        "image-too-new",
        NEWER_DRIVER,
        "image-newer-minor",
        "mask-train",
        "image's CUDA is of a newer major version than the driver",
        _too_new,
        "stuck-holder",
    ),
    _fault(
        "no-kernel-image",
        "no-kernel-for-gpu",
        "kernels-for-gpu",
        "pose-eval",
        "a build without code for the node's GPU",
        _no_kernels,
        "stuck-holder",
    ),
    _node_fault(
        "nvml-mismatch",
        "nvml-failing",
        "nvml-well",
        "driver library and kernel module differ",
        _driver_upgraded,
    ),
    _node_fault(
        "no-fabric-manager",
        "fabric-manager-down",
        "fabric-manager-late",
        "CUDA answers 802: no fabric manager",
        _no_fabric,
    ),
    _fault(
        "gpu-not-requested",
        "no-gpu-in-container",
        "gpu-requested",
        "ocr-batch",
        "the container asks for no GPU",
        _nobody_asked,
    ),
    _fault(
        "gpus-seen-unrequested",
        "gpu-used-unrequested",
        "gpus-hidden",
        "preview",
        "NVIDIA_VISIBLE_DEVICES=all without a request",
        partial(_sees_all, visible="all"),
    ),
)
TWINS = (
    Twin("image-newer-minor", "the image's CUDA is newer by its minor version alone", _minor_version),
    Twin("kernels-for-gpu", "the build has code for the node's GPU", _lower_architecture),
    Twin("nvml-well", "library and module of the driver are one version", _nvml_well),
    Twin("fabric-manager-late", "error 802 met once, an hour ago", _fabric_came_late),
    Twin("gpu-requested", "the container asks for a GPU", _asked),
    Twin("gpus-hidden", "NVIDIA_VISIBLE_DEVICES=void", partial(_sees_all, visible="void")),
)
