"""A span of the ledger read as few rows: months, days and hours that are rolled up, and the hours that are not."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import groupby, pairwise
from typing import NamedTuple

from django.db.models import Case, Exists, IntegerField, OuterRef, Q, QuerySet, Sum, Value, When
from django.db.models.functions import TruncMonth

from diagnostics.models import Cluster, UsageHour, UsageRollup
from diagnostics.usage.lines import Columns, Damaged, Kind, Line, Values, unpacked

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
MOST_RANGES = 20
"""More stretches of hours than this are asked for hour by hour."""

log = logging.getLogger(__name__)

type Range = tuple[datetime, datetime]
type Place = tuple[date, int]
"""Day and hour of a roll-up."""


class Tile(NamedTuple):
    """A roll-up that lies in the span."""

    start: datetime
    end: datetime
    segment: int
    keys: str
    """As `UsageRollup.keys`."""
    tables: dict[str, Columns[Kind, Values]]
    """By the field that it was packed in."""


class Cover(NamedTuple):
    """Tiles that do not overlap, and the ranges that none of them covers."""

    tiles: list[Tile]
    bare: list[tuple[int, Range]]
    """(segment, range), in order of time."""


def cover(cluster: Cluster, cuts: Sequence[datetime], fields: Iterable[str]) -> Cover:
    """What lies between the first and the last of `cuts`: full hours in UTC, of which each pair is a segment.

    No tile reaches over a cut. Two at least. One query.
    """
    start, end = cuts[0], cuts[-1]
    segments = list(enumerate(pairwise(cuts)))
    whole = [place for _, segment in segments for place in _whole(*segment)]
    fields = tuple(fields)
    tiles: list[Tile] = []
    for day, hour, keys, *packed in _rows(cluster, start, end, whole).values_list(
        "day", "hour", "keys", *fields
    ):
        since, until = range_of(day, hour)
        segment = next(number for number, (first, last) in segments if first <= since and until <= last)
        tables = _tables(day, fields, packed)
        if tables is not None:
            tiles.append(Tile(since, until, segment, keys, tables))
    return Cover(tiles, _bare(segments, tiles))


def with_tables(cluster: Cluster, tiles: Sequence[Tile], fields: tuple[str, ...]) -> list[Tile]:
    """The same tiles with other tables of theirs; those that are gone meanwhile are left out. One query, or none."""
    if not tiles:
        return []
    wanted = {(tile.start, tile.end): tile for tile in tiles}
    rows = UsageRollup.objects.filter(cluster=cluster, day__in={tile.start.date() for tile in tiles})
    found = []
    for day, hour, *packed in rows.values_list("day", "hour", *fields):
        tile = wanted.get(range_of(day, hour))
        tables = _tables(day, fields, packed) if tile is not None else None
        if tile is not None and tables is not None:
            found.append(tile._replace(tables=tables))
    return found


def _tables(
    day: date, fields: Iterable[str], packed: Iterable[bytes]
) -> dict[str, Columns[Kind, Values]] | None:
    """None for a roll-up that cannot be read, which is as good as none."""
    try:
        return {field: unpacked(bytes(data)) for field, data in zip(fields, packed, strict=True)}
    except Damaged as error:
        log.warning("a roll-up of %s cannot be read and is passed over: %s", day, error)
        return None


def bare_lines(
    cluster: Cluster, bare: Sequence[tuple[int, Range]], cuts: Sequence[datetime]
) -> dict[int, list[Line]]:
    """Segment -> lines by workload of hours that are not rolled up; owners are not looked up. One query, or none."""
    if not bare:
        return {}
    rows = UsageHour.objects.filter(_within([span for _, span in bare]), cluster=cluster)
    ends = [When(hour__lt=until, then=Value(number)) for number, until in enumerate(cuts[1:])]
    what = ("segment", "workload", "model__name", "state", "is_gap", "is_backfilled")
    segment = Case(*ends, output_field=IntegerField())
    sums = rows.annotate(segment=segment).values_list(*what).order_by()
    found: dict[int, list[Line]] = {}
    for number, workload, *kind, gpu_ms, waste_ms in sums.annotate(
        all_ms=Sum("gpu_ms"), all_waste_ms=Sum("waste_ms")
    ).iterator():
        found.setdefault(number, []).append(Line(workload, (), Kind(*kind), int(gpu_ms), int(waste_ms)))
    return found


def made_of(cluster: Cluster, hours: Iterable[datetime]) -> list[QuerySet[UsageRollup]]:
    """The roll-ups that these hours (UTC) are in, a month of them at a time."""
    by_day: dict[date, list[int]] = defaultdict(lambda: [UsageRollup.WHOLE_DAY])
    for hour in hours:
        by_day[hour.date()].append(hour.hour)
    by_month: dict[date, Q] = {}
    for day, numbers in by_day.items():
        month = day.replace(day=1)
        wanted = by_month.get(month, Q(day=month, hour=UsageRollup.WHOLE_MONTH))
        by_month[month] = wanted | Q(day=day, hour__in=numbers)
    return [UsageRollup.objects.filter(wanted, cluster=cluster) for wanted in by_month.values()]


def _rows(cluster: Cluster, start: datetime, end: datetime, whole: list[Place]) -> QuerySet[UsageRollup]:
    """Of what is rolled up as a whole the longest; else, and of the other days, the hours."""
    rolled = UsageRollup.objects.filter(cluster=cluster).alias(month=TruncMonth("day"))
    first, last = start, end - HOUR
    between = Q(day__gt=first.date(), day__lt=last.date())
    if first.date() == last.date():
        edges = Q(day=first.date(), hour__gte=first.hour, hour__lte=last.hour)
    else:
        edges = Q(day=first.date(), hour__gte=first.hour) | Q(day=last.date(), hour__lte=last.hour)
    found = Q(between | edges, hour__lt=UsageRollup.WHOLE_DAY)
    for length, begin in ((UsageRollup.WHOLE_DAY, "day"), (UsageRollup.WHOLE_MONTH, "month")):
        places = Q(hour=length, day__in=[day for day, hour in whole if hour == length])
        longer = rolled.filter(places, day=OuterRef(begin))
        found = Q(found, ~Exists(longer)) | places
    return rolled.filter(found).order_by("day", "hour")


def _whole(start: datetime, end: datetime) -> Iterator[Place]:
    """Days and months of UTC that lie in [start, end)."""
    day = datetime(start.year, start.month, start.day, tzinfo=UTC)
    day += DAY if day < start else timedelta()
    while day + DAY <= end:
        yield day.date(), UsageRollup.WHOLE_DAY
        if day.day == 1 and range_of(day.date(), UsageRollup.WHOLE_MONTH)[1] <= end:
            yield day.date(), UsageRollup.WHOLE_MONTH
        day += DAY


def range_of(day: date, hour: int) -> Range:
    """Of what a roll-up is made of."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    match hour:
        case UsageRollup.WHOLE_DAY:
            return midnight, midnight + DAY
        case UsageRollup.WHOLE_MONTH:
            return midnight, (midnight + 31 * DAY).replace(day=1)
    return midnight + hour * HOUR, midnight + (hour + 1) * HOUR


def _bare(segments: list[tuple[int, Range]], tiles: list[Tile]) -> list[tuple[int, Range]]:
    found: list[tuple[int, Range]] = []
    of = {number: list(some) for number, some in groupby(tiles, lambda tile: tile.segment)}
    for number, (start, end) in segments:
        at = start
        for tile in of.get(number, []):
            if tile.start > at:
                found.append((number, (at, tile.start)))
            at = tile.end
        if at < end:
            found.append((number, (at, end)))
    return found


def _within(ranges: list[Range]) -> Q:
    wanted = Q()
    if len(ranges) > MOST_RANGES:
        hours = [start + i * HOUR for start, end in ranges for i in range((end - start) // HOUR)]
        return Q(hour__in=hours)
    for start, end in ranges:
        wanted |= Q(hour__gte=start, hour__lt=end)
    return wanted
