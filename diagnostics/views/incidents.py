"""Incidents: what has been wrong, for how long, how it ended and whether it came back."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.core.paginator import Paginator
from django.db.models import Q
from django.http import HttpResponse, QueryDict
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from diagnostics.findings import Severity
from diagnostics.incidents.cost import open_spans
from diagnostics.incidents.recording import EXEMPT
from diagnostics.models import Incident, IncidentEvent
from diagnostics.rules import catalogue
from diagnostics.views import asked
from diagnostics.views.findings import words_in
from diagnostics.views.page import HtmxRequest, Page, frame_of, render_page
from diagnostics.views.pages_of import Pages, pages_of
from diagnostics.views.subjects import subject_words

PER_PAGE = 100
USUAL_PERIOD = ""
PERIODS = {
    "day": (timedelta(days=1), "24 hours"),
    "week": (timedelta(days=7), "7 days"),
    USUAL_PERIOD: (timedelta(days=30), "30 days"),
    "quarter": (timedelta(days=91), "91 days"),
    "year": (timedelta(days=365), "365 days"),
    "all": (None, "As far as kept"),
}
"""As addresses name them: (how long, in words)."""
EXEMPTED = "exempted"
"""Resolved, because an override or annotation silenced it."""
STATUSES = ("open", "acknowledged", "resolved", EXEMPTED)


@dataclass(frozen=True, kw_only=True)
class IncidentRow:
    id: int
    url: str
    severity: str
    title: str
    subject: str
    code: str
    slug: str
    status: str
    assignee: str
    """Empty for nobody."""
    opened_at: datetime
    resolved_at: datetime | None
    counts_from: datetime
    """When it opened, later by all the time between a resolution and a reopening: since then it was open in sum."""
    reopened_count: int
    resolution: str
    fix_status: str

    @property
    def lasted(self) -> timedelta | None:
        """Time that it was open; None while it is."""
        return self.resolved_at - self.counts_from if self.resolved_at else None

    @property
    def within(self) -> timedelta | None:
        """From when it opened first to when it was resolved; None while it is open."""
        return self.resolved_at - self.opened_at if self.resolved_at else None


@dataclass(frozen=True, kw_only=True)
class IncidentFilters(asked.Filters):
    severity: str = ""
    status: str = ""
    namespace: str = ""
    rule: str = ""
    period: str = USUAL_PERIOD


@dataclass(frozen=True, kw_only=True)
class IncidentListPage(Page):
    filters: IncidentFilters
    severities: tuple[str, ...]
    statuses: tuple[str, ...]
    rules: tuple[tuple[str, str], ...]
    """(slug, code) of the whole catalogue."""
    periods: tuple[tuple[str, str], ...]
    """(value, words)."""
    period: str
    """In words."""
    rows: tuple[IncidentRow, ...]
    pages: Pages
    is_polled: bool
    address: str


@require_safe
def incident_list(request: HtmxRequest, slug: str) -> HttpResponse:
    cluster, frame, now = frame_of(slug, "incidents")
    filters = _filters(request.GET)
    found = Incident.objects.filter(_matches(filters, now), cluster=cluster).order_by("-opened_at", "-pk")
    # Keys first: they come from the index alone, however many pages are skipped.
    shown = Paginator(found.values_list("pk", flat=True), PER_PAGE).get_page(request.GET.get("page"))
    incidents = Incident.objects.filter(pk__in=list(shown)).order_by("-opened_at", "-pk")
    page = IncidentListPage(
        frame=frame,
        now=now,
        filters=filters,
        severities=tuple(Severity),
        statuses=STATUSES,
        rules=tuple((rule.slug, rule.code) for rule in catalogue()),
        periods=tuple((period, words) for period, (_, words) in PERIODS.items()),
        period=PERIODS[filters.period][1],
        rows=_rows(slug, incidents.select_related("assignee").only(*_SHOWN), now),
        pages=pages_of(shown),
        is_polled=cluster.last_taken_at is not None,
        address=request.get_full_path(),
    )
    return render_page(request, "pages/incident_list.html", page, partial="live")


_SHOWN = (
    *("fingerprint", "code", "slug", "status", "severity", "title", "fix_status", "assignee__username"),
    *("subject_kind", "subject_namespace", "subject_name"),
    *("opened_at", "resolved_at", "resolution", "reopened_count"),
)


def _filters(query: QueryDict) -> IncidentFilters:
    return IncidentFilters(
        q=asked.search(query),
        severity=asked.choice(query, "severity", set(Severity)),
        status=asked.choice(query, "status", STATUSES),
        namespace=asked.text(query, "namespace"),
        rule=asked.text(query, "rule"),
        period=asked.choice(query, "period", PERIODS),
    )


def _matches(filters: IncidentFilters, now: datetime) -> Q:
    """What never opened has no `opened_at`. All but the text is in one index, which counts without reading rows."""
    length = PERIODS[filters.period][0]
    wanted = Q(opened_at__isnull=False) if length is None else Q(opened_at__gte=now - length)
    if filters.severity:
        wanted &= Q(severity_rank=Severity(filters.severity).rank)
    if filters.status == EXEMPTED:
        wanted &= Q(status=Incident.Status.RESOLVED, resolution__startswith=EXEMPT)
    elif filters.status:
        wanted &= Q(status=filters.status)
    if filters.namespace:
        wanted &= Q(subject_namespace=filters.namespace)
    if filters.rule:
        wanted &= Q(slug=filters.rule)
    return wanted & words_in(filters.q)


def _rows(slug: str, incidents: Iterable[Incident], now: datetime) -> tuple[IncidentRow, ...]:
    """Two queries, one where nothing was ever reopened."""
    found = list(incidents)
    reopened = [incident.pk for incident in found if incident.reopened_count]
    turns: dict[int, list[IncidentEvent]] = defaultdict(list)
    kinds = (IncidentEvent.Kind.REOPENED, IncidentEvent.Kind.RESOLVED)
    if reopened:
        for event in IncidentEvent.objects.filter(incident__in=reopened, kind__in=kinds).order_by("pk"):
            turns[event.incident_id].append(event)
    return tuple(_row(slug, incident, turns[incident.pk], now) for incident in found)


def _row(slug: str, incident: Incident, turns: list[IncidentEvent], now: datetime) -> IncidentRow:
    opened_at = incident.opened_at or incident.first_seen
    end = incident.resolved_at or max(now, opened_at)
    spans = open_spans(opened_at, turns, end)
    url = reverse("finding_detail", args=[slug, incident.fingerprint])
    return IncidentRow(
        id=incident.pk,
        url=f"{url}?{urlencode({'incident': incident.pk})}",
        severity=incident.severity,
        title=incident.title,
        subject=subject_words(incident.subject_kind, incident.subject_namespace, incident.subject_name),
        code=incident.code,
        slug=incident.slug,
        status=incident.status,
        assignee=incident.assignee.get_username() if incident.assignee else "",
        opened_at=opened_at,
        resolved_at=incident.resolved_at,
        counts_from=end - sum((stop - begun for begun, stop in spans), timedelta()),
        reopened_count=incident.reopened_count,
        resolution=incident.resolution,
        fix_status=incident.fix_status,
    )
