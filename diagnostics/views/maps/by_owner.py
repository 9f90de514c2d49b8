"""The map coloured by the workloads that hold the GPUs."""

from functools import cache
from zlib import crc32

from diagnostics.picture import Devices, GpuCell, NodeLine, Owner
from diagnostics.snapshot import State
from diagnostics.text import counted, printable
from diagnostics.views.maps.asked import Asked, workload_word
from diagnostics.views.maps.paint import NO_DATA, Counts, LegendLine, Paint, Painter, no_data

HUES = 8
"""Colours for owners."""
OWNERS_SHOWN = 16
NOBODY = frozenset({State.FREE, State.STRANDED, State.UNAVAILABLE})
"""States in which a GPU without a holder is known to have none."""


def hue_of(owner: Owner) -> int:
    """The same for the same owner on every page and day."""
    return crc32(workload_word(owner).encode("utf-8", "replace")) % HUES


def initials_of(owner: Owner) -> str:
    """The first and the last letter or digit of its name: what tells `run-1` from `run-2` stands at the end."""
    found = [c for c in printable(owner.name, 253) if c.isalnum() and c.isascii()]
    return (found[0] + found[-1]) if found else "--"


def by_owner(asked: Asked, devices: Devices, path: str) -> Painter:
    """Eight colours and two letters; the largest owners stand in the legend."""

    @cache
    def of(owners: tuple[int, ...]) -> Paint:
        if len(owners) > 1:
            return Paint("map-shared", f"{min(len(owners), 9)}×", "shared")
        owner = devices.owners[owners[0]]
        return Paint(f"map-hue-{hue_of(owner)}", initials_of(owner), owners[0])

    nobody = Paint("cell-free", "–", "nobody")

    def paint(_: NodeLine, cell: GpuCell) -> Paint:
        if cell.owners:
            # Two pods of one owner share it with nobody else.
            return of(tuple(dict.fromkeys(cell.owners)))
        return nobody if cell.state in NOBODY else NO_DATA

    def legend(counts: Counts) -> tuple[LegendLine, ...]:
        held = [(place, count) for place, count in counts.items() if isinstance(place, int)]
        held.sort(key=lambda pair: (-pair[1], pair[0]))
        lines = [_owner_line(place, count, asked, devices, path) for place, count in held[:OWNERS_SHOWN]]
        if rest := held[OWNERS_SHOWN:]:
            lines.append(
                LegendLine(
                    style="map-shared",
                    letter="…",
                    name=f"of {counted(len(rest), 'smaller workload')}",
                    count=sum(count for _, count in rest),
                )
            )
        if shared := counts.get("shared", 0):
            lines.append(
                LegendLine(style="map-shared", letter="2×", name="shared by several workloads", count=shared)
            )
        lines.append(
            LegendLine(
                style=nobody.style, letter=nobody.letter, name="held by nobody", count=counts.get("nobody", 0)
            )
        )
        return (*lines, no_data(counts, "no data: holder unknown"))

    return Painter(paint, legend)


def _owner_line(place: int, count: int, asked: Asked, devices: Devices, path: str) -> LegendLine:
    owner = devices.owners[place]
    return LegendLine(
        style=f"map-hue-{hue_of(owner)}",
        letter=initials_of(owner),
        name=printable(f"{owner.kind} {owner.namespace}/{owner.name}", 120),
        count=count,
        url=asked.address(path, workload=workload_word(owner)),
    )
