"""Who wants GPUs when: shifts, nights and weekends of seven teams, and what goes wrong for them now and then."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from random import Random

from diagnostics.simulator.baseline import DEDICATED
from diagnostics.simulator.month import deeds
from diagnostics.simulator.month.calendar import DAY_S, DAYS, HOUR_S, Span, Trouble
from diagnostics.simulator.month.demand import Demand
from diagnostics.simulator.month.upheaval import MIG_INSTANCES, MIG_PROFILE, SPLIT_AT, at
from diagnostics.simulator.templates import NOTEBOOK, notebook, server, single, torchrun, triton
from diagnostics.simulator.workloads import PodTemplate, container

TRAIN, SERVE = ("gpu-01", "gpu-02", "gpu-03", "gpu-04"), ("gpu-05", "gpu-06")
RECSYS, DEV, ROBOTICS = ("gpu-07",), ("gpu-09",), ("gpu-12",)
BATCH = ("gpu-08", "gpu-10", "gpu-11")
END = DAYS * DAY_S


@dataclass
class _Office:
    """The calendar that everybody shares, and chance."""

    start: datetime
    chance: Random
    batch: tuple[str, ...]

    def is_workday(self, day: int) -> bool:
        return (self.start + timedelta(days=day)).weekday() < 5

    def span(self, low_h: float, high_h: float) -> int:
        return int(self.chance.uniform(low_h, high_h) * HOUR_S)

    def times(self, workday: float, weekend: float, first_h: int = 8, last_h: int = 19) -> Iterator[int]:
        """Seconds at which something is submitted: so many a day on average, in these hours."""
        for day in range(DAYS):
            rate = workday if self.is_workday(day) else weekend
            count = int(rate) + (self.chance.random() < rate % 1)
            for _ in range(count):
                yield day * DAY_S + self.span(first_h, last_h)


def demands(seed: int, start: datetime, added: str) -> Iterator[Demand]:
    """Everything that is asked for in the month, in no order. `added` is the node that joins the batch pool."""
    for number, ask in enumerate((_training, _batch, _evening, _robotics, _serving, _notebooks, _instances)):
        yield from ask(_Office(start, Random(f"{seed} {number}"), (*BATCH, added)))
    yield from _troubles(_Office(start, Random(f"{seed} troubles"), (*BATCH, added)))


def _gang(
    office: _Office, when: int, length: int, path: str, pods: int, gpus: int, nodes: tuple[str, ...]
) -> Demand:
    pool = "train" if nodes is TRAIN else "batch"
    template = torchrun(path.partition("/")[2], pods, gpus, pool=pool)
    doings = deeds.training(office.chance.random(), is_gang=True)
    return Demand(
        when,
        length,
        "Job",
        path,
        template,
        doings,
        nodes,
        pods=pods,
        gpus=gpus,
        is_gang=True,
        service_port=29500,
    )


def _training(office: _Office) -> Iterator[Demand]:
    """Research trains on whole nodes for a day or so."""
    for number, when in enumerate(office.times(1.3, 0.4)):
        yield _gang(office, when, office.span(10, 30), f"research/llm-{number:03d}", 2, 8, TRAIN)


def _batch(office: _Office) -> Iterator[Demand]:
    """Vision trains in small gangs; speech and recsys run scripts, some of which wait for their data."""
    for number, when in enumerate(office.times(2.2, 0.6)):
        yield _gang(office, when, office.span(2, 9), f"vision/seg-{number:03d}", 3, 2, office.batch)
    for number, when in enumerate(office.times(5, 1.5)):
        doings = deeds.training(office.chance.random(), is_gang=False)
        gpus, template = office.chance.choice((1, 1, 2)), f"asr-{number:03d}"
        yield Demand(
            when,
            office.span(0.5, 7),
            "Job",
            f"speech/{template}",
            single("train", gpus),
            doings,
            office.batch,
            gpus=gpus,
        )
    for number, when in enumerate(office.times(1.2, 0.5)):
        doings = deeds.training(office.chance.random(), is_gang=False)
        yield Demand(
            when,
            office.span(6, 20),
            "Job",
            f"recsys/tower-{number:03d}",
            single("train", 4),
            doings,
            RECSYS,
            gpus=4,
        )


def _evening(office: _Office) -> Iterator[Demand]:
    """Sweeps that are started before going home and run all night."""
    for number, when in enumerate(office.times(2, 0.3, first_h=17, last_h=20)):
        doings = deeds.training(office.chance.random(), is_gang=False)
        yield Demand(
            when,
            office.span(8, 13),
            "Job",
            f"speech/sweep-{number:03d}",
            single("sweep", 2),
            doings,
            office.batch,
            pods=3,
            gpus=2,
        )


def _robotics(office: _Office) -> Iterator[Demand]:
    for number, when in enumerate(office.times(1.5, 0.2)):
        template = single("policy", 4)
        template.tolerations.append(DEDICATED)
        template.node_selector = {"example.com/pool": "robotics"}
        doings = deeds.training(office.chance.random(), is_gang=False)
        path = f"robotics/policy-{number:03d}"
        yield Demand(when, office.span(5, 12), "Job", path, template, doings, ROBOTICS, gpus=4)


def _serving(office: _Office) -> Iterator[Demand]:
    """Servers that follow the hours of the day; a new version comes about once a week, and loads its model."""
    model = "meta-llama/Llama-3.1-70B-Instruct"
    servers: tuple[tuple[str, str, PodTemplate, int, int, str], ...] = (
        ("Deployment", "serving/chat", server(model, 4), 2, 4, "gpu-05"),
        ("Deployment", "serving/embed", triton(), 4, 1, "gpu-06"),
        ("StatefulSet", "serving/rerank", triton(), 2, 1, "gpu-06"),
    )
    for kind, path, template, pods, gpus, node in servers:
        quiet = path == "serving/chat"
        doings = deeds.serving(office.chance, [office.is_workday(d) for d in range(DAYS)], sleeps=quiet)
        days = sorted(office.chance.sample(range(1, DAYS - 1), 5))
        cuts = [-12 * DAY_S, *(d * DAY_S + office.span(9, 16) for d in days), END]
        for number, (begin, end) in enumerate(pairwise(cuts)):
            yield Demand(
                begin,
                end - begin,
                kind,
                path,
                template,
                lambda *_, all_month=doings: all_month,
                (node,),
                pods=pods,
                gpus=gpus,
                ready_after=office.span(0.12, 0.3),
                service_port=8000,
                round=number,
            )


def _notebooks(office: _Office) -> Iterator[Demand]:
    """Three people keep theirs over nights and weekends; two stop theirs when they go home."""
    for person in ("ana", "ben", "chloe"):
        begin, number = -2 * DAY_S, 0
        cuts = [day * DAY_S + 8 * HOUR_S + office.span(0, 1) for day in range(1, DAYS, 7)] + [END]
        for cut in cuts:
            yield _notebook(office, person, Span(begin, cut), number)
            begin, number = cut + office.span(0.05, 0.2), number + 1
    for person in ("dana", "emil"):
        for number, day in enumerate(filter(office.is_workday, range(DAYS))):
            begin = day * DAY_S + office.span(8, 10)
            yield _notebook(office, person, Span(begin, begin + office.span(7, 10)), number)


def _notebook(office: _Office, person: str, span: Span, number: int) -> Demand:
    workdays = [office.is_workday(d) for d in range(DAYS)]
    return Demand(
        span.start,
        span.end - span.start,
        "StatefulSet",
        f"data-science/notebook-{person}",
        notebook(),
        deeds.notebook(office.chance, workdays),
        DEV,
        ready_after=office.span(0.05, 0.2),
        round=number,
    )


def _instances(office: _Office) -> Iterator[Demand]:
    """Once a board is split, five interns share it; the other two instances stay free."""
    first = SPLIT_AT // DAY_S
    for intern in range(MIG_INSTANCES - 2):
        template = notebook()
        resource = f"nvidia.com/mig-{MIG_PROFILE}"
        template.containers[0] = container(
            "notebook", NOTEBOOK, gpus=1, cpu="4", memory="16Gi", resource=resource
        )
        for number, day in enumerate(filter(office.is_workday, range(first, DAYS))):
            begin = day * DAY_S + office.span(9, 11)
            yield Demand(
                begin,
                office.span(8, 13),
                "StatefulSet",
                f"data-science/intern-{intern + 1}",
                template,
                deeds.notebook(office.chance, [office.is_workday(d) for d in range(DAYS)]),
                DEV,
                ready_after=office.span(0.05, 0.2),
                round=number,
                instance=intern,
            )


def _troubles(office: _Office) -> Iterator[Demand]:
    """Hangs, gangs of which a part runs, crash loops, an image that does not exist, pods that do not go."""
    for number, (when, hours) in enumerate(((at(4, 2, 13), 9), (at(19, 21, 40), 12))):
        path = f"vision/hang-{number}"
        template = torchrun(f"hang-{number}", 2, 4, pool="batch")
        length = hours * HOUR_S
        yield Demand(
            when,
            length,
            "Job",
            path,
            template,
            deeds.hanging(2 * HOUR_S),
            office.batch,
            pods=2,
            gpus=4,
            is_gang=True,
            service_port=29500,
        )
    for number, when in enumerate((at(6, 5, 31), at(22, 4, 7))):
        path = f"vision/vit-{number}"
        template = torchrun(f"vit-{number}", 8, 2, pool="batch")
        late_by = office.span(3, 5)
        yield Demand(
            when,
            14 * HOUR_S,
            "Job",
            path,
            template,
            deeds.late_gang(late_by),
            office.batch,
            pods=8,
            gpus=2,
            is_gang=True,
            service_port=29500,
            late=3,
            late_by=late_by,
        )
    looping = single("train", 1, restart_policy="Always")
    for number, when in enumerate((at(5, 1, 9), at(20, 1, 21))):
        yield Demand(
            when,
            office.span(14, 18),
            "Deployment",
            f"speech/tts-{number}",
            looping,
            deeds.nothing,
            office.batch,
            pods=2,
            trouble=Trouble.CRASH_LOOP,
        )
    missing = single("adapter", 2, image="nvcr.io/nvidia/pytorch:24.13-py3", restart_policy="Always")
    for number, when in enumerate((at(9, 15, 12), at(26, 16, 2))):
        yield Demand(
            when,
            office.span(12, 15),
            "Deployment",
            f"research/adapter-{number}",
            missing,
            deeds.nothing,
            office.batch,
            gpus=2,
            trouble=Trouble.PULL,
        )
    for number, when in enumerate((at(12, 7, 33), at(27, 6, 55))):
        yield Demand(
            when,
            office.span(16, 20),
            "Pod",
            f"data-science/kim-{number}",
            notebook(pool=""),
            deeds.forgotten,
            office.batch,
            deleted_before_end=office.span(8, 10),
        )
