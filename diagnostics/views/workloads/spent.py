"""GPU-hours, waste and money of one workload: by state, and by day as bars."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from django.db.models import Case, IntegerField, Sum, Value, When

from diagnostics.models import STATES, Cluster, UsageHour
from diagnostics.snapshot import State
from diagnostics.usage.mapping import price_lines
from diagnostics.usage.prices import PriceLine, boundaries, money, price_of
from diagnostics.usage.weights import HOUR_MS
from diagnostics.views.bars import ORDER

DAY = timedelta(days=1)
DAYS, SHORT_DAYS = 30, 7
BAR_WIDTH, BAR_HEIGHT = 20.0, 100.0
"""Of one day, in the units of the drawing."""
GAP = 3.0


@dataclass(frozen=True, kw_only=True)
class Period:
    """What the last days came to."""

    days: int
    gpu_hours: float
    wasted_hours: float
    unobserved_hours: float
    backfilled_hours: float
    costs: tuple[str, ...]
    """`1,234.50 USD`, one a currency; empty where no price is known."""
    wasted: tuple[str, ...]
    unpriced_hours: float

    @property
    def wasted_ratio(self) -> float | None:
        return self.wasted_hours / self.gpu_hours if self.gpu_hours else None


@dataclass(frozen=True, kw_only=True)
class StateHours:
    """GPU-hours in one state, and how many of them were wasted, over the short and the long period."""

    state: State
    short: float
    short_wasted: float
    long: float
    long_wasted: float


@dataclass(frozen=True, kw_only=True)
class DayPart:
    """One state's part of a day's bar."""

    state: State | None
    """None: not observed."""
    y: float
    height: float


@dataclass(frozen=True, kw_only=True)
class DayBar:
    """One day: stacked by state, from work at the bottom to waste at the top."""

    day: datetime
    x: float
    parts: tuple[DayPart, ...]
    gpu_hours: float
    wasted_hours: float
    unobserved_hours: float


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What the ledger says of one workload."""

    periods: tuple[Period, ...]
    """The short one, then the long one."""
    states: tuple[StateHours, ...]
    bars: tuple[DayBar, ...]
    """Oldest first, days without anything included."""
    highest: float
    """GPU-hours of the highest bar."""
    complete_through: datetime | None
    """Everything before is final."""

    @property
    def width(self) -> float:
        return BAR_WIDTH * DAYS


class _Line(NamedTuple):
    start: datetime
    """Of the stretch of a day over which prices stay the same."""
    model: str
    state: State
    is_gap: bool
    is_backfilled: bool
    gpu_ms: int
    waste_ms: int

    @property
    def day(self) -> datetime:
        return _midnight(self.start)


def spent_of(cluster: Cluster, workload: int, now: datetime, complete_through: datetime | None) -> Spent:
    """The last 30 days (UTC) with today. Two queries."""
    end = _midnight(now) + DAY
    start = end - DAYS * DAY
    prices = price_lines(cluster)
    cuts = sorted({*boundaries(prices, start, end), *(start + number * DAY for number in range(DAYS))})
    lines = list(_lines(cluster, workload, cuts))
    short = [line for line in lines if line.day >= end - SHORT_DAYS * DAY]
    highest, bars = _bars(lines, start)
    return Spent(
        periods=(_period(SHORT_DAYS, short, prices), _period(DAYS, lines, prices)),
        states=_states(short, lines),
        bars=bars,
        highest=highest,
        complete_through=complete_through,
    )


