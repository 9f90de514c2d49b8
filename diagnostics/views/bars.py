"""Bars that are drawn on the server: what part of a whole is in which state, as segments of an SVG."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from diagnostics.snapshot import State

WIDTH = 1000.0
ORDER: tuple[State | None, ...] = (
    State.EFFECTIVE,
    State.INEFFECTIVE,
    State.STARTING,
    State.IDLE_HELD,
    State.IDLE_EMPTY,
    State.HUNG,
    State.BLOCKED,
    State.STUCK,
    State.NO_DATA,
    State.FREE,
    State.STRANDED,
    State.UNAVAILABLE,
    None,
)
"""From work over waste and the unknown to what nobody holds; None: not evaluated."""


@dataclass(frozen=True, kw_only=True)
class Segment:
    """One state's part of a bar that is WIDTH wide."""

    state: State | None
    amount: float
    x: float
    width: float
    url: str


def bar(
    amounts: Mapping[State | None, float], url_of: Callable[[State | None], str] = lambda _: ""
) -> tuple[Segment, ...]:
    """The states that have something, side by side; empty where nothing has."""
    total = sum(amounts.values())
    found, x = [], 0.0
    for state in ORDER:
        amount = amounts.get(state, 0)
        if amount <= 0:
            continue
        width = WIDTH * amount / total
        found.append(
            Segment(
                state=state,
                amount=amount,
                x=round(x, 1),
                width=round(width, 1),
                url=url_of(state),
            )
        )
        x += width
    return tuple(found)
