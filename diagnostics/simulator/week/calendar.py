"""When something is there: spans of a week that come again every week, or every few weeks."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from diagnostics.simulator.world import World

WEEK = timedelta(weeks=1)
ZERO = datetime(1970, 1, 5, tzinfo=UTC)
"""A Monday."""
MON, TUE, WED, THU, FRI, SAT, SUN = range(0, 168, 24)


@dataclass(frozen=True)
class Turn:
    """One time that something is there."""

    start: datetime
    end: datetime

    def has(self, moment: datetime) -> bool:
        return self.start <= moment < self.end

    @property
    def number(self) -> int:
        """Tells it from every other turn of the same thing."""
        return int((self.start - ZERO) / timedelta(hours=1))


@dataclass(frozen=True)
class Span:
    """From an hour of the week on, for so many hours; every so many weeks, the first of which is `phase`."""

    start_h: float
    hours: float
    every_weeks: int = 1
    phase: int = 0

    def turn(self, now: datetime) -> Turn:
        """The latest that began before or at `now`."""
        first = ZERO + timedelta(weeks=self.phase, hours=self.start_h)
        period = self.every_weeks * WEEK
        start = first + (now - first) // period * period
        return Turn(start, start + timedelta(hours=self.hours))


def latest(spans: Sequence[Span], now: datetime) -> Turn:
    """The turn that began last, over or not."""
    return max((span.turn(now) for span in spans), key=lambda turn: turn.start)


def monday(now: datetime) -> datetime:
    """The midnight with which the week of `now` began."""
    return ZERO + (now - ZERO) // WEEK * WEEK


@contextmanager
def dated(world: World, epoch: datetime, number: int) -> Iterator[None]:
    """What is added meanwhile has its ages at this epoch, and the uids of this turn."""
    before = world.epoch, world.config
    world.epoch, world.config = epoch, replace(world.config, seed=world.config.seed + number)
    try:
        yield
    finally:
        world.epoch, world.config = before
