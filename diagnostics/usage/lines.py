"""Lines of the ledger in columns, as roll-ups keep them: packed, unpacked, joined, and summed up. Pure.

A line says how much GPU-time one workload, or one owner, or nobody in particular, spent in one kind: model, state, and
how it is known. Sums are whole milliseconds, so that lines added in any order come to the same.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import zstandard

MOST_BYTES = 2**28
"""What one packed table may come to."""
LEVEL = 3
WHOLE = "q"
WIDTHS = {"B": "<u1", "H": "<u2", "I": "<u4", WHOLE: "<i8"}
"""How whole numbers are stored, by the type code of `array`: narrow before wide, lowest byte first."""

type Numbers = npt.NDArray[np.integer[Any]]
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


class Line(NamedTuple):
    """One sum. `workload` is 0 where lines are not told apart by it, `owner` is empty where not by that."""

    workload: int
    owner: Values
    kind: Kind
    gpu_ms: int
    waste_ms: int


class Rows(NamedTuple):
    """The fields of lines, each a column; owners and kinds are places in their tables."""

    workload: Numbers
    owner: Numbers
    kind: Numbers
    gpu_ms: Numbers
    waste_ms: Numbers

    def at(self, places: npt.NDArray[Any]) -> "Rows":
        """Some of them: by their places, or by whether each is wanted."""
        return Rows(*(field[places] for field in self))


class Columns[K, O](NamedTuple):
    """Lines, and what their kinds and owners are: `Kind` and `Values`, or what those were turned into."""

    kinds: list[K]
    owners: list[O]
    rows: Rows

    def where(
        self, is_kind: Callable[[K], bool], is_owner: Callable[[O], bool] = lambda _: True
    ) -> "Columns[K, O]":
        """Lines of some kinds and owners alone."""
        kind = np.array([is_kind(kind) for kind in self.kinds], bool)
        owner = np.array([is_owner(owner) for owner in self.owners], bool)
        if kind.all() and owner.all():
            return self
        return self._replace(rows=self.rows.at(kind[self.rows.kind] & owner[self.rows.owner]))

    def of(self, workloads: Numbers) -> "Columns[K, O]":
        """Lines of these workloads alone. Both they and the lines have to be in order."""
        first = self.rows.workload.searchsorted(workloads)
        counts = self.rows.workload.searchsorted(workloads, "right") - first
        places = np.repeat(first - counts.cumsum() + counts, counts) + np.arange(counts.sum())
        return self._replace(rows=self.rows.at(places))


class _Packed(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """As it is stored."""

    kinds: list[Kind]
    owners: list[Values]
    fields: list[tuple[str, bytes]]
    """(one of WIDTHS, numbers)"""


class Damaged(ValueError):
    """A packed table that cannot be read."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Packed)


def columns(lines: Iterable[Line]) -> Columns[Kind, Values]:
    """Lines as columns, in the order of their workloads."""
    kinds: dict[Kind, int] = {}
    owners: dict[Values, int] = {}
    rows = [
        (w, owners.setdefault(owner, len(owners)), kinds.setdefault(kind, len(kinds)), gpu_ms, waste_ms)
        for w, owner, kind, gpu_ms, waste_ms in sorted(lines, key=attrgetter("workload"))
    ]
    fields = zip(*rows, strict=True) if rows else [()] * len(Rows._fields)
    return Columns(list(kinds), list(owners), Rows(*(np.array(field, np.int64) for field in fields)))


def lines_of(table: Columns[Kind, Values]) -> list[Line]:
    """The reverse of `columns`."""
    kinds, owners, rows = table
    fields = zip(*(field.tolist() for field in rows), strict=True)
    return [Line(w, owners[o], kinds[k], gpu_ms, waste_ms) for w, o, k, gpu_ms, waste_ms in fields]


def packed(lines: Iterable[Line]) -> bytes:
    """Summed up and in order, so that equal sums are equal bytes."""
    kinds, owners, rows = columns(summed(lines))
    stored = _Packed(kinds, owners, [_bytes(field) for field in rows])
    return zstandard.ZstdCompressor(LEVEL, write_checksum=True).compress(_encoder.encode(stored))


