"""Workloads whose pods the API server refuses to make: no pod exists, and only their controller complains."""

from functools import partial

from diagnostics.simulator.faults.entry import Fault, Twin
from diagnostics.simulator.templates import single
from diagnostics.simulator.timestamps import HOUR, MINUTE
from diagnostics.simulator.workloads import PodTemplate
from diagnostics.simulator.world import Note, World

RULE = "pending-gpu-pod"
AGE = 45 * MINUTE


def _job(world: World, path: str, template: PodTemplate, refusal: str, cause: str) -> None:
    """A Job of one pod, which runs unless there is a refusal."""
    job = world.add("Job", path, template, age=AGE, is_indexed=False)
    if not refusal:
        world.run(job, ["gpu-10"])
        return
    count = max(1, (world.now - job.created) // (6 * MINUTE))
    message = f'Error creating: pods "{job.pod_name(0)}" is forbidden: {refusal}'
    world.notes.append(
        Note(
            "Job", job.namespace, job.name, job.uid, "batch/v1", "FailedCreate", message, "job-controller",
            job.created, job.created + count * 6 * MINUTE, count,
        )
    )  # fmt: skip
    world.expect(RULE, job, cause)


def _quota(world: World, cores: int) -> None:
    """The quota is about CPU: another job of the namespace uses half of it."""
    before = world.add("Job", "speech/align", single("align", 1), age=5 * HOUR, is_indexed=False)
    world.run(before, [world.pick_node(1)])
    world.quotas["speech"] = {"pods": "50", "requests.cpu": str(cores)}
    refusal = ""
    if cores < 24:
        refusal = (
            "exceeded quota: team, requested: requests.cpu=16, used: requests.cpu=8, limited: requests.cpu="
        )
        refusal += str(cores)
    _job(world, "speech/tts-train", single("tts", 2), refusal, "the namespace's quota of CPU is used up")


def _limit(world: World, memory: str) -> None:
    world.quotas["recsys"] = {"pods": "50"}
    is_large = memory == "1800Gi"
    refusal = f"maximum memory usage per Container is 1500Gi, but limit is {memory}" if is_large else ""
    template = single("embed", 1, memory=memory)
    _job(world, "recsys/embed-train", template, refusal, "asks for more memory than the limit range allows")


def _named(world: World, *, field: str, name: str, path: str, refusal: str) -> None:
    template = single("tune", 1)
    template.more = {field: name}
    _job(world, path, template, refusal, "names a class that does not exist")


_PRIORITY = partial(_named, field="priorityClassName", path="vision/urgent-tune")
_RUNTIME = partial(_named, field="runtimeClassName", path="research/legacy-tune")


def _fault(slug: str, twin: str, path: str, cause: str, apply: partial[None], *also: str) -> Fault:
    namespace, name = path.split("/")
    return Fault(slug, RULE, twin, "Job", name, cause, apply, namespace=namespace, also=also)


FAULTS = (
    _fault("quota-of-cpu", "quota-with-room", "speech/tts-train", "quota", partial(_quota, cores=16)),
    _fault("limit-range", "within-limits", "recsys/embed-train", "limit range", partial(_limit, memory="1800Gi")),
    _fault(
        "priority-class-missing", "priority-class-exists", "vision/urgent-tune", "priority class missing",
        partial(_PRIORITY, name="training-urgent",
                refusal="no PriorityClass with name training-urgent was found"),
    ),
    _fault(
        "runtime-class-missing", "runtime-class-exists", "research/legacy-tune", "runtime class missing",
        partial(_RUNTIME, name="nvidia-legacy", refusal='pod rejected: RuntimeClass "nvidia-legacy" not found'),
    ),
)  # fmt: skip
TWINS = (
    Twin("quota-with-room", "the quota has room for it", partial(_quota, cores=64)),
    Twin("within-limits", "asks for as much as the limit range allows", partial(_limit, memory="1400Gi")),
    Twin("priority-class-exists", "names a class that exists", partial(_PRIORITY, name="training-high", refusal="")),
    Twin("runtime-class-exists", "names a class that exists", partial(_RUNTIME, name="nvidia", refusal="")),
)  # fmt: skip
