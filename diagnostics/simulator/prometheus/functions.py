"""What functions, aggregations and operators of PromQL compute."""

import math
import operator
import re
from collections.abc import Callable, Iterable
from itertools import pairwise

from diagnostics.simulator.prometheus.series import Vector, labels_of
from diagnostics.simulator.prometheus.syntax import BadQuery

OverRange = Callable[[list[float], list[float], float, float], float | None]
"""From times and values of the samples in a range, and its begin and end; None without a result."""


def total(values: list[float]) -> float:
    return math.fsum(values)


def mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


def _count(values: list[float]) -> float:
    return float(len(values))


def _one(_: list[float]) -> float:
    return 1.0


AGGREGATIONS: dict[str, Callable[[list[float]], float]] = {
    "sum": total,
    "min": min,
    "max": max,
    "avg": mean,
    "count": _count,
    "group": _one,
}


def _of_values(compute: Callable[[list[float]], float]) -> OverRange:
    return lambda _times, values, _start, _end: compute(values) if values else None


def _changes(values: list[float]) -> float:
    return float(sum(earlier != later for earlier, later in pairwise(values)))


def _resets(values: list[float]) -> float:
    return float(sum(later < earlier for earlier, later in pairwise(values)))


def _extrapolated(*, is_counter: bool, is_rate: bool) -> OverRange:
    """As Prometheus does it: the slope between the samples, up to the borders of the range where these are near
    (promql/functions.go, `extrapolatedRate`).
    """

    def compute(times: list[float], values: list[float], start: float, end: float) -> float | None:
        if len(values) < 2:
            return None
        rise = values[-1] - values[0]
        if is_counter:
            rise += math.fsum(earlier for earlier, later in pairwise(values) if later < earlier)
        sampled = times[-1] - times[0]
        between = sampled / (len(times) - 1)
        before, after = times[0] - start, end - times[-1]
        near = between * 1.1
        if before >= near:
            before = between / 2
        if is_counter and rise > 0 and values[0] >= 0:
            before = min(before, sampled * (values[0] / rise))
        if after >= near:
            after = between / 2
        factor = (sampled + before + after) / sampled
        return rise * factor / (end - start if is_rate else 1.0)

    return compute


OVER_RANGE: dict[str, OverRange] = {
    "min_over_time": _of_values(min),
    "max_over_time": _of_values(max),
    "avg_over_time": _of_values(mean),
    "sum_over_time": _of_values(total),
    "count_over_time": _of_values(_count),
    "present_over_time": _of_values(_one),
    "last_over_time": _of_values(lambda values: values[-1]),
    "changes": _of_values(_changes),
    "resets": _of_values(_resets),
    "delta": _extrapolated(is_counter=False, is_rate=False),
    "increase": _extrapolated(is_counter=True, is_rate=False),
    "rate": _extrapolated(is_counter=True, is_rate=True),
}


def _divided(left: float, right: float) -> float:
    if right:
        return left / right
    return math.nan if not left or math.isnan(left) else math.copysign(math.inf, left)


def _remainder(left: float, right: float) -> float:
    return math.fmod(left, right) if right and math.isfinite(left) else math.nan


def _power(left: float, right: float) -> float:
    try:
        return math.pow(left, right)
    except OverflowError:
        return math.inf
    except ValueError:
        return math.nan


OPERATORS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divided,
    "%": _remainder,
    "^": _power,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


def label_replaced(
    vectors: Iterable[Vector], target: str, replacement: str, source: str, pattern: str
) -> list[Vector]:
    """Each with a label made from another, where the whole of that matches."""
    try:
        expression = re.compile(pattern, re.DOTALL)
    except re.error as error:
        msg = f"invalid regular expression in label_replace(): {error}"
        raise BadQuery(msg) from None
    found = []
    for vector in vectors:
        labels = dict(vector.labels)
        match = expression.fullmatch(labels.get(source, ""))
        if match is None:
            found.append(vector)
            continue
        labels[target] = re.sub(r"\$(?:\{(\w+)\}|(\w+))", _group_of(match), replacement)
        found.append(Vector(labels_of(labels), vector.points))
    return found


def _group_of(match: re.Match[str]) -> Callable[[re.Match[str]], str]:
    def group(reference: re.Match[str]) -> str:
        name = reference[1] or reference[2]
        try:
            return match[int(name) if name.isdigit() else name] or ""
        except IndexError:
            return ""

    return group
