"""Programs that end because /dev/shm is the runtime's small default, and others whose disk is full.

The messages have the shape of NCCL 2.8 (include/shm.h) and of PyTorch's data loader.
"""

from functools import partial

from diagnostics.simulator.faults.entry import Fault, Twin
from diagnostics.simulator.lifecycle import crash_looping
from diagnostics.simulator.templates import single
from diagnostics.simulator.timestamps import MINUTE
from diagnostics.simulator.world import World

RULE = "small-shm"
AGE = 40 * MINUTE

_LOGS: dict[str, tuple[str, ...]] = {
    "shm-nccl": (
        "INFO starting 4 processes",
        "gpu:71:92 [3] include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device",
        "gpu:71:92 [3] include/shm.h:48 NCCL WARN Error while creating shared memory segment nccl-shm-recv-7f1a-0-2-3 "
        "(size 9637888)",
    ),
    "shm-loader": (
        "INFO epoch 0",
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).",
        "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Bus error. It is possible that dataloader's "
        "workers are out of shared memory. Please try to raise your shared memory limit.",
    ),
    "disk-full": (
        "INFO epoch 0",
        "OSError: [Errno 28] No space left on device: '/workspace/out/step-400/optim.pt'",
    ),
}


def _failing(world: World, *, slug: str, name: str, gpus: int) -> None:
    template = single(name, gpus, restart_policy="Always")
    deployment = world.add("Deployment", f"detection/{name}", template, age=AGE)
    code = 1 if slug != "shm-loader" else 135
    state = crash_looping(world.now, world.before(AGE), run_for_s=40, code=code, log=_LOGS[slug])
    world.place(deployment, world.pick_node(gpus), 0, state)
    if slug != "disk-full":
        world.expect(RULE, deployment, "/dev/shm is 64 MiB")


def _fault(slug: str, name: str, gpus: int) -> Fault:
    apply = partial(_failing, slug=slug, name=name, gpus=gpus)
    return Fault(
        slug,
        RULE,
        "disk-full",
        "Deployment",
        name,
        "/dev/shm is 64 MiB",
        apply,
        "detection",
        ("stuck-holder",),
    )


FAULTS = (_fault("shm-nccl", "lane-train", 2), _fault("shm-loader", "sign-train", 1))
TWINS = (
    Twin(
        "disk-full",
        "it is a disk that is full, by the path in the message",
        partial(_failing, slug="disk-full", name="map-train", gpus=1),
        also=("stuck-holder",),
    ),
)
