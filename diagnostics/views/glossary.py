"""The glossary: what every state and number on the pages means, how it is computed and where it comes from."""

from dataclasses import dataclass

from django.conf import settings
from django.http import HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from diagnostics.glossary import GROUPS, TERMS, Term, facts, filled
from diagnostics.limits import Thresholds
from diagnostics.snapshot import State
from diagnostics.views import asked
from diagnostics.views.page import HtmxRequest, Page, bare_frame, render_page


@dataclass(frozen=True, kw_only=True)
class Entry:
    slug: str
    name: str
    meaning: str
    facts: tuple[tuple[str, str], ...]
    """(label, text): formula, unit and source, as far as there are any."""
    see: tuple[tuple[str, str], ...]
    """(slug, name) of related entries."""
    state: str
    """Of the cell that stands beside it; empty for what is no state of a GPU."""


@dataclass(frozen=True, kw_only=True)
class Group:
    heading: str
    gist: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True, kw_only=True)
class GlossaryPage(Page):
    groups: tuple[Group, ...]
    q: str
    total: int
    shown: int


@require_safe
def glossary(request: HtmxRequest) -> HttpResponse:
    limits: Thresholds = settings.LIMITS.site
    filters = asked.Filters(q=asked.search(request.GET))
    groups = tuple(
        Group(
            heading=heading,
            gist=gist,
            entries=tuple(
                _entry(term, limits)
                for term in terms
                if filters.mention(term.name, term.slug, term.meaning, term.source)
            ),
        )
        for heading, gist, terms in GROUPS
    )
    page = GlossaryPage(
        frame=bare_frame("glossary"),
        now=timezone.now(),
        groups=tuple(group for group in groups if group.entries),
        q=filters.q,
        total=len(TERMS),
        shown=sum(len(group.entries) for group in groups),
    )
    return render_page(request, "pages/glossary.html", page, partial="terms")


def _entry(term: Term, limits: Thresholds) -> Entry:
    states = {*State, "unjudged"}
    return Entry(
        slug=term.slug,
        name=term.name,
        meaning=filled(term.meaning, limits),
        facts=tuple(facts(term, limits)),
        see=tuple((slug, TERMS[slug].name) for slug in term.see),
        state=term.slug if term.slug in states else "",
    )
