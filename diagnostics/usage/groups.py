"""What summaries are made of: groups with their time by state and their money, and the largest savings. Pure."""

from collections import defaultdict
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple

from diagnostics.snapshot import State
from diagnostics.usage.prices import PriceLine, money, price_of

type Name = tuple[str, ...] | None
"""Of a team, namespace, model or state; kind, namespace and name of a workload. None: nobody's time."""


class Grouping(StrEnum):
    """What sums are made by."""

    TEAM = "team"
    NAMESPACE = "namespace"
    WORKLOAD = "workload"
    MODEL = "model"
    STATE = "state"


class Within(NamedTuple):
    """What a summary is restricted to; None: nothing. Nobody's time has no team and no namespace."""

    team: str | None = None
    namespace: str | None = None

    @property
    def is_any(self) -> bool:
        return self.team is not None or self.namespace is not None


class Spent(NamedTuple):
    """GPU-milliseconds, and how many of them were wasted."""

    gpu_ms: int
    waste_ms: int


class Group(NamedTuple):
    """One line of a summary."""

    name: Name
    gpu_ms: int
    waste_ms: int
    unpriced_ms: int
    """GPU-milliseconds of models without a known price: not in the money."""
    costs: dict[str, Decimal]
    """Currency -> money; empty when no price is known. Unrounded."""
    wasted: dict[str, Decimal]
    states: dict[State, Spent]
    unpriced_waste_ms: int


class Saving(NamedTuple):
    """A workload that wastes, and how."""

    workload: int
    """Primary key."""
    name: Name
    """Kind, namespace and name."""
    waste_ms: int
    unpriced_ms: int
    """Of the waste, what is of models without a known price."""
    wasted: dict[str, Decimal]
    states: dict[State, int]
    """Kind of waste -> GPU-milliseconds wasted that way; most first."""


class Ledger(NamedTuple):
    """A summary, and what it rests on."""

    start: datetime
    """Full hours, UTC: the span that was asked for, widened to them."""
    end: datetime
    begins: datetime | None
    """The first hour of the whole ledger: nothing is known of what was before; None while there is none."""
    complete_through: datetime | None
    """Everything before is final; None before the first poll."""
    whole_from: datetime | None
    """From when on nothing of it is left to be back-filled, its end at most; None where nothing is."""
    groups: tuple[Group, ...]
    """Without unobserved time; most GPU-time first."""
    group_count: int
    """Of all groups that may be asked for, whether or not they were."""
    whole: Group
    """All groups in one."""
    held: Group
    """The same without what nobody held: free, stranded and unavailable time."""
    unobserved_ms: int
    backfilled_ms: int
    """Of the groups, how much was rebuilt from Prometheus."""
    unpriced_models: tuple[str, ...]
    """Models in it for which no price is known in at least one hour."""

    @property
    def total_ms(self) -> int:
        """All time that devices existed, as far as the ledger knows: observed or not."""
        return self.unobserved_ms + self.whole.gpu_ms

    @property
    def currencies(self) -> list[str]:
        return sorted(self.whole.costs)


class What(NamedTuple):
    """What money and state go by, within a group."""

    segment: int
    model: str
    state: State


type Whats = dict[What, list[int]]
"""-> [gpu_ms, waste_ms]."""


class Prices:
    """Price of each model in each segment of a span, within which no price changes."""

    def __init__(self, lines: list[PriceLine], cuts: list[datetime]) -> None:
        self._lines, self._cuts = lines, cuts
        self._known: dict[tuple[int, str], PriceLine | None] = {}

    def of(self, segment: int, model: str) -> PriceLine | None:
        """None where it is not known."""
        key = (segment, model)
        if key not in self._known:
            self._known[key] = price_of(model, self._cuts[segment], self._lines)
        return self._known[key]

    @property
    def unpriced_models(self) -> tuple[str, ...]:
        """Of those that were asked for."""
        return tuple(sorted({model for (_, model), line in self._known.items() if line is None}))


def group(name: Name, whats: Whats, prices: Prices) -> Group:
    """One group from its sums."""
    costs: dict[str, Decimal] = defaultdict(Decimal)
    wasted: dict[str, Decimal] = defaultdict(Decimal)
    states: dict[State, list[int]] = {}
    unpriced_ms = unpriced_waste_ms = 0
    for (segment, model, state), (gpu_ms, waste_ms) in whats.items():
        spent = states.setdefault(state, [0, 0])
        spent[0] += gpu_ms
        spent[1] += waste_ms
        line = prices.of(segment, model)
        if line is None:
            unpriced_ms += gpu_ms
            unpriced_waste_ms += waste_ms
        else:
            costs[line.currency] += money(gpu_ms, line)
            wasted[line.currency] += money(waste_ms, line)
    by_state = {state: Spent(*states[state]) for state in State if state in states}
    gpu_ms, waste_ms = (sum(spent[i] for spent in by_state.values()) for i in (0, 1))
    return Group(name, gpu_ms, waste_ms, unpriced_ms, dict(costs), dict(wasted), by_state, unpriced_waste_ms)


def saving(workload: int, name: Name, whats: Whats, prices: Prices) -> Saving:
    """What one workload wasted."""
    found = group(None, whats, prices)
    kinds = sorted(found.states.items(), key=lambda one: -one[1].waste_ms)
    return Saving(
        workload,
        name,
        found.waste_ms,
        found.unpriced_waste_ms,
        found.wasted,
        {state: spent.waste_ms for state, spent in kinds if spent.waste_ms},
    )
