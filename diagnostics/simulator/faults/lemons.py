"""A node whose GPUs fail again and again, put right each time, and failures that do not come together on one node."""

from collections.abc import Sequence
from functools import partial

from diagnostics.simulator.faults.entry import Fault, Twin
from diagnostics.simulator.faults.hardware import mark
from diagnostics.simulator.timestamps import DAY, HOUR, MINUTE
from diagnostics.simulator.world import World

LEMON = "gpu-10"
LAST, EVERY, LASTS = 26 * HOUR, 5 * DAY, 3 * HOUR
"""How old the last failure is, how far each one is from the next, and how long until a reset."""
TIMES = 5
POLL = 5 * MINUTE


def _fail(world: World, *, nodes: Sequence[str], index: int, is_lemon: bool = False) -> None:
    """One GPU of each of these nodes falls off the bus, the node named last most recently."""
    for turn, name in enumerate(reversed(nodes)):
        begin = world.before(LAST + turn * EVERY)
        node = world.nodes[name]
        if begin <= world.now < begin + LASTS:
            device = node.devices[(index + turn) % len(node.devices)]
            mark(world, device, 79)
            node.fallen.add(device.uuid)
    if is_lemon:
        world.expect("lemon-node", world.nodes[LEMON], "its GPUs fail again and again")


# Twice while each of them lasts, and until the last one counts as put right.
LOOKS = (
    *(LAST + turn * EVERY - since for turn in reversed(range(TIMES)) for since in (POLL, 2 * POLL)),
    LAST - LASTS - POLL,
    LAST - LASTS - 2 * POLL,
)

FAULTS = (
    Fault(
        "lemon-node", "lemon-node", "failures-spread", "Node", LEMON, "its GPUs fail again and again",
        partial(_fail, nodes=[LEMON] * TIMES, index=2, is_lemon=True), looks=LOOKS,
    ),
)  # fmt: skip
TWINS = (
    Twin(
        "failures-spread",
        "as many failures, each on another node",
        partial(_fail, nodes=("gpu-03", "gpu-04", "gpu-06", "gpu-09", "gpu-11"), index=5),
        looks=LOOKS,
    ),
)
