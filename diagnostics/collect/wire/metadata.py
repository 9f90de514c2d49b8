"""What all objects share on the wire: metadata, owners, conditions, times and quantities."""

from collections.abc import Callable, Hashable
from datetime import datetime
from sys import intern
from typing import Annotated

import msgspec

from diagnostics.masking import mask_text
from diagnostics.quantities import resources
from diagnostics.snapshot import Condition, OwnerKey

Time = Annotated[datetime, msgspec.Meta(tz=True)]
"""RFC 3339 with a zone, as the API always sends it; the fraction is kept to microseconds."""
Name = Annotated[str, msgspec.Meta(min_length=1)]
Amounts = dict[str, str | int | float]

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_LONGEST_ANNOTATION = 1024
_LONGEST_MESSAGE = 4096
_MOST_REMEMBERED = 20_000


class Wire(msgspec.Struct, rename="camel", gc=False):
    """A part of an API object; unknown fields are passed over. A tree from JSON holds no cycles to collect."""


class FrozenWire(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """A part that repeats from object to object: its content is its key in a `Memo`."""


class OwnerWire(FrozenWire, frozen=True):
    kind: str
    name: str
    api_version: str = ""
    uid: str = ""
    controller: bool | None = None


class MetaWire(Wire):
    name: Name
    namespace: str = ""
    uid: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: int | None = None
    finalizers: tuple[str, ...] | None = None
    owner_references: tuple[OwnerWire, ...] | None = None


class ConditionWire(Wire):
    type: str
    status: str
    reason: str | None = None
    message: str | None = None
    last_transition_time: Time | None = None


class Memo[K: Hashable, V](dict[K, V]):
    """Remembers what `make` gave for a key, so that equal parts of many objects are made, and kept, once."""

    def __init__(self, make: Callable[[K], V]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: K) -> V:
        if len(self) >= _MOST_REMEMBERED:
            self.clear()
        value = self[key] = self._make(key)
        return value


def message(text: str | None) -> str:
    """A message of the API, masked and bounded; it stays unprintable until it is shown."""
    return mask_text(text[:_LONGEST_MESSAGE]) if text else ""


def _amounts(items: tuple[tuple[str, str | int | float], ...]) -> dict[str, float]:
    return resources({intern(name): str(amount) for name, amount in items})


def _annotation(text: str) -> str:
    return mask_text(text if len(text) <= _LONGEST_ANNOTATION else text[: _LONGEST_ANNOTATION - 1] + "…")


class Parts:
    """Converts the parts that objects share; one for each list that is read, since it remembers them."""

    def __init__(self) -> None:
        self._amounts = Memo(_amounts)
        self._annotation = Memo(_annotation)
        self._message = Memo(message)
        self._text = Memo(str)

    def text(self, value: str | None) -> str:
        """One string for all equal ones."""
        return self._text[value] if value else ""

    def conditions(self, wires: tuple[ConditionWire, ...] | None) -> tuple[Condition, ...]:
        if not wires:
            return ()
        text, said = self._text, self._message
        return tuple(
            [
                Condition(
                    text[wire.type],
                    text[wire.status],
                    text[wire.reason] if wire.reason else "",
                    said[wire.message] if wire.message else "",
                    wire.last_transition_time,
                )
                for wire in wires
            ]
        )

    def amounts(self, raw: Amounts | None) -> dict[str, float]:
        """Resource amounts in base units; the dictionary is shared between equal ones."""
        return self._amounts[tuple(raw.items())] if raw else {}

    def labels(self, raw: dict[str, str] | None) -> dict[str, str]:
        remembered = self._text
        return {name: remembered[value] for name, value in raw.items()} if raw else {}

    def annotations(self, raw: dict[str, str] | None) -> dict[str, str]:
        """Without kubectl's copy of the manifest; masked, and long ones cut to 1 KB of characters."""
        if not raw:
            return {}
        remembered = self._annotation
        return {name: remembered[value] for name, value in raw.items() if name != _LAST_APPLIED}

    def owners(self, wires: tuple[OwnerWire, ...] | None, namespace: str) -> tuple[OwnerKey, ...]:
        """The controller first."""
        if not wires:
            return ()
        ordered = wires if len(wires) == 1 else sorted(wires, key=lambda wire: not wire.controller)
        text = self.text
        return tuple(
            [
                OwnerKey(text(wire.kind), namespace, text(wire.name), text(wire.api_version), text(wire.uid))
                for wire in ordered
            ]
        )
