"""Operators between two vectors: which series of the one goes with which of the other."""

from collections.abc import Callable
from itertools import repeat

from diagnostics.simulator.prometheus.functions import OPERATORS
from diagnostics.simulator.prometheus.series import Labels, Points, Vector, labels_of, only, without
from diagnostics.simulator.prometheus.syntax import BadQuery, Binary

NAME = ("__name__",)


def _key_of(binary: Binary) -> Callable[[Labels], Labels]:
    """What two series must have in common."""
    if binary.on is not None:
        names = binary.on
        return lambda labels: only(labels, names)
    left_out = (*binary.ignoring, *NAME)
    return lambda labels: without(labels, left_out)


def joined(binary: Binary, left: list[Vector], right: list[Vector]) -> list[Vector]:
    """`and`, `or` and `unless`, step by step."""
    key_of = _key_of(binary)
    if binary.operator == "or":
        there = _presence(left, key_of)
        rest = [
            Vector(vector.labels, _where(vector.points, there.get(key_of(vector.labels)), wanted=False))
            for vector in right
        ]
        return [*left, *(v for v in rest if any(point is not None for point in v.points))]
    there = _presence(right, key_of)
    wanted = binary.operator == "and"
    return [
        Vector(vector.labels, _where(vector.points, there.get(key_of(vector.labels)), wanted=wanted))
        for vector in left
    ]


def _presence(vectors: list[Vector], key_of: Callable[[Labels], Labels]) -> dict[Labels, list[bool]]:
    found: dict[Labels, list[bool]] = {}
    for vector in vectors:
        key = key_of(vector.labels)
        here = [point is not None for point in vector.points]
        before = found.get(key)
        found[key] = here if before is None else [a or b for a, b in zip(before, here, strict=True)]
    return found


def _where(points: Points, there: list[bool] | None, *, wanted: bool) -> Points:
    if there is None:
        return [None] * len(points) if wanted else points
    return [point if here is wanted else None for point, here in zip(points, there, strict=True)]


def compared(binary: Binary, left: list[Vector] | float, right: list[Vector] | float) -> list[Vector]:
    """A comparison: it keeps what it holds for, or gives 0 and 1 with `bool`."""
    holds = OPERATORS[binary.operator]

    def kept(ours: float, a: float, b: float) -> float | None:
        if binary.is_bool:
            return float(holds(a, b))
        return ours if holds(a, b) else None

    return _applied(binary, left, right, kept, drops_name=binary.is_bool)


def computed(binary: Binary, left: list[Vector] | float, right: list[Vector] | float) -> list[Vector]:
    """Arithmetic."""
    compute = OPERATORS[binary.operator]
    return _applied(binary, left, right, lambda _, a, b: compute(a, b), drops_name=True)


Compute = Callable[[float, float, float], float | None]
"""From the value that a comparison keeps, and those of the two sides."""


def _applied(
    binary: Binary,
    left: list[Vector] | float,
    right: list[Vector] | float,
    compute: Compute,
    *,
    drops_name: bool,
) -> list[Vector]:
    if isinstance(right, float) and isinstance(left, list):
        return [
            Vector(
                without(vector.labels, NAME) if drops_name else vector.labels,
                [
                    None if a is None else compute(a, a, b)
                    for a, b in zip(vector.points, repeat(right), strict=False)
                ],
            )
            for vector in left
        ]
    if isinstance(left, float) and isinstance(right, list):
        return [
            Vector(
                without(vector.labels, NAME) if drops_name else vector.labels,
                [
                    None if b is None else compute(b, a, b)
                    for a, b in zip(repeat(left), vector.points, strict=False)
                ],
            )
            for vector in right
        ]
    if isinstance(left, list) and isinstance(right, list):
        return _pairs(binary, left, right, compute, drops_name=drops_name)
    raise BadQuery("two numbers are no vectors")


def _pairs(
    binary: Binary, left: list[Vector], right: list[Vector], compute: Compute, *, drops_name: bool
) -> list[Vector]:
    """Series by series; of a group, the side with several series gives the labels."""
    key_of = _key_of(binary)
    is_right_many = binary.group == "right"
    many, ones = (right, left) if is_right_many else (left, right)
    by_key: dict[Labels, list[Vector]] = {}
    for vector in ones:
        by_key.setdefault(key_of(vector.labels), []).append(vector)
    found: list[Vector] = []
    taken: dict[Labels, list[bool]] = {}
    for vector in many:
        key = key_of(vector.labels)
        for one in by_key.get(key, ()):
            sides = (one.points, vector.points) if is_right_many else (vector.points, one.points)
            points: Points = [
                None if a is None or b is None else compute(a, a, b) for a, b in zip(*sides, strict=True)
            ]
            if not binary.group:
                _claim(taken, key, sides)
            labels = _result_labels(binary, vector.labels, one.labels, key, drops_name=drops_name)
            found.append(Vector(labels, points))
    return found


def _claim(taken: dict[Labels, list[bool]], key: Labels, sides: tuple[Points, Points]) -> None:
    """Raises BadQuery where two pairs of the same key meet at one step."""
    here = [a is not None and b is not None for a, b in zip(*sides, strict=True)]
    before = taken.setdefault(key, [False] * len(here))
    if any(a and b for a, b in zip(before, here, strict=True)):
        msg = "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)"
        raise BadQuery(msg)
    taken[key] = [a or b for a, b in zip(before, here, strict=True)]


def _result_labels(binary: Binary, ours: Labels, theirs: Labels, key: Labels, *, drops_name: bool) -> Labels:
    if not binary.group:
        if binary.on is not None:
            return key
        left_out = (*binary.ignoring, *(NAME if drops_name else ()))
        return without(ours, left_out)
    labels = dict(without(ours, NAME) if drops_name else ours)
    given = dict(theirs)
    for name in binary.include:
        labels[name] = given.get(name, "")
    return labels_of(labels)
