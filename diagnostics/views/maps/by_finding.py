"""The map coloured by the worst open finding that touches each GPU."""

from diagnostics.findings import Severity
from diagnostics.picture import GpuCell, NodeLine
from diagnostics.snapshot import State
from diagnostics.views.maps.paint import NO_DATA, Counts, LegendLine, Paint, Painter, no_data
from diagnostics.views.maps.touching import Touched


def by_finding(touched: Touched) -> Painter:
    """That no finding touches a GPU says something only where the GPU was evaluated."""
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
        return (*lines, no_data(counts, "no data: no finding, but not evaluated either"))

    return Painter(paint, legend)
