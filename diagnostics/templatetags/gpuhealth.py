"""How values look on a page: badges, ages, quantities, GPU states, and text that came from a cluster."""

import re
from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from django import template
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

from diagnostics import glossary, quantities
from diagnostics.findings import Evidence, Severity
from diagnostics.snapshot import State
from diagnostics.text import printable

register = template.Library()

_OCTAGON = "M5 1h6l4 4v6l-4 4H5l-4-4V5zM7.2 4h1.6v5H7.2zM7.2 10.4h1.6V12H7.2z"
_TRIANGLE = "M8 1l7.5 13.5H.5zM7.2 6h1.6v4.4H7.2zM7.2 11.4h1.6V13H7.2z"
_CIRCLE = "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1zM7.2 7h1.6v5H7.2zM7.2 4h1.6v1.6H7.2z"
_TICK = "M6.2 12.6L2 8.4l1.3-1.3 2.9 2.9L12.7 3.5 14 4.8z"
_EYE = (
    "M8 3C4.5 3 1.7 5.3.5 8c1.2 2.7 4 5 7.5 5s6.3-2.3 7.5-5C14.3 5.3 11.5 3 8 3z"
    "M8 11a3 3 0 1 1 0-6 3 3 0 0 1 0 6z"
)
_SHIELD = "M8 1l6 2v5c0 3.5-2.5 5.8-6 7-3.5-1.2-6-3.5-6-7V3z"
_CLOCK = (
    "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1zM8 2.6a5.4 5.4 0 1 1 0 10.8A5.4 5.4 0 0 1 8 2.6z"
    "M7.2 4.4h1.6v3.3l2.3 1.7-.9 1.2-3-2.3z"
)
_DASH = "M2 7h5v2H2zM9 7h5v2H9z"

SHAPES = {
    # severities
    "critical": _OCTAGON,
    "warning": _TRIANGLE,
    "info": _CIRCLE,
    # risks of a step
    "read-only": _EYE,
    "safe": _SHIELD,
    "disruptive": _TRIANGLE,
    "destructive": _OCTAGON,
    # answers of a source, outcomes of a poll
    "ok": _TICK,
    "partial": _TRIANGLE,
    "stale": _TRIANGLE,
    "forbidden": _OCTAGON,
    "failed": _OCTAGON,
    "absent": _DASH,
    # spans that are back-filled
    "waiting": _CLOCK,
    "running": _CLOCK,
    "done": _TICK,
    "impossible": _DASH,
}
"""Word of a badge -> its shape, the second channel beside colour (path in a 16 x 16 box)."""

LETTERS = {
    State.EFFECTIVE: "E",
    State.INEFFECTIVE: "L",
    State.IDLE_HELD: "M",
    State.IDLE_EMPTY: "I",
    State.HUNG: "H",
    State.BLOCKED: "B",
    State.STARTING: "T",
    State.STUCK: "K",
    State.NO_DATA: "?",
    State.FREE: "F",
    State.STRANDED: "S",
    State.UNAVAILABLE: "U",
}
"""State -> its letter on the map, the second channel beside colour."""
STATES = {
    state: (letter, glossary.TERMS[state].name, glossary.TERMS[state].gist)
    for state, letter in LETTERS.items()
}
"""State -> letter, name, meaning."""
LOST = "\N{REPLACEMENT CHARACTER}"
"""Stands for a character that is not shown."""

NOT_JUDGED = ("?", "not evaluated", "nothing says what this GPU does")


@register.simple_tag
@lru_cache(100)
def badge(word: str) -> SafeString:
    """A word with its shape and colour; a word that we do not know stands without a colour."""
    shape = SHAPES.get(str(word), _DASH)
    style = str(word) if str(word) in SHAPES else "unknown"
    return format_html(
        '<span class="badge badge-{}"><svg class="icon" viewBox="0 0 16 16" aria-hidden="true">'
        '<path fill-rule="evenodd" d="{}"/></svg>{}</span>',
        style,
        shape,
        printable(str(word), 40),
    )


@register.filter
def by_severity(findings: Iterable[Any]) -> list[tuple[str, int]]:
    """Severity -> how many of `findings` have it; the worst first."""
    counted = Counter(finding.severity for finding in findings)
    return [(severity.value, counted[severity]) for severity in Severity if counted[severity]]


@register.simple_tag
def term(slug: str, words: str = "") -> SafeString:
    """A link to a term of the glossary, with its name or with `words`. Raises KeyError for an unknown term."""
    known = glossary.TERMS[str(slug)]
    return format_html(
        '<a class="term" href="{}#{}" title="{}">{}</a>',
        reverse("glossary"),
        known.slug,
        known.gist,
        words or known.name,
    )


@register.filter
def letter(state: State | None) -> str:
    return STATES.get(state, NOT_JUDGED)[0] if state else NOT_JUDGED[0]


@register.filter
def state_name(state: State | None) -> str:
    return STATES.get(state, NOT_JUDGED)[1] if state else NOT_JUDGED[1]


@register.filter
def state_meaning(state: State | None) -> str:
    return STATES.get(state, NOT_JUDGED)[2] if state else NOT_JUDGED[2]


@register.filter
def shown(text: object, limit: int = 2000) -> str:
    """Text from a cluster on one line, without control or direction-changing characters."""
    return printable(str(text), limit)


