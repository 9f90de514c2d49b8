"""Findings: what is wrong now, causes first with their symptoms under them; and one finding with its guided fix."""

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from django.core.paginator import Paginator
from django.db.models import Q
from django.http import Http404, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from diagnostics.findings import Finding, Severity
from diagnostics.models import Cluster, Incident, IncidentEvent, Observation
from diagnostics.views.page import HtmxRequest, Page, frame_of, node_url, render_page
from diagnostics.views.pages_of import Pages, pages_of

GROUPS_PER_PAGE = 100
TOUCHED_SHOWN = 12


@dataclass(frozen=True, kw_only=True)
class FindingRow:
    """One line of the list: a finding that explains others, or stands alone, with its symptoms."""

    id: str
    url: str
    severity: str
    title: str
    subject: str
    code: str
    slug: str
    status: str
    opened_at: datetime | None
    gpus: int
    waste_gpus: float | None
    symptoms: "tuple[FindingRow, ...]" = ()


@dataclass(frozen=True, kw_only=True)
class Filters:
    """What the address asks for; empty text for no restriction."""

    severity: str = ""
    namespace: str = ""
    rule: str = ""
    q: str = ""

    @property
    def is_any(self) -> bool:
        return any((self.severity, self.namespace, self.rule, self.q))


@dataclass(frozen=True, kw_only=True)
class Looked:
    """How much of the catalogue the last poll could judge: without it, "no findings" says nothing."""

    skipped: int
    partial: int
    failed: int
    blind: int

    @property
    def is_complete(self) -> bool:
        return not (self.skipped or self.partial or self.failed or self.blind)


@dataclass(frozen=True, kw_only=True)
class FindingListPage(Page):
    filters: Filters
    severities: tuple[str, ...]
    namespaces: tuple[str, ...]
    rules: tuple[tuple[str, str], ...]
    """(slug, code) of the rules with an open finding."""
    rows: tuple[FindingRow, ...]
    pages: Pages
    counts: tuple[tuple[str, int], ...]
    """(severity, number), over what the filters leave."""
    total: int
    """Open findings before filtering."""
    looked: Looked | None
    """None before the first poll."""
    address: str
    """Of this list with its filters: where a live page asks again."""


@require_safe
def finding_list(request: HtmxRequest, slug: str) -> HttpResponse:
    cluster, frame, now = frame_of(slug, "findings")
    filters = _filters(request)
    opened = cluster.incidents.opened().defer("finding", "summary")
    everything = opened.values_list("subject_namespace", "slug", "code")
    matching = list(opened.filter(_matches(filters)))
    roots = _grouped(cluster, matching)
    paginator = Paginator(roots, GROUPS_PER_PAGE)
    shown = paginator.get_page(request.GET.get("page"))
    counted = Counter(incident.severity for incident in matching)
    page = FindingListPage(
        frame=frame,
        now=now,
        filters=filters,
        severities=tuple(Severity),
        namespaces=tuple(sorted({namespace for namespace, _, _ in everything if namespace})),
        rules=tuple(sorted({(rule, code) for _, rule, code in everything}, key=lambda pair: pair[1])),
        rows=tuple(shown),
        pages=pages_of(shown),
        counts=tuple((severity.value, counted[severity]) for severity in Severity if counted[severity]),
        total=len(everything),
        looked=_looked(cluster),
        address=request.get_full_path(),
    )
    return render_page(request, "pages/finding_list.html", page, partial="live")


def _filters(request: HtmxRequest) -> Filters:
    severity = request.GET.get("severity", "")
    return Filters(
        severity=severity if severity in set(Severity) else "",
        namespace=request.GET.get("namespace", "")[:253],
        rule=request.GET.get("rule", "")[:80],
        q=request.GET.get("q", "").replace("\x00", "").strip()[:200],
    )


