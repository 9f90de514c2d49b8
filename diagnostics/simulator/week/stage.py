"""The week at one moment, put into a world. What is not there still has its GPUs reserved, so that nobody moves."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from diagnostics.simulator import baseline
from diagnostics.simulator.devices import SimNode
from diagnostics.simulator.faults import in_order
from diagnostics.simulator.week import arrivals, episodes, life
from diagnostics.simulator.week.calendar import dated, latest
from diagnostics.simulator.world import World

_KEPT = {"free", "devices"}
"""Of a node, what reserves GPUs."""


def deploy(world: World) -> None:
    """All but the GPU Operator's pods. Before the epoch nobody works on the cluster yet."""
    if world.now < world.epoch:
        baseline.platform(world)
        return
    arrivals.deploy(world)
    for part in life.PARTS:
        if not part.spans:
            part.apply(world)
            continue
        turn = latest(part.spans, world.now)
        with dated(world, turn.start, turn.number):
            _put(world, part.apply, is_there=turn.has(world.now))
    baseline.platform(world)
    for name in {one.node for one in episodes.EPISODES.values() if one.node}:
        world.nodes[name].free = []
    known = in_order((*episodes.EPISODES, *episodes.LOOK_ALIKES))
    for entry in known:
        episode = episodes.EPISODES.get(entry.slug)
        if episode is None:
            entry.apply(world)
            continue
        turn = latest(episode.spans, world.now)
        is_there = turn.has(world.now)
        if episode.otherwise:
            # The same object all the time: what it does changes.
            (other,) = in_order([episode.otherwise])
            (entry if is_there else other).apply(world)
            continue
        with dated(world, turn.start + episode.age, turn.number), _alone_on(world, episode.node):
            _put(world, entry.apply, is_there=is_there)


@contextmanager
def _alone_on(world: World, name: str) -> Iterator[None]:
    """What is added meanwhile finds all GPUs of this node, and no other ones. Without a name it finds what is left."""
    if not name:
        yield
        return
    before = {node.name: node.free for node in world.nodes.values()}
    for node in world.nodes.values():
        node.free = list(node.devices) if node.name == name else []
    try:
        yield
    finally:
        for node in world.nodes.values():
            node.free = before[node.name]


def _put(world: World, apply: Callable[[World], None], *, is_there: bool) -> None:
    if is_there:
        apply(world)
        return
    workloads, pods, expected = list(world.workloads), list(world.pods), list(world.expected)
    activities = [workload.activity for workload in workloads]
    nodes = {name: _state(node) for name, node in world.nodes.items()}
    custom, notes = list(world.custom), list(world.notes)
    apply(world)
    world.custom, world.notes = custom, notes
    world.workloads, world.pods, world.expected = workloads, pods, expected
    for workload, activity in zip(workloads, activities, strict=True):
        workload.activity = activity
    for name, state in nodes.items():
        for field, value in state.items():
            setattr(world.nodes[name], field, value)


def _state(node: SimNode) -> dict[str, object]:
    return {
        name: value.copy() if isinstance(value, dict | set) else value
        for name, value in vars(node).items()
        if name not in _KEPT
    }
