"""Images, drivers and container runtimes that do not go together, and the same things where they do."""

from dataclasses import replace

from diagnostics.simulator.faults.entry import Fault, Twin
from diagnostics.simulator.lifecycle import crash_looping, running
from diagnostics.simulator.templates import single
from diagnostics.simulator.timestamps import HOUR, MINUTE, seconds
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
