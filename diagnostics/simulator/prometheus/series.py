"""What a query is evaluated over: series of samples, and the steps of a grid of times."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol, cast

from diagnostics.simulator.prometheus.syntax import Matcher

Labels = tuple[tuple[str, str], ...]
"""Sorted by name; without empty ones."""
LOOKBACK_S = 300.0
"""A sample is shown for so long, unless the series was seen to end (Prometheus, `query.lookback-delta`)."""
Points = list[float | None]
"""One a step; None: nothing there."""


@dataclass(slots=True)
class Stored:
    """The samples of one series, oldest first."""

    labels: Labels
    """With its name, as `__name__`."""
    times: list[float] = field(default_factory=list)
    values: list[float | None] = field(default_factory=list)
    """None: the series was seen to end (a stale marker)."""

    def latest(self, at: float) -> tuple[float, float] | None:
        """Time and value of the sample that is shown at this moment."""
        place = bisect_right(self.times, at) - 1
        if place < 0 or self.times[place] <= at - LOOKBACK_S:
            return None
        value = self.values[place]
        return None if value is None else (self.times[place], value)

    def within(self, after: float, until: float) -> tuple[list[float], list[float]]:
        """Times and values from `after` (exclusive) to `until` (inclusive)."""
        first, last = bisect_right(self.times, after), bisect_right(self.times, until)
        times, values = self.times[first:last], self.values[first:last]
        if None not in values:
            return times, cast("list[float]", values)
        pairs = [(time, value) for time, value in zip(times, values, strict=True) if value is not None]
        return [time for time, _ in pairs], [value for _, value in pairs]


class Database(Protocol):
    """Where samples come from."""

    @property
    def lookback_s(self) -> float:
        """A sample can be shown for so long: LOOKBACK_S at most."""

    def select(self, matchers: Sequence[Matcher], start: float, end: float) -> Iterable[Stored]:
        """Series that pass all matchers, with their samples after `start` up to `end`."""


@dataclass(frozen=True)
class Grid:
    """The moments at which a query is evaluated: one, or many `step_s` apart."""

    start: float
    step_s: float = 0.0
    count: int = 1

    @property
    def times(self) -> list[float]:
        return [self.start + number * self.step_s for number in range(self.count)]


@dataclass(slots=True)
class Vector:
    """One series of a result."""

    labels: Labels
    points: Points


def labels_of(labels: dict[str, str]) -> Labels:
    return tuple(sorted((name, value) for name, value in labels.items() if value))


@lru_cache(maxsize=12_000)
def without(labels: Labels, names: tuple[str, ...]) -> Labels:
    """The labels but these."""
    return tuple(pair for pair in labels if pair[0] not in names)


@lru_cache(maxsize=12_000)
def only(labels: Labels, names: tuple[str, ...]) -> Labels:
    """Just these labels."""
    return tuple(pair for pair in labels if pair[0] in names)