def unpacked(data: bytes) -> Columns[Kind, Values]:
    """What `packed` was given, summed up. Raises Damaged."""
    try:
        stored = _decoder.decode(zstandard.decompress(data, max_output_size=MOST_BYTES))
        fields = [np.frombuffer(numbers, WIDTHS[code]) for code, numbers in stored.fields]
    except (msgspec.MsgspecError, zstandard.ZstdError, KeyError, ValueError) as error:
        raise Damaged(str(error)) from error
    if len(fields) != len(Rows._fields) or len({len(field) for field in fields}) != 1:
        raise Damaged("its columns are not of one length")
    return Columns(stored.kinds, stored.owners, Rows(*fields))


def _bytes(field: Numbers) -> tuple[str, bytes]:
    """In the smallest width that holds all."""
    least, most = field.min(initial=0), field.max(initial=0)
    code = next((c for c, width in WIDTHS.items() if least >= 0 and most <= np.iinfo(width).max), WHOLE)
    return code, field.astype(WIDTHS[code]).tobytes()


def joined[K, O](tables: Sequence[Columns[K, O]]) -> Columns[K, O]:
    """All lines in one table, which has each kind and each owner once."""
    rows = Rows(*(end_to_end(table.rows[place] for table in tables) for place in range(len(Rows._fields))))
    lengths = [len(table.rows.kind) for table in tables]
    kinds, kind = _once([table.kinds for table in tables], lengths, rows.kind)
    owners, owner = _once([table.owners for table in tables], lengths, rows.owner)
    return Columns(kinds, owners, rows._replace(kind=kind, owner=owner))


def end_to_end(columns: Iterable[Numbers]) -> Numbers:
    """One column, wide enough for sums."""
    return np.concatenate([np.zeros(0, np.int64), *columns], dtype=np.int64)


def _once[T](tables: list[list[T]], lengths: list[int], places: Numbers) -> tuple[list[T], Numbers]:
    """One table for several, and for each of their places that in this one."""
    known: dict[T, int] = {}
    number = [known.setdefault(value, len(known)) for table in tables for value in table]
    sizes = np.array([len(table) for table in tables], np.int64)
    return list(known), np.array(number, np.int64)[np.repeat(sizes.cumsum() - sizes, lengths) + places]


def added_up(keys: Numbers, gpu_ms: Numbers, waste_ms: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Each key once, in order, and its sums: whole numbers throughout, so that nothing is rounded."""
    if (keys[1:] < keys[:-1]).any():  # lines of one roll-up are in order
        order = keys.argsort(kind="stable")
        keys, gpu_ms, waste_ms = keys[order], gpu_ms[order], waste_ms[order]
    begins = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: len(keys)])
    gpu_ms, waste_ms = (np.add.reduceat(amount, begins, dtype=np.int64) for amount in (gpu_ms, waste_ms))
    return keys[begins], gpu_ms, waste_ms


def largest(
    keys: Numbers, sizes: Numbers, *, skip: int, most: int | None, without: int | None
) -> tuple[int, list[int]]:
    """How many have a size, and of these those with most, after the first `skip`; by key where it is the same."""
    counted = sizes > 0 if without is None else (sizes > 0) & (keys != without)
    keys, sizes = keys[counted], sizes[counted]
    count = len(keys)
    end = count if most is None else min(skip + most, count)
    if 0 < end < count:  # most are not worth sorting
        near = sizes >= np.partition(sizes, count - end)[count - end]
        keys, sizes = keys[near], sizes[near]
    return count, keys[np.lexsort((keys, -sizes))[skip:end]].tolist()


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


def with_owners(lines: Iterable[Line], owners: Mapping[int, Values]) -> Iterator[Line]:
    """Each with the owner of its workload; those of workloads that `owners` does not know are nobody's."""
    for line in lines:
        yield line._replace(owner=owners.get(line.workload, ()))


def _order(line: Line) -> tuple[int, tuple[tuple[bool, str], ...], Kind]:
    return line.workload, tuple((value is not None, value or "") for value in line.owner), line.kind
