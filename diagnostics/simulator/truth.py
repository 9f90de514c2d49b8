"""The book-keeping of a simulated month: who held what in which state for how long, worked out from its plan.

Nothing is polled or sampled here, and no code of the product is used: the rules are those of the glossary, applied to
what was really going on. Device names are `node/pci address`, with `/mig-<id>` for an instance.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from itertools import groupby, pairwise
from typing import NamedTuple

from diagnostics.simulator import lifecycle
from diagnostics.simulator.activity import PROFILES, Instant, Reading
from diagnostics.simulator.config import WorldConfig
from diagnostics.simulator.devices import BUSES, POWER_LIMIT_W
from diagnostics.simulator.month.calendar import (
    CRASH_RUN_S,
    DAY_S,
    DAYS,
    GRACE_S,
    Month,
    Run,
    Slot,
    Span,
    Stay,
    Trouble,
    during,
)
from diagnostics.simulator.month.plan import month_of, second_of
from diagnostics.simulator.month.upheaval import MIG_INSTANCES

NOBODY = ""
"""The team of what nobody holds."""
WINDOW_S = 30 * 60
STUCK_TERMINATING_S, STUCK_PULL_S, STUCK_RESTARTS = 120, 300, 3
IDLE_POWER_RATIO, HUNG_POWER_RATIO = 0.3, 0.5
RESIDENT_MIB = 1536.0
END = DAYS * DAY_S
IDLE, HUNG = ("idle_empty", "idle_held"), ("hung",)

Sums = dict[tuple[str, str], int]
"""(team, state) -> milliseconds of whole GPUs."""


class Held(NamedTuple):
    """A span of one device's time, in seconds of the month."""

    start: int
    end: int
    team: str
    state: str


def usage(config: WorldConfig, start: datetime, end: datetime) -> Sums:
    """GPU-milliseconds by team and state; a MIG instance counts by its share of the board.

    Raises ValueError for a config without a month, or a time outside of it.
    """
    total: Counter[tuple[str, str]] = Counter()
    parts: Counter[tuple[str, str]] = Counter()
    for name, sums in by_device(config, start, end).items():
        (parts if "/mig-" in name else total).update(sums)
    for key, ms in parts.items():
        total[key] += round(Fraction(ms, MIG_INSTANCES))
    return dict(total)


def by_device(config: WorldConfig, start: datetime, end: datetime) -> dict[str, Sums]:
    """Milliseconds by team and state of each device; together they are the time that it existed. Raises as `usage`."""
    span = Span(second_of(config, start), second_of(config, end))
    if not 0 <= span.start <= span.end <= END:
        raise ValueError(f"the month is over after {DAYS} days, and nothing is known of the time before it")
    found: dict[str, Sums] = {}
    for name, line in timelines(config).items():
        sums: Counter[tuple[str, str]] = Counter()
        for held in line:
            seconds = min(held.end, span.end) - max(held.start, span.start)
            if seconds > 0:
                sums[held.team, held.state] += seconds * 1000
        found[name] = dict(sums)
    return found


@lru_cache(maxsize=4)
def timelines(config: WorldConfig) -> dict[str, tuple[Held, ...]]:
    """Every device's time from its beginning to its end. Raises ValueError for a config without a month."""
    if config.schedule != "month":
        raise ValueError("only a month has book-keeping")
    month = month_of(config)
    stays: dict[Slot, list[tuple[Run, Stay]]] = {}
    for run in month.runs:
        for stay in run.stays:
            for slot in stay.slots:
                stays.setdefault(slot, []).append((run, stay))
    found = {}
    for node, life in month.nodes.items():
        for board in range(config.gpus_per_node):
            slot, exists = Slot(node, board), Span(max(0, life.exists.start), min(END, life.exists.end))
            name, since = f"{node}/00000000:{BUSES[board]}:00.0", month.split.get(slot)
            if since is not None:
                for instance in range(MIG_INSTANCES):
                    part = slot._replace(instance=instance)
                    lived = Span(since, exists.end)
                    found[f"{name}/mig-{7 + instance}"] = tuple(
                        _timeline(month, part, lived, stays.get(part, []))
                    )
                exists = Span(exists.start, since)
            found[name] = tuple(_timeline(month, slot, exists, stays.get(slot, [])))
    return found


class _Bit(NamedTuple):
    """A span with one holder and one thing going on; quiet time is not judged by its length yet."""

    start: int
    end: int
    team: str
    word: str
    holder: int


def _timeline(month: Month, slot: Slot, exists: Span, stays: list[tuple[Run, Stay]]) -> Iterator[Held]:
    bits = _bits(month, slot, exists, stays)
    for (_, _, kind), stretch in groupby(bits, key=lambda bit: (bit.holder, bit.team, _kind(bit))):
        spans = list(stretch)
        is_short = kind in (IDLE, HUNG) and spans[-1].end - spans[0].start < WINDOW_S
        for bit in spans:
            yield Held(bit.start, bit.end, bit.team, "ineffective" if is_short else bit.word)


