"""Cells of the list of workloads as markup: templates took half of its time."""

from collections.abc import Mapping

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from diagnostics import quantities
from diagnostics.snapshot import State
from diagnostics.templatetags.gpuhealth import letter, no_data, number, state_name
from diagnostics.views.bars import bar
from diagnostics.views.workloads.seen import Mean


def states_cell(states: Mapping[State | None, int]) -> SafeString:
    """How many devices are in which state: letters and numbers over a thin bar."""
    if not states:
        return mark_safe('<span class="muted">holds none</span>')
    words, rects = "", ""
    for segment in bar(states):
        style, name = segment.state or "no_data", state_name(segment.state)
        amount = number(segment.amount)
        words += (
            f'<li title="{amount} {name}"><span class="cell cell-{style}" aria-hidden="true">'
            f'{letter(segment.state)}</span> <span class="number">{amount}</span> '
            f'<span class="unseen">{name}</span></li> '
        )
        rects += f'<rect class="fill-{style}" x="{segment.x}" y="0" width="{segment.width}" height="6" />'
    return mark_safe(  # noqa: S308 - numbers, and states of ours
        f'<div class="mini-bar"><ul>{words}</ul><svg viewBox="0 0 1000 6" preserveAspectRatio="none" '
        f'aria-hidden="true" focusable="false">{rects}</svg></div>'
    )


def mean_cell(mean: Mean | None, devices: int) -> SafeString:
    """A mean over devices, and over how many of them where some were not measured."""
    if not devices:
        return mark_safe('<span class="muted">–</span>')
    if mean is None:
        return no_data()
    some = mark_safe(f'<div class="small muted">of {mean.measured}</div>')  # noqa: S308 - a number
    return format_html(
        "<div>{}{}</div>", quantities.percent(mean.ratio), some if mean.measured < devices else ""
    )
