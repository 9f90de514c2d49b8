"""GPU pods that the kubelet evicts for the disk they fill, and others that end for another reason."""

from dataclasses import replace
from functools import partial

from diagnostics.simulator.faults.entry import Fault, Twin
from diagnostics.simulator.lifecycle import failed
from diagnostics.simulator.templates import single
from diagnostics.simulator.timestamps import HOUR, MINUTE, seconds
from diagnostics.simulator.world import World

RULE = "storage-eviction"
AGE, ENDED = 3 * HOUR, 20 * MINUTE

# (name, reason and message of the pod's status)
CASES = {
    "evicted-volume": ("asr-train", "Evicted", 'Usage of EmptyDir volume "cache" exceeds the limit "50Gi". '),
    "evicted-limit": (
        "tts-train",
        "Evicted",
        'Container tts-train exceeded its local ephemeral storage limit "100Gi". ',
    ),
    "evicted-disk": (
        "vad-train",
        "Evicted",
        "The node was low on resource: ephemeral-storage. Threshold quantity: 53687091200, available: "
        "48131Mi. Container "
        "vad-train was using 211Gi, request is 0, has larger consumption of ephemeral-storage. ",
    ),
    "admitted-other": ("kws-train", "Preempting", "Preempted in order to admit critical pod"),
}


def _ended(world: World, *, slug: str) -> None:
    name, reason, message = CASES[slug]
    template = single(name, 1)
    template.volumes = [{"name": "cache", "emptyDir": {"sizeLimit": "50Gi"}}]
    template.app["volumeMounts"] = [{"name": "cache", "mountPath": "/cache"}]
    job = world.add("Job", f"audio/{name}", template, age=AGE, is_indexed=False)
    state = failed(job.created + seconds(4), world.before(ENDED), 137)
    world.place(job, world.pick_node(1), 0, replace(state, reason=reason, message=message))
    if reason == "Evicted":
        world.expect(RULE, job, "local disk space")


FAULTS = tuple(
    Fault(slug, RULE, "admitted-other", "Job", name, "local disk space", partial(_ended, slug=slug), "audio")
    for slug, (name, reason, _) in CASES.items()
    if reason == "Evicted"
)
TWINS = (
    Twin(
        "admitted-other",
        "the kubelet ended it for another pod, not for space",
        partial(_ended, slug="admitted-other"),
    ),
)
