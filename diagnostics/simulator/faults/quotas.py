"""Queues that let a job in no more: full, too small for it, or stopped; and pod groups of too few pods."""

from functools import partial

from diagnostics.simulator.faults.entry import Twin, waiting
from diagnostics.simulator.manifests import custom
from diagnostics.simulator.templates import single, torchrun
from diagnostics.simulator.timestamps import MINUTE, seconds
from diagnostics.simulator.workloads import PodState
from diagnostics.simulator.world import Note, World

AGE = 45 * MINUTE
PENDING = "pending-gpu-pod"
UNSEEN = PodState(phase="Pending", is_ready=False)
"""No scheduler has said a word about it."""


def _volcano(world: World, name: str, *, most: int, used: int, cause: str = "") -> None:
    """A Volcano Job of 2 x 2 GPUs in a queue that may use so many, and uses some."""
    template = torchrun(name, 2, 2, kind="StatefulSet")
    template.more = {"subdomain": name, "schedulerName": "volcano"}
    job = world.add(
        "VolcanoJob", f"video/{name}", template, age=AGE, replicas=2, queue=name, service_port=29500
    )
    custom.volcano_queue(world, name, most=most, used=used)
    if cause:
        world.expect(PENDING, job, cause)
        return
    node = world.pick_node(4)
    world.run(job, [node, node])


def _kueue(world: World, name: str, *, stop: str = "", is_active: bool = True) -> None:
    """A suspended Job of 8 GPUs, of which its queue has 32 and has given 28."""
    template = torchrun(name, 1, 8, pool="train")
    job = world.add("Job", f"video/{name}", template, age=AGE, replicas=1, is_suspended=True)
    custom.cluster_queue(world, name, 32, used=28, stop=stop)
    custom.local_queue(world, "video", name)
    said = "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor h100, "
    said += "4 more needed"
    if stop:
        said = f"ClusterQueue {name} is inactive"
    custom.kueue_workload(world, job, name, said, is_active=is_active)
    if stop or not is_active:
        world.expect(PENDING, job, "its queue is stopped" if stop else "somebody took it out of its queue")


def _native(world: World, *, least: int) -> None:
    """Two pods of a native pod group, which starts from so many on."""
    template = single("slice", 1)
    template.more = {"schedulingGroup": {"podGroupName": "sweep-all"}}
    job = world.add("Job", "research/sweep-slices", template, age=AGE, replicas=2)
    custom.native_group(world, "research", "sweep-all", least)
    if least <= 2:
        node = world.pick_node(2)
        world.run(job, [node, node])
        return
    for index in range(2):
        world.queue(job, index, UNSEEN)
    world.expect(PENDING, job, "its pod group waits for pods that nobody makes")


def _yunikorn(world: World, *, fits: bool) -> None:
    """A pod that YuniKorn places: its events alone tell of a queue that is full."""
    template = single("encode", 2, labels={"applicationId": "encode", "queue": "root.audio"})
    template.more = {"schedulerName": "yunikorn"}
    pod = world.add("Pod", "audio/encode-batch", template, age=AGE)
    if fits:
        world.place(pod, world.pick_node(2))
        return
    world.queue(pod, 0, UNSEEN)
    uid = world.pods[-1].uid
    said = f"Request '{uid}' does not fit in queue 'root.audio' (requested map[cpu:16000 nvidia.com/gpu:2 pods:1], "
    said += "available map[cpu:64000 nvidia.com/gpu:0 pods:90])"
    first = pod.created + seconds(2)
    world.notes.append(
        Note(
            "Pod", "audio", pod.pod_name(0), uid, "v1", "Informational", said, "yunikorn", first,
            max(first, world.now.replace(second=0)), count=1 + (world.now - first) // MINUTE, type="Normal",
        )
    )  # fmt: skip
    world.expect(PENDING, pod, "its YuniKorn queue is full")


FAULTS = (
    waiting(
        "volcano-queue-full", "volcano-queue-room", "Job", "video/upscale", "its queue uses all that it may use",
        partial(_volcano, name="upscale", most=8, used=6, cause="its queue uses all that it may use"),
    ),
    waiting(
        "volcano-job-too-large", "volcano-job-within", "Job", "video/denoise", "asks for more than its queue may use",
        partial(_volcano, name="denoise", most=2, used=0, cause="asks for more than its queue may use"),
    ),
    waiting(
        "kueue-queue-stopped", "kueue-queue-running", "Job", "video/caption", "its queue is stopped",
        partial(_kueue, name="caption", stop="Hold"),
    ),
    waiting(
        "kueue-deactivated", "kueue-active", "Job", "video/deflicker", "somebody took it out of its queue",
        partial(_kueue, name="deflicker", is_active=False),
    ),
    waiting(
        "pod-group-too-small", "pod-group-whole", "Job", "research/sweep-slices", "its pod group has too few pods",
        partial(_native, least=4),
    ),
    waiting(
        "yunikorn-queue-full", "yunikorn-queue-room", "Pod", "audio/encode-batch", "its YuniKorn queue is full",
        partial(_yunikorn, fits=False),
    ),
)  # fmt: skip
TWINS = (
    Twin("volcano-queue-room", "its queue uses less", partial(_volcano, name="upscale", most=8, used=4)),
    Twin(
        "volcano-job-within", "its queue may use as much", partial(_volcano, name="denoise", most=4, used=0)
    ),
    Twin("kueue-queue-running", "its queue runs: it waits its turn", partial(_kueue, name="caption")),
    Twin("kueue-active", "it is in its queue: it waits its turn", partial(_kueue, name="deflicker")),
    Twin("pod-group-whole", "its pod group starts from two pods on", partial(_native, least=2)),
    Twin("yunikorn-queue-room", "its queue has room", partial(_yunikorn, fits=True)),
)
