"""How objects of the past are told: as points on the grid, and as runs of steps in which one stays as it is. Pure."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from diagnostics.collect.history.grid import Grid
from diagnostics.collect.prometheus_connection import Series, number

Answers = Mapping[str, Iterable[Series]]
"""By the names that `HistoryQuestions` gives its questions."""
PodName = tuple[str, str]
"""Namespace and name."""


class Run[T](NamedTuple):
    """How one object was from step `start` on, until before step `end`."""

    start: int
    end: int
    item: T


def prolong[T](runs: list[Run[T]], place: int, now: T, last: T | None) -> None:
    """One step more of the last run, where the object is as it was (`last`), or a new run."""
    if now == last:
        runs[-1] = runs[-1]._replace(end=place + 1)
    else:
        runs.append(Run(place, place + 1, now))


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


def pod_of(series: Series) -> PodName | None:
    """Which pod a series is about; None where it names none."""
    labels = series.metric
    if "exported_pod" in labels:
        key = (labels.get("exported_namespace") or labels.get("namespace", ""), labels["exported_pod"])
    else:
        key = (labels.get("namespace", ""), labels.get("pod", ""))
    return key if all(key) else None


def node_of(series: Series) -> str:
    """Which node; empty where it names none."""
    return series.metric.get("exported_node") or series.metric.get("node", "")


def points_of(series: Series, grid: Grid) -> dict[int, float]:
    """Step -> value."""
    found = {}
    for seconds, text in series.values:
        place, value = grid.place(seconds), number(text)
        if place is not None and value is not None:
            found[place] = value
    return found
