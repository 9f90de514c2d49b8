"""The map coloured by the GPUs' states."""

from functools import cache

from diagnostics.snapshot import State
from diagnostics.templatetags.gpuhealth import letter, state_meaning, state_name
from diagnostics.views.bars import ORDER
from diagnostics.views.maps.asked import NOT_EVALUATED, Asked
from diagnostics.views.maps.paint import Counts, LegendLine, Paint, Painter


def by_state(asked: Asked, path: str) -> Painter:
    """Letters and colours as on every page."""

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
