"""Jobs that come and go on two nodes: scripts and sweeps of a working day, and what runs through the night."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from random import Random

from diagnostics.simulator import lifecycle
from diagnostics.simulator.baseline import gang
from diagnostics.simulator.month import deeds
from diagnostics.simulator.month.demand import Doings
from diagnostics.simulator.templates import single
from diagnostics.simulator.timestamps import DAY, HOUR, MINUTE, seconds
from diagnostics.simulator.week.calendar import ZERO
from diagnostics.simulator.workloads import SimPod
from diagnostics.simulator.world import World

LINGERS = 30 * MINUTE
"""The pods of a Job that has ended stay listed for this long."""
FAILS = 1 / 12


@dataclass(frozen=True)
class Lane:
    """A few GPUs of one node, on which one job follows the other."""

    node: str
    first: int
    gpus: int
    path: str
    pods: int = 1

    @property
    def is_gang(self) -> bool:
        return self.pods > 1


LANES = (
    Lane("gpu-15", 0, 1, "speech/asr"),
    Lane("gpu-15", 1, 1, "nlp/rag-eval"),
    Lane("gpu-15", 2, 2, "speech/sweep"),
    Lane("gpu-15", 4, 4, "vision/detect", pods=2),
    Lane("gpu-16", 0, 2, "recsys/ranker"),
    Lane("gpu-16", 2, 2, "nlp/tagger"),
    Lane("gpu-16", 4, 4, "vision/depth", pods=4),
)


@dataclass(frozen=True)
class Visit:
    """One job of a lane. Times count from the day's midnight, UTC."""

    start: timedelta
    end: timedelta
    is_failed: bool
    doings: Doings


def deploy(world: World) -> None:
    """The jobs of today and of last night. Their nodes are nobody else's."""
    today = int((world.now - ZERO) / DAY)
    for lane in LANES:
        for day in (today - 1, today):
            for number, visit in enumerate(visits(world.config.seed, lane, day)):
                begun = ZERO + day * DAY + visit.start
                if begun <= world.now < ZERO + day * DAY + visit.end + LINGERS:
                    _add(world, lane, visit, f"{begun:%m%d}-{number + 1}", begun)
    for lane in LANES:
        world.nodes[lane.node].free = []


@lru_cache(maxsize=256)
def visits(seed: int, lane: Lane, day: int) -> tuple[Visit, ...]:
    """The jobs of one day, in order; the last has ended half an hour before the next day's first begins."""
    chance = Random(f"{seed} {lane.path} {day}")
    found = []

    def visit(start: timedelta, end: timedelta) -> Visit:
        is_failed = chance.random() < FAILS
        if is_failed:
            end = start + (end - start) * chance.uniform(0.2, 0.9)
        doings = deeds.training(chance.random(), is_gang=lane.is_gang)
        return Visit(start, end, is_failed, doings(0, int((end - start).total_seconds())))

    if day % 7 < 5:
        at = chance.uniform(7.5, 9.5) * HOUR
        while at < 17 * HOUR:
            end = min(at + chance.uniform(0.6, 4) * HOUR, 18.5 * HOUR)
            found.append(visit(at, end))
            at = end + chance.uniform(0.6, 1.6) * HOUR
        if chance.random() < 0.7:
            found.append(visit(chance.uniform(19.2, 20) * HOUR, chance.uniform(27, 30.9) * HOUR))
    elif chance.random() < 0.4:
        start = chance.uniform(9, 12) * HOUR
        found.append(visit(start, start + chance.uniform(3, 9) * HOUR))
    return tuple(found)


def _add(world: World, lane: Lane, visit: Visit, suffix: str, begun: datetime) -> None:
    path = f"{lane.path}-{suffix}"
    begun = begun.replace(microsecond=0)
    each = lane.gpus // lane.pods
    if lane.is_gang:
        job = gang(world, path, lane.pods, each, pool="batch", age=timedelta())
    else:
        job = world.add("Job", path, single("train", each), is_indexed=False)
    job.created = begun
    age = (world.now - begun).total_seconds()
    job.activity = next((what for at, what in reversed(visit.doings) if at <= age), "loading")
    started = begun + seconds(4)
    ended = begun + (visit.end - visit.start)
    state = lifecycle.running(started)
    if world.now >= ended:
        is_failed = visit.is_failed
        state = lifecycle.failed(started, ended, 1) if is_failed else lifecycle.succeeded(started, ended)
    home = world.nodes[lane.node]
    for key in range(lane.pods):
        first = lane.first + key * each
        pod = SimPod(
            job,
            job.pod_name(key),
            str(key),
            begun,
            node=home.name,
            node_ip=home.ip,
            # Far from the addresses that are given in order, so that they stay the same.
            address=f"10.{244 + home.position // 256 % 8}.{home.position % 256}.{100 + first}",
            devices=tuple(home.devices[first : first + each]),
            state=state,
        )
        world.pods.append(pod)
