"""Roll-ups as lines over a span, for pages: what each device did, one mean and one peak per step."""

from array import array
from collections.abc import Collection, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from diagnostics.archive.measured import UNKNOWN
from diagnostics.archive.rollups import FIELDS, HOURS, unpacked
from diagnostics.models import Cluster, MetricDay

HOUR = timedelta(hours=1)
MOST_NODE_DAYS = 500
"""Read at once, the newest: 13 months of one node, two weeks of 32 of them; about a tenth of a second."""


class Grid(NamedTuple):
    """Steps of equal length, the first beginning at `start` (UTC); a step is a whole number of hours."""

    start: datetime
    step: timedelta
    steps: int

    @property
    def end(self) -> datetime:
        return self.start + self.steps * self.step


class Line(NamedTuple):
    """One metric of one device in its own unit, one value per step; None where nothing was measured."""

    means: list[float | None]
    """Of the hours' means, each by its coverage."""
    peaks: list[float | None]


class Courses(NamedTuple):
    """What is stored of some devices over a span."""

    lines: dict[str, dict[str, Line]]
    """Slot -> field (`rollups.FIELDS`) -> line; only those of which anything is stored."""
    begins: datetime
    """Nothing before was read: the start of the span, or later where it was too much."""


def grid_until(now: datetime, span: timedelta, step: timedelta) -> Grid:
    """The steps of the `span` that ends with the last full hour, or with the step in which `now` is."""
    step_s = round(step.total_seconds())
    last_s = int(now.timestamp()) // step_s * step_s + (step_s if step > HOUR else 0)
    count = max(1, round(span / step))
    return Grid(datetime.fromtimestamp(last_s, UTC) - count * step, step, count)


def stored(cluster: Cluster, slots: Collection[str], grid: Grid) -> Courses:
    """What the roll-ups say about these slots. One query. Rows that cannot be read count as missing."""
    last = grid.end - timedelta(microseconds=1)
    rows = MetricDay.objects.filter(
        node__cluster=cluster,
        node__name__in={slot.partition("/")[0] for slot in slots},
        day__gte=grid.start.date(),
        day__lte=last.date(),
    ).order_by("-day", "node")
    found: dict[str, dict[str, Line]] = {}
    begins = grid.start
    for read, row in enumerate(rows[: MOST_NODE_DAYS + 1]):
        if read == MOST_NODE_DAYS:
            begins = max(begins, _midnight(row.day + timedelta(days=1)))
            break
        _take(found, row, slots, grid)
    return Courses(found, begins)


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _take(found: dict[str, dict[str, Line]], row: MetricDay, slots: Collection[str], grid: Grid) -> None:
    """Put one node-day where it belongs."""
    day = unpacked(row)
    offset = round((_midnight(row.day) - grid.start) / HOUR)
    steps = list(_steps(offset, round(grid.step / HOUR), grid.steps))
    everywhere = array("i", [1000] * (HOURS * len(day.slots)))
    all_coverage = day.columns.get("coverage", everywhere)
    columns = [
        (field, 1 / unit, day.columns[f"mean {field}"], day.columns[f"max {field}"])
        for field, unit in FIELDS.items()
        if {f"mean {field}", f"max {field}"} <= day.columns.keys()
    ]
    for number, slot in enumerate(day.slots):
        if slot not in slots:
            continue
        mine = slice(number * HOURS, (number + 1) * HOURS)
        coverage = all_coverage[mine]
        is_even = min(coverage) == max(coverage)
        lines = found.setdefault(slot, {})
        for field, per, all_means, all_peaks in columns:
            means, peaks = all_means[mine], all_peaks[mine]
            missing = means.count(UNKNOWN)
            if missing == HOURS:
                continue
            line = lines.get(field)
            if line is None:
                line = lines[field] = Line([None] * grid.steps, [None] * grid.steps)
            is_plain = missing == 0 and is_even
            for place, hours in steps:
                some, peak = means[hours], max(peaks[hours])
                mean = sum(some) / len(some) if is_plain else _weighted(some, coverage[hours])
                # Divided, not multiplied: 970 / 1000 is 0.97, 970 * 0.001 is not.
                line.means[place] = None if mean is None else mean / per
                line.peaks[place] = None if peak == UNKNOWN else peak / per


def _steps(offset: int, hours_per_step: int, steps: int) -> Iterator[tuple[int, slice]]:
    """(step, which hours of a day that begins `offset` hours after the first step) for the steps within the day.

    Steps of several hours lie within one day: they begin at multiples of their length since midnight.
    """
    for hour in range(0, HOURS, hours_per_step):
        place, rest = divmod(offset + hour, hours_per_step)
        if rest == 0 and 0 <= place < steps:
            yield place, slice(hour, hour + hours_per_step)


def _weighted(means: "array[int]", coverage: "array[int]") -> float | None:
    """Mean of the hours that have one, each by its coverage."""
    weighted = [
        (mean, max(1, weight)) for mean, weight in zip(means, coverage, strict=True) if mean != UNKNOWN
    ]
    weight = sum(weight for _, weight in weighted)
    return sum(mean * weight for mean, weight in weighted) / weight if weight else None