def _matches(filters: Filters) -> Q:
    wanted = Q()
    if filters.severity:
        wanted &= Q(severity=filters.severity)
    if filters.namespace:
        wanted &= Q(subject_namespace=filters.namespace)
    if filters.rule:
        wanted &= Q(slug=filters.rule)
    for word in filters.q.split():
        wanted &= (
            Q(title__icontains=word)
            | Q(subject_name__icontains=word)
            | Q(subject_namespace__icontains=word)
            | Q(code__iexact=word)
            | Q(cause__icontains=word)
        )
    return wanted


def _grouped(cluster: Cluster, incidents: list[Incident]) -> list[FindingRow]:
    """Root causes, worst first, each with all that follows from it. One query, for who causes whom."""
    by_id = {incident.pk: incident for incident in incidents}
    causes: dict[int, list[int]] = {}
    pairs = Incident.causes.through.objects.filter(from_incident__cluster=cluster)
    for symptom, cause in pairs.values_list("from_incident_id", "to_incident_id"):
        if symptom in by_id and cause in by_id:
            causes.setdefault(symptom, []).append(cause)
    symptoms: dict[int, list[Incident]] = {}
    roots = []
    for incident in incidents:
        root = _path(incident.pk, causes, by_id)[-1]
        if root == incident.pk:
            roots.append(incident)
        else:
            symptoms.setdefault(root, []).append(incident)

    def worst(incident: Incident) -> tuple[Any, ...]:
        group = [incident, *symptoms.get(incident.pk, ())]
        return (min(i.severity_rank for i in group), -max(i.gpus for i in group), *_order(incident))

    def near(incident: Incident) -> tuple[Any, ...]:
        """What the root causes itself comes before what follows from that."""
        return (len(_path(incident.pk, causes, by_id)), *_order(incident))

    return [
        _row(
            cluster.slug,
            root,
            tuple(_row(cluster.slug, s) for s in sorted(symptoms.get(root.pk, ()), key=near)),
        )
        for root in sorted(roots, key=worst)
    ]


def _path(pk: int, causes: dict[int, list[int]], by_id: dict[int, Incident]) -> list[int]:
    """From `pk` along the worst cause of each up to one without a cause; the worst, where causes run in a circle."""
    path = [pk]
    while path[-1] in causes:
        at = min(causes[path[-1]], key=lambda cause: _order(by_id[cause]))
        if at in path:
            return [min(path, key=lambda member: _order(by_id[member]))]
        path.append(at)
    return path


def _order(incident: Incident) -> tuple[Any, ...]:
    return (incident.severity_rank, -incident.gpus, incident.opened_at, incident.code, incident.pk)


def _row(slug: str, incident: Incident, symptoms: tuple[FindingRow, ...] = ()) -> FindingRow:
    return FindingRow(
        id=incident.fingerprint,
        url=reverse("finding_detail", args=[slug, incident.fingerprint]),
        severity=incident.severity,
        title=incident.title,
        subject=_subject(incident),
        code=incident.code,
        slug=incident.slug,
        status=incident.status,
        opened_at=incident.opened_at,
        gpus=incident.gpus,
        waste_gpus=incident.waste_gpus,
        symptoms=symptoms,
    )


def _subject(incident: Incident) -> str:
    name = incident.subject_name
    return (
        f"{incident.subject_kind} {incident.subject_namespace}/{name}"
        if incident.subject_namespace
        else (f"{incident.subject_kind} {name}")
    )


def _looked(cluster: Cluster) -> Looked | None:
    last = (
        cluster.observations.exclude(status=Observation.Status.FAILED)
        .values_list("rules_skipped", "rules_partial", "rules_failed", "coverage")
        .first()
    )
    return (
        None
        if last is None
        else Looked(**dict(zip(("skipped", "partial", "failed", "blind"), map(len, last), strict=True)))
    )


@dataclass(frozen=True, kw_only=True)
class LinkedFinding:
    url: str
    severity: str
    title: str


@dataclass(frozen=True, kw_only=True)
class TimelineEntry:
    at: datetime
    kind: str
    actor: str
    words: str


