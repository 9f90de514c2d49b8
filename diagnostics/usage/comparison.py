"""Today so far against the same hours of the days before: what the overview shows."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from typing import NamedTuple

from django.db.models import FilteredRelation, Q, Subquery, Sum

from diagnostics.models import STATES, Cluster, UsageHour, UsageRollup
from diagnostics.snapshot import State
from diagnostics.usage.covering import HOUR
from diagnostics.usage.groups import Prices, What, Whats, group
from diagnostics.usage.lines import Damaged, Kind, lines_of, unpacked
from diagnostics.usage.mapping import price_lines
from diagnostics.usage.prices import floored
from diagnostics.usage.weights import OF_THE_BOARD

DAYS = 7
MOST_BARE = 12
"""Hours that are read line by line. Where more are not rolled up, the days that they belong to are left out."""

type Sums = dict[Kind, tuple[int, int]]
"""-> GPU-milliseconds and wasted ones of one hour."""


class Spell(NamedTuple):
    """GPU-milliseconds of some hours of one day; of several days, their mean."""

    held_ms: int
    """By workloads, whatever the GPUs did; without unobserved time."""
    wasted_ms: int
    effective_ms: int
    unobserved_ms: int
    costs: dict[str, Decimal]
    """Currency -> money for what was held; empty where no price is known."""
    wasted: dict[str, Decimal]
    unpriced_ms: int
    """Held on models without a known price: not in the money."""


class TodayAndWeek(NamedTuple):
    """The hours of today that are final, and the same hours of the days before."""

    start: datetime
    """The full hour of midnight in the site's time zone, or where the ledger begins."""
    end: datetime
    """Up to here it is counted; `start` while no hour of today is final."""
    today: Spell | None
    """None while no hour of today is final, and where nobody observed any."""
    week: Spell | None
    """The mean of the days that are known; None where none is."""
    days: int
    """How many those are, of DAYS."""


def today_and_week(cluster: Cluster, now: datetime, tz: tzinfo) -> TodayAndWeek:
    """What is held, wasted and effective today so far, and on the mean of the DAYS before; at most three queries."""
    today = now.astimezone(tz).date()
    midnights = [_midnight(today - timedelta(days=back), tz) for back in range(DAYS + 1)]
    begins, through, known = _read(cluster, midnights[-1], midnights[0])
    if begins is None or through is None:
        return TodayAndWeek(midnights[0], midnights[0], None, None, 0)
    start = max(midnights[0], begins)
    hours = _hours(start, floored(min(now, through)))
    missing = [hour for hour in hours if hour not in known]
    if len(missing) > MOST_BARE:
        hours, missing = hours[: hours.index(missing[0])], []
    since = [midnight + (start - midnights[0]) for midnight in midnights[1:]]
    before = [_hours(moment, moment + len(hours) * HOUR) for moment in since]
    before = [span for span in before if span and span[0] >= begins]
    lacking = [hour for span in before for hour in span if hour not in known]
    if len(missing) + len(lacking) <= MOST_BARE:
        missing += lacking
    known |= _bare(cluster, missing)
    lines = price_lines(cluster) if hours else []
    prices = Prices(lines, moments := sorted(known))
    places = {hour: number for number, hour in enumerate(moments)}
    spells = [
        _spell({places[hour]: known[hour] for hour in span}, prices) if set(span) <= known.keys() else None
        for span in (hours, *before)
    ]
    week = [spell for spell in spells[1:] if spell is not None]
    return TodayAndWeek(start, start + len(hours) * HOUR, spells[0], _mean(week), len(week))


def _midnight(day: date, tz: tzinfo) -> datetime:
    """Of that day, or the full hour of UTC before it."""
    return floored(datetime.combine(day, time(), tzinfo=tz).astimezone(UTC))