def _midnight(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _lines(cluster: Cluster, workload: int, cuts: list[datetime]) -> Iterator[_Line]:
    """Sums between two cuts, made by the database: a month of one workload has thousands of rows."""
    # Named one by one, the hours are looked up in the index, which begins with them: of a range, the database reads
    # the rows of all workloads, and of a workload those of all its months.
    hours = [cuts[0] + number * timedelta(hours=1) for number in range(DAYS * 24)]
    stretch = Case(
        *(When(hour__lt=cut, then=Value(number)) for number, cut in enumerate(cuts[1:])),
        output_field=IntegerField(),
    )
    rows = (
        UsageHour.objects.filter(cluster=cluster, workload=workload, hour__in=hours)
        .annotate(stretch=stretch)
        .values_list("stretch", "model__name", "state", "is_gap", "is_backfilled")
        .annotate(all_ms=Sum("gpu_ms"), all_waste_ms=Sum("waste_ms"))
        .order_by("stretch")
    )
    for number, model, state, is_gap, is_backfilled, gpu_ms, waste_ms in rows:
        yield _Line(cuts[number], model, STATES[state], is_gap, is_backfilled, int(gpu_ms), int(waste_ms))


def _period(days: int, lines: list[_Line], prices: list[PriceLine]) -> Period:
    costs: dict[str, Decimal] = defaultdict(Decimal)
    wasted: dict[str, Decimal] = defaultdict(Decimal)
    unpriced = 0
    seen = [line for line in lines if not line.is_gap]
    for line in seen:
        price = price_of(line.model, line.start, prices)
        if price is None:
            unpriced += line.gpu_ms
            continue
        costs[price.currency] += money(line.gpu_ms, price)
        wasted[price.currency] += money(line.waste_ms, price)
    return Period(
        days=days,
        gpu_hours=_hours(line.gpu_ms for line in seen),
        wasted_hours=_hours(line.waste_ms for line in seen),
        unobserved_hours=_hours(line.gpu_ms for line in lines if line.is_gap),
        backfilled_hours=_hours(line.gpu_ms for line in seen if line.is_backfilled),
        costs=_written(costs),
        wasted=_written(wasted),
        unpriced_hours=unpriced / HOUR_MS,
    )


def _hours(amounts_ms: Iterator[int]) -> float:
    return sum(amounts_ms) / HOUR_MS


def _written(amounts: dict[str, Decimal]) -> tuple[str, ...]:
    return tuple(f"{amount:,.2f} {currency}" for currency, amount in sorted(amounts.items()))


def _states(short: list[_Line], long: list[_Line]) -> tuple[StateHours, ...]:
    def of(lines: list[_Line], state: State) -> list[_Line]:
        return [line for line in lines if line.state is state and not line.is_gap]

    found = []
    for state in (state for state in ORDER if state is not None):
        mine, lately = of(long, state), of(short, state)
        if mine:
            found.append(
                StateHours(
                    state=state,
                    short=_hours(line.gpu_ms for line in lately),
                    short_wasted=_hours(line.waste_ms for line in lately),
                    long=_hours(line.gpu_ms for line in mine),
                    long_wasted=_hours(line.waste_ms for line in mine),
                )
            )
    return tuple(found)


def _bars(lines: list[_Line], start: datetime) -> tuple[float, tuple[DayBar, ...]]:
    by_day: dict[datetime, list[_Line]] = defaultdict(list)
    for line in lines:
        by_day[line.day].append(line)
    highest = max((sum(line.gpu_ms for line in day) for day in by_day.values()), default=0)
    days = [start + number * DAY for number in range(DAYS)]
    bars = tuple(_bar(number, day, by_day.get(day, []), highest) for number, day in enumerate(days))
    return highest / HOUR_MS, bars


def _bar(number: int, day: datetime, lines: list[_Line], highest: int) -> DayBar:
    parts, y = [], BAR_HEIGHT
    for state in ORDER:
        amount = sum(line.gpu_ms for line in lines if (None if line.is_gap else line.state) is state)
        if amount:
            height = BAR_HEIGHT * amount / highest
            y -= height
            parts.append(DayPart(state=state, y=round(y, 2), height=round(height, 2)))
    return DayBar(
        day=day,
        x=number * BAR_WIDTH + GAP / 2,
        parts=tuple(parts),
        gpu_hours=_hours(line.gpu_ms for line in lines if not line.is_gap),
        wasted_hours=_hours(line.waste_ms for line in lines if not line.is_gap),
        unobserved_hours=_hours(line.gpu_ms for line in lines if line.is_gap),
    )
