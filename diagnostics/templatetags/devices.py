"""GPUs as cells of a list, and states in time: hundreds on a page, so that they are written here, not by a template."""

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

from django import template
from django.utils import timezone
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString

from diagnostics.picture import GpuCell
from diagnostics.quantities import span
from diagnostics.snapshot import State
from diagnostics.templatetags.gpuhealth import letter, no_data, state_name
from diagnostics.text import printable

register = template.Library()


class Stay(Protocol):
    """A device's time in one state, as `views.state_course` has it."""

    @property
    def state(self) -> State: ...
    @property
    def is_gap(self) -> bool: ...
    @property
    def start(self) -> datetime: ...
    @property
    def end(self) -> datetime: ...
    @property
    def holders(self) -> tuple[str, ...]: ...
    @property
    def x(self) -> str: ...
    @property
    def width(self) -> str: ...
    @property
    def middle(self) -> str: ...
    @property
    def has_letter(self) -> bool: ...


@register.simple_tag
def cell_link(cell: GpuCell, url: str) -> SafeString:
    """One GPU as a link to its page: letter and colour of its state, and who holds it in the tip.

    Not in the order of the tab key, which would stop a thousand times; the page of the node has all of them.
    """
    words = f"{printable(cell.name, 80)}: {state_name(cell.state)}"
    if cell.is_unjudged:
        words += ", not judged"
    if cell.holders:
        words += f", held by {', '.join(printable(holder, 120) for holder in cell.holders)}"
    style = "unjudged" if cell.is_unjudged else cell.state or "no_data"
    words = escape(words)  # once for both
    return format_html(
        '<a class="cell cell-{}" tabindex="-1" href="{}" title="{}" aria-label="{}">{}</a>',
        style,
        url,
        words,
        words,
        letter(cell.state),
    )


@register.simple_tag
def number_rows(rows: Iterable[tuple[str, Iterable[str]]]) -> SafeString:
    """Rows of a table: a time, then a number per column; an empty one was not measured."""
    return format_html_join("", '<tr><th scope="row" class="nowrap">{}</th>{}</tr>', map(_number_row, rows))


def _number_row(row: tuple[str, Iterable[str]]) -> tuple[str, SafeString]:
    at, cells = row
    numbers = ((cell or no_data("no data"),) for cell in cells)
    return at, format_html_join("", '<td class="number">{}</td>', numbers)


@register.filter
def stay_words(stay: Stay) -> str:
    """`hung, Mon 14:05 to Mon 16:10, 2 h 5 min, Job research/train`."""
    start, end = (f"{timezone.localtime(at):%a %H:%M}" for at in (stay.start, stay.end))
    name = "not observed" if stay.is_gap else state_name(stay.state)
    return ", ".join(
        [name, f"{start} to {end}", span(stay.end - stay.start), *(printable(h, 200) for h in stay.holders)]
    )


@register.simple_tag
def stay_bars(stays: Iterable[Stay]) -> SafeString:
    """Each stay as a bar with its letter and its words; the hatch is the pattern `course-hatch`."""
    return format_html_join("", _BAR, (_bar(stay) for stay in stays))


_BAR = (
    '<g class="course-{}"><title>{}</title><rect class="fill-{}" fill="{}" x="{}" y="0" width="{}" height="28"/>'
    '<text x="{}" y="18">{}</text></g>'
)


def _bar(stay: Stay) -> tuple[str, ...]:
    style = "gap" if stay.is_gap else stay.state
    fill = State.NO_DATA if stay.is_gap else stay.state
    hatch = "url(#course-hatch)" if fill is State.NO_DATA else "none"
    mark = "–" if stay.is_gap else letter(stay.state)
    return (
        style,
        stay_words(stay),
        fill,
        hatch,
        stay.x,
        stay.width,
        stay.middle,
        mark if stay.has_letter else "",
    )
