"""Evaluates a query over a whole grid of times at once."""

from collections.abc import Callable, Iterable

from diagnostics.simulator.prometheus import functions
from diagnostics.simulator.prometheus.matching import compared, computed, joined
from diagnostics.simulator.prometheus.series import (
    Database,
    Grid,
    Labels,
    Points,
    Stored,
    Vector,
    only,
    without,
)
from diagnostics.simulator.prometheus.syntax import (
    COMPARISONS,
    SET_OPERATORS,
    Aggregation,
    BadQuery,
    Binary,
    Call,
    Expression,
    Matcher,
    Number,
    Selector,
    Text,
    parsed,
)

Value = float | str | list[Vector]
NAME = ("__name__",)
FAR_APART = 4
"""Steps that are more look-backs apart than this are evaluated one by one."""


def evaluated(query: str, database: Database, grid: Grid) -> float | list[Vector]:
    """A number, or the series that have a value at one of the moments at least. Raises BadQuery."""
    expression = parsed(query)
    is_sparse = grid.count > 1 and grid.step_s > FAR_APART * database.lookback_s
    found = _by_step(expression, database, grid) if is_sparse else _Evaluation(database, grid).of(expression)
    if isinstance(found, str):
        msg = "a string is no series"
        raise BadQuery(msg)
    if isinstance(found, float):
        return found
    return [vector for vector in found if any(point is not None for point in vector.points)]


def _by_step(expression: Expression, database: Database, grid: Grid) -> Value:
    """One step after the other: of what lies between two of them nothing is needed."""
    found: dict[Labels, Points] = {}
    for place, time in enumerate(grid.times):
        value = _Evaluation(database, Grid(time)).of(expression)
        if not isinstance(value, list):
            return value
        for vector in value:
            found.setdefault(vector.labels, [None] * grid.count)[place] = vector.points[0]
    return [Vector(labels, points) for labels, points in found.items()]


def samples(query: str, database: Database, at: float) -> list[tuple[Labels, list[float], list[float]]]:
    """Of a range vector: labels, times and values of each series. Raises BadQuery."""
    selector = parsed(query)
    if not isinstance(selector, Selector) or selector.range_s is None:
        msg = "not a range vector"
        raise BadQuery(msg)
    end = (at if selector.at_s is None else selector.at_s) - selector.offset_s
    found = []
    for stored in database.select(selector.matchers, end - selector.range_s, end):
        times, values = stored.within(end - selector.range_s, end)
        if times:
            found.append((stored.labels, times, values))
    return found


def is_range(query: str) -> bool:
    """Whether its result is samples, not series on a grid. Raises BadQuery."""
    found = parsed(query)
    return isinstance(found, Selector) and found.range_s is not None


