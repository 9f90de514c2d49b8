"""What pods do from their start to their end: names of `activity.PROFILES` and since when."""

from collections.abc import Callable, Sequence
from random import Random

from diagnostics.simulator.month.calendar import DAY_S, HOUR_S
from diagnostics.simulator.month.demand import Doings

MINUTE_S = 60
# Load of the servers by hour of the day, in percent. No hour is near the 40 % at which half of a GPU is busy, so that
# every hour is clearly one or the other.
_WORKDAY = (15, 15, 0, 0, 0, 15, 15, 25, 60, 75, 90, 90, 75, 75, 90, 90, 75, 60, 60, 60, 60, 25, 25, 15)
_WEEKEND = (15, 0, 0, 0, 0, 0, 0, 15, 25, 25, 25, 60, 60, 60, 60, 25, 25, 25, 25, 25, 25, 15, 15, 15)


def nothing(start: int, _: int) -> Doings:
    return ((start, "empty"),)


def forgotten(start: int, end: int) -> Doings:
    """An afternoon's work, then nothing."""
    return ((start, "cell"), (start + (end - start) // 3, "thinking"))


def hanging(after: int) -> Callable[[int, int], Doings]:
    """Every rank waits for one that does not come, from some time on."""
    return lambda start, _: (
        (start, "rendezvous"),
        (start + 2 * MINUTE_S, "training"),
        (start + after, "hung"),
    )


def late_gang(late_by: int) -> Callable[[int, int], Doings]:
    """The members that run wait for the others, then train."""
    return lambda start, _: ((start, "rendezvous"), (start + late_by + 2 * MINUTE_S, "training"))


def training(chance: float, *, is_gang: bool) -> Callable[[int, int], Doings]:
    """Loads its data, trains, writes a checkpoint now and then. One in six waits for its data all the time; one
    script in five does not end when its work is done.
    """

    def doings(start: int, end: int) -> Doings:
        random = Random(f"{chance}")
        t = start
        found = []
        if is_gang:
            found.append((t, "rendezvous"))
            t += random.randrange(60, 200)
        found.append((t, "loading"))
        t += random.randrange(3 * MINUTE_S, 14 * MINUTE_S)
        work = "starved" if random.random() < 1 / 6 else "training"
        rest = 0
        if not is_gang and random.random() < 0.2:
            rest = min((end - start) // 2, random.randrange(HOUR_S, 4 * HOUR_S))
        while t < end - rest:
            found.append((t, work))
            t += random.randrange(HOUR_S, 3 * HOUR_S)
            if t < end - rest - 20 * MINUTE_S:
                found.append((t, "thinking"))
                t += random.randrange(2 * MINUTE_S, 9 * MINUTE_S)
        if rest:
            found.append((end - rest, "loaded-idle"))
        return tuple(found)

    return doings


def notebook(chance: Random, workdays: Sequence[bool]) -> Callable[[int, int], Doings]:
    """Cells of a few minutes with thought in between, a lunch break; nothing at night and at weekends.

    No pause is near the half hour from which on it is idle, and no cell so short that a poll every 5 minutes misses it:
    one more or one less would change what the time around it counts as.
    """
    seed = chance.random()

    def doings(start: int, end: int) -> Doings:
        random = Random(f"{seed}")
        found = [(start, "empty")]
        for day, is_workday in enumerate(workdays):
            if not is_workday:
                continue
            morning, evening = day * DAY_S + 9 * HOUR_S, day * DAY_S + 18 * HOUR_S
            t = morning + random.randrange(HOUR_S)
            if start + 20 * MINUTE_S < t < start + 60 * MINUTE_S:
                t = start + 20 * MINUTE_S
            while t < evening:
                is_lunch = day * DAY_S + 12 * HOUR_S <= t < day * DAY_S + 13 * HOUR_S
                if is_lunch:
                    t += random.randrange(50 * MINUTE_S, 80 * MINUTE_S)
                    continue
                busy, rest = random.randrange(6 * MINUTE_S, 25 * MINUTE_S), random.randrange(3, 18) * MINUTE_S
                if start <= t < end:
                    found += [(t, "cell"), (t + busy, "thinking")]
                t += busy + rest
        return tuple(sorted(found))

    return doings


def serving(chance: Random, workdays: Sequence[bool], *, sleeps: bool) -> Doings:
    """Load by the hour, each change a little early or late. `sleeps`: nobody calls in the small hours."""
    found = [(-13 * DAY_S, "load-15")]
    for day, is_workday in enumerate(workdays):
        for hour, load in enumerate(_WORKDAY if is_workday else _WEEKEND):
            percent = load if load or sleeps else 15
            start = day * DAY_S + hour * HOUR_S + chance.randrange(600)
            if found[-1][1] != f"load-{percent}":
                found.append((start, f"load-{percent}"))
    return tuple(found)
