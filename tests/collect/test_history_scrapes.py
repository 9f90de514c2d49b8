"""Samples that merely linger are no sign of life; a missed scrape is no sign of death."""

import pytest

from diagnostics.collect.history.grid import Grid
from diagnostics.collect.history.scrapes import alive, interval_of

GRID = Grid(start_s=6000, step_s=60, count=8)


def times(*ages: int | None) -> list[float]:
    """By step: when the sample that stands there was scraped, from its age."""
    return [0.0 if age is None else GRID.start_s + place * 60.0 - age for place, age in enumerate(ages)]


def shown(*ages: int | None, interval: float | None = 60.0) -> str:
    return "".join("x" if there else "." for there in alive(times(*ages), GRID, interval))


@pytest.mark.parametrize(
    ("ages", "there"),
    [
        ((10,) * 8, "xxxxxxxx"),
        ((10, 10, 10, 70, 10, 10, 10, 10), "xxxxxxxx"),
        ((10, 10, 70, 130, 190, 250, None, None), "xx......"),
        ((None, None, 10, 10, 10, 10, 10, 10), "..xxxxxx"),
        ((10, 10, 10, 10, 10, 10, 10, 70), "xxxxxxxx"),
        ((50, 50, 50, None, None, None, None, None), "xx......"),
    ],
)
def test_lingering_samples_do_not_count(ages: tuple[int | None, ...], there: str) -> None:
    assert shown(*ages) == there


def test_everything_counts_where_the_interval_is_not_known() -> None:
    assert shown(10, 70, 130, None, 10, 10, 10, 10, interval=None) == "xxx.xxxx"


def test_the_interval_is_that_of_most_series() -> None:
    assert interval_of([times(10, 10, 10, 70, 10, 10, 10, 10)] * 3) == 60.0
    assert interval_of([[0.0, 0.0], [5.0, 5.0]]) is None
