"""Nodes whose free GPUs nobody can use, because pods without GPUs have taken the CPU."""

from functools import partial

from diagnostics.simulator.faults.entry import Fault, Twin
from diagnostics.simulator.templates import cpu_only
from diagnostics.simulator.timestamps import HOUR
from diagnostics.simulator.world import World


def _take(world: World, *, cpu: str, expected: bool) -> None:
    """Two pods that only work on CPUs share a node of eight free GPUs."""
    node = world.take_spare_node(keep=8)
    template = cpu_only("tokenise", memory="200Gi", cpu=cpu)
    # Nothing else lands where CPU is short: only a node of its own may be named as the subject.
    job = world.add(
        "Job", "research/tokenise", template, age=5 * HOUR, replicas=2, is_indexed=False, activity="none"
    )
    world.run(job, [node.name] * 2)
    if expected:
        node.free = []
        world.expect("stranded-gpus", node, "pods without GPUs have taken its CPU")


FAULTS = (
    Fault(
        slug="stranded-gpus",
        rule="stranded-gpus",
        twin="cpu-left-beside-gpus",
        kind="Node",
        name="gpu-11",
        cause="CPU taken by pods without GPUs",
        apply=partial(_take, cpu="111700m", expected=True),
    ),
)
TWINS = (
    Twin("cpu-left-beside-gpus", "they ask for half as much CPU", partial(_take, cpu="55", expected=False)),
)
