"""Pods that no node is found for: each for another reason, some of which are no shortage of GPUs."""

from collections.abc import Callable
from functools import partial

from diagnostics.simulator.baseline import DEDICATED
from diagnostics.simulator.faults.entry import Fault, Twin
from diagnostics.simulator.lifecycle import gated, period, running, unschedulable
from diagnostics.simulator.templates import POOL, notebook, single, triton
from diagnostics.simulator.timestamps import HOUR, MINUTE
from diagnostics.simulator.workloads import PodTemplate
from diagnostics.simulator.world import World

AGE = 45 * MINUTE


def fill(world: World, node: str, leave: int) -> None:
    """Busy one-GPU workloads until the node has this many GPUs left."""
    home = world.nodes[node]
    is_dev = home.pool == "dev"
    for index in range(len(home.free) - leave):
        name = f"{'notebook-guest' if is_dev else 'scorer'}-{node}-{index}"
        template = notebook() if is_dev else triton()
        filler = world.add(
            "StatefulSet" if is_dev else "Deployment",
            f"{'data-science' if is_dev else 'serving'}/{name}",
            template,
            age=6 * HOUR,
            activity="notebook" if is_dev else "inference",
        )
        world.run(filler, [node])


def _bare(world: World, path: str, template: PodTemplate, cause: str) -> None:
    """A pod without an owner that waits since AGE."""
    pod = world.add("Pod", path, template, age=AGE)
    world.queue(pod)
    world.expect("pending-gpu-pod", pod, cause)


def _no_capacity(world: World) -> None:
    fill(world, "gpu-09", 0)
    book = world.add("StatefulSet", "data-science/notebook-mia", notebook(), age=AGE, activity="notebook")
    world.queue(book)
    world.expect("pending-gpu-pod", book, "every GPU of the pool is taken")


def _short_wait(world: World) -> None:
    """The pool is as full, but GPUs come free all the time: nobody waits longer than four minutes."""
    fill(world, "gpu-09", 1)
    start, turn = period(world.now, world.epoch, 20 * MINUTE, MINUTE)
    waits = world.now - start < 4 * MINUTE
    if waits:
        earlier = world.add(
            "Pod",
            f"data-science/smoke-test-{turn - 1}",
            notebook(),
            created=start - 16 * MINUTE,
            activity="training",
        )
        world.place(earlier, "gpu-09")
    pod = world.add("Pod", f"data-science/smoke-test-{turn}", notebook(), created=start, activity="training")
    if waits:
        world.queue(pod)
    else:
        world.place(pod, "gpu-09", 0, running(start + 4 * MINUTE))


def _fragmented(world: World, *, leave: int) -> None:
    """Four GPUs are asked for in the pool `serve`, where 2 + `leave` are free on two nodes."""
    fill(world, "gpu-07", leave)
    template = triton(4)
    if leave < 4:
        _bare(world, "serving/llava-server", template, "enough GPUs are free, but not on one node")
        return
    server = world.add("Pod", "serving/llava-server", template, age=AGE, activity="inference")
    world.place(server, "gpu-07")


def _too_large(world: World, gpus: int) -> None:
    template = single("merge", gpus, memory="1000Gi")
    template.containers[0]["resources"]["requests"]["cpu"] = "64"
    template.node_selector = {POOL: "train"}
    if gpus > 8:
        _bare(world, "research/merge-weights", template, "asks for more GPUs than any node has")
        return
    world.place(world.add("Pod", "research/merge-weights", template, age=AGE), "gpu-03")


def _untolerated(world: World, *, tolerates: bool) -> None:
    template = single("rollout", 1)
    template.node_selector = {POOL: "robotics"}
    if tolerates:
        template.tolerations = [*template.tolerations, DEDICATED]
        world.place(world.add("Pod", "robotics/rollout", template, age=AGE), "gpu-12")
        return
    _bare(world, "robotics/rollout", template, "does not tolerate the taint of the nodes it selects")


def _selector(world: World, product: str) -> None:
    template = single("distil", 1)
    template.node_selector = {"nvidia.com/gpu.product": product}
    if product.endswith("HBM3"):
        world.place(world.add("Pod", "speech/distil", template, age=AGE), "gpu-10")
        return
    _bare(world, "speech/distil", template, "selects a GPU product that no node has")


def _gate(world: World, *, is_gated: bool) -> None:
    template = single("queued", 1)
    pod = world.add("Pod", "vision/queued-train", template, age=AGE)
    if not is_gated:
        world.place(pod, "gpu-10")
        return
    template.more = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}
    world.queue(pod, 0, gated())
    world.expect("pending-gpu-pod", pod, "held back by a scheduling gate: no shortage of GPUs")


def _claim(world: World, *, exists: bool) -> None:
    template = single("imagenet", 1)
    claim = {"claimName": "imagenet-2012"}
    pod = world.add("Pod", "vision/imagenet-train", template, age=AGE)
    if exists:
        template.volumes = [{"name": "data", "emptyDir": {"sizeLimit": "500Gi"}}]
        world.place(pod, "gpu-10")
        return
    template.volumes = [{"name": "data", "persistentVolumeClaim": claim}]
    world.queue(pod, 0, unschedulable())
    world.expect("pending-gpu-pod", pod, "its volume claim does not exist: no shortage of GPUs")


def _fault(
    slug: str, twin: str, path: str, cause: str, apply: Callable[[World], None], kind: str = "Pod"
) -> Fault:
    namespace, name = path.split("/")
    return Fault(slug, "pending-gpu-pod", twin, kind, name, cause, apply, namespace=namespace)


FAULTS = (
    _fault(
        "pending-no-capacity",
        "short-wait",
        "data-science/notebook-mia",
        "no capacity",
        _no_capacity,
        "StatefulSet",
    ),
    _fault(
        "pending-fragmented",
        "unfragmented",
        "serving/llava-server",
        "fragmented",
        partial(_fragmented, leave=2),
    ),
    _fault(
        "pending-too-large",
        "whole-node",
        "research/merge-weights",
        "larger than any node",
        lambda world: _too_large(world, 2 * world.config.gpus_per_node),
    ),
    _fault(
        "pending-untolerated-taint",
        "tolerated-taint",
        "robotics/rollout",
        "untolerated taint",
        partial(_untolerated, tolerates=False),
    ),
    _fault(
        "pending-selector",
        "matching-selector",
        "speech/distil",
        "selector matches no node",
        partial(_selector, product="NVIDIA-H100-80GB"),
    ),
    _fault(
        "pending-gate", "ungated", "vision/queued-train", "scheduling gate", partial(_gate, is_gated=True)
    ),
    _fault(
        "pending-claim-missing",
        "claim-present",
        "vision/imagenet-train",
        "volume claim missing, not a GPU shortage",
        partial(_claim, exists=False),
    ),
)
TWINS = (
    Twin("short-wait", "waits for one minute only", _short_wait),
    Twin("unfragmented", "the four free GPUs are on one node", partial(_fragmented, leave=4)),
    Twin("whole-node", "asks for as many GPUs as a node has", partial(_too_large, gpus=8)),
    Twin("tolerated-taint", "tolerates the taint", partial(_untolerated, tolerates=True)),
    Twin(
        "matching-selector",
        "selects the product that the nodes have",
        partial(_selector, product="NVIDIA-H100-80GB-HBM3"),
    ),
    Twin("ungated", "has no gate", partial(_gate, is_gated=False)),
    Twin("claim-present", "brings its own volume", partial(_claim, exists=True)),
)
