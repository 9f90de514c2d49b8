"""The Xid table: which codes end a GPU's service and which are the application's."""

import pytest

from diagnostics.xid import XIDS, XidClass, XidSeverity, lookup


@pytest.mark.parametrize("code", [46, 48, 64, 74, 79, 95, 119, 120, 140, 143, 171, 172])
def test_calls_a_code_fatal_that_needs_a_reset_or_a_reboot(code: int) -> None:
    row = lookup(code)
    assert row is not None
    assert row.is_fatal
    assert row.severity is XidSeverity.CRITICAL


@pytest.mark.parametrize("code", [13, 31, 43, 45, 63, 68, 69, 92, 94, 109])
def test_leaves_a_code_alone_that_the_gpu_survives(code: int) -> None:
    row = lookup(code)
    assert row is not None
    assert not row.is_fatal_with("")


def test_every_critical_row_is_fatal_and_no_other() -> None:
    assert {c for c, row in XIDS.items() if row.is_fatal} == {
        c for c, row in XIDS.items() if row.severity is XidSeverity.CRITICAL
    }


@pytest.mark.parametrize("code", [0, 12, 1000, -1])
def test_knows_nothing_of_an_unused_code(code: int) -> None:
    assert lookup(code) is None


@pytest.mark.parametrize(
    ("words", "fatal"),
    [
        ("NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000)", True),
        ("RLW_CTRL Nonfatal XC1 i0 Link 02 (0x0)", False),
        ("RLW_CTRL Non-Fatal XC1 i0 Link 02 (0x0)", False),
        ("", False),
    ],
)
def test_takes_an_nvlink5_code_for_what_the_kernel_calls_it(words: str, fatal: bool) -> None:
    row = lookup(149)
    assert row is not None
    assert row.is_fatal_with(words) is fatal


def test_reads_the_recovery_action_of_154_from_its_hex_value() -> None:
    row = lookup(154)
    assert row is not None
    assert row.is_fatal_with("GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)")
    assert not row.is_fatal_with("GPU recovery action changed from 0x2 (Node Reboot Required) to 0x0 (None)")


def test_calls_a_removed_channel_a_consequence() -> None:
    row = lookup(45)
    assert row is not None
    assert row.kind is XidClass.CONSEQUENCE


def test_gives_every_row_a_meaning_and_a_source() -> None:
    assert all(row.meaning and row.slug and row.source.startswith("https://") for row in XIDS.values())
