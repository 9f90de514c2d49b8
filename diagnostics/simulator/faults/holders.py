"""Pods that hold GPUs and cannot work, and others that look so."""

from dataclasses import replace
from functools import partial

from diagnostics.simulator.faults.entry import Apply, Fault, Twin
from diagnostics.simulator.lifecycle import (
    crash_looping,
    failed,
    image_pull_failing,
    period,
    restarted,
    running,
    succeeded,
    terminating,
)
from diagnostics.simulator.templates import notebook, single, triton
from diagnostics.simulator.timestamps import HOUR, MINUTE, seconds
from diagnostics.simulator.world import World

RULE = "stuck-holder"
AGE = 45 * MINUTE
_NO_CONFIG = (
    "Traceback (most recent call last):",
    '  File "/workspace/train.py", line 41, in <module>',
    '    with open("/configs/finetune.yaml") as config:',
    "FileNotFoundError: [Errno 2] No such file or directory: '/configs/finetune.yaml'",
)


def _crash_loop(world: World, *, once: bool) -> None:
    template = single("train", 1, restart_policy="Always")
    deployment = world.add("Deployment", "speech/tts-finetune", template, age=3 * HOUR if once else AGE)
    if once:
        state = replace(restarted(world.before(2 * HOUR), 1, "Error"), log=())
    else:
        state = crash_looping(world.now, world.before(AGE), log=_NO_CONFIG)
        world.expect(RULE, deployment, "its program ends at once: a file is missing")
    world.place(deployment, world.pick_node(1), 0, state)


def _pull(world: World, *, exists: bool) -> None:
    template = single("adapter", 1, image="nvcr.io/nvidia/pytorch:24.13-py3", restart_policy="Always")
    if exists:
        template.containers[0]["image"] = "nvcr.io/nvidia/pytorch:24.10-py3"
    deployment = world.add("Deployment", "research/adapter-train", template, age=AGE)
    image = template.containers[0]["image"]
    state = None if exists else image_pull_failing(image, world.before(AGE))
    world.place(deployment, world.pick_node(1), 0, state)
    if not exists:
        world.expect(RULE, deployment, "its image does not exist")


def _terminating(world: World) -> None:
    """Deleted half an hour ago with a grace of 30 s, and still there: its process does not die."""
    asked = world.before(30 * MINUTE)
    book = world.add(
        "Pod", "data-science/notebook-kim", notebook(pool=""), age=9 * HOUR, activity="loaded-idle"
    )
    state = running(book.created + seconds(4))
    if world.now >= asked:
        state = terminating(state, asked, 30)
    world.place(book, world.pick_node(1), 0, state)
    world.expect(RULE, book, "terminating for half an hour")


def _within_grace(world: World) -> None:
    """Deleted two minutes ago with a grace of ten, to write its checkpoint; every hour another one."""
    start, turn = period(world.now, world.epoch, HOUR, 52 * MINUTE)
    template = single("train", 1, restart_policy="Always", grace_seconds=600)
    pod = world.add("Pod", f"research/preemptible-{turn}", template, created=start)
    state = running(start + seconds(4))
    asked = start + 50 * MINUTE
    if world.now >= asked:
        state = terminating(state, asked, 600)
    world.place(pod, world.pick_node(1), 0, state)


def _lost_node(world: World, *, is_evicted: bool) -> None:
    """The kubelet of a node falls silent. Its pods keep their GPUs: an old control plane marks them Unknown, a
    newer one deletes them after 5 minutes, and the kubelet that should confirm it says nothing."""
    node = world.take_spare_node(keep=2)
    since = world.before(AGE)
    path = "recsys/reranker" if is_evicted else "recsys/ranker"
    servers = world.add("Deployment", path, triton(2, pool=""), age=30 * HOUR, activity="inference")
    state = running(servers.created + seconds(4))
    if world.now >= since:
        node.lost_since = since
        state = replace(state, is_ready=False, changed=since + seconds(50))
        evicted = since + 6 * MINUTE
        if not is_evicted:
            text = f"Node {node.name} which was running pod {servers.pod_name(0)} is unresponsive"
            state = replace(state, phase="Unknown", reason="NodeLost", message=text)
        elif world.now >= evicted:
            state = terminating(state, evicted, 30)
    world.place(servers, node.name, 0, state)
    world.expect(RULE, servers, "its node is silent: it can neither work nor go")


def _ended(world: World) -> None:
    """Pods that have ended are still listed, and hold nothing."""
    template = single("sweep", 2)
    job = world.add("Job", "speech/lr-sweep", template, age=2 * HOUR, replicas=3, is_indexed=False)
    start = job.created + seconds(5)
    world.place(job, "gpu-10", 0, succeeded(start, start + 20 * MINUTE))
    world.place(job, "gpu-10", 1, succeeded(start, start + 21 * MINUTE))
    for key in (2, 3):
        world.place(job, "gpu-10", key, failed(start, start + 9 * MINUTE, 1))
    world.place(job, "gpu-10", 4, succeeded(start + 30 * MINUTE, start + 50 * MINUTE))


def _fault(slug: str, twin: str, path: str, kind: str, cause: str) -> Fault:
    namespace, name = path.split("/")
    applies: dict[str, Apply] = {
        "stuck-crash-loop": partial(_crash_loop, once=False),
        "stuck-pull": partial(_pull, exists=False),
        "stuck-terminating": _terminating,
        "stuck-unknown": partial(_lost_node, is_evicted=False),
        "stuck-unreachable": partial(_lost_node, is_evicted=True),
    }
    return Fault(slug, RULE, twin, kind, name, cause, applies[slug], namespace=namespace)


FAULTS = (
    _fault("stuck-crash-loop", "restarted-once", "speech/tts-finetune", "Deployment", "crash loop"),
    _fault("stuck-pull", "pulled-image", "research/adapter-train", "Deployment", "image pull"),
    _fault("stuck-terminating", "within-grace", "data-science/notebook-kim", "Pod", "terminating"),
    _fault("stuck-unknown", "ended-pods", "recsys/ranker", "Deployment", "node lost"),
    _fault("stuck-unreachable", "ended-pods", "recsys/reranker", "Deployment", "node lost, evicted"),
)
TWINS = (
    Twin("restarted-once", "one restart two hours ago", partial(_crash_loop, once=True)),
    Twin("pulled-image", "the image exists", partial(_pull, exists=True)),
    Twin("within-grace", "its grace period is not over", _within_grace),
    Twin("ended-pods", "succeeded or failed: they hold no GPU", _ended),
)
