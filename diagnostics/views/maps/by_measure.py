"""The map coloured by a number that GPUs report: five steps from little to much, and no data beside them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from diagnostics.picture import GpuCell, NodeLine
from diagnostics.views.maps.paint import NO_DATA, Counts, LegendLine, Paint, Painter, no_data


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A number that GPUs report, cut into five steps; its tens are the second channel. By default it is a share."""

    value_of: Callable[[GpuCell], float | None] = field(repr=False)
    meaning: str
    term: str
    """Of the glossary."""
    factor: float = 100
    unit: str = "%"
    bounds: tuple[int, int, int, int] = (20, 40, 60, 80)
    """Where the second to fifth step begin, in the unit."""
    scale: str = "map-step"
    """Which class of colours."""


MEASURES = {
    "utilization": Measure(
        value_of=lambda cell: cell.utilization_ratio,
        meaning="share of the time in which any kernel ran, as nvidia-smi counts it",
        term="utilization",
    ),
    "activity": Measure(
        value_of=lambda cell: cell.activity_ratio,
        meaning="max(SM_ACTIVE, DRAM_ACTIVE / 0.8); effective from 50 %",
        term="activity",
    ),
    "memory": Measure(
        value_of=lambda cell: cell.memory_ratio,
        meaning="used of the total",
        term="gpu_memory",
    ),
    "temperature": Measure(
        value_of=lambda cell: cell.temperature_c,
        meaning="of the GPU's core",
        term="temperature",
        factor=1,
        unit="°C",
        bounds=(50, 60, 70, 80),
        scale="map-heat",
    ),
}


def by_measure(measure: Measure) -> Painter:
    def step_of(value: int) -> int:
        return sum(value >= bound for bound in measure.bounds)

    @cache
    def of(value: int) -> Paint:
        step = step_of(value)
        return Paint(f"{measure.scale}-{step}", str(min(9, max(0, value) // 10)), step)

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
            start = measure.bounds[step - 1] if step else 0
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
        return (*lines, no_data(counts, "no data: not collected, or too old"))

    return Painter(paint, legend)
