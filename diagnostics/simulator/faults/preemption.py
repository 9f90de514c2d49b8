"""Batch jobs that urgent work pushes out again and again."""

from datetime import datetime
from functools import partial

from diagnostics.simulator.faults.entry import Fault, Twin
from diagnostics.simulator.identity import uuid_of
from diagnostics.simulator.lifecycle import period, running
from diagnostics.simulator.pod_rules import HOSTNAME
from diagnostics.simulator.templates import single
from diagnostics.simulator.timestamps import HOUR, MINUTE, seconds
from diagnostics.simulator.workloads import PodTemplate, Workload
from diagnostics.simulator.world import Note, World

RULE = "preemption-loop"
EVERY = 10 * MINUTE


def _pushed_out(world: World, *, rounds: int) -> None:
    """Both want all GPUs of one node. Urgent runs come every ten minutes, the last one at the epoch."""
    node = world.take_spare_node(keep=8)
    gpus = len(node.devices)
    batch = world.add(
        "Job",
        "speech/distil-batch",
        _on(node.name, "distil", gpus, "batch-low"),
        age=5 * HOUR,
        is_indexed=False,
    )
    urgent = _on(node.name, "score", gpus, "training-high")
    last, number = period(world.now, world.epoch, EVERY, 2 * MINUTE)
    last = max(last, batch.created)
    live = world.add("Pod", f"speech/score-{number}", urgent, created=last)
    pushed = world.place(live, node.name, 0, running(last + seconds(4)))
    for turn in range(number, number - rounds, -1):
        moment = last - (number - turn) * EVERY
        if moment <= batch.created:
            break
        by = pushed.uid if turn == number else uuid_of(world.config.seed, "gone", turn)
        _note(world, batch, turn, by, node.name, moment)
    world.queue(batch, f"run-{number + 1}", created=last + seconds(2))
    if rounds > 1:
        world.expect(RULE, batch, "pods of higher priority push it out whenever it has come back")


def _never_starts(world: World, *, starts: bool) -> None:
    """One pod for which room is made again and again: what is freed is taken before it comes to it."""
    node = world.take_spare_node(keep=8)
    gpus = len(node.devices)
    batch = world.add(
        "Job",
        "video/render-batch",
        _on(node.name, "render", gpus, "batch-low"),
        age=5 * HOUR,
        is_indexed=False,
    )
    urgent = world.add(
        "Pod", "video/render-now", _on(node.name, "now", gpus, "training-high"), age=50 * MINUTE
    )
    last, number = period(world.now, world.epoch, EVERY, 2 * MINUTE)
    last = max(last, urgent.created)
    if starts:
        placed = world.place(urgent, node.name, 0, running(urgent.created + seconds(4)))
        _note(world, batch, number, placed.uid, node.name, urgent.created)
        world.queue(batch, f"run-{number + 1}", created=urgent.created + seconds(2))
        return
    world.place(batch, node.name, f"run-{number + 1}", running(last + seconds(9)), created=last + seconds(5))
    world.queue(urgent)
    uid = world.pods[-1].uid
    for turn in range(number, number - 4, -1):
        moment = last - (number - turn) * EVERY
        if moment <= urgent.created:
            break
        _note(world, batch, turn, uid, node.name, moment)
    world.expect(RULE, batch, "room is made for a pod that still does not start")


def _on(node: str, name: str, gpus: int, priority: str) -> PodTemplate:
    """All GPUs of this node."""
    template = single(name, gpus)
    template.node_selector = {HOSTNAME: node}
    template.more = {"priorityClassName": priority}
    return template


def _note(world: World, victim: Workload, turn: int, by: str, node: str, moment: datetime) -> None:
    """That one of its pods was ended to make room."""
    world.notes.append(
        Note(
            "Pod", victim.namespace, victim.pod_name(f"run-{turn}"),
            uuid_of(world.config.seed, "victim", victim.name, turn), "v1", "Preempted",
            f"Preempted by pod {by} on node {node}", "default-scheduler", moment, moment, type="Normal",
        )
    )  # fmt: skip


FAULTS = (
    Fault(
        slug="preemption-loop",
        rule=RULE,
        twin="preempted-once",
        kind="Job",
        namespace="speech",
        name="distil-batch",
        cause="pushed out again and again",
        apply=partial(_pushed_out, rounds=5),
    ),
    Fault(
        slug="preemptor-never-starts",
        rule=RULE,
        twin="preemptor-started",
        kind="Job",
        namespace="video",
        name="render-batch",
        cause="room is made for a pod that does not start",
        apply=partial(_never_starts, starts=False),
        also=("pending-gpu-pod",),
    ),
)
TWINS = (
    Twin("preempted-once", "it was pushed out once", partial(_pushed_out, rounds=1)),
    Twin(
        "preemptor-started",
        "room was made once, and the pod took it",
        partial(_never_starts, starts=True),
        also=("pending-gpu-pod",),
    ),
)
