"""CEL selectors of device requests, answered as the scheduler answers them.

What an expression sees is in the API reference of DeviceSelector (resource.k8s.io/v1): `device.driver`,
`device.attributes[domain].name`, `device.capacity[domain].name`. Quantities are numbers here and versions text, for
both of which the methods of Kubernetes' own CEL library are there as far as selectors use them.
"""

from collections.abc import Callable, Mapping
from typing import Any

import cel

from diagnostics.quantities import quantity
from diagnostics.snapshot.resource_claims import Device

BOUNDLESS = 2.0**62
"""An amount of memory that meets every selector."""
MEMORY = "memory"
DEEPEST = 250
"""Brackets within brackets: the API server's CEL parser allows no more, and the library's own stack is finite."""


def _parts(version: str) -> tuple[list[int], str]:
    """Numbers of a version, and what follows a dash. Drivers publish three numbers without leading zeros."""
    numbers, _, rest = version.removeprefix("v").partition("-")
    return [int(part) for part in numbers.split(".")], rest


def _compared(left: Any, right: Any) -> int:
    """-1, 0 or 1. Raises ValueError for text that is no version."""
    if isinstance(left, str) and isinstance(right, str):
        left, right = _parts(left), _parts(right)
    return int(left > right) - int(left < right)


def _version(text: str) -> str:
    _parts(text)
    return text.removeprefix("v")


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "quantity": quantity,
    "semver": _version,
    "compareTo": _compared,
    "isGreaterThan": lambda left, right: _compared(left, right) > 0,
    "isLessThan": lambda left, right: _compared(left, right) < 0,
    "major": lambda version: _parts(version)[0][0],
    "minor": lambda version: _parts(version)[0][1],
    "patch": lambda version: _parts(version)[0][2],
    "asInteger": int,
    "asApproximateFloat": float,
    "add": lambda left, right: left + right,
    "sub": lambda left, right: left - right,
    "lowerAscii": str.lower,
    "upperAscii": str.upper,
}


class Selectors:
    """Answers for one snapshot; an expression is evaluated once for devices that it cannot tell apart."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], bool | None] = {}

    def meets(self, expression: str, driver: str, device: Device, *, has_memory: bool = False) -> bool | None:
        """Whether the device meets it. None: it cannot be evaluated here. `has_memory`: as if it had any amount of it.

        A name that the device does not have makes the expression fail for it, as it does for the scheduler.
        """
        key = (
            expression,
            driver,
            has_memory,
            *_seen(expression, device.attributes),
            *_seen(expression, device.capacity),
        )
        if key not in self._known:
            self._known[key] = _evaluated(expression, driver, device, has_memory=has_memory)
        return self._known[key]


def _seen(expression: str, values: Mapping[str, object]) -> tuple[tuple[str, object], ...]:
    return tuple((key, value) for key, value in values.items() if key.rpartition("/")[2] in expression)


def _evaluated(expression: str, driver: str, device: Device, *, has_memory: bool) -> bool | None:
    if sum(map(expression.count, "([{?")) > DEEPEST:
        return None
    capacity = dict(device.capacity)
    if has_memory:
        capacity |= {key: BOUNDLESS for key in capacity if key.rpartition("/")[2] == MEMORY}
    context = cel.Context()
    for name, function in _FUNCTIONS.items():
        context.add_function(name, function)
    context.add_variable(
        "device",
        {
            "driver": driver,
            "attributes": _by_domain(device.attributes),
            "capacity": _by_domain(capacity),
            "allowMultipleAllocations": False,
        },
    )
    try:
        answer = cel.evaluate(expression, context)
    except KeyError:
        return False
    except Exception:  # the library raises whatever a broken expression or a function meets
        return None
    return answer if isinstance(answer, bool) else None


def _by_domain(values: Mapping[str, object]) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for key, value in values.items():
        domain, _, name = key.rpartition("/")
        found.setdefault(domain, {})[name] = value
    return found
