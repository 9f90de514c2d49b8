"""Columns of the ledger: what is packed comes back, sums are whole numbers, and the largest are found."""

import msgspec
import numpy as np
import pytest
import zstandard

from diagnostics.usage.lines import (
    Damaged,
    Kind,
    Line,
    added_up,
    columns,
    joined,
    largest,
    lines_of,
    packed,
    unpacked,
)

WORKS = Kind("A100", 3, is_gap=False, is_backfilled=True)
UNSEEN = Kind("", 9, is_gap=True, is_backfilled=False)
LINES = [Line(7, ("red", "x", None), WORKS, 255, 0), Line(70_000, (), UNSEEN, 2**40, 2**16)]
STORED = bytes.fromhex(
    "28b52ffd24585d0200f403939294a44131303003c2c394a009c3c29293a3726564a178c0909592a149c40807000000701101"
    "0092a142c402000171c410ff000100000000000000000100030053898133fa2a4a19bfbe186b"
)


def test_what_was_stored_can_be_read() -> None:
    assert lines_of(unpacked(STORED)) == lines_of(unpacked(packed(LINES))) == LINES


def test_no_lines_are_lines() -> None:
    assert lines_of(unpacked(packed([]))) == lines_of(columns([])) == []


@pytest.mark.parametrize("largest", [0, 255, 256, 2**16 - 1, 2**16, 2**32 - 1, 2**32, 2**62])
def test_numbers_come_back_whatever_width_they_take(largest: int) -> None:
    lines = [Line(0, (), WORKS, largest, 0), Line(1, (), WORKS, 1, largest)]
    assert lines_of(unpacked(packed(lines))) == [line for line in lines if line.gpu_ms]


@pytest.mark.parametrize(
    "fields",
    [
        [("B", b"\0")] * 4,
        [*[("B", b"\0")] * 4, ("B", b"")],
        [*[("B", b"\0")] * 4, ("x", b"\0")],
        [*[("B", b"\0")] * 4, ("H", b"\0")],
    ],
    ids=["one is missing", "one is shorter", "no such width", "cut off"],
)
def test_columns_that_are_none_are_damaged(fields: list[tuple[str, bytes]]) -> None:
    data = zstandard.compress(msgspec.msgpack.encode([[WORKS], [()], fields]))
    with pytest.raises(Damaged):
        unpacked(data)


def test_joined_tables_have_each_kind_and_owner_once() -> None:
    first, second = (unpacked(packed(lines)) for lines in (LINES, reversed(LINES)))
    table = joined([first, columns([Line(8, (), UNSEEN, 2, 1)]), second])
    assert (table.kinds, table.owners) == ([WORKS, UNSEEN], [("red", "x", None), ()])
    assert lines_of(table) == [*LINES, Line(8, (), UNSEEN, 2, 1), *LINES]


def test_sums_are_exact_where_floating_point_is_not() -> None:
    keys = np.array([9, 2**40, 9, 9], np.int64)
    gpu_ms = np.array([2**60, 5, 1, 1], np.int64)
    waste_ms = np.array([2**32 - 1, 5, 2**32 - 1, 0], "<u4")
    found = [column.tolist() for column in added_up(keys, gpu_ms, waste_ms)]
    assert found == [[9, 2**40], [2**60 + 2, 5], [2**33 - 2, 5]]


def test_lines_of_some_workloads_are_found() -> None:
    table = columns([Line(n // 2, (), WORKS, n + 1, 0) for n in range(20)])
    some = lines_of(table.of(np.array([0, 4, 9, 77])))
    assert [(line.workload, line.gpu_ms) for line in some] == [
        (0, 1),
        (0, 2),
        (4, 9),
        (4, 10),
        (9, 19),
        (9, 20),
    ]
    assert lines_of(table.of(np.array([], np.int64))) == []


@pytest.mark.parametrize("most", [0, 1, 2, 3, 4, 5, 9, None])
@pytest.mark.parametrize("skip", [0, 1, 4, 9])
def test_the_largest_come_in_order_and_by_key_where_they_are_equal(skip: int, most: int | None) -> None:
    keys, sizes = np.array([1, 2, 3, 4, 5, 6]), np.array([7, 9, 7, 0, 8, 7])
    end = None if most is None else skip + most
    assert largest(keys, sizes, skip=skip, most=most, without=None) == (5, [2, 5, 1, 3, 6][skip:end])
    assert largest(keys, sizes, skip=skip, most=most, without=5) == (4, [2, 1, 3, 6][skip:end])
