"""What colour and letter a GPU has on the map, and the legend that says what they mean."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple
from zlib import crc32

from diagnostics.findings import Severity
from diagnostics.picture import Devices, GpuCell, NodeLine, Owner
from diagnostics.snapshot import State
from diagnostics.templatetags.gpuhealth import letter, state_meaning, state_name
from diagnostics.text import counted, printable
from diagnostics.views.bars import ORDER
from diagnostics.views.maps.asked import NOT_EVALUATED, Asked, workload_word
from diagnostics.views.maps.touching import Touched

HUES = 8
"""Colours for owners."""
OWNERS_SHOWN = 16
NOBODY = frozenset({State.FREE, State.STRANDED, State.UNAVAILABLE})
"""States in which a GPU without a holder is known to have none."""


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


def painter_of(asked: Asked, devices: Devices, touched: Touched, path: str) -> Painter:
    """For the colour that is asked for. `path`: address of the map."""
    if asked.by in MEASURES:
        return _by_measure(MEASURES[asked.by])
    if asked.by == "owner":
        return _by_owner(asked, devices, path)
    return _by_finding(touched) if asked.by == "finding" else _by_state(asked, path)


def _by_state(asked: Asked, path: str) -> Painter:
    @cache
    def of(state: State | None, is_unjudged: bool) -> Paint:
        if state is None:
            return Paint("cell-no_data", letter(None), (None, False))
        style = "unjudged" if is_unjudged else state.value
        return Paint(f"cell-{style}", letter(state), (state, is_unjudged))

    def legend(counts: Counts) -> tuple[LegendLine, ...]:
        return tuple(
            LegendLine(
                style=of(state, is_unjudged).style,
                letter=of(state, is_unjudged).letter,
                name=f"{state_name(state)}, not judged" if is_unjudged else state_name(state),
                count=counts[state, is_unjudged],
                meaning=state_meaning(state),
                url=asked.address(path, state=state.value if state else NOT_EVALUATED),
            )
            for state in ORDER
            for is_unjudged in (False, True)
            if counts.get((state, is_unjudged))
        )

    return Painter(lambda _, cell: of(cell.state, cell.is_unjudged), legend)


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A number that GPUs report, cut into five steps; its tens are the second channel."""

    value_of: Callable[[GpuCell], float | None] = field(repr=False)
    factor: float
    unit: str
    bounds: tuple[int, int, int, int]
    """Where the second to fifth step begin, in the unit."""
    scale: str
    """Which class of colours."""
    meaning: str
    term: str
    """Of the glossary."""


MEASURES = {
    "utilization": Measure(
        value_of=lambda cell: cell.utilization_ratio,
        factor=100,
        unit="%",
        bounds=(20, 40, 60, 80),
        scale="map-step",
        meaning="share of the time in which any kernel ran, as nvidia-smi counts it",
        term="utilization",
    ),
    "activity": Measure(
        value_of=lambda cell: cell.activity_ratio,
        factor=100,
        unit="%",
        bounds=(20, 40, 60, 80),
        scale="map-step",
        meaning="max(SM_ACTIVE, DRAM_ACTIVE / 0.8); effective from 50 %",
        term="activity",
    ),
    "memory": Measure(
        value_of=lambda cell: cell.memory_ratio,
        factor=100,
        unit="%",
        bounds=(20, 40, 60, 80),
        scale="map-step",
        meaning="used of the total",
        term="gpu_memory",
    ),
    "temperature": Measure(
        value_of=lambda cell: cell.temperature_c,
        factor=1,
        unit="°C",
        bounds=(50, 60, 70, 80),
        scale="map-heat",
        meaning="of the GPU's core",
        term="temperature",
    ),
}


def _by_measure(measure: Measure) -> Painter:
    lowest = 0

    def step_of(value: int) -> int:
        return sum(value >= bound for bound in measure.bounds)

    @cache
    def of(value: int) -> Paint:
        step = step_of(value)
        return Paint(f"{measure.scale}-{step}", str(min(9, max(lowest, value) // 10)), step)

    def paint(_: NodeLine, cell: GpuCell) -> Paint:
        value = measure.value_of(cell)
        # Not a number is unequal to itself.
        if value is None or value != value or abs(value) > 1e6:  # noqa: PLR0124
            return NO_DATA
        return of(round(measure.factor * value))

    def legend(counts: Counts) -> tuple[LegendLine, ...]:
        last = len(measure.bounds)
        lines = []
        for step in range(last + 1):
            start = measure.bounds[step - 1] if step else lowest
            end = measure.bounds[step] if step < last else 100
            if step == last:
                name = f"{start} {measure.unit} and more"
            elif measure.unit == "%" or step:
                name = f"{start} to {end - 1} {measure.unit}"
            else:
                name = f"below {end} {measure.unit}"
            digits = f"{start // 10}–{(end - 1) // 10}" if end - start > 10 else f"{start // 10}"
            lines.append(
                LegendLine(
                    style=f"{measure.scale}-{step}", letter=digits, name=name, count=counts.get(step, 0)
                )
            )
        return (*lines, _no_data(counts, "no data: not collected, or too old"))

    return Painter(paint, legend)


def _no_data(counts: Counts, name: str) -> LegendLine:
    return LegendLine(style=NO_DATA.style, letter=NO_DATA.letter, name=name, count=counts.get(NO_DATA.key, 0))


def hue_of(owner: Owner) -> int:
    """The same for the same owner on every page and day."""
    return crc32(workload_word(owner).encode("utf-8", "replace")) % HUES


def initials_of(owner: Owner) -> str:
    """The first and the last letter or digit of its name: what tells `run-1` from `run-2` stands at the end."""
    found = [c for c in printable(owner.name, 253) if c.isalnum() and c.isascii()]
    return (found[0] + found[-1]) if found else "--"


def _by_owner(asked: Asked, devices: Devices, path: str) -> Painter:
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
        return (*lines, _no_data(counts, "no data: holder unknown"))

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


def _by_finding(touched: Touched) -> Painter:
    severities = tuple(Severity)
    by_rank = {
        rank: Paint(
            f"map-{severity}",
            severity.value[0].upper(),
            severity.value,
            f"worst open finding: {severity}",
        )
        for rank, severity in enumerate(severities)
    }
    nothing = Paint("cell-free", "–", "nothing", "no open finding touches it")
    unknown = NO_DATA._replace(words="no open finding touches it, but its state was not evaluated")

    def paint(node: NodeLine, cell: GpuCell) -> Paint:
        rank = touched.worst(node, cell)
        if rank is not None:
            return by_rank.get(rank, by_rank[len(severities) - 1])
        return unknown if cell.state is None or cell.state is State.NO_DATA else nothing

    def legend(counts: Counts) -> tuple[LegendLine, ...]:
        lines = [
            LegendLine(
                style=paint.style,
                letter=paint.letter,
                name=f"{severities[rank]} finding",
                count=counts.get(paint.key, 0),
            )
            for rank, paint in by_rank.items()
        ]
        lines.append(
            LegendLine(
                style=nothing.style,
                letter=nothing.letter,
                name="no open finding touches it",
                count=counts.get("nothing", 0),
            )
        )
        return (*lines, _no_data(counts, "no data: no finding, but not evaluated either"))

    return Painter(paint, legend)
