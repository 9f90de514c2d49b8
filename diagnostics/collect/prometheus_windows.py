"""Prometheus's answers about a span of time, gathered into one window per device."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from diagnostics.collect.dcgm import Board, Skips
from diagnostics.collect.dcgm_labels import DeviceKey, device_key, owner_of
from diagnostics.collect.dcgm_metrics import COUNTERS, METRIC_BY_FIELD, measured
from diagnostics.collect.prometheus_connection import Series, number
from diagnostics.collect.promql import MEASURE, WINDOW_LABELS
from diagnostics.collect.window_parts import (
    Covered,
    at_once,
    in_succession,
    window_from,
    with_counts,
    xids_of,
)
from diagnostics.snapshot import Window, XidSeen

Values = tuple[str | None, ...]
"""The values of some labels, in a fixed order: cheaper than the labels themselves."""

Pieces = dict[str, dict[str | None, dict[str, Covered]]]
"""Of one device: field -> holder -> scrape job -> statistics."""

Courses = dict[DeviceKey, dict[int, dict[datetime, int]]]
"""Device -> Xid code (0 for the gauge) -> time -> value."""


def values_of(series: Series, names: tuple[str, ...]) -> Values:
    """The values of the labels `names`, None where the series lacks one."""
    return tuple(map(series.metric.get, names))


class WindowAnswers:
    """Collects the answers of one poll, then gives the window of each device."""

    def __init__(self, skips: Skips) -> None:
        self._skips = skips
        self._pieces: dict[DeviceKey, Pieces] = {}
        self._gauges: Courses = defaultdict(lambda: defaultdict(dict))
        self._counts: Courses = defaultdict(lambda: defaultdict(dict))
        self._growth: dict[DeviceKey, dict[str, float]] = defaultdict(dict)

    def take_stats(self, answer: Iterable[Series]) -> None:
        """An answer to one of `Questions.windows`."""
        parts: dict[tuple[Values, str], dict[str, float]] = defaultdict(dict)
        for series in answer:
            stat, _, field = series.metric.get(MEASURE, "").partition(" ")
            value = number(series)
            if field in METRIC_BY_FIELD and value is not None:
                parts[values_of(series, WINDOW_LABELS), field][stat] = value
        for (values, field), stats in parts.items():
            labels = {name: value for name, value in zip(WINDOW_LABELS, values, strict=True) if value}
            key = device_key(labels)
            covered = self._covered(field, stats)
            if key is None or covered is None:
                continue
            by_job = self._pieces.setdefault(key, {}).setdefault(field, {}).setdefault(owner_of(labels), {})
            job = labels.get("job", "")
            by_job[job] = in_succession(by_job[job], covered) if job in by_job else covered

    def take_growth(self, answer: Iterable[Series]) -> None:
        """The answer to `Questions.growth`."""
        for series in answer:
            field = series.metric.get(MEASURE, "")
            key, value = device_key(series.metric), number(series)
            if key is None or value is None or field not in COUNTERS:
                continue
            try:
                rise = measured(METRIC_BY_FIELD[field], value)
            except ValueError as unusable:
                self._skips.add(f"{unusable} (over the window)", field)
                continue
            self._growth[key][field] = max(rise, self._growth[key].get(field, 0.0))

    def take_gauges(self, answer: Iterable[Series]) -> None:
        """An answer to `Questions.xids`."""
        for series in answer:
            if (key := device_key(series.metric)) is not None:
                _merge(self._gauges[key][0], series)

    def take_counts(self, answer: Iterable[Series]) -> None:
        """An answer to `Questions.xid_counts`."""
        for series in answer:
            code = series.metric.get("xid", "")
            key = device_key(series.metric)
            if key is not None and code.isascii() and code.isdigit() and len(code) < 9:
                _merge(self._counts[key][int(code)], series)

    def window(
        self, key: DeviceKey, board: Board, interval: timedelta, span: timedelta, step: timedelta
    ) -> Window | None:
        """What the device did while its present holders held it; None where nothing is known of the span.

        `interval`: from one scrape to the next. `step`: of the range queries for Xids.
        """
        pieces = self._pieces.get(key)
        if pieces is None and key not in self._gauges and key not in self._counts:
            return None
        stats: dict[str, Covered] = {}
        for field, by_owner in (pieces or {}).items():
            for owner in board.owners(field) & by_owner.keys():
                # Two jobs scrape the same exporter: the one that saw more of it counts.
                piece = max(by_owner[owner].values(), key=lambda covered: covered.count)
                stats[field] = at_once(stats[field], piece) if field in stats else piece
        growth = self._growth.get(key, {})
        return window_from(stats, interval.total_seconds(), span, self._xids(key, step), growth)

    def _xids(self, key: DeviceKey, step: timedelta) -> tuple[XidSeen, ...]:
        gauge = self._gauges[key][0] if key in self._gauges else {}
        counts = self._counts.get(key, {})
        return with_counts(
            xids_of(sorted(gauge.items())),
            {code: sorted(course.items()) for code, course in counts.items()},
            step,
        )

    def _covered(self, field: str, stats: Mapping[str, float]) -> Covered | None:
        count = stats.get("count", 0.0)
        if not 1 <= count < 2**31 or not {"min", "avg", "max"} <= stats.keys():
            return None
        metric = METRIC_BY_FIELD[field]
        try:
            low, mean, high = (measured(metric, stats[stat]) for stat in ("min", "avg", "max"))
        except ValueError as unusable:
            self._skips.add(f"{unusable} (over the window)", field)
            return None
        return Covered(low, mean, high, int(count))


def _merge(course: dict[datetime, int], series: Series) -> None:
    """Put a series' points among those of its device, the larger value where two share a time."""
    for seconds, text in series.values:
        value = number(text)
        if value is not None and 0 <= value < 2**31 and 0 < seconds < 2**33:
            at = datetime.fromtimestamp(seconds, UTC)
            course[at] = max(course.get(at, 0), int(value))
