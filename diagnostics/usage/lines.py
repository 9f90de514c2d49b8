"""Lines of the ledger in columns, as roll-ups keep them: packed, unpacked, and summed up. Pure, but for the names.

A line says how much GPU-time one workload, or one owner, or nobody in particular, spent in one kind: model, state, and
how it is known. Sums are whole milliseconds, so that lines added in any order come to the same.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec
import zstandard

MOST_BYTES = 2**28
"""What one packed table may come to."""
LEVEL = 3

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


class Columns(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Lines, one list a field; kinds and owners are places in their tables."""

    kinds: list[Kind]
    owners: list[Values]
    workload: list[int]
    owner: list[int]
    kind: list[int]
    gpu_ms: list[int]
    waste_ms: list[int]

    def __iter__(self) -> Iterator[Line]:
        kinds, owners = self.kinds, self.owners
        rows = zip(self.workload, self.owner, self.kind, self.gpu_ms, self.waste_ms, strict=True)
        return (Line(w, owners[o], kinds[k], gpu, waste) for w, o, k, gpu, waste in rows)


class Damaged(ValueError):
    """A packed table that cannot be read."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Columns)


def columns(lines: Iterable[Line]) -> Columns:
    """Lines as columns, in their order."""
    kinds: dict[Kind, int] = {}
    owners: dict[Values, int] = {}
    found = Columns([], [], [], [], [], [], [])
    for workload, owner, kind, gpu_ms, waste_ms in lines:
        found.workload.append(workload)
        found.owner.append(owners.setdefault(owner, len(owners)))
        found.kind.append(kinds.setdefault(kind, len(kinds)))
        found.gpu_ms.append(gpu_ms)
        found.waste_ms.append(waste_ms)
    found.kinds.extend(kinds)
    found.owners.extend(owners)
    return found


def packed(lines: Iterable[Line]) -> bytes:
    """Summed up and in order, so that equal sums are equal bytes."""
    return zstandard.compress(_encoder.encode(columns(summed(lines))), LEVEL)


def unpacked(data: bytes) -> Columns:
    """What `packed` was given, summed up. Raises Damaged."""
    try:
        found = _decoder.decode(zstandard.decompress(data, max_output_size=MOST_BYTES))
    except (msgspec.MsgspecError, zstandard.ZstdError) as error:
        raise Damaged(str(error)) from error
    lengths = {len(c) for c in (found.workload, found.owner, found.kind, found.gpu_ms, found.waste_ms)}
    if len(lengths) != 1:
        raise Damaged("its columns are not of one length")
    if max(found.kind, default=-1) >= len(found.kinds) or max(found.owner, default=-1) >= len(found.owners):
        raise Damaged("a line is of no kind or owner")
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


def with_owners(lines: Iterable[Line], owners: Mapping[int, Values]) -> Iterator[Line]:
    """Each with the owner of its workload; those of workloads that `owners` does not know are nobody's."""
    for line in lines:
        yield line._replace(owner=owners.get(line.workload, ()))


def _order(line: Line) -> tuple[int, tuple[tuple[bool, str], ...], Kind]:
    return line.workload, tuple((value is not None, value or "") for value in line.owner), line.kind
