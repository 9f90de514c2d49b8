"""GPU metrics from Prometheus: what the devices do now and did over the window, in about a dozen questions."""

import re
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from diagnostics import quantities
from diagnostics.collect.bounded_http import Unreadable
from diagnostics.collect.dcgm import Board, Sample, Skips, boards_from
from diagnostics.collect.dcgm_labels import IDENTITY_LABELS, DeviceKey
from diagnostics.collect.prometheus_connection import Connection, Series, number, shown_name
from diagnostics.collect.prometheus_windows import Values, WindowAnswers, values_of
from diagnostics.collect.promql import Questions
from diagnostics.collect.readings import Readings
from diagnostics.collect.target import PrometheusTarget
from diagnostics.snapshot import Source, SourceState, SourceStatus
from diagnostics.text import counted, listed, printable

DEFAULT_SCRAPE = timedelta(seconds=15)
"""Where it cannot be measured: the interval of both charts' ServiceMonitor. Too short a guess lowers the coverage,
so that a window is rather not judged than judged on too little."""
STALE_AFTER_SCRAPES = 3
CLOCKS_DIFFER = timedelta(minutes=2)
"""With more than this between its clock and ours, Prometheus is asked for the wrong time (ours)."""
_LOOK_BACK = timedelta(minutes=10)
_XID_STEPS = 60
_PLAIN_NAME = re.compile(r"[\w-]{1,80}", re.ASCII)


def read_prometheus(
    target: PrometheusTarget,
    span: timedelta,
    now: datetime,
    timeout_s: float,
    *,
    scrape: timedelta | None = None,
    budget_s: float = 60.0,
) -> Readings:
    """All devices as of `now`, with their windows over the `span` before. Never raises: statuses say what failed.

    `scrape`: the scrape interval where it is known; else it is measured. Each question waits for `timeout_s` at
    most, all of them together for `budget_s`. Windows are of the present holder's time by the pod labels; Xids
    are of the device, whoever held it.
    """
    started = time.monotonic()
    instant = now.replace(microsecond=0)
    skips = Skips()
    poll = _Poll(Questions(target.extra_matchers, span), instant, span, skips)
    try:
        with Connection(target, instant, timeout_s, budget_s, skips) as connection:
            poll.ask(connection, scrape)
    except Unreadable as failure:
        poll.failed(Source.METRICS, failure)
    return poll.readings(shown_name(target), time.monotonic() - started)


