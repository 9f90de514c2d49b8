"""Nodes and GPU pods of the past, from kube-state-metrics: for every step of a span what existed, and how. Pure."""

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from itertools import pairwise
from typing import NamedTuple

import msgspec

from diagnostics.collect.history.courses import Grid
from diagnostics.collect.history.owners import chain, owner_in
from diagnostics.collect.prometheus_connection import Series, number
from diagnostics.snapshot import Condition, Container, Node, OwnerKey, Pod, Workload

Answers = Mapping[str, Iterable[Series]]
"""By the names that `HistoryQuestions` gives its questions."""


class Run[T](NamedTuple):
    """How one object was from step `start` on, until before step `end`."""

    start: int
    end: int
    item: T


class Objects(NamedTuple):
    """What kube-state-metrics said of a span; all empty where there is none."""

    pods: list[Run[Pod]]
    nodes: list[Run[Node]]
    workloads: tuple[Workload, ...]
    """ReplicaSets and Jobs with the owner above them."""
    exporters: dict[str, str]
    """Name and address of each exporter's pod -> its node."""


NO_OBJECTS = Objects([], [], (), {})


def resource_name(label: str) -> str:
    """`nvidia.com/mig-1g.10gb` from `nvidia_com_mig_1g_10gb`: kube-state-metrics writes `_` for what no label holds."""
    for vendor in ("nvidia_com_", "amd_com_", "gpu_intel_com_"):
        if label.startswith(vendor):
            name = label.removeprefix(vendor)
            if name.startswith("mig_"):
                name = "mig-" + name.removeprefix("mig_").replace("_", ".")
            elif name == "gpu_shared":
                name = "gpu.shared"
            return f"{vendor.removesuffix('_').replace('_', '.')}/{name}"
    return label


def pod_label_of(requests: Iterable[Series]) -> str:
    """Which label names the object's pod: see `questions`."""
    return "exported_pod" if any("exported_pod" in series.metric for series in requests) else "pod"


def fresh(requests: list[Series], times: Iterable[Series], grid: Grid) -> list[Series]:
    """`requests` without the points that merely linger: a series whose end nobody marked stands for minutes more.

    How often it is scraped shows in `times`; a point older than one and a half of that is no sign of life.
    """
    scraped = {_identity(series): _points(series, grid) for series in times}
    ages = [
        later - earlier
        for points in scraped.values()
        for earlier, later in pairwise(dict.fromkeys(points.values()))
    ]
    if not ages:
        return requests
    oldest = FRESH_SCRAPES * statistics.median(ages)
    found = []
    for series in requests:
        at = scraped.get(_identity(series), {})
        kept = tuple(
            (seconds, text)
            for seconds, text in series.values
            if (place := grid.place(seconds)) is not None and seconds - at.get(place, seconds) <= oldest
        )
        found.append(msgspec.structs.replace(series, values=kept))
    return found


def _identity(series: Series) -> frozenset[tuple[str, str]]:
    return frozenset((name, value) for name, value in series.metric.items() if name != "__name__")


def objects_from(
    requests: list[Series], fixed: Answers, lives: Answers, nodes: Answers, grid: Grid
) -> Objects:
    """Runs of pods and nodes from the answers to `requests`, `fixed`, `pods` and `nodes`."""
    exporters: dict[str, str] = {}
    for series in fixed.get("exporters", ()):
        key, node = _pod_of(series), series.metric.get("node") or series.metric.get("exported_node", "")
        if key is not None and node:
            exporters[key[1]] = node
            exporters[series.metric.get("pod_ip", "")] = node
    exporters.pop("", None)
    return Objects(
        pods=_pods(requests, fixed, lives, grid),
        nodes=_nodes(nodes, grid),
        workloads=chain(
            (s.metric for s in fixed.get("replicaset", ())), (s.metric for s in fixed.get("job", ()))
        ),
        exporters=exporters,
    )


PodName = tuple[str, str]
FRESH_SCRAPES = 1.5
MOST_RESTARTS = 10
"""More of them change nothing."""


def _pod_of(series: Series) -> PodName | None:
    labels = series.metric
    if "exported_pod" in labels:
        key = (labels.get("exported_namespace") or labels.get("namespace", ""), labels["exported_pod"])
    else:
        key = (labels.get("namespace", ""), labels.get("pod", ""))
    return key if all(key) else None


