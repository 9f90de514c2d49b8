"""What the series of each device said at every step of a span: values, ages, and which pods they name. Pure."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from diagnostics.collect.dcgm import DUPLICATE, LINGERING, NAMELESS, Board, Skips
from diagnostics.collect.dcgm_labels import DeviceKey, device_key, node_hints, owner_of
from diagnostics.collect.dcgm_metrics import METRIC_BY_NAME, measured
from diagnostics.collect.history.grid import Grid
from diagnostics.collect.history.scrapes import alive, interval_of
from diagnostics.collect.prometheus_connection import Series, number
from diagnostics.collect.readings import DeviceReading
from diagnostics.snapshot import Metrics

Owners = frozenset[str | None]
UNUSABLE = float("nan")
"""A sample that is there, and is no measurement: the device is there too."""
_LINGERING_S = LINGERING.total_seconds()
_FLAGS = frozenset({"row_remap_failed", "row_remap_pending"})
_INTEGERS = frozenset({"xid", "clock_event_reasons", "recovery_action"})


class _Line(msgspec.Struct):
    """One series of one field."""

    rank: int
    owner: str | None
    values: list[float | None]


class DeviceCourse:
    """One device over the span. `key` names it, `hints` are candidates for its node's name."""

    def __init__(self, key: DeviceKey, labels: dict[str, str], grid: Grid) -> None:
        self.key = key
        self.hints = node_hints(labels)
        self._grid = grid
        self._board = Board(labels, None).reading()
        self._lines: dict[str, list[_Line]] = {}
        self._times: dict[str | None, list[float]] = {}
        self.owners: list[Owners | None] = []
        """For each step the pods that its series name (None among them where one names none); None: no series."""

    def add(self, field: str, rank: int, owner: str | None, values: list[float | None]) -> None:
        self._lines.setdefault(field, []).append(_Line(rank, owner, values))

    def seen(self, owner: str | None, times: list[float]) -> None:
        """When the samples that stand at each step were scraped; 0 where there is none."""
        known = self._times.get(owner)
        self._times[owner] = times if known is None else list(map(max, known, times))

    @property
    def is_dated(self) -> bool:
        return {line.owner for lines in self._lines.values() for line in lines} <= self._times.keys()

    def settle(self) -> None:
        """Decide which pods' series count at each step: a series lingers for minutes after its last sample."""
        by_owner = {line.owner: self._present(line.owner) for lines in self._lines.values() for line in lines}
        interval = interval_of(self._times.values())
        # One scrape brings all of a device's series: an owner that is half a scrape behind was not in the last one.
        apart = _LINGERING_S if interval is None else min(_LINGERING_S, interval / 2)
        everybody = {owner: frozenset({owner}) for owner in by_owner}
        is_there = self._alive(interval)
        for place in range(self._grid.count):
            present = [
                owner for owner, is_present in by_owner.items() if is_present[place] and is_there[place]
            ]
            if len(present) < 2:
                self.owners.append(everybody[present[0]] if present else None)
                continue
            ages = {owner: self._time(owner, place) for owner in present}
            oldest = max(ages.values()) - apart
            self.owners.append(frozenset(owner for owner, at in ages.items() if at >= oldest))

    def _alive(self, interval: float | None) -> list[bool]:
        if not self.is_dated:
            return [True] * self._grid.count
        return alive(list(map(max, zip(*self._times.values(), strict=True))), self._grid, interval)

    def _present(self, owner: str | None) -> list[bool]:
        lines = [line.values for every in self._lines.values() for line in every if line.owner == owner]
        return [any(value is not None for value in values) for values in zip(*lines, strict=True)]

    def _time(self, owner: str | None, place: int) -> float:
        times = self._times.get(owner)
        return (times[place] if times else 0.0) or self._grid.start_s + place * self._grid.step_s

    def reading(self, place: int) -> DeviceReading:
        """The device at one step, with metrics; to be asked only where `owners` says that there are series."""
        owners = self.owners[place] or frozenset()
        return msgspec.structs.replace(
            self._board,
            node_hints=self.hints,
            pods=tuple(sorted(owner for owner in owners if owner)),
            metrics=self.metrics(place),
        )

    def metrics(self, place: int) -> Metrics:
        """Values at one step, from the series that count there."""
        owners = self.owners[place] or frozenset()
        found: dict[str, Any] = {}
        for field, lines in self._lines.items():
            value, best = None, 1000
            for line in lines:
                one = line.values[place]
                if one is None or one != one or line.rank > best or line.owner not in owners:  # noqa: PLR0124
                    continue
                value = one if value is None or line.rank < best else max(value, one)
                best = line.rank
            if value is not None:
                found[field] = value > 0 if field in _FLAGS else int(value) if field in _INTEGERS else value
        sampled_at = max(self._time(owner, place) for owner in owners) if owners else None
        moment = None if sampled_at is None else datetime.fromtimestamp(sampled_at, UTC)
        return Metrics(sampled_at=moment, **found)


class Courses:
    """Collects the answers about a span, then gives the devices."""

    def __init__(self, grid: Grid, skips: Skips) -> None:
        self._grid = grid
        self._skips = skips
        self._devices: dict[DeviceKey, DeviceCourse] = {}
        self._seen: set[int] = set()

    def take_values(self, answer: Iterable[Series]) -> None:
        """An answer to `HistoryQuestions.values`."""
        for series in answer:
            labels = series.metric
            name = labels.get("__name__", "")
            entry, key = METRIC_BY_NAME.get(name), device_key(labels)
            if entry is None:
                continue
            if key is None:
                self._skips.add(NAMELESS, name)
                continue
            mark = hash(frozenset(labels.items()))
            if mark in self._seen:
                self._skips.add(DUPLICATE, f"{name} of {key.device}")
            self._seen.add(mark)
            course = self._devices.get(key)
            if course is None:
                course = self._devices[key] = DeviceCourse(key, labels, self._grid)
            metric, rank = entry
            course.add(metric.field, rank, owner_of(labels), self._values(series, name))

    def take_times(self, answer: Iterable[Series]) -> None:
        """An answer to one of `HistoryQuestions.times`."""
        for series in answer:
            key = device_key(series.metric)
            course = None if key is None else self._devices.get(key)
            if course is None:
                continue
            times = [0.0] * self._grid.count
            for seconds, text in series.values:
                place, at = self._grid.place(seconds), number(text)
                if place is not None and at is not None and 0 < at < 2**33:
                    times[place] = at
            course.seen(owner_of(series.metric), times)

    @property
    def is_dated(self) -> bool:
        """It is known of every series when its samples were scraped."""
        return all(course.is_dated for course in self._devices.values())

    def settled(self) -> list[DeviceCourse]:
        """All devices, by node hint and name."""
        for course in self._devices.values():
            course.settle()
        return [self._devices[key] for key in sorted(self._devices)]

    def _values(self, series: Series, name: str) -> list[float | None]:
        metric, _ = METRIC_BY_NAME[name]
        start_s, step_s, count = self._grid.start_s, self._grid.step_s, self._grid.count
        known: dict[str, float] = {}
        values: list[float | None] = [None] * count
        for seconds, text in series.values:
            place = round((seconds - start_s) / step_s)
            if not 0 <= place < count:
                continue
            if text in known:
                values[place] = known[text]
                continue
            read = number(text)
            try:
                value = measured(metric, UNUSABLE if read is None else read)
            except ValueError as unusable:
                self._skips.add(f"{unusable} (in history)", name)
                value = UNUSABLE
            values[place] = known[text] = value
        return values
