"""Pods that wait because of their neighbours or their own shape: affinity, containers that add up, crashing holders."""

from functools import partial

from diagnostics.simulator.faults.entry import Fault, Twin
from diagnostics.simulator.faults.pending import fill
from diagnostics.simulator.lifecycle import crash_looping
from diagnostics.simulator.pod_rules import HOSTNAME
from diagnostics.simulator.templates import POOL, cpu_only, notebook, single
from diagnostics.simulator.timestamps import HOUR, MINUTE
from diagnostics.simulator.workloads import container
from diagnostics.simulator.world import World

RULE = "pending-gpu-pod"
AGE = 45 * MINUTE


def _affinity(world: World, *, helper_on: str) -> None:
    """It must sit beside its helper; GPUs of its pool are free, but only the helper's node will do."""
    helper = world.add(
        "Deployment", "research/cache", cpu_only("cache", memory="8Gi", cpu="2"), age=HOUR, activity="none"
    )
    world.run(helper, [helper_on])
    template = single("finetune", 1)
    template.node_selector = {POOL: "batch"}
    term = {"labelSelector": {"matchLabels": {"app": "cache"}}, "topologyKey": HOSTNAME}
    template.more = {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    pod = world.add("Pod", "research/finetune", template, age=AGE)
    if world.nodes[helper_on].pool == "batch":
        world.place(pod, helper_on)
        return
    world.queue(pod)
    world.expect(RULE, pod, "its pod affinity excludes the nodes with GPUs")


def _containers(world: World, *, each: int) -> None:
    """Two containers of one pod that ask for GPUs each: together for more than a node has."""
    template = single("render", each)
    template.containers.append(container("preview", template.containers[0]["image"], gpus=each, cpu="2"))
    template.node_selector = {POOL: "train"}
    pod = world.add("Pod", "vision/render", template, age=AGE)
    if 2 * each <= len(world.nodes["gpu-03"].devices):
        world.place(pod, "gpu-03")
        return
    world.queue(pod)
    world.expect(RULE, pod, "its two containers together ask for more GPUs than a node has")


def _crashing(world: World, *, crashes: bool) -> None:
    """The last GPU of the pool is held by a server that crashes again and again."""
    fill(world, "gpu-09", 1)
    if crashes:
        tool = world.add("Deployment", "data-science/annotator", notebook(), age=3 * HOUR, activity="none")
        world.place(tool, "gpu-09", 0, crash_looping(world.now, world.before(2 * HOUR)))
        world.expect("stuck-holder", tool, "its program ends at once")
    book = world.add("Pod", "data-science/notebook-noa", notebook(), age=AGE, activity="notebook")
    if not crashes:
        world.place(book, "gpu-09")
        return
    world.queue(book)
    world.expect(RULE, book, "a crash-looping pod reserves the GPU that it needs")


FAULTS = (
    Fault(
        "pending-affinity", RULE, "helper-beside", "Pod", "finetune", "pod affinity excludes the GPU nodes",
        partial(_affinity, helper_on="gpu-07"), namespace="research",
    ),
    Fault(
        "pending-two-containers", RULE, "containers-fit", "Pod", "render", "two containers ask for GPUs each",
        partial(_containers, each=8), namespace="vision",
    ),
    Fault(
        "pending-crashing-holder", RULE, "no-crashing-holder", "Pod", "notebook-noa",
        "a crash-looping pod reserves the GPU", partial(_crashing, crashes=True), namespace="data-science",
        also=("stuck-holder",),
    ),
)  # fmt: skip
TWINS = (
    Twin("helper-beside", "its helper is on a node with free GPUs", partial(_affinity, helper_on="gpu-10")),
    Twin("containers-fit", "together they ask for as many GPUs as a node has", partial(_containers, each=4)),
    Twin("no-crashing-holder", "nobody crashes on the GPU that it needs", partial(_crashing, crashes=False)),
)
