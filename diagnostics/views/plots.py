"""What GPUs did over a period, as plots and tables: for every page that shows some of them.

A page has `plots: Plots | None` in its context, `plots_of(cluster, slots, request.GET.get("period", ""), now)` where
`has_plots(request)`, else None. Its template has, outside of its `live` part, `{% partialdef plots inline %}` with
`{% include "partials/plots.html" with plots=page.plots %}`; it is sent with `render_page(…, partial=part_of(request))`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

from django.conf import settings
from django.utils import timezone as zones

from diagnostics.archive.courses import Grid, grid_until, stored
from diagnostics.charts import Axis, Style, Trace, figure
from diagnostics.models import Cluster
from diagnostics.views.live import Lately, lately
from diagnostics.views.page import HtmxRequest

MOST_LINES = 8
"""More devices than that are drawn as their highest, mean and lowest."""
GIB = 2**30
HOUR, DAY = timedelta(hours=1), timedelta(days=1)

Values = Sequence[float | None]


class Period(NamedTuple):
    """How far back, in which steps, and in which steps the table tells it."""

    name: str
    span: timedelta
    step: timedelta
    row: timedelta


LIVE = "3h"
PERIODS = {
    LIVE: Period("3 h", 3 * HOUR, timedelta(seconds=30), timedelta(minutes=10)),
    "24h": Period("24 h", DAY, HOUR, HOUR),
    "7d": Period("7 d", 7 * DAY, HOUR, 6 * HOUR),
    "30d": Period("30 d", 30 * DAY, 6 * HOUR, DAY),
    "13mo": Period("13 months", 396 * DAY, DAY, 12 * DAY),
}
"""Key in the address -> period. The first is asked of Prometheus, the others are stored."""
MEANWHILE = "24h"
"""Shown until Prometheus has answered, or where it cannot."""


class Field(NamedTuple):
    """A metric that is drawn: its field of `Metrics`, and how it is told."""

    name: str
    title: str
    term: str
    axis: Axis
    scale: float
    """Value in the field's unit times scale = value on the axis."""


FIELDS = (
    Field("utilization_ratio", "Utilisation", "utilization", Axis("%", 0, 0.0, 100.0), 100.0),
    Field("memory_used_bytes", "Memory used", "gpu_memory", Axis("GiB", 1), 1 / GIB),
    Field("power_w", "Power", "power", Axis("W", 0), 1.0),
    Field("temperature_c", "Temperature", "temperature", Axis("°C", 0), 1.0),
)


@dataclass(frozen=True, kw_only=True)
class PeriodLink:
    key: str
    name: str
    is_current: bool


@dataclass(frozen=True, kw_only=True)
class Plot:
    """One metric: the figure, what it shows in a sentence, and the same numbers as a table."""

    id: str
    title: str
    term: str
    """Slug in the glossary."""
    unit: str
    figure: str
    summary: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    """(time, a number per column; empty text where nothing was measured)."""


@dataclass(frozen=True, kw_only=True)
class Plots:
    """What `partials/plots.html` shows."""

    period: str
    """Key of the one that was asked for."""
    shown: str
    """Name of the one that is shown."""
    periods: tuple[PeriodLink, ...]
    plots: tuple[Plot, ...]
    zone: str
    """In which times are given."""
    every: timedelta
    """Between two values."""
    is_live: bool
    is_asking: bool
    answered_at: datetime | None
    notes: tuple[str, ...]
    """Why something is missing."""


def part_of(request: HtmxRequest) -> str:
    """Which partial of a page with plots is asked for: its `live` part, which is without them, or its `plots`."""
    return "plots" if request.GET.get("only") == "plots" else "live"


def has_plots(request: HtmxRequest) -> bool:
    """The answer shows plots: it is the whole page, or they alone."""
    htmx = request.htmx
    return not htmx or htmx.boosted or htmx.history_restore_request or part_of(request) == "plots"


def plots_of(cluster: Cluster, slots: Mapping[str, str], period: str, now: datetime) -> Plots:
    """Plots of these slots (slot -> what the reader calls it) over a period (a key of `PERIODS`; any other text: the
    default). At most two queries. The page's view asks no cluster: a worker does where Prometheus is to be asked.
    """
    key = period if period in PERIODS else _default(cluster)
    last = lately(cluster, slots, now) if key == LIVE else None
    if last is not None and last.measured is not None:
        return _live(slots, last, now)
    shown = MEANWHILE if last is not None else key
    grid = grid_until(now, PERIODS[shown].span, PERIODS[shown].step)
    courses = stored(cluster, slots, grid)
    found = {
        field: {slot: lines[field] for slot in slots if field in (lines := courses.lines.get(slot, {}))}
        for field in (field.name for field in FIELDS)
    }
    traces = {
        field.name: _traces(
            [(slots[slot], _scaled(line.means, field)) for slot, line in found[field.name].items()],
            [_scaled(line.peaks, field) for line in found[field.name].values()],
        )
        for field in FIELDS
    }
    notes = [last.why_not] if last is not None and last.why_not else []
    if courses.begins > grid.start:
        notes.append(f"So many nodes are read only from {courses.begins:%Y-%m-%d} on.")
    notes += _silent(slots, {slot for lines in found.values() for slot in lines})
    return _plots(key, shown, traces, grid, now, last, tuple(notes))


