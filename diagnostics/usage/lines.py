"""Lines of the ledger in columns, as roll-ups keep them: packed, unpacked, and summed up. Pure.

A line says how much GPU-time one workload, or one owner, or nobody in particular, spent in one kind: model, state, and
how it is known. Sums are whole milliseconds, so that lines added in any order come to the same.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from typing import NamedTuple

import msgspec
import zstandard

MOST_BYTES = 2**28
"""What one packed table may come to."""
LEVEL = 3
FIELDS = 5
WHOLE = "q"
WIDTHS = {"B": 2**8, "H": 2**16, "I": 2**32}
"""Type codes of `array` for whole numbers below so much; WHOLE takes all others."""

type Values = tuple[str | None, ...]
"""What a team is mapped by: the namespace, then the value of each label and annotation that rules ask for; empty for
nobody."""


class Kind(NamedTuple):
    """What is told apart whoever spent it."""

    model: str
    state: int
    """Place in `models.STATES`."""
    is_gap: bool
    is_backfilled: bool


ANY = Kind("", 0, is_gap=False, is_backfilled=False)
"""Stands for every observed kind."""


class Line(NamedTuple):
    """One sum. `workload` is 0 where lines are not told apart by it, `owner` is empty where not by that."""

    workload: int
    owner: Values
    kind: Kind
    gpu_ms: int
    waste_ms: int


class Columns:
    """Lines in the order of their workloads, one array a field; kinds and owners are places in their tables."""

    __slots__ = ("gpu_ms", "kind", "kinds", "owner", "owners", "waste_ms", "workload")

    def __init__(self, kinds: list[Kind], owners: list[Values], fields: Iterable[array[int]]) -> None:
        self.kinds, self.owners = kinds, owners
        self.workload, self.owner, self.kind, self.gpu_ms, self.waste_ms = fields

    def __iter__(self) -> Iterator[Line]:
        kinds, owners = self.kinds, self.owners
        rows = zip(self.workload, self.owner, self.kind, self.gpu_ms, self.waste_ms, strict=True)
        return (Line(w, owners[o], kinds[k], gpu, waste) for w, o, k, gpu, waste in rows)

    def places_of(self, workload: int) -> range:
        """Where the lines of one workload are."""
        return range(bisect_left(self.workload, workload), bisect_right(self.workload, workload))


class _Packed(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """As it is stored: each field as whole numbers of one width, lowest byte first."""

    kinds: list[Kind]
    owners: list[Values]
    fields: list[tuple[str, bytes]]
    """(type code of `array`, numbers)"""


class Damaged(ValueError):
    """A packed table that cannot be read."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Packed)


def columns(lines: Iterable[Line]) -> Columns:
    """Lines as columns, in the order of their workloads."""
    kinds: dict[Kind, int] = {}
    owners: dict[Values, int] = {}
    rows = [
        (w, owners.setdefault(owner, len(owners)), kinds.setdefault(kind, len(kinds)), gpu_ms, waste_ms)
        for w, owner, kind, gpu_ms, waste_ms in sorted(lines, key=attrgetter("workload"))
    ]
    fields = zip(*rows, strict=True) if rows else [()] * FIELDS
    return Columns(list(kinds), list(owners), [array(WHOLE, field) for field in fields])


def packed(lines: Iterable[Line]) -> bytes:
    """Summed up and in order, so that equal sums are equal bytes."""
    found = columns(summed(lines))
    fields = [found.workload, found.owner, found.kind, found.gpu_ms, found.waste_ms]
    stored = _Packed(found.kinds, found.owners, [_bytes(field) for field in fields])
    return zstandard.ZstdCompressor(LEVEL, write_checksum=True).compress(_encoder.encode(stored))


def unpacked(data: bytes) -> Columns:
    """What `packed` was given, summed up. Raises Damaged."""
    try:
        stored = _decoder.decode(zstandard.decompress(data, max_output_size=MOST_BYTES))
        fields = [_numbers(*field) for field in stored.fields]
    except (msgspec.MsgspecError, zstandard.ZstdError, ValueError) as error:
        raise Damaged(str(error)) from error
    if len(fields) != FIELDS or len({len(field) for field in fields}) != 1:
        raise Damaged("its columns are not of one length")
    return Columns(stored.kinds, stored.owners, fields)


def _bytes(field: array[int]) -> tuple[str, bytes]:
    """In the smallest width that holds all."""
    most, least = max(field, default=0), min(field, default=0)
    code = next((c for c, end in WIDTHS.items() if most < end and least >= 0), WHOLE)
    packed = array(code, field)
    if sys.byteorder == "big":
        packed.byteswap()
    return code, packed.tobytes()


def _numbers(code: str, data: bytes) -> array[int]:
    """Raises ValueError for bytes that are cut off, and for a width that there is not."""
    if code not in WIDTHS and code != WHOLE:
        raise ValueError("a column is of no known width")
    found = array(code)
    found.frombytes(data)
    if sys.byteorder == "big":
        found.byteswap()
    return found


def summed(lines: Iterable[Line]) -> list[Line]:
    """One line for each workload, owner and kind; those that come to nothing go."""
    sums: dict[tuple[int, Values, Kind], list[int]] = {}
    for workload, owner, kind, gpu_ms, waste_ms in lines:
        total = sums.setdefault((workload, owner, kind), [0, 0])
        total[0] += gpu_ms
        total[1] += waste_ms
    found = [Line(*key, *total) for key, total in sums.items() if any(total)]
    return sorted(found, key=_order)


def without_workloads(lines: Iterable[Line]) -> Iterator[Line]:
    """By owner and kind."""
    return (Line(0, line.owner, line.kind, line.gpu_ms, line.waste_ms) for line in lines)


def by_kind(lines: Iterable[Line]) -> Iterator[Line]:
    """By kind alone."""
    return (Line(0, (), line.kind, line.gpu_ms, line.waste_ms) for line in lines)


def by_workload(lines: Iterable[Line]) -> Iterator[Line]:
    """By workload and owner alone, without unobserved time."""
    return (line._replace(kind=ANY) for line in lines if not line.kind.is_gap)


def with_owners(lines: Iterable[Line], owners: Mapping[int, Values]) -> Iterator[Line]:
    """Each with the owner of its workload; those of workloads that `owners` does not know are nobody's."""
    for line in lines:
        yield line._replace(owner=owners.get(line.workload, ()))


def _order(line: Line) -> tuple[int, tuple[tuple[bool, str], ...], Kind]:
    return line.workload, tuple((value is not None, value or "") for value in line.owner), line.kind
