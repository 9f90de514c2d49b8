"""One look at a cluster: states of its GPUs, what is wrong, what it costs, how fresh this is, and what changed."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from types import MappingProxyType

from django.http import HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from diagnostics.findings import Severity
from diagnostics.models import ChangeKind, Cluster, IncidentEvent, StoredPicture, TopologyChange
from diagnostics.models.incident import OPEN_SINCE
from diagnostics.picture import Devices, PodLine, Workloads
from diagnostics.snapshot import State
from diagnostics.usage.comparison import today_and_week
from diagnostics.usage.weights import HOUR_MS
from diagnostics.views.bars import Segment, bar
from diagnostics.views.device_history import has_fallen
from diagnostics.views.latest import NOTHING_YET, read_devices, read_workloads
from diagnostics.views.page import HtmxRequest, Page, frame_of, node_url, render_page

WORST_SHOWN = 8
CHANGES_SHOWN = 12
CHANGES_READ = 100
"""Of each kind: those of one subject are then told in one line."""
CHANGES_OVER = timedelta(hours=6)
INCIDENT_KINDS = (
    IncidentEvent.Kind.OPENED,
    IncidentEvent.Kind.REOPENED,
    IncidentEvent.Kind.RESOLVED,
)


@dataclass(frozen=True, kw_only=True)
class OpenFinding:
    """A line of the worst of them."""

    url: str
    severity: str
    title: str
    gpus: int
    open_since: datetime | None
    status: str


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """Pods that wait for a node with GPUs."""

    pods: int
    workloads: int
    gpus: int
    """That they ask for."""
    oldest: datetime | None


@dataclass(frozen=True, kw_only=True)
class Figure:
    """GPU-hours of today so far beside those of the same hours of a day of the week before."""

    term: str
    """In the glossary."""
    words: str
    today: float
    week: float | None
    """The mean; None where the ledger does not reach."""
    costs: tuple[tuple[str, Decimal], ...]
    """(currency, money) of today; empty where no price is known."""


@dataclass(frozen=True, kw_only=True)
class Today:
    """What the ledger says of today."""

    start: datetime
    end: datetime
    figures: tuple[Figure, ...]
    """Empty while no hour of today is final."""
    days: int
    """Of the week before, how many are known."""
    unobserved: float
    """GPU-hours of today that nobody observed."""


@dataclass(frozen=True, kw_only=True)
class SourceFact:
    """How one source answered the last poll."""

    name: str
    status: str
    detail: str


@dataclass(frozen=True, kw_only=True)
class Change:
    """Something that happened in the last hours."""

    at: datetime
    what: str
    subject: str
    url: str
    before: str = ""
    after: str = ""
    times: int = 1
    """How often, within what was looked at: a crash loop is one line, from the first restart to the last."""

    @property
    def detail(self) -> str:
        return " → ".join(filter(None, (self.before, self.after)))


@dataclass(frozen=True, kw_only=True)
class OverviewPage(Page):
    why_not: str
    """Why there is nothing to show of nodes and GPUs, or why it is not all; empty when it is."""
    bar: tuple[Segment, ...] | None
    """None: no data."""
    gpus: int
    nodes: int
    held: int
    troubled: int
    """Nodes that are not ready, of unknown state or cordoned."""
    severities: tuple[tuple[str, int], ...]
    findings: int
    worst: tuple[OpenFinding, ...]
    waiting: Waiting | None
    """None where pods were not read."""
    pods_doubt: str
    today: Today
    sources: tuple[SourceFact, ...]
    sources_polled_at: datetime | None
    changes: tuple[Change, ...]
    changes_over: timedelta
    address: str


@require_safe
def overview(request: HtmxRequest, slug: str) -> HttpResponse:
    cluster, frame, now = frame_of(slug, "overview")
    devices, workloads, why_not, pods_doubt = _picture(cluster)
    counts = Counter(gpu.state for node in devices.nodes for gpu in node.gpus) if devices else None
    opened = list(
        cluster.incidents.opened()
        .order_by("severity_rank", "-gpus", OPEN_SINCE, "pk")
        .values_list("fingerprint", "severity", "title", "gpus", OPEN_SINCE, "status")
    )
    severities = Counter(severity for _, severity, *_ in opened)
    last = cluster.observations.values_list("sources", "finished_at").first()
    nodes = devices.nodes if devices else ()
    page = OverviewPage(
        frame=frame,
        now=now,
        why_not=why_not,
        bar=None if counts is None else bar(dict(counts), lambda state: _map_url(slug, state)),
        gpus=counts.total() if counts else 0,
        nodes=len(nodes),
        held=sum(bool(gpu.holders) for node in nodes for gpu in node.gpus),
        troubled=sum(node.readiness is not True or node.is_cordoned for node in nodes),
        severities=tuple((s.value, severities[s]) for s in Severity if severities[s]),
        findings=len(opened),
        worst=tuple(
            OpenFinding(
                url=reverse("finding_detail", args=[slug, fingerprint]),
                severity=severity,
                title=title,
                gpus=gpus,
                open_since=open_since,
                status=status,
            )
            for fingerprint, severity, title, gpus, open_since, status in opened[:WORST_SHOWN]
        ),
        waiting=_waiting(workloads) if workloads else None,
        pods_doubt=pods_doubt,
        today=_today(cluster, now),
        sources=tuple(
            SourceFact(name=raw["name"], status=raw["status"], detail=raw.get("detail", ""))
            for raw in last[0]
        )
        if last
        else (),
        sources_polled_at=last[1] if last else None,
        changes=_changes(cluster, now - CHANGES_OVER),
        changes_over=CHANGES_OVER,
        address=request.get_full_path(),
    )
    return render_page(request, "pages/overview.html", page, partial="live")


def _picture(cluster: Cluster) -> tuple[Devices | None, Workloads | None, str, str]:
    """Both halves, and what is doubtful about each. One query."""
    row = StoredPicture.objects.filter(cluster=cluster).first()
    if row is None:
        return None, None, NOTHING_YET, NOTHING_YET
    devices, why_not = read_devices(row.devices)
    workloads, doubt = read_workloads(row.workloads)
    return devices, workloads, why_not, doubt


def _map_url(slug: str, state: State | None) -> str:
    return f"{reverse('cluster_map', args=[slug])}?{urlencode({'state': state or 'not_evaluated'})}"


def _waiting(workloads: Workloads) -> Waiting:
    found: list[PodLine] = []
    owners = 0
    for line in workloads.lines:
        waiting = [pod for pod in line.pods if pod.is_waiting]
        owners += bool(waiting)
        found += waiting
    return Waiting(
        pods=len(found),
        workloads=owners,
        gpus=sum(pod.gpu_count for pod in found),
        oldest=min((pod.created_at for pod in found if pod.created_at), default=None),
    )


def _today(cluster: Cluster, now: datetime) -> Today:
    """Three queries at most."""
    found = today_and_week(cluster, now, timezone.get_current_timezone())
    today, week = found.today, found.week
    figures: tuple[Figure, ...] = ()
    if today is not None:
        figures = (
            _figure("gpu_hour", "held", today.held_ms, week and week.held_ms, today.costs),
            _figure("waste", "wasted", today.wasted_ms, week and week.wasted_ms, today.wasted),
            _figure("effective", "effective", today.effective_ms, week and week.effective_ms),
        )
    return Today(
        start=found.start,
        end=found.end,
        figures=figures,
        days=found.days,
        unobserved=(today.unobserved_ms if today else 0) / HOUR_MS,
    )


def _figure(
    term: str,
    words: str,
    today_ms: int,
    week_ms: int | None,
    costs: Mapping[str, Decimal] = MappingProxyType({}),
) -> Figure:
    return Figure(
        term=term,
        words=words,
        today=today_ms / HOUR_MS,
        week=None if week_ms is None else week_ms / HOUR_MS,
        costs=tuple(sorted(costs.items())),
    )


def _changes(cluster: Cluster, since: datetime) -> tuple[Change, ...]:
    """What topology and incidents did since then, newest first. Two queries."""
    found = [
        Change(
            at=at,
            what=ChangeKind(kind).words,
            subject=subject,
            before=before,
            after=after,
            url=node_url(cluster.slug, node or ""),
        )
        for at, kind, subject, before, after, node in TopologyChange.objects.filter(
            cluster=cluster, at__gte=since
        ).values_list("at", "kind", "subject", "before", "after", "node__name")[:CHANGES_READ]
    ]
    events = IncidentEvent.objects.filter(
        incident__cluster=cluster, at__gte=since, kind__in=INCIDENT_KINDS
    ).order_by("-at", "-pk")
    found += [
        Change(
            at=at,
            what=f"finding {kind}",
            subject=title,
            url=reverse("finding_detail", args=[cluster.slug, fingerprint]),
        )
        for at, kind, title, fingerprint in events.values_list(
            "at", "kind", "incident__title", "incident__fingerprint"
        )[:CHANGES_READ]
    ]
    return _once_each(sorted(found, key=lambda change: change.at, reverse=True))[:CHANGES_SHOWN]


def _once_each(changes: list[Change]) -> tuple[Change, ...]:
    """The latest of each subject and kind, and how often it happened. Of restarts, from the first on since their count
    fell last.
    """
    latest: dict[tuple[str, str], Change] = {}
    told: set[tuple[str, str]] = set()
    for change in changes:
        key = change.what, change.subject
        newer = latest.setdefault(key, change)
        if newer is change or key in told:
            continue
        if change.what != ChangeKind.OPERATOR_POD_RESTARTED.words:
            latest[key] = replace(newer, times=newer.times + 1)
        elif has_fallen(change.after, newer.before):
            told.add(key)
        else:
            latest[key] = replace(newer, before=change.before, times=newer.times + 1)
    return tuple(latest.values())
