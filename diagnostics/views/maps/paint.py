"""How a GPU looks on the map, and the lines of the legend that says what that means."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from diagnostics.picture import GpuCell, NodeLine


class Paint(NamedTuple):
    """How a GPU looks."""

    style: str
    """A class of components.css or map.css."""
    letter: str
    key: Hashable
    """Of its line in the legend."""
    words: str = ""
    """What the colour says, where the facts of every GPU do not say it anyway."""


@dataclass(frozen=True, kw_only=True)
class LegendLine:
    """One colour."""

    style: str
    letter: str
    name: str
    count: int
    """GPUs that match and look so."""
    meaning: str = ""
    url: str = ""
    """Of the map that leaves only these; empty where there is none."""


Counts = Mapping[Hashable, int]
NO_DATA = Paint("cell-no_data", "?", None)


@dataclass(frozen=True)
class Painter:
    """One way to colour the map."""

    paint: Callable[[NodeLine, GpuCell], Paint]
    legend: Callable[[Counts], tuple[LegendLine, ...]]


def no_data(counts: Counts, name: str) -> LegendLine:
    return LegendLine(style=NO_DATA.style, letter=NO_DATA.letter, name=name, count=counts.get(NO_DATA.key, 0))
