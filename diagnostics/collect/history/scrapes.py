"""When a series was really there: Prometheus shows a sample for minutes, unless it saw the series end. Pure."""

import statistics
from collections.abc import Iterable, Sequence
from itertools import pairwise

from diagnostics.collect.history.grid import Grid

MISSED_SCRAPES = 1.5
"""A series that goes on may miss a scrape; one that is silent for longer is not there."""
LEAST_S = 120.0


def interval_of(every: Iterable[Sequence[float]]) -> float | None:
    """Seconds between two scrapes, as far as the grid shows them, from the times of the samples at each step (0 where
    there is none); None where nothing tells.
    """
    gaps = [later - earlier for times in every for earlier, later in pairwise(times) if 0 < earlier < later]
    return statistics.median(gaps) if gaps else None


def alive(times: Sequence[float], grid: Grid, interval: float | None) -> list[bool]:
    """For each step whether the series was there, from the times of its samples (0 where there is none).

    A last sample, after which the series is seen no more, stands for half of the time to the scrape that missed it.
    """
    if interval is None:
        return [at > 0 for at in times]
    longest = max(LEAST_S, MISSED_SCRAPES * interval)
    found = [False] * len(times)
    is_ending = False
    for place in range(len(times) - 1, -1, -1):
        at = times[place]
        if place + 1 < len(times) and times[place + 1] != at:
            is_ending = times[place + 1] == 0
        age = grid.start_s + place * grid.step_s - at
        found[place] = at > 0 and age <= (interval / 2 if is_ending else longest)
    return found
