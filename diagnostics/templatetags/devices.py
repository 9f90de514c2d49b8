"""GPUs as cells of a list: hundreds of them on a page, so that they are written here and not by a template."""

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from diagnostics.picture import GpuCell
from diagnostics.templatetags.gpuhealth import letter, state_name
from diagnostics.text import printable

register = template.Library()


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
    return format_html(
        '<a class="cell cell-{}" tabindex="-1" href="{}" title="{}" aria-label="{}">{}</a>',
        style,
        url,
        words,
        words,
        letter(cell.state),
    )
