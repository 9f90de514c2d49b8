"""Volumes that others have: one that a single pod may use, and a node to which no more can be attached."""

from functools import partial

from diagnostics.simulator.claims import MOST_ATTACHED
from diagnostics.simulator.faults.entry import Twin, waiting
from diagnostics.simulator.pod_rules import HOSTNAME
from diagnostics.simulator.templates import cpu_only, single
from diagnostics.simulator.timestamps import HOUR, MINUTE
from diagnostics.simulator.workloads import PodTemplate
from diagnostics.simulator.world import World

AGE = 45 * MINUTE
BEFORE = 6 * HOUR


def _mounting(template: PodTemplate, *claims: str) -> PodTemplate:
    template.volumes = [
        {"name": f"data-{number}", "persistentVolumeClaim": {"claimName": claim}}
        for number, claim in enumerate(claims)
    ]
    return template


def _in_use(world: World, *, one_pod_only: bool) -> None:
    """Two trainers of one claim, of which the first runs."""
    world.claim("vision/latents", "shared-files", age=BEFORE, one_pod_only=one_pod_only)
    first = world.add("Pod", "vision/latents-train", _mounting(single("train", 1), "latents"), age=BEFORE)
    world.place(first, world.pick_node(1))
    second = world.add("Pod", "vision/latents-eval", _mounting(single("evaluate", 1), "latents"), age=AGE)
    if one_pod_only:
        world.queue(second)
        world.expect(
            "pending-gpu-pod", second, "another pod uses its volume, which one pod may use at a time"
        )
        return
    world.place(second, world.pick_node(1))


def _attached(world: World, *, most: int) -> None:
    """A pod that asks for the node on which a database has so many volumes."""
    node = world.pick_node(1)
    names = [f"shard-{number}" for number in range(most)]
    for name in (*names, "index"):
        world.claim(f"research/{name}", "fast-block", age=BEFORE)
    store = world.add(
        "StatefulSet", "research/vectors", _mounting(cpu_only("vectors"), *names), age=BEFORE, activity="none"
    )
    world.run(store, [node])
    template = _mounting(single("ingest", 1), "index")
    template.node_selector = {HOSTNAME: node}
    pod = world.add("Pod", "research/index-build", template, age=AGE)
    if most < MOST_ATTACHED:
        world.place(pod, node)
        return
    world.queue(pod)
    world.expect("pending-gpu-pod", pod, "its node can attach no more volumes")


FAULTS = (
    waiting(
        "pending-volume-in-use", "volume-shared", "Pod", "vision/latents-eval", "volume in use",
        partial(_in_use, one_pod_only=True),
    ),
    waiting(
        "pending-attach-limit", "volume-attachable", "Pod", "research/index-build", "too many volumes on its node",
        partial(_attached, most=MOST_ATTACHED),
    ),
)  # fmt: skip
TWINS = (
    Twin("volume-shared", "several pods may use the volume", partial(_in_use, one_pod_only=False)),
    Twin("volume-attachable", "one volume less is there", partial(_attached, most=MOST_ATTACHED - 1)),
)
