"""GPU104: links that train anew, fail, or repeat too much."""

import pytest

from diagnostics.findings import Severity
from tests.builders import NOW, gpu, pod
from tests.rules.hardware.boards import SLOT, board, found, log, on_node, unjudged

KEY = "research/train-0"


@pytest.mark.parametrize(
    ("over", "cause"),
    [
        ({"nvlink_recoveries_grown": 1.0}, "nvlink-recovering"),
        ({"nvlink_recovery_failures_grown": 1.0, "nvlink_recoveries_grown": 3.0}, "nvlink-down"),
        ({"nvlink_crc_flit_errors_grown": 501.0}, "nvlink-crc-errors"),
        ({"nvlink_replays_grown": 9e5}, "nvlink-crc-errors"),
    ],
)
def test_reports_counters_that_rise(over: dict[str, float], cause: str) -> None:
    (finding,) = found("nvlink-errors", board(over=over))
    assert (finding.cause, finding.subject.name) == (cause, SLOT)


@pytest.mark.parametrize(
    "over",
    [
        {"nvlink_crc_flit_errors_grown": 499.0},
        {"nvlink_recoveries_grown": 0.0},
        {"nvlink_replays_grown": 12.0},
    ],
)
def test_is_silent_about_a_few_errors(over: dict[str, float]) -> None:
    assert found("nvlink-errors", board(metrics={"nvlink_recoveries": 400.0}, over=over)) == []


def test_a_board_without_nvlink_counters_is_left_alone() -> None:
    assert found("nvlink-errors", board()) == []
    assert unjudged("GPU104", board()) == []
    assert unjudged("GPU104", board(metrics={"nvlink_recoveries": 4.0})) == [SLOT]


STATUS = "GPU 0: NVIDIA A100\n  Link 0: 25 GB/s\n  Link 1: <inactive>\n"


def test_an_inactive_link_beside_active_ones_is_down() -> None:
    (finding,) = found("nvlink-errors", pod(), board(holders=(KEY,)), signals=log(STATUS))
    assert (finding.cause, finding.severity) == ("nvlink-down", Severity.CRITICAL)
    assert "NVLink 1" in finding.title


def test_a_board_without_an_active_link_has_no_bridge() -> None:
    text = STATUS.replace("25 GB/s", "<inactive>")
    assert found("nvlink-errors", pod(), board(holders=(KEY,)), signals=log(text)) == []


SXID = "nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, {0}, Link 48 LTSSM Fault Up"


def test_a_fatal_error_of_a_switch_is_the_nodes() -> None:
    (finding,) = found("nvlink-errors", gpu(1), gpu(2), signals=on_node(SXID.format("Fatal"), at=NOW))
    assert (finding.cause, finding.subject.kind, finding.gpus) == ("nvswitch-fatal-error", "Node", 2)


@pytest.mark.parametrize("word", ["Non-fatal", "Nonfatal", "Non-Fatal"])
def test_ignores_an_error_that_the_switch_survives(word: str) -> None:
    assert found("nvlink-errors", gpu(1), signals=on_node(SXID.format(word))) == []