@register.filter
def past(title: str, is_over: object) -> str:
    """The title of a finding, which tells of the present, fit for one that is over if `is_over` is true."""
    return f"Resolved, was: {title}" if is_over else title


@register.filter
def is_plain(text: str) -> bool:
    """Every character can be seen, so that what is copied is what was read. Line breaks are allowed."""
    return revealed(text) == text and LOST not in text


@register.filter
def revealed(text: str) -> str:
    """`text` with each character that cannot be seen (control, direction, zero width) replaced by a visible one."""
    return "".join(c if c.isprintable() or c == "\n" else LOST for c in text)


_LINK = re.compile(r"https?://[^\s<>]*[\w/#]")
"""In escaped text. Only whole addresses: a bare `nvidia.com/gpu` is a resource, not a site."""


@register.filter
def prose(text: str) -> SafeString:
    """Sentences about a cluster: `code` in backticks. No links: a hostile name would become one."""
    return mark_safe(f"<p>{_inline(text)}</p>")  # noqa: S308 - _inline escapes


@register.filter
def documentation(text: str) -> SafeString:
    """Our own texts: paragraphs, lists of lines that begin with a dash, `code` in backticks, links."""
    blocks = (_block(block) for block in re.split(r"\n\s*\n", text.strip()) if block.strip())
    return mark_safe("".join(blocks))  # noqa: S308 - _block escapes


def _block(text: str) -> str:
    if not re.match(r"\s*[-*] ", text):
        return f"<p>{_inline(text, links=True)}</p>"
    items = re.split(r"(?m)^\s*[-*] ", text)[1:]
    return f"<ul>{''.join(f'<li>{_inline(item, links=True)}</li>' for item in items)}</ul>"


def _inline(text: str, *, links: bool = False) -> str:
    parts: list[str] = [escape(part) for part in printable(text, 4000).split("`")]
    if len(parts) % 2 == 0:  # an odd backtick is an ordinary character
        parts[-2:] = ["`".join(parts[-2:])]
    return "".join(
        f"<code>{part}</code>" if at % 2 else _LINK.sub(r'<a href="\g<0>">\g<0></a>', part) if links else part
        for at, part in enumerate(parts)
    )


@register.filter
def moment(at: datetime | None) -> SafeString:
    """Date and time in the site's zone, which is named."""
    if at is None:
        return no_data("unknown")
    local = timezone.localtime(at)
    return format_html(
        '<time class="nowrap" datetime="{}">{}</time>',
        quantities.rfc3339(at),
        local.strftime("%Y-%m-%d %H:%M:%S %Z"),
    )


@register.filter
def stated(fact: Evidence) -> SafeString:
    """The value of a fact; the moment that it spells is shown as every other."""
    words = printable(fact.value)
    before, spelled, after = words.partition(quantities.rfc3339(fact.at)) if fact.at else (words, "", "")
    return format_html("{}{}{}", before, moment(fact.at) if spelled else "", after)


@register.filter
def age(since: datetime | None, now: datetime) -> SafeString:
    """How long ago, counted on by live.js while the page stands open."""
    if since is None:
        return no_data("unknown")
    passed = max(now - since, timedelta())
    return format_html(
        '<time class="nowrap" datetime="{}" data-age="{}" title="{}">{}</time>',
        quantities.rfc3339(since),
        int(passed.total_seconds()),
        timezone.localtime(since).strftime("%Y-%m-%d %H:%M:%S %Z"),
        quantities.span(passed),
    )


@register.filter
def duration(value: timedelta | None) -> str:
    return quantities.span(value)


@register.filter
def milliseconds(value: float | None) -> str | SafeString:
    """`850 ms`, `12.3 s`."""
    if value is None:
        return no_data("not measured")
    return f"{value / 1000:.1f} s" if value >= 1000 else f"{value:.0f} ms"


@register.filter
def seconds(value: timedelta | float | None) -> str | SafeString:
    """Of a length that a machine took; a number counts seconds."""
    if value is None:
        return no_data("not measured")
    return milliseconds(1000 * (value.total_seconds() if isinstance(value, timedelta) else value))


@register.filter
def memory(amount_bytes: float | None) -> str | SafeString:
    return no_data() if amount_bytes is None else quantities.gib(amount_bytes)


@register.filter
def percent(ratio: float | None) -> str | SafeString:
    return no_data() if ratio is None else quantities.percent(ratio)


@register.filter
def measured(value: float | None, unit: str) -> str | SafeString:
    """A number with its unit, or that it was not collected: never 0 for what is unknown."""
    return no_data() if value is None else f"{number(value)} {unit}"


@register.filter
def number(value: float) -> str:
    """At most one decimal: `3`, `3.4`, `1,024`."""
    return f"{value:,.1f}".removesuffix(".0")


@register.filter
def or_unknown(value: str | float | None, words: str = "unknown") -> str:
    """`value`, fit to show; or `words` in the dress of missing data when it is None or empty text."""
    if value is None or value == "":
        return no_data(words)
    return escape(printable(value) if isinstance(value, str) else number(value))


def no_data(words: str = "not collected") -> SafeString:
    return format_html('<span class="no-data">{}</span>', words)
