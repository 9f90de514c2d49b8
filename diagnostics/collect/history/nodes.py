"""Nodes of the past, and what was taken of them, from kube-state-metrics. Pure."""

from collections import defaultdict
from collections.abc import Mapping

import msgspec

from diagnostics.collect.history.grid import Grid
from diagnostics.collect.history.runs import Answers, Run, node_of, points_of, prolong, resource_name
from diagnostics.snapshot import Condition, Container, Node, Pod, gpu_resources


class NodeCourse(msgspec.Struct):
    """Everything that is known of one node, by step."""

    ready: dict[int, str] = {}
    cordoned: set[int] = set()
    capacity: dict[int, dict[str, float]] = msgspec.field(default_factory=lambda: defaultdict(dict))
    allocatable: dict[int, dict[str, float]] = msgspec.field(default_factory=lambda: defaultdict(dict))
    taken: dict[int, dict[str, float]] = msgspec.field(default_factory=lambda: defaultdict(dict))


def node_courses(answers: Answers, grid: Grid) -> dict[str, NodeCourse]:
    """By name, from the answers to `HistoryQuestions.nodes`."""
    courses: dict[str, NodeCourse] = {}
    for name, answer in answers.items():
        for series in answer:
            node = node_of(series)
            if not node:
                continue
            course, points = courses.setdefault(node, NodeCourse()), points_of(series, grid)
            match name:
                case "ready":
                    status = series.metric.get("status", "unknown").capitalize()
                    course.ready.update(dict.fromkeys(points, status))
                case "cordoned":
                    course.cordoned.update(points)
                case "capacity" | "allocatable" | "taken":
                    resource = resource_name(series.metric.get("resource", ""))
                    by_place = getattr(course, name)
                    for place, value in points.items():
                        by_place[place][resource] = value
    return courses


def nodes_of(courses: Mapping[str, NodeCourse], grid: Grid) -> list[Run[Node]]:
    """Those that ever had GPUs; while nothing is said of one, it is not there."""
    runs: list[Run[Node]] = []
    for name, course in sorted(courses.items()):
        places = {*course.capacity, *course.allocatable}
        if not any(gpu_resources(course.capacity[place] | course.allocatable[place]) for place in places):
            continue
        last: Node | None = None
        for place in range(grid.count):
            capacity, allocatable = course.capacity[place], course.allocatable[place]
            if not capacity and not allocatable:
                last = None
                continue
            status = course.ready.get(place)
            now = Node(
                name=name,
                unschedulable=place in course.cordoned,
                conditions=() if status is None else (Condition("Ready", status),),
                capacity=capacity or allocatable,
                allocatable=allocatable or capacity,
            )
            prolong(runs, place, now, last)
            last = now
    return runs


def takers_of(courses: Mapping[str, NodeCourse], grid: Grid) -> list[Run[Pod]]:
    """For each node one pod that asks for what all of its pods without GPUs ask for."""
    runs: list[Run[Pod]] = []
    for name, course in sorted(courses.items()):
        last: Pod | None = None
        for place in range(grid.count):
            if place not in course.taken:
                last = None
                continue
            container = Container(name="", requests=course.taken[place])
            now = Pod(namespace="", name=f"({name})", node=name, phase="Running", containers=(container,))
            prolong(runs, place, now, last)
            last = now
    return runs