class _Evaluation:
    def __init__(self, database: Database, grid: Grid) -> None:
        self._database = database
        self._grid = grid
        self._selected: dict[tuple[tuple[Matcher, ...], float, float], list[Stored]] = {}

    def of(self, expression: Expression) -> Value:
        match expression:
            case Number(value) | Text(value):
                return value
            case Selector():
                return self._instant(expression, lambda _, value: value)
            case Call():
                return self._call(expression)
            case Aggregation():
                return self._aggregation(expression)
            case Binary():
                return self._binary(expression)

    def _vector(self, expression: Expression) -> list[Vector]:
        found = self.of(expression)
        if not isinstance(found, list):
            msg = "expected an instant vector"
            raise BadQuery(msg)
        return found

    def _moments(self, selector: Selector) -> list[float]:
        """At which its samples are looked for, one a step."""
        if selector.at_s is not None:
            return [selector.at_s - selector.offset_s] * self._grid.count
        return [time - selector.offset_s for time in self._grid.times]

    def _select(self, selector: Selector, start: float, end: float) -> list[Stored]:
        """Queries ask for the same series several times over."""
        key = (selector.matchers, start, end)
        found = self._selected.get(key)
        if found is None:
            found = self._selected[key] = list(self._database.select(*key))
        return found

    def _instant(self, selector: Selector, value_of: Callable[[float, float], float]) -> list[Vector]:
        if selector.range_s is not None:
            msg = "a range vector is only understood as the argument of a function"
            raise BadQuery(msg)
        moments = self._moments(selector)
        back = self._database.lookback_s
        found = []
        for stored in self._select(selector, moments[0] - back, moments[-1]):
            shown = [stored.latest(moment) for moment in moments]
            points: Points = [None if one is None else value_of(*one) for one in shown]
            found.append(Vector(stored.labels, points))
        return found

    def _over_range(self, call: Call) -> list[Vector]:
        (selector,) = call.arguments
        if not isinstance(selector, Selector) or selector.range_s is None:
            msg = f"{call.function} needs a range vector"
            raise BadQuery(msg)
        compute, span = functions.OVER_RANGE[call.function], selector.range_s
        moments = self._moments(selector)
        is_fixed = selector.at_s is not None
        found = []
        for stored in self._select(selector, moments[0] - span, moments[-1]):
            if is_fixed:
                once = compute(*stored.within(moments[0] - span, moments[0]), moments[0] - span, moments[0])
                points: Points = [once] * len(moments)
            else:
                points = [
                    compute(*stored.within(moment - span, moment), moment - span, moment)
                    for moment in moments
                ]
            labels = stored.labels
            found.append(
                Vector(labels if call.function == "last_over_time" else without(labels, NAME), points)
            )
        return _distinct(found)

    def _call(self, call: Call) -> Value:
        if call.function in functions.OVER_RANGE and len(call.arguments) == 1:
            return self._over_range(call)
        match call.function, call.arguments:
            case "timestamp", (Selector() as selector,):
                found = self._instant(selector, lambda time, _: time)
                return _distinct([Vector(without(v.labels, NAME), v.points) for v in found])
            case "label_replace", (inner, Text(target), Text(replacement), Text(source), Text(pattern)):
                texts = (target, replacement, source, pattern)
                return _distinct(functions.label_replaced(self._vector(inner), *texts))
            case "vector", (Number(value),):
                return [Vector((), [value] * self._grid.count)]
        msg = f'unknown function with name "{call.function}", or not with these arguments'
        raise BadQuery(msg)

    def _aggregation(self, aggregation: Aggregation) -> list[Vector]:
        groups: dict[Labels, list[Points]] = {}
        for vector in self._vector(aggregation.inner):
            if aggregation.is_without:
                labels = without(vector.labels, (*aggregation.labels, *NAME))
            else:
                labels = only(vector.labels, aggregation.labels)
            groups.setdefault(labels, []).append(vector.points)
        compute = functions.AGGREGATIONS[aggregation.operator]
        return [Vector(labels, _merged(members, compute)) for labels, members in groups.items()]

    def _binary(self, binary: Binary) -> Value:
        left, right = self.of(binary.left), self.of(binary.right)
        if isinstance(left, str) or isinstance(right, str):
            msg = "an operator has no meaning for strings"
            raise BadQuery(msg)
        if binary.operator in SET_OPERATORS:
            if isinstance(left, float) or isinstance(right, float):
                msg = f"set operator {binary.operator!r} not allowed in binary scalar expression"
                raise BadQuery(msg)
            return joined(binary, left, right)
        if isinstance(left, float) and isinstance(right, float):
            return self._numbers(binary, left, right)
        return _distinct(
            compared(binary, left, right) if binary.operator in COMPARISONS else computed(binary, left, right)
        )

    @staticmethod
    def _numbers(binary: Binary, left: float, right: float) -> float:
        if binary.operator in COMPARISONS and not binary.is_bool:
            msg = "comparisons between scalars must use bool modifier"
            raise BadQuery(msg)
        return float(functions.OPERATORS[binary.operator](left, right))


def _merged(members: list[Points], compute: Callable[[list[float]], float]) -> Points:
    if len(members) == 1 and compute in {functions.total, max, min, functions.mean}:
        return members[0]
    found: Points = []
    for step in zip(*members, strict=True):
        there = [point for point in step if point is not None]
        found.append(compute(there) if there else None)
    return found


def _distinct(vectors: Iterable[Vector]) -> list[Vector]:
    """Series with the same labels are one if they are never there at once. Raises BadQuery where they are."""
    found: dict[Labels, Vector] = {}
    for vector in vectors:
        same = found.get(vector.labels)
        if same is None:
            found[vector.labels] = vector
            continue
        if any(a is not None and b is not None for a, b in zip(same.points, vector.points, strict=True)):
            msg = "vector cannot contain metrics with the same labelset"
            raise BadQuery(msg)
        points = [b if a is None else a for a, b in zip(same.points, vector.points, strict=True)]
        found[vector.labels] = Vector(vector.labels, points)
    return list(found.values())
