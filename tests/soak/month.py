"""The ledger of a simulated month against the simulator's own book-keeping: within 2 % by team and state.

Thirty days polled every 5 minutes, and one day of them polled every minute, each poll whole: over HTTP from the
simulated cluster, through all rules, into SQLite. A poll sees a change late by up to the time between two, so that a
few short spans cannot be told to 2 %: there three standard deviations of that are the limit, and the table says so.
"""

import math
import subprocess
import sys
import time
from collections import defaultdict
from datetime import datetime, timedelta
from itertools import groupby
from typing import NamedTuple

from diagnostics.simulator import truth
from diagnostics.simulator.month.upheaval import MIG_INSTANCES
from tests.soak.installation import MONTH, SLUG, START, poll_all, scratch, set_up, variables, watched

LIMIT = 0.02
HOUR = timedelta(hours=1)
HOUR_MS = 3_600_000

Sums = dict[tuple[str, str], int]


class Stretch(NamedTuple):
    """Days of the month (whole hours, as the ledger's) and how often they are polled."""

    first_day: float
    days: float
    every_s: int


WHOLE = Stretch(0, 30, 300)
FINE = Stretch(5, 1, 60)


def run() -> bool:
    """Both, in processes of their own; True when both keep the limit."""
    kept = True
    for stretch in (WHOLE, FINE):
        command = [sys.executable, "-m", "tests.soak.month", *map(str, stretch)]
        kept &= subprocess.run(command, check=False).returncode == 0
    return kept


def soaked(stretch: Stretch) -> bool:
    """Poll it and print the comparison."""
    start = START + timedelta(days=stretch.first_day)
    end = start + timedelta(days=stretch.days)
    step = timedelta(seconds=stretch.every_s)
    # What went before decides how quiet time is judged, and what comes after makes it final.
    begin, until = max(START, start - HOUR), end + HOUR
    begun = time.perf_counter()
    with scratch() as folder, watched(begin, folder) as seen:
        url = f"sqlite://{folder}/gpuhealth.sqlite3"
        set_up(variables(folder, url, stretch.every_s, seen.declaration()))
        count = int((until - begin) / step) + 1
        poll_all(seen, (begin + number * step for number in range(count)))
        found, unobserved_ms = recorded(start, end)
    cost = (time.perf_counter() - begun) / count
    print(f"{stretch.days:g} days from day {stretch.first_day:g}, {count} polls, {cost:.2f} s each")
    return compared(
        truth.usage(MONTH, start, end), found, unobserved_ms, resolution(start, end, stretch.every_s)
    )


def recorded(start: datetime, end: datetime) -> tuple[Sums, int]:
    """The ledger's sums by team and state, and the time that nobody observed."""
    from diagnostics import usage
    from diagnostics.models import Cluster, Workload

    cluster = Cluster.objects.get(slug=SLUG)
    through = usage.complete_through(cluster)
    assert through is not None, "nothing was entered into the ledger"
    assert through >= end, f"the ledger is complete through {through} only"
    teams = dict(Workload.objects.filter(cluster=cluster).values_list("pk", "namespace"))
    sums: Sums = defaultdict(int)
    unobserved_ms = 0
    for line in usage.hours(cluster, start, end):
        if line.is_gap:
            unobserved_ms += line.gpu_ms
        else:
            sums[teams[line.workload], line.state.value] += line.gpu_ms
    return dict(sums), unobserved_ms


def resolution(start: datetime, end: datetime, every_s: int) -> dict[tuple[str, str], float]:
    """Milliseconds that chance may add or take by team and state, at three standard deviations.

    A span that lasts for f polls and a bit more is seen by one more poll as often as the bit says. One that begins and
    ends with a poll is seen by one more or not, as the rule has it that ends it ("older than 5 minutes"). The GPUs of
    one workload change at the same time, and so err together.
    """
    first, last = ((moment - START) // timedelta(seconds=1) for moment in (start, end))
    weights: dict[tuple[int, int, str, str], float] = defaultdict(float)
    for name, line in truth.timelines(MONTH).items():
        for (team, state), spans in groupby(line, key=lambda held: (held.team, held.state)):
            one = list(spans)
            begun, ended = max(first, one[0].start), min(last, one[-1].end)
            if begun < ended:
                weights[begun, ended, team, state] += 1 / MIG_INSTANCES if "/mig-" in name else 1.0
    variances: dict[tuple[str, str], float] = defaultdict(float)
    for (begun, ended, team, state), gpus in weights.items():
        rest = 0.5 if begun % every_s == 0 == ended % every_s else (ended - begun) / every_s % 1
        variances[team, state] += rest * (1 - rest) * (gpus * every_s * 1000) ** 2
    return {key: 3 * math.sqrt(variance) for key, variance in variances.items()}


def compared(true: Sums, found: Sums, unobserved_ms: int, chance_ms: dict[tuple[str, str], float]) -> bool:
    """Print both by team and state; True when all agree and nothing was unobserved."""
    print(f"  {'team':14} {'state':13} {'true GPU-h':>11} {'ledger':>11} {'off by':>8}")
    kept = unobserved_ms == 0
    for key in sorted({*true, *found}):
        there, here = true.get(key, 0), found.get(key, 0)
        off = abs(here - there)
        is_close = off <= max(LIMIT * there, chance_ms.get(key, 0.0))
        kept &= is_close
        share = f"{off / there:8.2%}" if there else "     new"
        mark = (
            ""
            if off <= LIMIT * there
            else f"  (chance: {chance_ms[key] / there:.2%})"
            if is_close
            else "  MISSED"
        )
        print(
            f"  {key[0] or 'nobody':14} {key[1]:13} {there / HOUR_MS:11.2f} {here / HOUR_MS:11.2f} {share}{mark}"
        )
    total = sum(true.values()), sum(found.values()) + unobserved_ms
    print(
        f"  all {total[0] / HOUR_MS:.2f} and {total[1] / HOUR_MS:.2f} GPU-hours; {unobserved_ms} ms unobserved"
    )
    return kept


if __name__ == "__main__":
    first_day, days, every_s = sys.argv[1:]
    sys.exit(0 if soaked(Stretch(float(first_day), float(days), int(every_s))) else 1)
