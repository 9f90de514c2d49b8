"""A simulated month back-filled from a real Prometheus, killed again and again: what the simulator's books say.

The blocks are made day by day, so that memory stays bounded. The promise is a month of 96 GPUs in ten minutes.
"""

import os
import random
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

from diagnostics.simulator import truth
from tests.backfill.blocks import openmetrics
from tests.servers import add_blocks, prometheus
from tests.soak.installation import MONTH, SLUG, START, scratch, set_up, variables
from tests.soak.month import Sums, compared, resolution

STEP_S = 60
"""As polls usually come. Coarser steps fall into step with crash loops, which repeat every 320 seconds."""
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
KILL_SHARE = 0.1
"""Of the chunks, how many die before they are kept."""
FEWEST_SAMPLES = 8
PROMISE_S = 600.0


class Killed(BaseException):
    """The worker died."""


def run() -> bool:
    """Thirty days; True when the books agree and the promise is kept."""
    os.environ["GPUHEALTH_REQUIRE_SERVICES"] = "1"
    return soaked(0, 30)


def soaked(first_day: int, days: int, step_s: int = STEP_S) -> bool:
    """Back-fill these days of the month and print the comparison."""
    start = START + first_day * DAY
    end = start + days * DAY
    with scratch() as folder:
        begun = time.perf_counter()
        for day in range(days):
            _make_day(folder, start + day * DAY, end, timedelta(seconds=step_s))
        print(f"{days} days of blocks made in {time.perf_counter() - begun:.0f} s", flush=True)
        with prometheus(folder) as url:
            declared: dict[str, object] = {"prometheus": {"url": url}}
            set_up(variables(folder, f"sqlite://{folder}/gpuhealth.sqlite3", step_s, declared))
            seconds, kills, found, gap_ms = _filled(start, end)
    print(f"back-filled in {seconds:.0f} s ({seconds / days:.1f} s a day), killed {kills} times")
    true, chance = truth.usage(MONTH, start, end), resolution(start, end, step_s)
    # A few samples at the seam of two spans may tell of a state that never was.
    seams = {key for key in found.keys() - true.keys() if found[key] <= FEWEST_SAMPLES * step_s * 1000}
    for key in seams:
        print(f"  {found[key] / 3.6e6:.2f} GPU-hours at seams: {key[0] or 'nobody'} {key[1]}")
    found = {key: ms for key, ms in found.items() if key not in seams}
    agrees = compared(true, found, gap_ms, chance)
    is_soon = seconds / days * 30 <= PROMISE_S
    return agrees and is_soon


def _make_day(folder: Path, start: datetime, last: datetime, step: timedelta) -> None:
    """One day's samples; the last day's go on for an hour, which decides how quiet time at its end is judged."""
    end = start + DAY if start + DAY < last else last + HOUR + step
    add_blocks(folder, "".join(openmetrics(start, end - step, step)))


def _filled(start: datetime, end: datetime) -> tuple[float, int, Sums, int]:
    """Seconds that it took, how often it was killed, sums by team and state, and what stayed unobserved."""
    from diagnostics import backfill, usage
    from diagnostics.models import Backfill
    from tests.backfill.past import polled, sums

    cluster = polled(SLUG, end)
    row = Backfill.objects.create(cluster=cluster, start=start, end=end, done_from=end)
    chance, kills, fill = random.Random(7), 0, usage.fill

    def fill_or_die(*args: Any) -> None:
        fill(*args)
        if chance.random() < KILL_SHARE:
            raise Killed

    begun = time.perf_counter()
    with mock.patch.object(usage, "fill", fill_or_die):
        while row.status != Backfill.Status.DONE:
            try:
                row = backfill.run(cluster, row, lambda: end + HOUR)
                assert row.status == Backfill.Status.DONE, row.detail
            except Killed:
                kills += 1
    seconds = time.perf_counter() - begun
    found = sums(cluster, start, end)
    gap_ms = sum(ms for (_, state), ms in found.items() if state == "gap")
    return seconds, kills, {key: ms for key, ms in found.items() if key[1] != "gap"}, gap_ms


if __name__ == "__main__":
    os.environ["GPUHEALTH_REQUIRE_SERVICES"] = "1"
    sys.exit(0 if soaked(*map(int, sys.argv[1:])) else 1)
