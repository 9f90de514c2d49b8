"""GPU106: heat and power that cost clock, and what costs none."""

from typing import Any

import pytest

from tests.builders import pod
from tests.rules.hardware.boards import SLOT, board, facts, found, log, unjudged

SLOW: dict[str, Any] = {"sm_clock_mhz": 900.0, "sm_clock_max_mhz": 1410.0}


@pytest.mark.parametrize(
    ("reasons", "cause"),
    [
        (0x40, "thermal-slowdown"),
        (0x20, "thermal-slowdown"),
        (0x80 | 0x8, "power-brake"),
        (0x8, "hardware-slowdown"),
    ],
)
def test_reports_a_clock_that_heat_or_power_holds_down(reasons: int, cause: str) -> None:
    (finding,) = found("clocks-held-down", board(metrics=SLOW | {"clock_event_reasons": reasons}))
    assert (finding.cause, finding.subject.name) == (cause, SLOT)
    assert "36 %" in finding.summary


def test_reports_heat_by_the_share_of_the_window_where_reasons_are_not_collected() -> None:
    (finding,) = found("clocks-held-down", board(over={"thermal_violation_s_grown": 900.0}))
    assert finding.cause == "thermal-slowdown"
    assert "50 % of 30 min" in facts(finding)


def test_says_when_the_whole_node_is_hot() -> None:
    hot = SLOW | {"clock_event_reasons": 0x40}
    first, second = found("clocks-held-down", board(metrics=hot), board(4, metrics=hot))
    assert "cooling" in first.summary
    assert "GPU 4" in facts(first) or "GPU 4" in facts(second)


@pytest.mark.parametrize(
    "metrics",
    [
        {"clock_event_reasons": 0x4, "power_w": 400.0, "power_limit_w": 400.0},
        {"clock_event_reasons": 0x4 | 0x1},
        {"clock_event_reasons": 0x2},
        {"clock_event_reasons": 0x40, "utilization_ratio": 0.0},
        {"clock_event_reasons": 0x20, "sm_clock_mhz": 1390.0},
        {"clock_event_reasons": 0x0},
    ],
)
def test_is_silent_about_a_power_cap_idle_clocks_and_what_costs_nothing(metrics: dict[str, Any]) -> None:
    assert found("clocks-held-down", board(metrics=SLOW | metrics)) == []


def test_a_short_slowdown_is_left_alone() -> None:
    assert found("clocks-held-down", board(over={"thermal_violation_s_grown": 60.0})) == []


def test_does_not_judge_a_board_without_the_metrics() -> None:
    assert unjudged("GPU106", board()) == [SLOT]
    assert unjudged("GPU106", board(metrics={"clock_event_reasons": 0})) == []


LISTING = (
    "Clocks {word} Reasons\n  Idle : Not Active\n  SW Power Cap : Active\n  HW Slowdown : {hw}\n"
    "    HW Thermal Slowdown : {heat}\n    HW Power Brake Slowdown : {brake}\n  SW Thermal Slowdown : Not Active\n"
)


@pytest.mark.parametrize("word", ["Throttle", "Event"])
@pytest.mark.parametrize(
    ("heat", "brake", "causes"),
    [
        ("Active", "Not Active", ["thermal-slowdown"]),
        ("Not Active", "Active", ["power-brake"]),
        ("Not Active", "Not Active", []),
    ],
)
def test_reads_active_reasons_from_a_listing(word: str, heat: str, brake: str, causes: list[str]) -> None:
    hw = "Active" if causes else "Not Active"
    text = LISTING.format(word=word, heat=heat, brake=brake, hw=hw)
    held = board(holders=("research/train-0",))
    assert [f.cause for f in found("clocks-held-down", pod(), held, signals=log(text))] == causes
