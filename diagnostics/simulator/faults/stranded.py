"""Nodes whose free GPUs nobody can use, because other pods have taken the CPU or the memory."""

from functools import partial

from diagnostics.simulator.faults.entry import Fault, Twin
from diagnostics.simulator.templates import cpu_only, single
from diagnostics.simulator.timestamps import HOUR
from diagnostics.simulator.workloads import PodTemplate
from diagnostics.simulator.world import World

RULE = "stranded-gpus"
AGE = 5 * HOUR


def _take(world: World, *, name: str, cpu: str, memory: str, cause: str = "", gpus: int = 0) -> None:
    """Two pods share a node of eight GPUs with nobody."""
    node = world.take_spare_node(keep=8)
    template: PodTemplate = cpu_only(name, memory=memory, cpu=cpu)
    if gpus:
        template = single(name, gpus, memory=memory, cpu=cpu)
    # Nothing else lands where CPU or memory is short: only a node of its own may be named as the subject.
    job = world.add(
        "Job",
        f"research/{name}",
        template,
        age=AGE,
        replicas=2,
        is_indexed=False,
        activity="training" if gpus else "none",
    )
    world.run(job, [node.name] * 2)
    if cause:
        node.free = []
        world.expect(RULE, node, cause)


def _fault(slug: str, twin: str, cause: str, name: str, cpu: str, memory: str, gpus: int = 0) -> Fault:
    apply = partial(_take, name=name, cpu=cpu, memory=memory, cause=cause, gpus=gpus)
    return Fault(slug, RULE, twin, "Node", "gpu-11", cause, apply)


FAULTS = (
    _fault(
        "stranded-gpus",
        "cpu-left-beside-gpus",
        "pods without GPUs have taken its CPU",
        "tokenise",
        "111700m",
        "200Gi",
    ),
    _fault(
        "stranded-by-memory",
        "memory-left-beside-gpus",
        "pods without GPUs have taken its memory",
        "shuffle",
        "8",
        "1000Gi",
    ),
    _fault(
        "stranded-by-gpu-pods",
        "cpu-shared-out",
        "two GPU pods have taken the CPU of eight",
        "decode",
        "111700m",
        "64Gi",
        gpus=1,
    ),
)
TWINS = (
    Twin(
        "cpu-left-beside-gpus",
        "they ask for half as much CPU",
        partial(_take, name="tokenise", cpu="55", memory="200Gi"),
    ),
    Twin(
        "memory-left-beside-gpus",
        "they ask for half as much memory",
        partial(_take, name="shuffle", cpu="8", memory="500Gi"),
    ),
    Twin(
        "cpu-shared-out",
        "they ask for as much CPU as belongs to a GPU",
        partial(_take, name="decode", cpu="28", memory="64Gi", gpus=1),
    ),
)