@dataclass(frozen=True, kw_only=True)
class FindingDetailPage(Page):
    finding: Finding
    status: str
    opened_at: datetime | None
    reopened_at: datetime | None
    reopened_count: int
    first_seen: datetime
    last_seen: datetime
    resolved_at: datetime | None
    resolution: str
    is_open: bool
    since: datetime | None
    """Start of the present occurrence."""
    cause: str
    """In words."""
    subject_url: str
    """Of the subject's page; empty where there is none."""
    nodes: tuple[tuple[str, str], ...]
    """(name, address) of the nodes that it touches."""
    pods: tuple[str, ...]
    more: int
    """Nodes and pods beyond those."""
    fix_changed: bool
    """The fix is another one than the page showed that asks again."""
    causes: tuple[LinkedFinding, ...]
    symptoms: tuple[LinkedFinding, ...]
    timeline: tuple[TimelineEntry, ...]
    address: str


@require_safe
def finding_detail(request: HtmxRequest, slug: str, finding_id: str) -> HttpResponse:
    cluster, frame, now = frame_of(slug, "findings")
    incident = cluster.incidents.shown().filter(fingerprint=finding_id).order_by("-first_seen", "-pk").first()
    if incident is None:
        msg = "There is no such finding, or it has not lasted long enough to count."
        raise Http404(msg)
    finding = incident.latest_finding
    fix = hashlib.sha256(msgspec.json.encode(finding.fix)).hexdigest()[:12]
    page = FindingDetailPage(
        frame=frame,
        now=now,
        finding=finding,
        status=incident.status,
        opened_at=incident.opened_at,
        reopened_at=incident.reopened_at,
        reopened_count=incident.reopened_count,
        first_seen=incident.first_seen,
        last_seen=incident.last_seen,
        resolved_at=incident.resolved_at,
        resolution=incident.resolution,
        is_open=incident.is_open,
        since=incident.reopened_at or incident.opened_at,
        cause=finding.cause.replace("-", " "),
        subject_url=_subject_url(slug, finding),
        nodes=tuple((name, node_url(slug, name)) for name in finding.nodes[:TOUCHED_SHOWN]),
        pods=finding.pods[:TOUCHED_SHOWN],
        more=max(0, len(finding.nodes) - TOUCHED_SHOWN) + max(0, len(finding.pods) - TOUCHED_SHOWN),
        fix_changed=request.GET.get("fix", fix) != fix,
        causes=_linked(slug, incident.causes.all()),
        symptoms=_linked(slug, incident.symptoms.all()),
        timeline=tuple(
            _entry(event) for event in incident.events.select_related("actor").order_by("-at", "-pk")
        ),
        address=f"{request.path}?fix={request.GET.get('fix', fix)[:12]}",
    )
    return render_page(request, "pages/finding_detail.html", page, partial="live")


def _subject_url(slug: str, finding: Finding) -> str:
    subject = finding.subject
    if subject.kind == "Node":
        return node_url(slug, subject.name)
    # A GPU's name begins with its node's.
    return node_url(slug, subject.name.partition("/")[0]) if subject.kind == "GPU" else ""


def _linked(slug: str, incidents: Iterable[Incident]) -> tuple[LinkedFinding, ...]:
    return tuple(
        LinkedFinding(
            url=reverse("finding_detail", args=[slug, incident.fingerprint]),
            severity=incident.severity,
            title=incident.title,
        )
        for incident in incidents
        if incident.is_open
    )


def _entry(event: IncidentEvent) -> TimelineEntry:
    data = event.data
    if "from" in data:
        words = f"{data['from']} → {data.get('to', '')}"
    else:
        words = str(next((data[key] for key in ("reason", "text", "step") if key in data), ""))
        if "severity" in data:
            words = f"as {data['severity']}"
    return TimelineEntry(at=event.at, kind=event.kind, actor=str(event.actor or ""), words=words)