def _default(cluster: Cluster) -> str:
    declared = settings.CLUSTERS.get(cluster.slug)
    return LIVE if declared is not None and declared.prometheus is not None else MEANWHILE


def _live(slots: Mapping[str, str], last: Lately, now: datetime) -> Plots:
    measured = last.measured
    assert measured is not None  # noqa: S101 - for the type checker; the caller has looked
    grid = Grid(measured.start, measured.step, measured.steps)
    traces = {
        field.name: _traces(
            [
                (slots[slot], _scaled(lines[field.name], field))
                for slot in slots
                if field.name in (lines := measured.lines.get(slot, {}))
            ],
            [],
        )
        for field in FIELDS
    }
    notes = (*filter(None, [last.why_not]), *_silent(slots, set(measured.lines)))
    return _plots(LIVE, LIVE, traces, grid, now, last, notes)


def _scaled(values: Values, field: Field) -> list[float | None]:
    return [None if value is None else value * field.scale for value in values]


def _silent(slots: Mapping[str, str], told: set[str]) -> list[str]:
    missing = len(slots.keys() - told)
    if not missing or not told:
        return []
    return [f"Nothing is known of {missing} of {len(slots)} GPUs in this time."]


def _traces(named: Sequence[tuple[str, Values]], peaks: Sequence[Values]) -> list[Trace]:
    """A line per device, or three for all of them; and the highest samples where they are known."""
    if not named:
        return []
    means = [values for _, values in named]
    if len(means) > MOST_LINES:
        return [
            Trace("highest", _over(peaks or means, max), Style.EDGE),
            Trace(f"mean of {len(means)} GPUs", _over(means, _mean), Style.MIDDLE),
            Trace("lowest", _over(means, min), Style.EDGE),
        ]
    lines = [Trace(name, values) for name, values in named]
    if peaks:
        lines.append(Trace("highest sample", _over(peaks, max), Style.EDGE))
    return lines


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _over(lines: Sequence[Values], what: Callable[[Sequence[float]], float]) -> list[float | None]:
    """`what` of all values that are known at a step; None where none is."""
    found: list[float | None] = []
    for values in zip(*lines, strict=True):
        known = [value for value in values if value is not None]
        found.append(what(known) if known else None)
    return found


def _plots(
    key: str,
    shown: str,
    traces: Mapping[str, list[Trace]],
    grid: Grid,
    now: datetime,
    last: Lately | None,
    notes: tuple[str, ...],
) -> Plots:
    offset = zones.localtime(now).utcoffset() or timedelta()
    zone = timezone(offset)
    name = "UTC" if not offset else zone.tzname(None)
    period = PERIODS[shown]
    return Plots(
        period=key,
        shown=period.name,
        periods=tuple(
            PeriodLink(key=other, name=named.name, is_current=other == key)
            for other, named in PERIODS.items()
        ),
        plots=tuple(
            _plot(field, traces[field.name], grid, period, zone) for field in FIELDS if traces[field.name]
        ),
        zone=name,
        every=grid.step,
        is_live=last is not None and last.measured is not None,
        is_asking=last is not None and last.is_asking,
        answered_at=last.at if last is not None else None,
        notes=notes,
    )


def _plot(field: Field, traces: list[Trace], grid: Grid, period: Period, zone: timezone) -> Plot:
    start = grid.start.astimezone(zone)
    known = [value for trace in traces for value in trace.values if value is not None]
    inner = [
        value
        for trace in traces
        if trace.style is not Style.EDGE
        for value in trace.values
        if value is not None
    ]
    decimals, unit = field.axis.decimals, field.axis.unit
    return Plot(
        id=f"plot-{field.name.partition('_')[0]}",
        title=field.title,
        term=field.term,
        unit=unit,
        figure=figure(traces, field.axis, start, grid.step),
        summary=(
            f"{field.title} over the last {period.name}: mean {_mean(inner):,.{decimals}f} {unit}, "
            f"lowest {min(known):,.{decimals}f} {unit}, highest {max(known):,.{decimals}f} {unit}"
        )
        if inner
        else f"{field.title}: nothing was measured",
        columns=tuple(trace.name for trace in traces),
        rows=_rows(traces, grid, period, zone, decimals),
    )


def _rows(
    traces: list[Trace], grid: Grid, period: Period, zone: timezone, decimals: int
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The newest first; several steps make a row: their mean, of an edge their highest or lowest."""
    size = max(1, round(period.row / grid.step))
    reduce = [_reduction(trace) for trace in traces]
    rows = []
    for first in range(0, grid.steps, size):
        cells = []
        for trace, what in zip(traces, reduce, strict=True):
            known = [value for value in trace.values[first : first + size] if value is not None]
            cells.append(f"{what(known):,.{decimals}f}" if known else "")
        at = (grid.start + first * grid.step).astimezone(zone)
        rows.append((f"{at:%Y-%m-%d}" if period.row >= DAY else f"{at:%m-%d %H:%M}", tuple(cells)))
    return tuple(reversed(rows))


def _reduction(trace: Trace) -> Callable[[Sequence[float]], float]:
    if trace.style is not Style.EDGE:
        return _mean
    return min if trace.name == "lowest" else max
