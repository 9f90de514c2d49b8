"""A batch job that urgent work pushes out again and again."""

from functools import partial

from diagnostics.simulator.faults.entry import Fault, Twin
from diagnostics.simulator.identity import uuid_of
from diagnostics.simulator.lifecycle import period, running
from diagnostics.simulator.pod_rules import HOSTNAME
from diagnostics.simulator.templates import single
from diagnostics.simulator.timestamps import HOUR, MINUTE, seconds
from diagnostics.simulator.world import Note, World

RULE = "preemption-loop"
EVERY = 10 * MINUTE


def _pushed_out(world: World, *, rounds: int) -> None:
    """Both want all GPUs of one node. Urgent runs come every ten minutes, the last one at the epoch."""
    node = world.take_spare_node(keep=8)
    gpus = len(node.devices)
    template = single("distil", gpus)
    template.node_selector = {HOSTNAME: node.name}
    template.more = {"priorityClassName": "batch-low"}
    batch = world.add("Job", "speech/distil-batch", template, age=5 * HOUR, is_indexed=False)
    urgent = single("score", gpus)
    urgent.node_selector = {HOSTNAME: node.name}
    urgent.more = {"priorityClassName": "training-high"}
    last, number = period(world.now, world.epoch, EVERY, 2 * MINUTE)
    last = max(last, batch.created)
    live = world.add("Pod", f"speech/score-{number}", urgent, created=last)
    pushed = world.place(live, node.name, 0, running(last + seconds(4)))
    for turn in range(number, number - rounds, -1):
        moment = last - (number - turn) * EVERY
        if moment <= batch.created:
            break
        by = pushed.uid if turn == number else uuid_of(world.config.seed, "gone", turn)
        world.notes.append(
            Note(
                "Pod", batch.namespace, batch.pod_name(f"run-{turn}"),
                uuid_of(world.config.seed, "victim", turn), "v1", "Preempted",
                f"Preempted by pod {by} on node {node.name}", "default-scheduler", moment, moment, type="Normal",
            )
        )  # fmt: skip
    world.queue(batch, f"run-{number + 1}", created=last + seconds(2))
    if rounds > 1:
        world.expect(RULE, batch, "pods of higher priority push it out whenever it has come back")


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
)
TWINS = (Twin("preempted-once", "it was pushed out once", partial(_pushed_out, rounds=1)),)
