"""What is well: training, serving by the hours of the day, notebooks that stay overnight, and a nightly evaluation."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache, partial
from random import Random

from diagnostics.simulator import lifecycle
from diagnostics.simulator.baseline import DEDICATED, gang
from diagnostics.simulator.month import deeds
from diagnostics.simulator.month.demand import Doings
from diagnostics.simulator.templates import notebook, server, single, triton
from diagnostics.simulator.timestamps import DAY, MINUTE, seconds
from diagnostics.simulator.week.calendar import FRI, MON, SUN, THU, TUE, WED, Span, monday
from diagnostics.simulator.workloads import PodTemplate
from diagnostics.simulator.world import World

WORKDAYS = (True,) * 5 + (False,) * 2
_LLAMA = "meta-llama/Llama-3.1-70B-Instruct"


@dataclass(frozen=True)
class Part:
    apply: Callable[[World], None]
    """Dates what it adds from the world's epoch, at which its turn began."""
    spans: tuple[Span, ...] = ()
    """Each turn has new objects; without spans the same ones are always there, from before the world's epoch."""


def _pretrain(world: World) -> None:
    name = f"research/llm-{world.epoch:%m%d}"
    job = gang(world, name, 2, 8, pool="train", age=timedelta())
    job.activity = _warming(world, "training")
    world.run(job, ["gpu-01", "gpu-02"])


def _segmentation(world: World) -> None:
    job = gang(world, "vision/seg-train", 3, 2, pool="batch", age=timedelta())
    job.activity = _warming(world, "training")
    world.run(job, ["gpu-08"] * 3)


def _warming(world: World, then: str) -> str:
    """Ranks find each other, load their data, and train."""
    age = world.now - world.epoch
    return "rendezvous" if age < 2 * MINUTE else "loading" if age < 12 * MINUTE else then


def _recommendation(world: World) -> None:
    """Waits for its data most of the time."""
    name = f"recsys/two-tower-{world.epoch:%m%d}"
    template = single("train", 4)
    activity = _warming(world, "starved")
    job = world.add("Job", name, template, age=timedelta(), is_indexed=False, activity=activity)
    world.run(job, ["gpu-07"])


def _policy(world: World) -> None:
    template = single("policy", 4)
    template.tolerations.append(DEDICATED)
    template.node_selector = {"example.com/pool": "robotics"}
    name = f"robotics/policy-{world.epoch:%m%d}"
    activity = _warming(world, "training")
    job = world.add("Job", name, template, age=timedelta(), is_indexed=False, activity=activity)
    world.run(job, ["gpu-12"])


def _served(world: World, *, path: str, kind: str, node: str, pods: int, sleeps: bool) -> None:
    """Servers that follow the hours of the day; `sleeps`: nobody calls in the small hours."""
    template: PodTemplate = server(_LLAMA, 4) if path == "serving/chat" else triton()
    if path == "serving/chat":
        template.annotations = {"prometheus.io/scrape": "true"}
    activity = _doing(_load(world.config.seed, path, sleeps), world.now)
    servers = world.add(
        kind, path, template, age=12 * DAY, replicas=pods, activity=activity, service_port=8000
    )
    world.run(servers, [node] * pods)


def _book(world: World, *, person: str) -> None:
    """Worked with from nine to six; nobody stops it when going home."""
    start = monday(world.now)
    activity = _doing(_cells(world.config.seed, person, start), world.now)
    book = world.add(
        "StatefulSet", f"data-science/notebook-{person}", notebook(), age=2 * DAY, activity=activity
    )
    world.run(book, ["gpu-09"])


@lru_cache(maxsize=64)
def _load(seed: int, path: str, sleeps: bool) -> Doings:
    return deeds.serving(Random(f"{seed} {path}"), WORKDAYS, sleeps=sleeps)


@lru_cache(maxsize=64)
def _cells(seed: int, person: str, start: datetime) -> Doings:
    doings = deeds.notebook(Random(f"{seed} {person} {start}"), WORKDAYS)(0, 168 * 3600)
    return tuple((at, "thinking" if what == "empty" else what) for at, what in doings)


def _doing(doings: Doings, now: datetime) -> str:
    at = int((now - monday(now)) / seconds(1))
    return doings[max(0, bisect_right([start for start, _ in doings], at) - 1)][1]


def _evaluation(world: World) -> None:
    """Half an hour every night; its pods stay listed until the next evening, and hold nothing."""
    name = f"research/eval-mmlu-{int(world.epoch.timestamp()) // 60}"
    template = single("eval", 1, labels={"app": "eval-mmlu"})
    job = world.add(
        "Job",
        name,
        template,
        age=timedelta(),
        replicas=2,
        is_indexed=False,
        cron_schedule="30 2 * * *",
    )
    begun = world.epoch + seconds(4)
    for key in range(2):
        ended = begun + (31 + key) * MINUTE
        pod = world.place(job, "gpu-14", key)
        if world.now >= ended:
            # Placed as one that runs, so that nobody else is given its GPU in the meantime.
            world.pods[-1] = replace(pod, state=lifecycle.succeeded(begun, ended))


def _days(hours: Sequence[int], start_h: float, length_h: float) -> tuple[Span, ...]:
    return tuple(Span(day + start_h, length_h) for day in hours)


_EVERY_DAY = (MON, TUE, WED, THU, FRI, FRI + 24, SUN)

PARTS = (
    Part(_pretrain, (Span(MON + 8, 158),)),
    Part(_segmentation, (Span(MON + 10, 168),)),
    Part(_recommendation, (Span(MON + 9, 40), Span(WED + 9, 40), Span(FRI + 9, 55))),
    Part(_policy, _days((MON, TUE, WED, THU, FRI), 9.2, 11.5)),
    Part(
        partial(_served, path="serving/chat", kind="Deployment", node="gpu-05", pods=2, sleeps=True),
    ),
    Part(
        partial(_served, path="serving/embed", kind="Deployment", node="gpu-06", pods=4, sleeps=False),
    ),
    # Independent servers under a StatefulSet: several GPU pods of one owner, and no collective job.
    Part(
        partial(_served, path="serving/rerank", kind="StatefulSet", node="gpu-06", pods=2, sleeps=False),
    ),
    *(Part(partial(_book, person=person)) for person in ("ana", "ben", "chloe")),
    Part(_evaluation, _days(_EVERY_DAY, 2.5, 20)),
)
