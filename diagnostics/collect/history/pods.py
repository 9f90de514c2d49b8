"""GPU pods of the past, from kube-state-metrics: for every step which existed, where, and how they were. Pure."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

import msgspec

from diagnostics.collect.history.grid import Grid
from diagnostics.collect.history.owners import owner_in
from diagnostics.collect.history.runs import Answers, PodName, Run, node_of, pod_of, points_of, resource_name
from diagnostics.collect.prometheus_connection import Series, number
from diagnostics.snapshot import Condition, Container, OwnerKey, Pod

_FIXED = ("info", "owner", "started", "created")
"""Of the answers to `HistoryQuestions.fixed`, those about pods; answers can be read once, and others want the rest."""
MOST_RESTARTS = 10
"""More of them change nothing."""


class _PodCourse(msgspec.Struct):
    """Everything that is known of the pods of one name, by step; one that is re-created has another UID."""

    requests: dict[int, dict[str, float]] = msgspec.field(default_factory=lambda: defaultdict(dict))
    nodes: dict[int, str] = {}
    uids: dict[int, str] = {}
    phases: dict[int, str] = {}
    ready: dict[int, bool] = {}
    waiting: dict[int, str] = {}
    restarts: dict[int, int] = {}
    deletion_s: dict[int, float] = {}
    node: str = ""
    """Where the requests name none: of the last pod."""
    owner: OwnerKey | None = None
    started_s: dict[str, float] = {}
    """By UID; so is the next."""
    created_s: dict[str, float] = {}


def pods_of(requests: list[Series], fixed: Answers, lives: Answers, grid: Grid) -> list[Run[Pod]]:
    """From the answers to `HistoryQuestions.requests`, `fixed` and `pods`."""
    courses: dict[PodName, _PodCourse] = {}
    found = [(key, points_of(series, grid), series) for series in requests if (key := pod_of(series))]
    # The last to begin counts: the pod before it, of the same name, may seem to live on for a scrape or two.
    for key, points, series in sorted(found, key=lambda one: min(one[1], default=0)):
        _take_request(courses.setdefault(key, _PodCourse()), points, series)
    for name in _FIXED:
        answer = fixed.get(name, ())
        _each(courses, answer, lambda course, series, name=name: _take_fixed(course, series, name))  # type: ignore[misc]
    for name, answer in lives.items():
        _each(courses, answer, lambda course, series, name=name: _take_life(course, series, name, grid))  # type: ignore[misc]
    return [run for key, course in sorted(courses.items()) for run in _runs(key, course, grid)]


def _take_request(course: _PodCourse, points: dict[int, float], series: Series) -> None:
    resource = resource_name(series.metric.get("resource", ""))
    node, uid = node_of(series), _uid_of(series)
    for place, amount in points.items():
        if course.uids.get(place, uid) != uid:
            course.requests[place] = {}
            course.nodes.pop(place, None)
        asked = course.requests[place]
        asked[resource] = asked.get(resource, 0.0) + amount
        course.uids[place] = uid
        if node:
            course.nodes[place] = node


def _uid_of(series: Series) -> str:
    return series.metric.get("exported_uid") or series.metric.get("uid", "")


def _each(
    courses: dict[PodName, _PodCourse], answer: Iterable[Series], take: Callable[[_PodCourse, Series], None]
) -> None:
    for series in answer:
        key = pod_of(series)
        course = None if key is None else courses.get(key)
        if course is not None:
            take(course, series)


def _take_fixed(course: _PodCourse, series: Series, name: str) -> None:
    value = number(series)
    match name:
        case "info":
            course.node = node_of(series) or course.node
        case "owner" if series.metric.get("owner_is_controller", "true") == "true":
            course.owner = owner_in(series.metric, (pod_of(series) or ("", ""))[0])
        case "started" if value is not None:
            course.started_s[_uid_of(series)] = value
        case "created" if value is not None:
            course.created_s[_uid_of(series)] = value


def _take_life(course: _PodCourse, series: Series, name: str, grid: Grid) -> None:
    uid = _uid_of(series)
    points = {
        place: value
        for place, value in points_of(series, grid).items()
        if not uid or course.uids.get(place, uid) in ("", uid)
    }
    match name:
        case "asks":
            resource = series.metric.get("resource", "")
            for place in points.keys() & course.requests.keys():
                asked = course.requests[place]
                asked[resource] = asked.get(resource, 0.0) + points[place]
        case "phase":
            course.phases.update(dict.fromkeys(points, series.metric.get("phase", "")))
        case "ready":
            course.ready.update({place: value == 1 for place, value in points.items()})
        case "waiting":
            course.waiting.update(dict.fromkeys(points, series.metric.get("reason", "")))
        case "restarts":
            for place, value in points.items():
                course.restarts[place] = max(int(value), course.restarts.get(place, 0))
        case "deletion":
            course.deletion_s.update(points)


def _runs(key: PodName, course: _PodCourse, grid: Grid) -> list[Run[Pod]]:
    runs: list[Run[Pod]] = []
    last: tuple[object, ...] | None = None
    since = 0
    for place in range(grid.count):
        if place not in course.requests:
            last = None
            continue
        is_ready = course.ready.get(place)
        if place and course.ready.get(place - 1) != is_ready:
            since = place
        now = (
            course.phases.get(place),
            is_ready,
            course.waiting.get(place),
            min(MOST_RESTARTS, course.restarts.get(place, 0)),
            course.deletion_s.get(place),
            course.nodes.get(place),
            course.uids.get(place),
            tuple(sorted(course.requests[place].items())),
        )
        if now == last:
            runs[-1] = runs[-1]._replace(end=place + 1)
        else:
            runs.append(Run(place, place + 1, _pod(key, course, place, grid.at(since))))
        last = now
    return runs


def _pod(key: PodName, course: _PodCourse, place: int, since: datetime) -> Pod:
    is_ready, phase = course.ready.get(place), course.phases.get(place, "Running")
    ready = None if is_ready is None else Condition("Ready", "True" if is_ready else "False", since=since)
    uid = course.uids.get(place, "")
    # Where nothing says whether it is ready, a young pod that runs must not count as starting.
    is_dated = ready is not None or phase != "Running"
    created = course.created_s.get(uid) if is_dated else None
    started = course.started_s.get(uid, created) if is_dated else None
    return Pod(
        namespace=key[0],
        name=key[1],
        uid=uid,
        owners=() if course.owner is None else (course.owner,),
        created_at=_moment(created),
        started_at=_moment(started),
        deletion_at=_moment(course.deletion_s.get(place)),
        node=course.nodes.get(place) or (None if course.nodes else course.node or None),
        phase=phase,
        conditions=() if ready is None else (ready,),
        containers=(
            Container(
                name="",
                requests=dict(course.requests[place]),
                waiting_reason=course.waiting.get(place, ""),
                restarts=course.restarts.get(place, 0),
            ),
        ),
    )


def _moment(seconds: float | None) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if seconds is not None and 0 < seconds < 2**33 else None
