"""Training gangs: one scattered over the racks, one of which only a part runs."""

from functools import partial
from typing import Any

from diagnostics.simulator.baseline import gang
from diagnostics.simulator.faults.entry import Fault, Twin
from diagnostics.simulator.lifecycle import period, running
from diagnostics.simulator.templates import single, torchrun, triton
from diagnostics.simulator.timestamps import HOUR, MINUTE, seconds
from diagnostics.simulator.world import World

APART = ("gpu-07", "gpu-08", "gpu-09", "gpu-10")


def _ddp(world: World, nodes: tuple[str, ...], path: str = "research/gpt-ddp") -> None:
    """A collective job of 4 pods with 2 GPUs; the scheduler spread it because every node looked alike to it."""
    template = torchrun(path.split("/")[1], 4, 2, kind="StatefulSet")
    job = world.add("StatefulSet", path, template, age=4 * HOUR, replicas=4, service_port=29500)
    world.run(job, nodes)
    if nodes == APART:
        world.expect("scattered-job", job, "spread over four nodes in two racks, although one node would do")


def _one_gpu_each(world: World, *, talk: bool) -> None:
    """Eight pods of one GPU each that fill a node: ranks of one job, or runs of a sweep, each for itself."""
    template = torchrun("resnet-ddp", 8, 1, kind="StatefulSet") if talk else single("resnet-sweep", 1)
    name = "resnet-ddp" if talk else "resnet-sweep"
    job = world.add("StatefulSet" if talk else "Job", f"vision/{name}", template, age=4 * HOUR, replicas=8)
    world.run(job, (world.take_spare_node(keep=8).name,) * 8)
    if talk:
        world.expect("scattered-job", job, "eight ranks on one node, each in a pod of one GPU")


def _independent(world: World) -> None:
    servers = world.add(
        "StatefulSet",
        "research/scorers",
        triton(2, pool=""),
        age=4 * HOUR,
        replicas=4,
        activity="inference",
        service_port=8000,
    )
    world.run(servers, APART)


def _partial(world: World, *, sweep: bool) -> None:
    """A gang of 8 x 2 GPUs on the 16 GPUs that the pool has left; a sweep that came first holds 6 of them."""
    job = gang(world, "vision/vit-huge", 8, 2, pool="train", age=45 * MINUTE)
    if not sweep:
        world.run(job, ["gpu-03"] * 4 + ["gpu-04"] * 4)
        return
    job.activity = "rendezvous"
    _sweep(world, "speech/hparam-sweep", age=3 * HOUR)
    for index, node in enumerate(["gpu-03"] * 4 + ["gpu-04"]):
        world.place(job, node, index)
    for index in (5, 6, 7):
        world.queue(job, index)
    world.expect("partial-gang", job, "5 of 8 pods run and wait for 3 that the GPUs do not suffice for")


def _starting(world: World) -> None:
    """The same gang while the sweep is just ending: its last three pods wait for 3 minutes at the most."""
    length = 40 * MINUTE
    start, turn = period(world.now, world.epoch, length, 2 * MINUTE)
    job = gang(world, f"vision/vit-huge-{turn}", 8, 2, pool="train", age=HOUR)
    job.created = start
    late = world.now - start < 3 * MINUTE
    job.activity = "rendezvous" if late else "training"
    for index, node in enumerate(["gpu-03"] * 4 + ["gpu-04"] * 4):
        if index < 5 or not late:
            began = start + (seconds(4) if index < 5 else 3 * MINUTE)
            world.place(job, node, index, running(began))
        else:
            world.queue(job, index)
    if late:
        _sweep(world, f"speech/hparam-sweep-{turn}", created=start - HOUR)


def _sweep(world: World, name: str, **since: Any) -> None:
    """Three runs of 2 GPUs each, of the gang's pool."""
    template = single("sweep", 2)
    template.node_selector = {"example.com/pool": "train"}
    job = world.add("Job", name, template, replicas=3, is_indexed=False, **since)
    world.run(job, ["gpu-04"] * 3)


FAULTS = (
    Fault(
        slug="scattered-job",
        rule="scattered-job",
        twin="packed-job",
        kind="StatefulSet",
        namespace="research",
        name="gpt-ddp",
        cause="spread by the default scheduler",
        apply=partial(_ddp, nodes=APART),
    ),
    Fault(
        slug="one-gpu-ranks",
        rule="scattered-job",
        twin="one-gpu-sweep",
        kind="StatefulSet",
        namespace="vision",
        name="resnet-ddp",
        cause="ranks of one node cut off from each other, each in a pod of one GPU",
        apply=partial(_one_gpu_each, talk=True),
    ),
    Fault(
        slug="partial-gang",
        rule="partial-gang",
        twin="complete-gang",
        kind="Job",
        namespace="vision",
        name="vit-huge",
        cause="placed pod by pod, without gang scheduling",
        apply=partial(_partial, sweep=True),
        also=("pending-gpu-pod", "no-gang-scheduling"),
    ),
)
TWINS = (
    Twin("packed-job", "the same four pods share one node", partial(_ddp, nodes=("gpu-11",) * 4)),
    Twin(
        "one-gpu-sweep",
        "as many pods of one GPU on one node, each of which trains for itself",
        partial(_one_gpu_each, talk=False),
    ),
    Twin("independent-servers", "spread alike, but they do not talk to each other", _independent),
    Twin(
        "complete-gang", "nobody else holds GPUs of the pool: all eight run", partial(_partial, sweep=False)
    ),
    Twin("starting-gang", "5 of 8 run, but for two minutes only", _starting),
)