def _hours(start: datetime, end: datetime) -> list[datetime]:
    return [start + number * HOUR for number in range(max(0, (end - start) // HOUR))]


def _read(
    cluster: Cluster, start: datetime, today: datetime
) -> tuple[datetime | None, datetime | None, dict[datetime, Sums]]:
    """The ledger's first hour, through when it is complete, and the hours from `start` on that are rolled up."""
    first = UsageHour.objects.filter(cluster=cluster).order_by("hour").values("hour")[:1]
    made = FilteredRelation(
        "usage_rollups",
        condition=Q(
            usage_rollups__hour__lt=UsageRollup.WHOLE_DAY,
            usage_rollups__day__gte=start.date(),
            usage_rollups__day__lte=(today + timedelta(days=2)).date(),
        ),
    )
    rows = Cluster.objects.filter(pk=cluster.pk).annotate(made=made)
    found = list(
        rows.values_list(
            Subquery(first), "ledger__complete_through", "made__day", "made__hour", "made__totals"
        )
    )
    known: dict[datetime, Sums] = {}
    for _, _, day, hour, totals in found:
        if day is None:
            continue
        try:
            lines = lines_of(unpacked(bytes(totals)))
        except Damaged:
            continue
        at = datetime(day.year, day.month, day.day, hour, tzinfo=UTC)
        known[at] = {line.kind: (line.gpu_ms, line.waste_ms) for line in lines}
    begins, through = found[0][:2] if found else (None, None)
    return begins, through, known


def _bare(cluster: Cluster, hours: Sequence[datetime]) -> dict[datetime, Sums]:
    """Hours that are not rolled up; one query, or none."""
    if not hours:
        return {}
    found: dict[datetime, Sums] = {hour: {} for hour in hours}
    rows = UsageHour.objects.filter(cluster=cluster, hour__in=hours)
    what = ("hour", "model__name", "state", "is_gap", "is_backfilled")
    sums = rows.order_by().values_list(*what).annotate(all_ms=Sum("gpu_ms"), all_waste_ms=Sum("waste_ms"))
    for hour, *kind, gpu_ms, waste_ms in sums:
        found[hour][Kind(*kind)] = int(gpu_ms), int(waste_ms)
    return found


def _spell(hours: dict[int, Sums], prices: Prices) -> Spell | None:
    """Place among the prices -> sums. None where there is nothing, or nobody looked."""
    whats: Whats = {}
    effective = unobserved = observed = 0
    for place, sums in hours.items():
        for kind, (gpu_ms, waste_ms) in sums.items():
            state = STATES[kind.state]
            if kind.is_gap:
                unobserved += gpu_ms
                continue
            observed += gpu_ms
            if state in OF_THE_BOARD:
                continue
            effective += gpu_ms if state is State.EFFECTIVE else 0
            spent = whats.setdefault(What(place, kind.model, state), [0, 0])
            spent[0] += gpu_ms
            spent[1] += waste_ms
    if not observed:
        return None
    held = group(None, whats, prices)
    return Spell(held.gpu_ms, held.waste_ms, effective, unobserved, held.costs, held.wasted, held.unpriced_ms)


def _mean(spells: Sequence[Spell]) -> Spell | None:
    if not spells:
        return None
    number = len(spells)
    return Spell(
        held_ms=sum(spell.held_ms for spell in spells) // number,
        wasted_ms=sum(spell.wasted_ms for spell in spells) // number,
        effective_ms=sum(spell.effective_ms for spell in spells) // number,
        unobserved_ms=sum(spell.unobserved_ms for spell in spells) // number,
        costs=_mean_money([spell.costs for spell in spells]),
        wasted=_mean_money([spell.wasted for spell in spells]),
        unpriced_ms=sum(spell.unpriced_ms for spell in spells) // number,
    )


def _mean_money(every: Iterable[dict[str, Decimal]]) -> dict[str, Decimal]:
    found: dict[str, Decimal] = defaultdict(Decimal)
    every = list(every)
    for costs in every:
        for currency, amount in costs.items():
            found[currency] += amount / len(every)
    return dict(found)
