"""read_history(): a span of the past from Prometheus, as the small snapshots that polls would have taken then."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import msgspec

from diagnostics.collect.bounded_http import Unreadable
from diagnostics.collect.dcgm import Skips
from diagnostics.collect.history.courses import Courses, DeviceCourse
from diagnostics.collect.history.grid import Grid
from diagnostics.collect.history.objects import NO_OBJECTS, Objects, fresh, objects_from, pod_label_of
from diagnostics.collect.history.owners import Known
from diagnostics.collect.history.questions import FIELDS, PRESENCE, HistoryQuestions
from diagnostics.collect.history.replay import Cluster, snapshots
from diagnostics.collect.prometheus_connection import Connection, number, shown_name
from diagnostics.collect.target import PrometheusTarget
from diagnostics.limits import Limits
from diagnostics.snapshot import Skipped, Snapshot

__all__ = [
    "Cluster",
    "History",
    "Known",
    "Unreadable",
    "coarse_step",
    "devices_at",
    "read_history",
    "shown_name",
]

MOST_POINTS = 11_000
"""Of one series in one answer: Prometheus refuses more (`web/api/v1`, "exceeded maximum resolution")."""


class History(msgspec.Struct, frozen=True):
    """What a span holds: snapshots, oldest first, to be taken once; and what could not be used of it."""

    snapshots: Iterator[Snapshot]
    skips: Skips
    has_objects: bool
    """kube-state-metrics told of pods; else holders and owners are those of the metrics' labels."""

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        return self.skips.listed()


def read_history(
    target: PrometheusTarget,
    start: datetime,
    end: datetime,
    step: timedelta,
    *,
    cluster: Cluster,
    limits: Limits,
    timeout_s: float,
    budget_s: float = 300.0,
) -> History:
    """The span from `start` to `end`, both of it, at whole multiples of `step` since 1970.

    Raises Unreadable where the metrics cannot be read in one go (ask for less then); without kube-state-metrics it
    is poorer. Raises ValueError for a span of more steps than Prometheus answers.
    """
    step_s = max(1, round(step.total_seconds()))
    first = -(-int(start.timestamp()) // step_s) * step_s
    grid = Grid(first, step_s, int(end.timestamp() - first) // step_s + 1)
    if grid.count > MOST_POINTS:
        msg = f"{grid.count} steps are more than Prometheus gives at once"
        raise ValueError(msg)
    skips = Skips()
    if grid.count < 1:
        return History(iter(()), skips, False)
    last = grid.at(grid.count - 1)
    questions = HistoryQuestions(target.extra_matchers, last - grid.at(0) + step)
    with Connection(target, last, timeout_s, budget_s, skips) as connection:
        courses = _courses(connection, questions, grid, skips)
        objects = _objects(connection, questions, grid, skips) if courses else NO_OBJECTS
    found = snapshots(courses, objects, cluster, grid, limits, skips)
    return History(found, skips, bool(objects.pods))


def _courses(
    connection: Connection, questions: HistoryQuestions, grid: Grid, skips: Skips
) -> list[DeviceCourse]:
    courses = Courses(grid, skips)
    for field in FIELDS:
        courses.take_values(connection.over(questions.values(field), grid.at(0), grid.step_s))
    for field in PRESENCE:
        if courses.is_dated:
            break
        for query in questions.times(field):
            courses.take_times(connection.over(query, grid.at(0), grid.step_s))
    return courses.settled()


def _objects(connection: Connection, questions: HistoryQuestions, grid: Grid, skips: Skips) -> Objects:
    start, step_s = grid.at(0), grid.step_s
    try:
        requests = list(connection.over(questions.requests(), start, step_s))
        label = pod_label_of(requests)
        if not requests:
            return NO_OBJECTS
        times = connection.over(questions.request_times(), start, step_s)
        return objects_from(
            fresh(requests, times, grid),
            {name: connection.instant(query) for name, query in questions.fixed(label).items()},
            {name: connection.over(query, start, step_s) for name, query in questions.pods(label).items()},
            {name: connection.over(query, start, step_s) for name, query in questions.nodes(label).items()},
            grid,
        )
    except Unreadable as failure:
        skips.add(f"kube-state-metrics was not read: it {failure.detail}")
        return NO_OBJECTS


def coarse_step(start: datetime, end: datetime) -> timedelta:
    """Between two of the moments that `devices_at` looks at: about 500 over the span."""
    return timedelta(seconds=max(60, -(-int((end - start).total_seconds()) // 500)))


def devices_at(
    target: PrometheusTarget, start: datetime, end: datetime, timeout_s: float
) -> list[tuple[datetime, int]]:
    """About how many devices there are at moments spread over the span, oldest first: where there are any.

    Raises Unreadable.
    """
    step_s = round(coarse_step(start, end).total_seconds())
    questions = HistoryQuestions(target.extra_matchers, end - start)
    with Connection(target, end, timeout_s, timeout_s, Skips()) as connection:
        counts: dict[float, int] = {}
        for series in connection.over(questions.devices(), start, step_s):
            for seconds, text in series.values:
                counts[seconds] = max(int(number(text) or 0), counts.get(seconds, 0))
    return [
        (datetime.fromtimestamp(seconds, start.tzinfo), count)
        for seconds, count in sorted(counts.items())
        if count
    ]
