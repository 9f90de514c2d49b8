"""From a config and a moment to the world: the one entry to it, and pure."""

from datetime import UTC, datetime

from diagnostics.simulator import baseline, operator_stack
from diagnostics.simulator.config import WorldConfig
from diagnostics.simulator.faults import in_order
from diagnostics.simulator.month import stage as month
from diagnostics.simulator.week import stage as week
from diagnostics.simulator.world import World


def build(config: WorldConfig, now: datetime) -> World:
    """The cluster at `now`, to the whole second. The order of the faults in the config does not matter. Raises
    ValueError for an unknown fault or a schedule without an epoch, NoRoom when the faults do not fit together."""
    world = World(config, now.astimezone(UTC).replace(microsecond=0))
    if config.schedule == "month":
        month.deploy(world)
    elif config.schedule == "week":
        week.deploy(world)
    else:
        baseline.deploy(world)
        for fault in in_order(config.faults):
            fault.apply(world)
    operator_stack.deploy(world)
    if config.pods is not None:
        baseline.fill_up(world, config.pods)
    world.finish()
    return world
