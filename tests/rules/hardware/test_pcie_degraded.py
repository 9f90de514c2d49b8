"""GPU105: a PCIe link below its maximum under load, or with many replays."""

from typing import Any

import pytest

from tests.builders import pod
from tests.rules.hardware.boards import SLOT, board, facts, found, log, unjudged

FULL: dict[str, Any] = {
    "pcie_link_gen": 5, "pcie_link_gen_max": 5, "pcie_link_width": 16, "pcie_link_width_max": 16,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "cause", "words"),
    [
        ({"pcie_link_width": 8}, "pcie-link-narrow", "8 of 16 lanes"),
        ({"pcie_link_gen": 3}, "pcie-link-slow", "generation 3 of 5"),
    ],
)
def test_reports_a_link_below_its_maximum_under_load(changed: dict[str, Any], cause: str, words: str) -> None:
    (finding,) = found("pcie-degraded", board(metrics=FULL | changed), board(4, metrics=FULL))
    assert (finding.cause, finding.subject.name) == (cause, SLOT)
    assert words in finding.title
    assert "same link: 0" in facts(finding)


def test_reports_replays_that_rise_fast() -> None:
    (finding,) = found("pcie-degraded", board(metrics=FULL, over={"pcie_replays_grown": 270.0}))
    assert finding.cause == "pcie-replays"
    assert "9.0 a minute" in facts(finding)


@pytest.mark.parametrize("changed", [{"pcie_link_width": 8}, {"pcie_link_gen": 1}])
def test_an_idle_gpu_is_left_alone(changed: dict[str, Any]) -> None:
    idle = {"utilization_ratio": 0.0, "gr_engine_ratio": 0.0}
    assert found("pcie-degraded", board(metrics=FULL | changed | idle)) == []


def test_is_silent_about_a_slow_slot_and_a_counter_that_stands() -> None:
    slot = {"pcie_link_gen": 3, "pcie_link_gen_max": 3, "pcie_replays": 9e6}
    assert found("pcie-degraded", board(metrics=FULL | slot, over={"pcie_replays_grown": 30.0})) == []


def test_does_not_judge_a_board_without_the_metrics() -> None:
    assert unjudged("GPU105", board()) == [SLOT]
    assert unjudged("GPU105", board(metrics=FULL)) == []


def test_does_not_judge_by_a_maximum_that_is_unknown() -> None:
    assert found("pcie-degraded", board(metrics={"pcie_link_width": 8, "pcie_link_gen": 3})) == []


def test_does_not_judge_a_narrow_link_of_an_idle_gpu() -> None:
    idle = FULL | {"utilization_ratio": 0.0, "pcie_link_width": 8}
    assert unjudged("GPU105", board(metrics=idle)) == [SLOT]


LINK = (
    "GPU Link Info\n PCIe Generation\n  Max : 4\n  Current : 1\n  Device Current : 1\n  Device Max : 4\n"
    "  Host Max : 4\n"
    " Link Width\n  Max : 16x\n  Current : {0}x\n"
)


@pytest.mark.parametrize(
    ("width", "causes"), [(8, ["pcie-link-narrow"]), (4, ["pcie-link-narrow"]), (16, [])]
)
def test_reads_the_width_from_a_listing(width: int, causes: list[str]) -> None:
    held = board(metrics=FULL, holders=("research/train-0",))
    hits = found("pcie-degraded", pod(), held, signals=log("GPU 00000000:13:00.0\n" + LINK.format(width)))
    assert [f.cause for f in hits] == causes
