"""Plotly figures as JSON, made of plain values. Pure: what is drawn comes in, text goes out.

The figures are written as Plotly's schema has them (https://plotly.com/javascript/reference/) without the Python
package, which takes a second and 40 MB to import in every web process; the tests hold each of them against its schema.
Colours are left to the page, which knows the theme: `meta` says what each trace is.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from html import escape
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from diagnostics.text import printable

MOST_CHARACTERS = 60
"""Of a name in the legend."""
MOST_GAPS = 60
DAY = timedelta(days=1)


class Style(StrEnum):
    """How a trace looks."""

    LINE = "line"
    """In the colour and dash of its number."""
    MIDDLE = "middle"
    """The mean of many, strong."""
    EDGE = "edge"
    """The highest or lowest of some, thin."""


class Trace(NamedTuple):
    """One line: a value per step, None where nothing was measured."""

    name: str
    values: Sequence[float | None]
    style: Style = Style.LINE


class Axis(NamedTuple):
    """What values are measured in, and how far the axis reaches at least."""

    unit: str
    decimals: int = 0
    least: float | None = None
    most: float | None = None
    """Without both the axis fits the values."""


def figure(traces: Sequence[Trace], axis: Axis, start: datetime, step: timedelta) -> str:
    """JSON of a figure whose lines begin at `start` and have one value per `step`; times are shown in `start`'s zone.

    A missing value is a gap in the line, and spans in which all are missing are marked. Names may be hostile.
    """
    count = max((len(trace.values) for trace in traces), default=0)
    end = start + count * step
    number = 0
    data = []
    for trace in traces:
        data.append(_trace(trace, axis, start, step, number))
        number += trace.style is Style.LINE
    layout = {
        "margin": {"l": 56, "r": 12, "t": 8, "b": 40},
        "showlegend": len(traces) > 1,
        "legend": {
            "orientation": "h",
            "entrywidth": 0,
            "x": 0,
            "y": 1.02,
            "yanchor": "bottom",
            "xanchor": "left",
        },
        "hovermode": "x unified",
        "xaxis": {
            "type": "date",
            "range": [_local(start), _local(end)],
            "hoverformat": "%a %d %b %Y" if step >= DAY else "%a %d %b, %H:%M",
            "tickangle": 0,
        },
        "yaxis": {"ticksuffix": f" {axis.unit}", "fixedrange": True, "rangemode": "tozero", **_range(axis)},
        "shapes": [_gap(first, last, start, step) for first, last in _gaps(traces, count)[:MOST_GAPS]],
    }
    return msgspec.json.encode({"data": data, "layout": layout}).decode()


def _trace(trace: Trace, axis: Axis, start: datetime, step: timedelta, number: int) -> dict[str, Any]:
    values = [None if value is None else round(value, axis.decimals + 1) for value in trace.values]
    name = _plain(trace.name)
    return {
        "type": "scatter",
        # A value between two gaps has no line to be seen by.
        "mode": "lines+markers" if _has_lone_point(values) else "lines",
        "marker": {"size": 3},
        "line": {"width": {"line": 1.5, "middle": 2, "edge": 1}[trace.style]},
        "name": name,
        "x0": _local(start),
        "dx": round(step / timedelta(milliseconds=1)),
        "y": values,
        "connectgaps": False,
        "hovertemplate": f"%{{y:,.{axis.decimals}f}} {axis.unit}",
        "meta": {"style": trace.style, "number": number},
    }


def _range(axis: Axis) -> dict[str, Any]:
    return {} if axis.least is None or axis.most is None else {"range": [axis.least, axis.most]}


def _plain(name: str) -> str:
    """Plotly fills in templates (`%{y}`), reads a subset of HTML, and at last turns entities back into characters."""
    return escape(printable(name, MOST_CHARACTERS).replace("%{", "% {"), quote=False)


def _local(moment: datetime) -> str:
    """Plotly knows no zones: what it is told it shows."""
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def _has_lone_point(values: Sequence[float | None]) -> bool:
    padded = [None, *values, None]
    triples = zip(padded, padded[1:], padded[2:], strict=False)
    return any(here is not None and before is None and after is None for before, here, after in triples)


def _gaps(traces: Sequence[Trace], count: int) -> list[tuple[int, int]]:
    """(first, first after) of the steps for which no trace has a value, the longest first."""
    is_missing = [
        all(place >= len(trace.values) or trace.values[place] is None for trace in traces)
        for place in range(count)
    ]
    found = []
    for missing, places in groupby(range(count), key=is_missing.__getitem__):
        if missing:
            steps = list(places)
            found.append((steps[0], steps[-1] + 1))
    return sorted(found, key=lambda gap: gap[0] - gap[1])


def _gap(first: int, last: int, start: datetime, step: timedelta) -> dict[str, Any]:
    return {
        "type": "rect",
        "layer": "below",
        "xref": "x",
        "yref": "paper",
        # From the last value before it to the first one after it: there no line is drawn.
        "x0": _local(max(start, start + (first - 1) * step)),
        "x1": _local(start + last * step),
        "y0": 0,
        "y1": 1,
        "line": {"width": 0},
    }
