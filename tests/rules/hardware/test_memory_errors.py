"""GPU103: repairs of memory that wait, fail or are not enough."""

from typing import Any

import pytest

from diagnostics.findings import Severity
from tests.builders import gpu, pod
from tests.rules.hardware.boards import SLOT, board, diagnosed, facts, found, log, seen, unjudged

KEY = "research/train-0"
ROWS = (
    "Remapped Rows\n  Correctable Error : 0\n  Uncorrectable Error : 4\n  Pending : {0}\n"
    "  Remapping Failure Occurred : {1}\n"
)


@pytest.mark.parametrize("flag", ["row_remap_pending", "page_retirement_pending"])
def test_a_pending_repair_needs_a_reset_and_no_new_board(flag: str) -> None:
    (finding,) = found("memory-errors", board(metrics={flag: True}))
    assert (finding.cause, finding.severity) == ("row-remap-pending", Severity.WARNING)
    commands = [s.command for s in finding.fix.steps]
    order = [next(i for i, c in enumerate(commands) if word in c) for word in ("ROW_REMAPPER", "--gpu-reset")]
    assert order == sorted(order)
    assert "no case for a new board" in finding.summary


def test_a_failed_repair_is_for_the_vendor() -> None:
    (finding,) = found("memory-errors", board(metrics={"row_remap_failed": True, "row_remap_pending": True}))
    assert (finding.cause, finding.severity) == ("row-remap-failed", Severity.CRITICAL)
    assert not any("--gpu-reset" in s.command for s in finding.fix.steps)


def test_xid_63_tells_of_a_pending_repair_where_the_flag_is_not_collected() -> None:
    over: dict[str, Any] = {"xids": (seen(63),)}
    (finding,) = found("memory-errors", board(over=over))
    assert finding.cause == "row-remap-pending"
    assert found("memory-errors", board(metrics={"row_remap_pending": False}, over=over)) == []


@pytest.mark.parametrize(
    ("pending", "failed", "cause"), [("Yes", "No", "row-remap-pending"), ("No", "Yes", "row-remap-failed")]
)
def test_reads_a_listing_in_a_log(pending: str, failed: str, cause: str) -> None:
    (finding,) = found(
        "memory-errors", pod(), board(holders=(KEY,)), signals=log(ROWS.format(pending, failed))
    )
    assert finding.cause == cause
    assert "rows remapped so far: 4" in facts(finding)


def test_a_listing_of_several_boards_blames_the_one_it_is_under() -> None:
    text = (
        "GPU 00000000:13:00.0\n"
        + ROWS.format("No", "No")
        + "GPU 00000000:14:00.0\n"
        + ROWS.format("Yes", "No")
    )
    devices = [gpu(i, holders=(KEY,)) for i in (3, 4)]
    (finding,) = found("memory-errors", pod(gpus=2), *devices, signals=log(text))
    assert finding.subject.name == "gpu-1/00000000:14:00.0"


def test_errors_that_rise_are_reported() -> None:
    (finding,) = found("memory-errors", board(over={"ecc_uncorrectable_volatile_grown": 2.0}))
    assert finding.cause == "uncorrectable-memory-errors"
    assert "2 more in 30 min" in facts(finding)


def test_a_contained_error_is_reported() -> None:
    (finding,) = found("memory-errors", board(over={"xids": (seen(94),)}))
    assert finding.cause == "contained-memory-error"


def test_a_high_rate_of_corrected_errors_is_only_watched() -> None:
    (finding,) = found("memory-errors", board(over={"xids": (seen(92),)}))
    assert finding.severity is Severity.INFO
    assert all("drain" not in s.command for s in finding.fix.steps)


def test_63_retired_pages_are_too_many() -> None:
    pages = {"retired_pages_correctable": 40.0, "retired_pages_uncorrectable": 23.0}
    (finding,) = found("memory-errors", board(metrics=pages))
    assert finding.cause == "page-retirement-limit"
    assert found("memory-errors", board(metrics=pages | {"retired_pages_correctable": 39.0})) == []


@pytest.mark.parametrize(
    "metrics",
    [
        {"remapped_rows_uncorrectable": 4.0, "row_remap_pending": False, "row_remap_failed": False},
        {"ecc_uncorrectable_volatile": 3.0, "ecc_uncorrectable_aggregate": 40.0},
        {"ecc_correctable_volatile": 900.0, "ecc_uncorrectable_volatile": 0.0},
    ],
)
def test_is_silent_about_what_was_repaired_and_what_merely_stands(metrics: dict[str, Any]) -> None:
    assert found("memory-errors", board(metrics=metrics)) == []


def test_does_not_judge_a_board_without_any_of_the_metrics() -> None:
    assert unjudged("GPU103", board()) == [SLOT]
    assert unjudged("GPU103", board(metrics={"row_remap_failed": False})) == []


def test_a_fatal_xid_of_the_same_gpu_explains_it() -> None:
    findings = diagnosed(board(metrics={"row_remap_pending": True}, over={"xids": (seen(95),)})).findings
    by_slug = {f.slug: f for f in findings}
    assert by_slug["memory-errors"].caused_by == (by_slug["fatal-xid"].id,)


def test_pages_that_wait_for_retirement_are_read_from_a_listing() -> None:
    text = "Retired Pages\n Single Bit ECC : 2\n Double Bit ECC : 1\n Pending Page Blacklist : Yes\n"
    (finding,) = found("memory-errors", pod(), board(holders=(KEY,)), signals=log(text))
    assert finding.cause == "row-remap-pending"


def test_does_not_judge_a_counter_without_a_window() -> None:
    assert unjudged("GPU103", board(metrics={"ecc_uncorrectable_volatile": 3.0})) == [SLOT]
