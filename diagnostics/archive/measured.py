"""What the GPUs measured, as columns: rounded to what pages show, and a tenth of the size of the values themselves."""

import sys
from array import array
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from diagnostics.snapshot import Gpu, Metrics, Stat, Window

STEPS = {
    "_ratio": 1e-3,
    "_bytes": 2.0**20,
    "_w": 0.1,
    "_c": 0.1,
    "_mhz": 1.0,
    "_per_s": 2.0**10,
}
"""Ending of a field's name -> what its values are rounded to, in the field's own unit."""
UNKNOWN = -(2**31)
"""Stands for None among whole numbers."""
_WIDTH = array("i").itemsize


class Column(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One field of many devices: multiples of `step`, or the plain values where `step` is 0."""

    step: float
    packed: bytes = b""
    plain: tuple[Any, ...] = ()


class Table(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Values of those devices of a list that have any: their places in it, and a column per field."""

    places: tuple[int, ...] | None
    """None: every device of the list."""
    columns: dict[str, Column]


_METRICS = Metrics.__struct_fields__
_STATS = (
    *("utilization_ratio", "gr_engine_ratio", "sm_active_ratio", "tensor_active_ratio"),
    *("dram_active_ratio", "memory_used_bytes", "power_w"),
)
_PARTS = Stat.__struct_fields__
_PLAIN = tuple(field for field in Window.__struct_fields__ if field not in _STATS)


def metrics_table(gpus: Sequence[Gpu]) -> Table:
    """The last sample of each device."""
    places = [i for i, gpu in enumerate(gpus) if gpu.metrics is not None]
    return Table(_places(places, gpus), _columns(_METRICS, [gpus[i].metrics for i in places]))


def windows_table(gpus: Sequence[Gpu]) -> Table:
    """The window of each device; a statistic is three columns."""
    places = [i for i, gpu in enumerate(gpus) if gpu.window is not None]
    windows = [gpus[i].window for i in places]
    columns = _columns(_PLAIN, windows)
    for field in _STATS:
        stats = list(map(attrgetter(field), windows))
        for part in _PARTS:
            of_part = attrgetter(part)
            values = [None if stat is None else of_part(stat) for stat in stats]
            if any(value is not None for value in values):
                columns[f"{part} {field}"] = _column(field, values)
    return Table(_places(places, gpus), columns)


def measured(gpus: Sequence[Gpu], metrics: Table, windows: Table) -> tuple[Gpu, ...]:
    """`gpus` with the samples and windows of the tables. Raises ValueError where they do not fit together."""
    found = _structs(Metrics, _rows(metrics, len(gpus)))
    over = _structs(Window, ((i, _with_stats(fields)) for i, fields in _rows(windows, len(gpus))))
    return tuple(
        msgspec.structs.replace(gpu, metrics=found.get(i), window=over.get(i)) for i, gpu in enumerate(gpus)
    )


def values_of(table: Table, field: str, size: int) -> list[float | None]:
    """One field of all `size` devices, None where it is not known. Raises ValueError for a damaged table."""
    column = table.columns.get(field)
    if column is None:
        return [None] * size
    values = _unpacked(column)
    places = range(size) if table.places is None else table.places
    if len(places) != len(values):
        raise ValueError("a column has not one value for each device")
    found: list[float | None] = [None] * size
    for place, value in zip(places, values, strict=True):
        found[place] = value
    return found


def _places(places: list[int], gpus: Sequence[Gpu]) -> tuple[int, ...] | None:
    return None if len(places) == len(gpus) else tuple(places)


def _columns(fields: tuple[str, ...], objects: Sequence[Any]) -> dict[str, Column]:
    """Fields that nobody has are left out. By field, not by object: a tuple for each object would be garbage."""
    found = {}
    for field in fields:
        values = list(map(attrgetter(field), objects))
        if any(value is not None for value in values):
            found[field] = _column(field, values)
    return found


def _column(field: str, values: Sequence[Any]) -> Column:
    step = next((step for ending, step in STEPS.items() if field.endswith(ending)), 0.0)
    if step:
        try:
            per = 1 / step
            return Column(step, planes([UNKNOWN if v is None else round(v * per) for v in values]))
        except (TypeError, ValueError, OverflowError):
            # No finite number, or too large a one: it is kept as it came.
            pass
    return Column(0.0, plain=tuple(values))


def planes(numbers: Sequence[int]) -> bytes:
    """Whole numbers of 32 bits as bytes: first bytes first, then all second ones, so that those that hardly differ
    stand together and shrink to nothing.
    """
    packed = array("i", numbers)
    if sys.byteorder == "big":
        packed.byteswap()
    raw = packed.tobytes()
    return b"".join(raw[plane::_WIDTH] for plane in range(_WIDTH))


def from_planes(packed: bytes) -> "array[int]":
    """What `planes` was given. Raises ValueError for bytes that are cut off."""
    count, rest = divmod(len(packed), _WIDTH)
    if rest:
        raise ValueError("a column is cut off")
    raw = bytearray(len(packed))
    for plane in range(_WIDTH):
        raw[plane::_WIDTH] = packed[plane * count : (plane + 1) * count]
    numbers = array("i", bytes(raw))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _unpacked(column: Column) -> tuple[Any, ...]:
    if not column.step:
        return column.plain
    # Divided, not multiplied: 970 / 1000 is 0.97, 970 * 0.001 is not.
    per = 1 / column.step
    return tuple(None if number == UNKNOWN else number / per for number in from_planes(column.packed))


def _rows(table: Table, size: int) -> Iterable[tuple[int, dict[str, Any]]]:
    """(place, {field: value}) of each device in the table."""
    places = range(size) if table.places is None else table.places
    if any(not 0 <= place < size for place in places):
        raise ValueError("a value belongs to no device")
    if not table.columns:
        yield from ((place, {}) for place in places)
        return
    columns = [_unpacked(column) for column in table.columns.values()]
    for place, values in zip(places, zip(*columns, strict=True), strict=True):
        yield place, {f: v for f, v in zip(table.columns, values, strict=True) if v is not None}


def _structs[T](kind: type[T], rows: Iterable[tuple[int, dict[str, Any]]]) -> dict[int, T]:
    """Place -> struct. msgspec turns plain values into what the fields are, and passes over fields that are gone."""
    kept = dict(rows)
    found: list[T] = msgspec.convert(list(kept.values()), list[kind], strict=False)  # type: ignore[valid-type]
    return dict(zip(kept, found, strict=True))


def _with_stats(fields: dict[str, Any]) -> dict[str, Any]:
    """The three columns of a statistic as one again."""
    whole = {field: value for field, value in fields.items() if " " not in field}
    for field in _STATS:
        parts = [fields.get(f"{part} {field}") for part in _PARTS]
        if all(part is not None for part in parts):
            whole[field] = dict(zip(_PARTS, parts, strict=True))
    return whole
