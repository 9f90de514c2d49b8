"""Queues and pod groups: jobs kept back, one that is let in and finds no room, and a group that is missing."""

from functools import partial

from diagnostics.simulator.faults.entry import Twin, waiting
from diagnostics.simulator.faults.pending import fill
from diagnostics.simulator.manifests import custom
from diagnostics.simulator.templates import POOL, single, torchrun
from diagnostics.simulator.timestamps import MINUTE
from diagnostics.simulator.workloads import PodState
from diagnostics.simulator.world import World

AGE = 45 * MINUTE
PENDING = "pending-gpu-pod"
_TURN = (
    "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor h100, "
    "{} more needed"
)
_NEVER = (
    "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu in flavor h100, "
    "request > maximum capacity (32 > 16)"
)


def _kueue(world: World, *, gpus: int) -> None:
    """A suspended Job of 4 x 8 GPUs in a queue of so many, 16 of them in use."""
    template = torchrun("clip-train", 4, 8, pool="train")
    job = world.add("Job", "vision/clip-train", template, age=AGE, replicas=4, is_suspended=True)
    custom.cluster_queue(world, "vision", gpus, used=16)
    custom.local_queue(world, "vision", "vision")
    custom.kueue_workload(world, job, "vision", _NEVER if gpus < 32 else _TURN.format(48 - gpus))
    if gpus < 32:
        world.expect(PENDING, job, "its queue can never admit it")


def _in_pieces(world: World, *, leave: int) -> None:
    """A PyTorchJob that Kueue admitted; four GPUs in one pod of the pool `serve`, which has pieces."""
    fill(world, "gpu-07", leave)
    template = single("ranker", 4, labels={"kueue.x-k8s.io/queue-name": "serving"})
    template.node_selector = {POOL: "serve"}
    job = world.add("PyTorchJob", "serving/ranker-tune", template, age=AGE, replicas=1)
    custom.cluster_queue(world, "serving", 24, used=4)
    custom.local_queue(world, "serving", "serving")
    custom.kueue_workload(world, job, "serving")
    if leave < 4:
        world.queue(job)
        world.expect(PENDING, job, "admitted by the sum of quota, and no node has room")
        return
    world.run(job, ["gpu-07"])


def _volcano(world: World, *, state: str) -> None:
    """A Volcano Job in a queue that is closed, or open."""
    template = torchrun("flow", 2, 2, kind="StatefulSet")
    template.more = {"subdomain": "flow", "schedulerName": "volcano"}
    job = world.add(
        "VolcanoJob", "speech/flow-match", template, age=AGE, replicas=2, queue="speech", service_port=29500
    )
    custom.volcano_queue(world, "speech", state)
    if state == "Closed":
        world.expect(PENDING, job, "its queue is closed: it has no pods")
        return
    node = world.pick_node(4)
    world.run(job, [node, node])


def _native(world: World, *, exists: bool) -> None:
    """A pod of a native pod group; the scheduler does not look at it before the group is there."""
    template = single("shard", 1)
    template.more = {"schedulingGroup": {"podGroupName": "embed-all"}}
    pod = world.add("Pod", "research/embed-shard", template, age=AGE)
    if exists:
        custom.native_group(world, "research", "embed-all", 1)
        world.place(pod, world.pick_node(1))
        return
    world.queue(pod, 0, PodState(phase="Pending", is_ready=False))
    world.expect(PENDING, pod, "its pod group does not exist")


FAULTS = (
    waiting(
        "kueue-inadmissible",
        "kueue-turn",
        "Job",
        "vision/clip-train",
        "asks for more than its Kueue queue may give",
        partial(_kueue, gpus=16),
    ),
    waiting(
        "kueue-in-pieces",
        "kueue-on-one-node",
        "PyTorchJob",
        "serving/ranker-tune",
        "admitted by quota, in pieces on the nodes",
        partial(_in_pieces, leave=2),
    ),
    waiting(
        "volcano-queue-closed",
        "volcano-queue-open",
        "Job",
        "speech/flow-match",
        "its Volcano queue is closed",
        partial(_volcano, state="Closed"),
    ),
    waiting(
        "pod-group-missing",
        "pod-group-there",
        "Pod",
        "research/embed-shard",
        "its pod group does not exist",
        partial(_native, exists=False),
    ),
)
TWINS = (
    Twin(
        "kueue-turn",
        "its queue has 32 GPUs, of which others use 16: it waits its turn",
        partial(_kueue, gpus=32),
    ),
    Twin("kueue-on-one-node", "the four GPUs are on one node", partial(_in_pieces, leave=4)),
    Twin("volcano-queue-open", "its queue is open", partial(_volcano, state="Open")),
    Twin("pod-group-there", "its pod group exists", partial(_native, exists=True)),
)