def _kind(bit: _Bit) -> tuple[str, ...]:
    """Idle with and without resident memory is one stretch."""
    return next((kind for kind in (IDLE, HUNG) if bit.word in kind), (bit.word,))


def _bits(month: Month, slot: Slot, exists: Span, stays: list[tuple[Run, Stay]]) -> Iterator[_Bit]:
    place = _Place(month, slot)
    t = exists.start
    for number, (run, stay) in enumerate(sorted(stays, key=lambda pair: pair[1].bound), 1):
        yield from place.cut(Span(t, min(stay.bound, exists.end)), NOBODY, "free", 0)
        words = [*_words(run, stay), (stay.ended, "")]
        for (start, word), (end, _) in pairwise(words):
            yield from place.cut(Span(max(start, t), min(end, exists.end)), run.team, word, number)
        t = max(t, min(stay.ended, exists.end))
    yield from place.cut(Span(t, exists.end), NOBODY, "free", 0)


@dataclass(frozen=True)
class _Place:
    """What befalls a device from outside, whoever holds it."""

    month: Month
    slot: Slot

    def cut(self, span: Span, team: str, word: str, holder: int) -> Iterator[_Bit]:
        life, board = self.month.nodes[self.slot.node], self.month.boards.get(self.slot)
        outside = (
            *life.down,
            *life.cordoned,
            *life.unmeasured,
            *life.crowded,
            *((board.sick,) if board else ()),
        )
        edges = {edge for one in outside for edge in one if span.start < edge < span.end}
        times = [span.start, *sorted(edges), span.end]
        for start, end in pairwise(times):
            if start < end:
                yield _Bit(start, end, team, self._state(start, word, is_held=holder > 0), holder)

    def _state(self, t: int, word: str, *, is_held: bool) -> str:
        life, board = self.month.nodes[self.slot.node], self.month.boards.get(self.slot)
        if during(life.down, t) or (board and board.sick.has(t)):
            return "unavailable"
        if not is_held:
            return (
                "unavailable"
                if during(life.cordoned, t)
                else "stranded"
                if during(life.crowded, t)
                else "free"
            )
        by_metrics = word not in ("stuck", "starting", "blocked")
        return "no_data" if by_metrics and during(life.unmeasured, t) else word


def _words(run: Run, stay: Stay) -> list[tuple[int, str]]:
    """Since when which state, as far as the pod itself decides."""
    match stay.trouble:
        case Trouble.CRASH_LOOP:
            return list(_crash_loop(stay))
        case Trouble.PULL:
            return [(stay.bound, "starting"), (stay.bound + STUCK_PULL_S, "stuck")]
    stuck = stay.deleted + GRACE_S + STUCK_TERMINATING_S
    complete = run.complete if run.is_gang else stay.bound
    times = {stay.bound, stay.ready, complete, stuck, *(start for start, _ in run.doings)}
    found = []
    for t in sorted(time for time in times if stay.bound <= time < stay.ended):
        word = word_of(run.doing(t))
        if t < complete:
            word = "blocked"
        if t < stay.ready:
            word = "starting"
        found.append((t, "stuck" if t >= stuck else word))
    return found


def _crash_loop(stay: Stay) -> Iterator[tuple[int, str]]:
    t, restarts, wait = stay.bound, 0, lifecycle.FIRST_BACKOFF_S
    until = t + 4 + CRASH_RUN_S
    while t < stay.ended:
        yield t, "idle_empty"
        if until < stay.ended:
            yield until, "stuck" if restarts >= STUCK_RESTARTS else "starting"
        t = until + wait
        until = t + CRASH_RUN_S
        restarts, wait = restarts + 1, min(2 * wait, lifecycle.LONGEST_BACKOFF_S)


@lru_cache
def word_of(profile: str) -> str:
    """The state that a pod is in which does this for hours. Raises ValueError where chance decides it."""
    extremes = (Instant(0, 60, (noise,) * 32) for noise in (0.0, 1.0))
    words = {judged(PROFILES[profile](instant)) for instant in extremes}
    if len(words) > 1:
        raise ValueError(f"{profile} is now {' and now '.join(sorted(words))}")
    return words.pop()


def judged(r: Reading) -> str:
    """The state of a held GPU that measures this for long."""
    if (
        r.utilization >= 0.95
        and r.dram < 0.05
        and r.tensor < 0.02
        and r.power_w < HUNG_POWER_RATIO * POWER_LIMIT_W
    ):
        return "hung"
    is_quiet = not any((r.utilization, r.graphics, r.sm, r.tensor, r.dram))
    if is_quiet and r.power_w <= IDLE_POWER_RATIO * POWER_LIMIT_W:
        return "idle_held" if r.memory_mib > RESIDENT_MIB else "idle_empty"
    return "effective" if max(r.sm, r.dram / 0.8) >= 0.5 else "ineffective"
