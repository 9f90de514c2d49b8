"""How amounts of the ledger look on a page."""

from django import template

register = template.Library()

LEAST = 0.1
"""GPU-hours: what is less but something is not shown as nothing."""
WHOLE = 100


@register.filter
def hours(value: float) -> str:
    """GPU-hours: `0`, `<0.1`, `3.4`, `1,024`."""
    if 0 < value < LEAST:
        return f"<{LEAST}"
    return f"{value:,.0f}" if value >= WHOLE else f"{value:,.1f}".removesuffix(".0")
