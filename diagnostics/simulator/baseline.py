"""The healthy life of the cluster, half of its GPUs: training, serving, notebooks, batch, and what has ended."""

from datetime import timedelta

from diagnostics.simulator import lifecycle
from diagnostics.simulator.claims import ZONE
from diagnostics.simulator.templates import cpu_only, notebook, server, single, torchrun, triton
from diagnostics.simulator.timestamps import DAY, HOUR, MINUTE
from diagnostics.simulator.workloads import PodTemplate, Workload
from diagnostics.simulator.world import World

DEDICATED = {"key": "dedicated", "operator": "Equal", "value": "robotics", "effect": "NoSchedule"}


def deploy(world: World) -> None:
    """Free afterwards: gpu-03, 04, 10 and 11 wholly, gpu-06 and gpu-08 2, gpu-07 and gpu-12 4, gpu-09 5 GPUs."""
    _training(world)
    _serving(world)
    _interactive(world)
    _ended(world)
    _stores(world)
    platform(world)


def gang(world: World, path: str, pods: int, gpus: int, *, pool: str, age: timedelta) -> Workload:
    """A training Job, its pods not placed yet."""
    template = torchrun(path.split("/")[1], pods, gpus, pool=pool)
    return world.add("Job", path, template, age=age, replicas=pods, service_port=29500)


def _training(world: World) -> None:
    pretrain = gang(world, "research/llm-pretrain", 2, 8, pool="train", age=3 * DAY)
    world.run(pretrain, ["gpu-01", "gpu-02"])
    world.run(gang(world, "vision/seg-train", 3, 2, pool="batch", age=9 * HOUR), ["gpu-08"] * 3)
    recsys = world.add("Job", "recsys/two-tower", single("train", 4), age=26 * HOUR, is_indexed=False)
    world.run(recsys, ["gpu-07"])
    robotics = single("policy", 4)
    robotics.tolerations.append(DEDICATED)
    robotics.node_selector = {"example.com/pool": "robotics"}
    world.run(world.add("Job", "robotics/policy-train", robotics, age=5 * HOUR, is_indexed=False), ["gpu-12"])


def _serving(world: World) -> None:
    chat = world.add(
        "Deployment",
        "serving/chat",
        server("meta-llama/Llama-3.1-70B-Instruct", 4, annotations={"prometheus.io/scrape": "true"}),
        age=12 * DAY,
        replicas=2,
        activity="inference",
        service_port=8000,
    )
    world.run(chat, ["gpu-05", "gpu-05"])
    embed = world.add(
        "Deployment",
        "serving/embed",
        triton(),
        age=20 * DAY,
        replicas=4,
        activity="inference",
        service_port=8000,
    )
    world.run(embed, ["gpu-06"] * 4)
    # Independent servers under a StatefulSet: several GPU pods of one owner, and no collective job.
    rerank = world.add(
        "StatefulSet",
        "serving/rerank",
        triton(),
        age=8 * DAY,
        replicas=2,
        activity="inference",
        service_port=8000,
    )
    world.run(rerank, ["gpu-06", "gpu-06"])


def _interactive(world: World) -> None:
    for person in ("ana", "ben", "chloe"):
        book = world.add(
            "StatefulSet", f"data-science/notebook-{person}", notebook(), age=2 * DAY, activity="notebook"
        )
        world.run(book, ["gpu-09"])


def _ended(world: World) -> None:
    """Completed and failed pods, which hold nothing."""
    evaluation = world.add(
        "Job",
        "research/eval-mmlu-29934150",
        single("eval", 1, labels={"app": "eval-mmlu"}),
        age=7 * HOUR,
        replicas=3,
        is_indexed=False,
        cron_schedule="30 2 * * *",
    )
    start = evaluation.created + MINUTE
    for key in range(3):
        done = lifecycle.succeeded(start, start + (31 + key) * MINUTE)
        world.place(evaluation, "gpu-03", key, done)


def _stores(world: World) -> None:
    """Bound volumes, and a quota with room left."""
    world.claim("research/checkpoints", "shared-files", age=30 * DAY, size="20Ti")
    world.claim("serving/models", "shared-files", age=30 * DAY, size="4Ti")
    world.claim("vision/scratch", "fast-block", age=9 * DAY, zone=ZONE)
    world.quotas["data-science"] = {"pods": "50", "requests.nvidia.com/gpu": "24"}


def platform(world: World) -> None:
    """Pods without a GPU."""
    quiet: list[tuple[str, PodTemplate, list[str]]] = [
        ("kube-system/coredns", cpu_only("coredns", memory="170Mi", cpu="100m"), ["gpu-01", "gpu-05"]),
        ("monitoring/grafana", cpu_only("grafana", memory="1Gi", cpu="200m"), ["gpu-07"]),
        ("serving/gateway", cpu_only("gateway", memory="4Gi", cpu="2"), ["gpu-06", "gpu-07"]),
    ]
    for path, template, nodes in quiet:
        world.run(
            world.add("Deployment", path, template, age=39 * DAY, replicas=len(nodes), activity="none"), nodes
        )


def fill_up(world: World, pods: int) -> None:
    """Healthy gangs on whole nodes beyond the first twelve, until the cluster has this many pods."""
    missing = pods - len(world.pods)
    homes = list(world.nodes)[12:]
    if missing < 0:
        raise ValueError(
            f"{len(world.nodes)} nodes have {len(world.pods)} pods by themselves, more than {pods}"
        )
    if missing and not homes:
        raise ValueError("more pods need more than twelve nodes")
    teams = ("research", "vision", "speech", "recsys", "data-science")
    for place, home in enumerate(homes):
        count = missing // len(homes) + (place < missing % len(homes))
        if not count:
            continue
        free = len(world.nodes[home].free)
        if count > max(free, 1) * 10:
            raise ValueError(
                f"{pods} pods on {len(world.nodes)} nodes are too many: at most {free * 10} more a node"
            )
        each = free // count
        name = f"run-{place:04d}"
        template = torchrun(name, count, each) if each else cpu_only("preprocess", memory="4Gi", cpu="1")
        job = world.add(
            "Job",
            f"{teams[place % len(teams)]}/{name}",
            template,
            age=(2 + place % 40) * HOUR,
            replicas=count,
            activity="training" if each else "none",
            service_port=29500 if each else 0,
        )
        world.run(job, [home] * count)
