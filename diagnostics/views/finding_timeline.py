"""What happened to an incident, in words."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Exists, OuterRef, Q

from diagnostics.models import Excerpt, Incident, IncidentEvent
from diagnostics.views.cause_words import cause_words

Kind = IncidentEvent.Kind
MOST_SHOWN = 200
"""Events; the newest, and all that open, close or check steps off besides."""
LONGEST_RUN = 3
"""Changes of severity in a row that are shown one by one; of more, the first and the last."""
MOMENTS = (Kind.OPENED, Kind.REOPENED, Kind.RESOLVED)
"""At which excerpts are kept."""
_TELLING = (*MOMENTS, Kind.STEP_CHECKED, Kind.STEP_UNCHECKED)


@dataclass(frozen=True, kw_only=True)
class TimelineEntry:
    at: datetime | None
    """None for several, between the entries beside it."""
    kind: str
    actor: str
    """Empty: the polls themselves, or somebody who is gone."""
    words: str
    is_comment: bool = False
    """Its words have lines, and are somebody's own."""
    excerpt_url: str = ""
    """Of what was seen then; empty where nothing is kept."""


def events_of(incident: Incident) -> list[IncidentEvent]:
    """In the order in which they were noted, whatever the clocks of clusters and people said. One query."""
    newest = incident.events.order_by("-pk").values("pk")[:MOST_SHOWN]
    wanted = Q(kind__in=_TELLING) | Q(pk__in=newest)
    kept = Exists(Excerpt.objects.filter(incident=OuterRef("incident"), at=OuterRef("at")))
    events = incident.events.filter(wanted).annotate(has_excerpt=kept)
    return list(events.select_related("actor").order_by("pk"))


def timeline(events: Sequence[IncidentEvent], excerpt_url: str) -> tuple[TimelineEntry, ...]:
    """The newest first. `excerpt_url`: of the page that shows excerpts, without the event."""
    return tuple(_entries(reversed(events), excerpt_url))


def _entries(events: Iterable[IncidentEvent], excerpt_url: str) -> Iterable[TimelineEntry]:
    for kind, alike in itertools.groupby(events, lambda event: event.kind):
        run = list(alike)
        if kind == Kind.SEVERITY_CHANGED and len(run) > LONGEST_RUN:
            yield _entry(run[0], excerpt_url)
            yield _between(run[1:-1])
            yield _entry(run[-1], excerpt_url)
        else:
            yield from (_entry(event, excerpt_url) for event in run)


def _entry(event: IncidentEvent, excerpt_url: str) -> TimelineEntry:
    is_kept = event.kind in MOMENTS and getattr(event, "has_excerpt", False)
    return TimelineEntry(
        excerpt_url=f"{excerpt_url}?event={event.pk}" if is_kept else "",
        at=event.at,
        kind=event.kind,
        actor=event.actor.get_username() if event.actor else "",
        words=_words(event),
        is_comment=event.kind == Kind.COMMENTED,
    )


def _between(changes: Sequence[IncidentEvent]) -> TimelineEntry:
    named = {str(change.data.get(side, "")) for change in changes for side in ("from", "to")}
    words = f"{len(changes)} times more, between {' and '.join(sorted(named))}"
    return TimelineEntry(at=None, kind=Kind.SEVERITY_CHANGED, actor="", words=words)


def _words(event: IncidentEvent) -> str:
    data = event.data
    match event.kind:
        case Kind.OPENED | Kind.REOPENED:
            return f"as {data['severity']}" if "severity" in data else ""
        case Kind.SEVERITY_CHANGED:
            return f"{data.get('from', '')} → {data.get('to', '')}"
        case Kind.CAUSE_CHANGED:
            return " → ".join(cause_words(str(data.get(side, ""))) for side in ("from", "to"))
        case Kind.ASSIGNED:
            return f"to {data.get('to') or 'nobody'}"
        case Kind.STEP_CHECKED | Kind.STEP_UNCHECKED:
            return f"{data.get('number', '')} {data.get('title', '')}".strip()
        case Kind.FIX_VERIFIED:
            return "the polls after it no longer saw the trouble"
        case Kind.FIX_FAILED:
            return "the trouble came back within a day"
    return str(data.get("reason") or data.get("text") or "")
