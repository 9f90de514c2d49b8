"""What some GPUs did lately, from Prometheus: one question for all of them."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

import msgspec

from diagnostics.collect.dcgm import Skips
from diagnostics.collect.dcgm_metrics import METRIC_BY_FIELD, METRIC_BY_NAME, measured
from diagnostics.collect.history.grid import Grid
from diagnostics.collect.prometheus_connection import Connection, Series, number
from diagnostics.collect.target import PrometheusTarget

FIELDS = ("utilization_ratio", "memory_used_bytes", "power_w", "temperature_c")
MOST_BOARDS = 64
"""Asked about at once: their names make an address of 5 KB."""
_UUID = re.compile(r"[\w-]{1,80}", re.ASCII)
_UUID_LABELS = ("UUID", "uuid")
_KEPT = ("__name__", *_UUID_LABELS, "GPU_I_ID")

Device = tuple[str, str]
"""UUID of the board, and id of the MIG instance on it; the latter is empty for the whole board."""


class Range(msgspec.Struct, frozen=True):
    """Values of the devices at each step, in the unit of the field of `Metrics`; None where there is none."""

    grid: Grid
    values: dict[Device, dict[str, list[float | None]]]
    warnings: tuple[str, ...]
    """What Prometheus says of its own answer: a store behind it did not take part, for example."""


def read_range(
    target: PrometheusTarget,
    uuids: Collection[str],
    span: timedelta,
    step: timedelta,
    now: datetime,
    timeout_s: float,
) -> Range:
    """The `span` up to `now` of the boards with these UUIDs, at whole multiples of `step`. Raises Unreadable.

    What no UUID looks like is not asked for: a UUID comes from the cluster. Prometheus shows a series for up to five
    minutes after its last sample, so that a line may end so much too late.
    """
    step_s = max(1, round(step.total_seconds()))
    steps = max(1, round(span / timedelta(seconds=step_s)))
    last_s = int(now.timestamp()) // step_s * step_s
    grid = Grid(last_s - (steps - 1) * step_s, step_s, steps)
    boards = sorted(uuid for uuid in set(uuids) if _UUID.fullmatch(uuid))[:MOST_BOARDS]
    if not boards:
        return Range(grid, {}, ())
    skips = Skips()
    with Connection(target, grid.at(steps - 1), timeout_s, timeout_s, skips) as connection:
        answer = connection.over(_question(boards, target.extra_matchers), grid.at(0), step_s)
        values = _values(answer, grid, skips)
        return Range(grid, values, tuple(connection.warnings))


def _question(boards: list[str], matchers: str) -> str:
    """For a range query: each metric of each device, the largest where several pods or scrape jobs tell it."""
    names = "|".join(name for field in FIELDS for name in METRIC_BY_FIELD[field].names)
    extra = matchers.strip().strip(",").strip()
    each = (
        "{" + ",".join(filter(None, (f'__name__=~"{names}"', f'{label}=~"{"|".join(boards)}"', extra))) + "}"
        for label in _UUID_LABELS
    )
    return f"max by ({', '.join(_KEPT)}) ({' or '.join(each)})"


def _values(
    answer: Iterable[Series], grid: Grid, skips: Skips
) -> dict[Device, dict[str, list[float | None]]]:
    ranked: dict[Device, dict[str, dict[int, list[float | None]]]] = defaultdict(lambda: defaultdict(dict))
    for series in answer:
        labels = series.metric
        name = labels.get("__name__", "")
        uuid = next((labels[label] for label in _UUID_LABELS if labels.get(label)), "")
        if name not in METRIC_BY_NAME or not uuid:
            continue
        metric, rank = METRIC_BY_NAME[name]
        line: list[float | None] = [None] * grid.count
        for seconds, text in series.values:
            place, sample = grid.place(seconds), number(text)
            if place is None or sample is None:
                continue
            try:
                line[place] = measured(metric, sample)
            except ValueError as unusable:
                skips.add(str(unusable), name)
        ranked[uuid, labels.get("GPU_I_ID", "")][metric.field][rank] = line
    return {
        device: {field: _best(by_rank) for field, by_rank in fields.items()}
        for device, fields in ranked.items()
    }


def _best(by_rank: dict[int, list[float | None]]) -> list[float | None]:
    """Of several names of one metric the preferred one at each step."""
    lines = [by_rank[rank] for rank in sorted(by_rank)]
    return [
        next((value for value in values if value is not None), None) for values in zip(*lines, strict=True)
    ]
