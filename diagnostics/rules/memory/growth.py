"""Whether memory only grows, from the least that was in use over windows hours apart: pure."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise

import msgspec

from diagnostics.limits import Thresholds
from diagnostics.snapshot import Low

FEWEST = 3
"""Points; two make a step, not a course."""
SUREST = 4
EVEN_RATIO = 0.25
"""Each step grows at this share of the mean rate at least: one jump and a flat line are no growth (ours)."""


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """Memory that rose from each window to the next."""

    lows: tuple[Low, ...]
    rate_bytes_per_h: float
    full_in: timedelta
    """Until nothing is left, at this rate, from the present peak."""

    @property
    def span(self) -> timedelta:
        return self.lows[-1].at - self.lows[0].at

    @property
    def grown_bytes(self) -> float:
        return self.lows[-1].used_bytes - self.lows[0].used_bytes


def growth_of(
    lows: Sequence[Low],
    *,
    window: timedelta,
    since: datetime | None,
    peak_bytes: float,
    total_bytes: float,
    limits: Thresholds,
) -> Growth | None:
    """Growth of at least `memory_growth_min_ratio` of `total_bytes` that fills it within `memory_full_within`.

    `since`: when what used the memory began; windows that reach before it, and the first one after, in which it was
    loading, are left out. `peak_bytes`: the most in the present window. None without growth or with too few windows.
    """
    if since is None or total_bytes <= 0:
        return None
    own = tuple(low for low in lows if low.at - window >= since + window)
    if len(own) < FEWEST:
        return None
    hours = [(b.at - a.at).total_seconds() / 3600 for a, b in pairwise(own)]
    rises = [b.used_bytes - a.used_bytes for a, b in pairwise(own)]
    rate = sum(rises) / sum(hours)
    if rate <= 0 or any(rise < EVEN_RATIO * rate * h for rise, h in zip(rises, hours, strict=True)):
        return None
    full_in_h = max(0.0, total_bytes - peak_bytes) / rate
    if sum(
        rises
    ) < limits.memory_growth_min_ratio * total_bytes or full_in_h > limits.memory_full_within / timedelta(
        hours=1
    ):
        return None
    return Growth(lows=own, rate_bytes_per_h=rate, full_in=timedelta(hours=full_in_h))