def _points(series: Series, grid: Grid) -> dict[int, float]:
    found = {}
    for seconds, text in series.values:
        place, value = grid.place(seconds), number(text)
        if place is not None and value is not None:
            found[place] = value
    return found


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


def _pods(requests: list[Series], fixed: Answers, lives: Answers, grid: Grid) -> list[Run[Pod]]:
    courses: dict[PodName, _PodCourse] = {}
    for series in requests:
        if (key := _pod_of(series)) is None:
            continue
        course = courses.setdefault(key, _PodCourse())
        resource = resource_name(series.metric.get("resource", ""))
        node = series.metric.get("exported_node") or series.metric.get("node", "")
        for place, amount in _points(series, grid).items():
            asked = course.requests[place]
            asked[resource] = asked.get(resource, 0.0) + amount
            course.uids[place] = _uid_of(series)
            if node:
                course.nodes[place] = node
    for name, answer in fixed.items():
        _each(courses, answer, lambda course, series, name=name: _take_fixed(course, series, name))  # type: ignore[misc]
    for name, answer in lives.items():
        _each(courses, answer, lambda course, series, name=name: _take_life(course, series, name, grid))  # type: ignore[misc]
    return [run for key, course in sorted(courses.items()) for run in _runs(key, course, grid)]


def _uid_of(series: Series) -> str:
    return series.metric.get("exported_uid") or series.metric.get("uid", "")


def _each(
    courses: dict[PodName, _PodCourse], answer: Iterable[Series], take: Callable[[_PodCourse, Series], None]
) -> None:
    for series in answer:
        key = _pod_of(series)
        course = None if key is None else courses.get(key)
        if course is not None:
            take(course, series)


def _take_fixed(course: _PodCourse, series: Series, name: str) -> None:
    value = number(series)
    match name:
        case "info":
            course.node = series.metric.get("exported_node") or series.metric.get("node") or course.node
        case "owner" if series.metric.get("owner_is_controller", "true") == "true":
            course.owner = owner_in(series.metric, (_pod_of(series) or ("", ""))[0])
        case "started" if value is not None:
            course.started_s[_uid_of(series)] = value
        case "created" if value is not None:
            course.created_s[_uid_of(series)] = value


def _take_life(course: _PodCourse, series: Series, name: str, grid: Grid) -> None:
    points = _points(series, grid)
    match name:
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


def _nodes(answers: Answers, grid: Grid) -> list[Run[Node]]:
    ready: dict[str, dict[int, str]] = defaultdict(dict)
    cordoned: dict[str, set[int]] = defaultdict(set)
    amounts: dict[str, dict[str, dict[int, dict[str, float]]]] = {}
    for name, answer in answers.items():
        for series in answer:
            node = series.metric.get("exported_node") or series.metric.get("node", "")
            points = _points(series, grid)
            if not node:
                continue
            if name == "ready":
                status = series.metric.get("status", "unknown").capitalize()
                ready[node].update(dict.fromkeys(points, status))
            elif name == "cordoned":
                cordoned[node].update(points)
            else:
                resource = resource_name(series.metric.get("resource", ""))
                by_place = amounts.setdefault(node, {}).setdefault(name, defaultdict(dict))
                for place, value in points.items():
                    by_place[place][resource] = value
    runs: list[Run[Node]] = []
    for node, parts in sorted(amounts.items()):
        last: Node | None = None
        for place in range(grid.count):
            capacity = parts.get("capacity", {}).get(place, {})
            allocatable = parts.get("allocatable", {}).get(place)
            if not capacity and not allocatable:
                last = None
                continue
            said = ready[node].get(place)
            now = Node(
                name=node,
                unschedulable=place in cordoned[node],
                conditions=() if said is None else (Condition("Ready", said),),
                capacity=capacity or dict(allocatable or {}),
                allocatable=capacity if allocatable is None else allocatable,
            )
            if now == last:
                runs[-1] = runs[-1]._replace(end=place + 1)
            else:
                runs.append(Run(place, place + 1, now))
            last = now
    return runs
