"""Gang scheduling: a gang that does not fit, a job that nothing starts as a whole, and sets that are well."""

from functools import partial

from diagnostics.simulator.faults.entry import Twin, waiting
from diagnostics.simulator.lifecycle import unschedulable
from diagnostics.simulator.manifests import custom
from diagnostics.simulator.templates import torchrun
from diagnostics.simulator.timestamps import MINUTE
from diagnostics.simulator.workloads import PodState, PodTemplate, Workload
from diagnostics.simulator.world import World

AGE = 45 * MINUTE
PENDING = "pending-gpu-pod"
GANG, ROOM = 4, 2
"""Pods of the large gang, of which so many fit the node that all of them ask for."""


def _on_one_node(name: str, pods: int, gpus: int, node: str, scheduler: str = "") -> PodTemplate:
    """The data is on that node."""
    template = torchrun(name, pods, gpus, kind="StatefulSet")
    template.node_selector = {"kubernetes.io/hostname": node}
    if scheduler:
        template.more = {"subdomain": name, "schedulerName": scheduler}
    return template


def _gang(world: World, name: str, pods: int, gpus: int, fits: int) -> Workload:
    """A Volcano Job, where so many of its pods would fit: Volcano starts all of them or none."""
    node = world.pick_node(8)
    job = world.add(
        "VolcanoJob",
        f"robotics/{name}",
        _on_one_node(name, pods, gpus, node, "volcano"),
        age=AGE,
        replicas=pods,
        queue="robotics",
        service_port=29500,
    )
    custom.volcano_queue(world, "robotics")
    if pods <= fits:
        return world.run(job, [node] * pods)
    nodes = len(world.nodes)
    words = (
        f"pod group is not ready, {pods} Pending, {pods} minAvailable; Pending: {pods - fits} Unschedulable, {fits} "
        f"Schedulable. Origin reason is {name}-worker-{pods - 1}: 0/{nodes} nodes are unavailable: 1 Insufficient "
        f"nvidia.com/gpu, {nodes - 1} node(s) didn't match Pod's node affinity/selector."
    )
    waits = PodState(phase="Pending", is_ready=False, unscheduled="Unschedulable", unscheduled_message=words)
    for index in range(pods):
        world.queue(job, index, waits)
    return job


def _large_gang(world: World, *, pods: int) -> None:
    job = _gang(world, "grasp-train", pods, 3, ROOM)
    if pods > ROOM:
        world.expect(PENDING, job, "the free GPUs take two of its four pods, and it starts as a whole")


def _one_by_one(world: World) -> None:
    """Two pods of 5 GPUs that ask for the same node of 8, and nothing starts them together."""
    node = world.pick_node(5)
    job = world.add(
        "PyTorchJob",
        "robotics/policy-ddp",
        _on_one_node("policy-ddp", 2, 5, node),
        age=AGE,
        replicas=2,
        service_port=29500,
        activity="rendezvous",
    )
    world.place(job, node, 0)
    world.queue(job, 1, unschedulable())
    world.expect("no-gang-scheduling", job, "placed pod by pod: one of two holds GPUs and waits")


def _as_a_whole(world: World) -> None:
    _gang(world, "policy-ddp", 2, 5, 1)


def _sets(world: World) -> None:
    """A JobSet and a LeaderWorkerSet, whole and well."""
    jobs = torchrun("dlrm", 2, 2, kind="StatefulSet")
    job_set = world.add("JobSet", "recsys/dlrm", jobs, age=AGE, replicas=2, service_port=29500)
    server = torchrun("deepseek", 2, 2, kind="StatefulSet")
    groups = world.add(
        "LeaderWorkerSet",
        "serving/deepseek",
        server,
        age=AGE,
        replicas=4,
        group_size=2,
        activity="inference",
        service_port=8000,
    )
    world.run(job_set, [world.pick_node(4)] * 2)
    world.run(groups, [world.pick_node(8)] * 4)


FAULTS = (
    waiting(
        "gang-does-not-fit",
        "small-gang",
        "Job",
        "robotics/grasp-train",
        "the gang does not fit as a whole",
        partial(_large_gang, pods=GANG),
    ),
    waiting(
        "no-gang-scheduling",
        "gang-scheduled",
        "PyTorchJob",
        "robotics/policy-ddp",
        "placed pod by pod",
        _one_by_one,
        rule="no-gang-scheduling",
        also=("partial-gang", PENDING),
    ),
)
TWINS = (
    Twin("small-gang", "its two pods fit", partial(_large_gang, pods=ROOM)),
    Twin("gang-scheduled", "Volcano starts all of its pods or none", _as_a_whole, also=(PENDING,)),
    Twin("whole-sets", "a JobSet and a LeaderWorkerSet of which every pod runs", _sets),
)