class _Poll:
    """One poll as it goes: what came back, and what did not."""

    def __init__(self, questions: Questions, now: datetime, span: timedelta, skips: Skips) -> None:
        self._questions = questions
        self._now = now
        self._span = span
        self._skips = skips
        self._failures: dict[Source, list[Unreadable]] = defaultdict(list)
        self._warnings: list[str] = []
        self._boards: dict[DeviceKey, Board] = {}
        self._interval: timedelta | None = None
        self._back = WindowAnswers(skips)
        self._step = timedelta(seconds=max(1, round(span.total_seconds() / _XID_STEPS)))
        self._down: tuple[str, ...] = ()
        self._skew: timedelta | None = None

    def failed(self, source: Source, failure: Unreadable) -> None:
        self._failures[source].append(failure)

    def ask(self, connection: Connection, scrape: timedelta | None) -> None:
        self._boards = boards_from(self._current(connection), self._skips)
        if self._boards:
            self._interval = scrape or self._measured_interval(connection)
            self._look_back(connection)
        self._down = self._exporters_down(connection)
        self._warnings = connection.warnings
        self._skew = connection.clock_skew

    def _series(self, connection: Connection, query: str, source: Source) -> Iterator[Series]:
        """An answer, or nothing and a note of the failure."""
        try:
            return connection.instant(query)
        except Unreadable as failure:
            self.failed(source, failure)
            return iter(())

    def _current(self, connection: Connection) -> Iterator[Sample]:
        times: dict[Values, datetime] = {}
        for series in self._series(connection, self._questions.times(), Source.METRICS):
            if (seconds := number(series)) is not None and 0 < seconds < 2**33:
                times[values_of(series, IDENTITY_LABELS)] = datetime.fromtimestamp(seconds, UTC)
        for query in self._questions.current():
            for series in self._series(connection, query, Source.METRICS):
                name = series.metric.pop("__name__", "")
                at = times.get(values_of(series, IDENTITY_LABELS))
                value = number(series)
                yield Sample(name, series.metric, float("nan") if value is None else value, at)

    def _measured_interval(self, connection: Connection) -> timedelta | None:
        """Median distance of raw samples of a few devices; None where no series has two."""
        named = [key for key in sorted(self._boards) if _PLAIN_NAME.fullmatch(key.device)]
        chosen = named[:: max(1, len(named) // 3)][:3]
        source = self._boards[chosen[0]].source if chosen else None
        if source is None:
            return None
        query = self._questions.scrapes(*source, [key.device for key in chosen], _LOOK_BACK)
        gaps = [
            gap
            for series in self._series(connection, query, Source.WINDOW)
            for earlier, later in pairwise(series.values)
            if 0 < (gap := later[0] - earlier[0]) <= _LOOK_BACK.total_seconds()
        ]
        return timedelta(seconds=max(1.0, statistics.median(gaps))) if gaps else None

    def _look_back(self, connection: Connection) -> None:
        for query in self._questions.windows():
            self._back.take_stats(self._series(connection, query, Source.WINDOW))
        self._back.take_growth(self._series(connection, self._questions.growth(), Source.WINDOW))
        start, step_s = self._now - self._span, round(self._step.total_seconds())
        try:
            xids = self._questions.xids(round(self._now.timestamp()))
            self._back.take_gauges(connection.over(xids, start, step_s))
            self._back.take_counts(connection.over(self._questions.xid_counts(), start, step_s))
        except Unreadable as failure:
            self.failed(Source.WINDOW, failure)

    def _exporters_down(self, connection: Connection) -> tuple[str, ...]:
        answer = self._series(connection, self._questions.down(), Source.METRICS)
        return tuple(sorted({printable(s.metric.get("instance", ""), 200) or "(unnamed)" for s in answer}))

    def readings(self, who: str, seconds: float) -> Readings:
        interval = self._interval or DEFAULT_SCRAPE
        devices = tuple(
            board.reading(self._back.window(key, board, interval, self._span, self._step))
            for key, board in sorted(self._boards.items())
        )
        times = [d.metrics.sampled_at for d in devices if d.metrics.sampled_at is not None]
        windows = sum(d.window is not None for d in devices)
        state, detail = self._metrics_state(who, times, len(devices))
        window_state, window_detail = self._window_state(who, windows)
        return Readings(
            devices=devices,
            statuses=(
                SourceStatus(
                    name=Source.METRICS,
                    state=state,
                    detail=detail,
                    items=len(devices) or None,
                    seconds=seconds,
                    read_at=self._now,
                    skipped=self._skips.listed(),
                ),
                SourceStatus(
                    name=Source.WINDOW,
                    state=window_state,
                    detail=window_detail,
                    items=windows or None,
                    read_at=self._now,
                ),
            ),
            exporters_down=self._down,
            has_pod_labels=any(device.pods for device in devices) if devices else None,
        )

    def _metrics_state(self, who: str, times: list[datetime], devices: int) -> tuple[SourceState, str]:
        failures = self._failures[Source.METRICS]
        words = [f"{who} {_listed(failures)}"] if failures else []
        if not devices:
            if failures:
                return failures[0].state, words[0]
            if self._down:
                return SourceState.FAILED, f"every exporter is down: {listed(self._down, 3)}"
            words = [f"{who} answers, but holds no series of dcgm-exporter at this time"]
            if self._skew is not None and abs(self._skew) > CLOCKS_DIFFER:
                words.append(f"its clock is {quantities.span(abs(self._skew))} away from ours")
            return SourceState.ABSENT, "; ".join(words)
        if self._warnings:
            words.append(f"{who} warns: {listed(self._warnings, 2)}")
        if self._down:
            words.append(f"{counted(len(self._down), 'exporter')} down: {listed(self._down, 3)}")
        limit = STALE_AFTER_SCRAPES * (self._interval or DEFAULT_SCRAPE)
        old = sum(self._now - at > limit for at in times)
        if old and old == len(times):
            age = (self._now - max(times)).total_seconds()
            words.insert(0, f"the newest sample is {age:.0f} s old")
            return SourceState.STALE, "; ".join(words)
        if old:
            words.append(f"{counted(old, 'device')} without a fresh sample")
        return (SourceState.PARTIAL if words else SourceState.OK), "; ".join(words)

    def _window_state(self, who: str, windows: int) -> tuple[SourceState, str]:
        failures = self._failures[Source.WINDOW]
        if not self._boards:
            failures = self._failures[Source.METRICS]
            state = failures[0].state if failures else SourceState.ABSENT
            return state, f"{who} {_listed(failures)}" if failures else "no device to look back on"
        if failures:
            return (SourceState.PARTIAL if windows else failures[0].state), f"{who} {_listed(failures)}"
        if not windows:
            return SourceState.ABSENT, f"{who} holds no samples of the last {quantities.span(self._span)}"
        if self._warnings:
            return SourceState.PARTIAL, f"{who} warns: {listed(self._warnings, 2)}"
        return SourceState.OK, ""


def _listed(failures: list[Unreadable]) -> str:
    return listed(list(dict.fromkeys(failure.detail for failure in failures)), 2)
