"""A small chart that is drawn on the server: one bar a value, as rectangles of an SVG."""

from collections.abc import Sequence
from dataclasses import dataclass

HEIGHT = 40.0
STEP = 4.0
GAP = 1.0
LEAST = 1.0
"""Height of the smallest bar, so that a value near zero is seen to be there."""


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One rectangle, in units of the SVG's view box; y grows downwards."""

    x: float
    y: float
    width: float
    height: float
    is_marked: bool
    tip: str


@dataclass(frozen=True, kw_only=True)
class Sparkline:
    """Bars side by side, the oldest on the left."""

    width: float
    height: float
    bars: tuple[Bar, ...]


def sparkline(values: Sequence[float | None], tips: Sequence[str], marked: Sequence[bool]) -> Sparkline:
    """Bars of `values` against the largest of them, each with its tip; a missing value (None) leaves its place empty.

    What is `marked` is drawn in another colour and shape. All three are as long as each other.
    """
    most = max((value for value in values if value is not None), default=0.0) or 1.0
    bars = []
    for place, (value, tip, is_marked) in enumerate(zip(values, tips, marked, strict=True)):
        if value is None:
            continue
        height = round(max(LEAST, HEIGHT * value / most), 1)
        bars.append(
            Bar(
                x=round(place * STEP, 1),
                y=round(HEIGHT - height, 1),
                width=STEP - GAP,
                height=height,
                is_marked=is_marked,
                tip=tip,
            )
        )
    return Sparkline(width=max(STEP, len(values) * STEP), height=HEIGHT, bars=tuple(bars))
