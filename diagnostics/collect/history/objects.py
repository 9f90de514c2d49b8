"""Nodes and GPU pods of the past, from kube-state-metrics: for every step of a span what existed, and how. Pure."""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from diagnostics.collect.history.grid import Grid
from diagnostics.collect.history.nodes import node_courses, nodes_of, takers_of
from diagnostics.collect.history.owners import chain
from diagnostics.collect.history.pods import pods_of
from diagnostics.collect.history.runs import Answers, Run, node_of, pod_of, points_of
from diagnostics.collect.history.scrapes import alive, interval_of
from diagnostics.collect.prometheus_connection import Series
from diagnostics.snapshot import Node, Pod, Workload


class Objects(NamedTuple):
    """What kube-state-metrics said of a span; all empty where there is none."""

    pods: list[Run[Pod]]
    nodes: list[Run[Node]]
    workloads: tuple[Workload, ...]
    """ReplicaSets and Jobs that own any of `pods`, with the owner above them."""
    exporters: dict[str, str]
    """Name and address of each exporter's pod -> its node."""


NO_OBJECTS = Objects([], [], (), {})


def pod_label_of(requests: Iterable[Series]) -> str:
    """Which label names the object's pod: see `questions`."""
    return "exported_pod" if any("exported_pod" in series.metric for series in requests) else "pod"


def fresh(requests: list[Series], times: Iterable[Series], grid: Grid) -> list[Series]:
    """`requests` without the points that merely linger: a series whose end nobody marked stands for minutes more.

    How often it is scraped shows in `times`.
    """
    scraped = {}
    for series in times:
        points = points_of(series, grid)
        scraped[_identity(series)] = [points.get(place, 0.0) for place in range(grid.count)]
    interval = interval_of(scraped.values())
    found = []
    for series in requests:
        at = scraped.get(_identity(series))
        is_there = [True] * grid.count if at is None else alive(at, grid, interval)
        kept = tuple(
            (seconds, text)
            for seconds, text in series.values
            if (place := grid.place(seconds)) is not None and is_there[place]
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
        key, node = pod_of(series), node_of(series)
        if key is not None and node:
            exporters[key[1]] = node
            exporters[series.metric.get("pod_ip", "")] = node
    exporters.pop("", None)
    homes = node_courses(nodes, grid)
    pods = pods_of(requests, fixed, lives, grid)
    owners = {(owner.kind, owner.namespace, owner.name) for run in pods for owner in run.item.owners}
    chained = chain((s.metric for s in fixed.get("replicaset", ())), (s.metric for s in fixed.get("job", ())))
    return Objects(
        pods=[*pods, *takers_of(homes, grid)],
        nodes=nodes_of(homes, grid),
        # A cluster has thousands of others.
        workloads=tuple(one for one in chained if (one.kind, one.namespace, one.name) in owners),
        exporters=exporters,
    )
