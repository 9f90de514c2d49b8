"""One finding: what is wrong, what it costs, how to put it right, and what has been done about it."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import msgspec
from django.db.models import Exists, OuterRef
from django.db.models.functions import Greatest
from django.http import Http404, HttpResponse
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from diagnostics.findings import Finding
from diagnostics.fixes import Step
from diagnostics.incidents.cost import NO_WORKLOADS, Cost, cost_of, open_spans
from diagnostics.incidents.outcomes import Outcomes, outcomes
from diagnostics.incidents.steps import CheckedStep, checked, shown_steps, signed
from diagnostics.incidents.verification import Verification, verification
from diagnostics.models import Backfill, Cluster, Incident, IncidentEvent, User
from diagnostics.rules import catalogue
from diagnostics.views.cause_words import cause_words
from diagnostics.views.device_history import owners_of
from diagnostics.views.device_rows import Holder, holder
from diagnostics.views.finding_timeline import TimelineEntry, events_of, timeline
from diagnostics.views.finding_tree import Tree, tree_of
from diagnostics.views.page import Frame, HtmxRequest, Page, frame_of, node_url, render_page
from diagnostics.views.subjects import subject_url

TOUCHED_SHOWN = 12
MOST_USERS = 500
"""That are offered for assigning."""


@dataclass(frozen=True, kw_only=True)
class ShownFixStep:
    """A step of the guided fix, and whether somebody has checked it off."""

    step: Step
    digest: str
    token: str
    """What its form sends back: the step as it is shown."""
    checked: CheckedStep | None


@dataclass(frozen=True, kw_only=True)
class GoneStep:
    """Checked off, but no longer part of the fix."""

    title: str
    token: str
    at: datetime
    by: str


@dataclass(frozen=True, kw_only=True)
class FollowUp:
    """What people have done about it, and can do."""

    pk: int
    """Of the incident."""
    url: str
    """Where forms are sent to."""
    me: str
    assignee: str
    """Empty for nobody."""
    users: tuple[str, ...]
    steps: tuple[ShownFixStep, ...]
    gone: tuple[GoneStep, ...]
    verification: Verification
    outcomes: Outcomes
    last_event: int
    """Primary key of the newest event that the page knows."""

    @property
    def done(self) -> int:
        return sum(step.checked is not None for step in self.steps)


@dataclass(frozen=True, kw_only=True)
class FindingDetailPage(Page):
    finding: Finding
    status: str
    opened_at: datetime | None
    reopened_at: datetime | None
    reopened_count: int
    hold: int
    """Polls that its rule asks for before it opens; 0 for a rule that is gone."""
    first_seen: datetime
    last_seen: datetime
    resolved_at: datetime | None
    resolution: str
    is_open: bool
    since: datetime | None
    """Start of the present occurrence."""
    cause: str
    """In words."""
    cost: Cost
    is_cost_growing: bool
    """Some of that time is still being back-filled."""
    subject_url: str
    """Of the subject's page; empty where there is none."""
    exception_url: str
    """Where an exception for it is made."""
    nodes: tuple[tuple[str, str], ...]
    """(name, address) of the nodes that it touches."""
    pods: tuple[Holder, ...]
    more: int
    """Nodes and pods beyond those."""
    fix: str
    """Digest of the fix as the reader's page shows it."""
    fix_changed: bool
    """By now it is another one."""
    tree: Tree
    timeline: tuple[TimelineEntry, ...]
    follow_up: FollowUp
    notice: str = ""
    """Why what was asked for was not done."""
    draft: str = ""
    """A comment that was refused, so that its words are not lost."""
    address: str
    """Where a live page asks again."""
    url: str
    """Of this page as it is now."""


@require_safe
def finding_detail(request: HtmxRequest, slug: str, finding_id: str) -> HttpResponse:
    cluster, frame, now = frame_of(slug, "findings")
    shown = incident_of(cluster, finding_id, request.GET.get("incident", ""))
    page = page_of(request, cluster, shown, frame=frame, now=now, fix=request.GET.get("fix", ""))
    return render_page(request, "pages/finding_detail.html", page, partial="live")


class Shown(NamedTuple):
    """What a page is about."""

    incident: Incident
    complete_through: datetime | None
    """Of the cluster's ledger."""
    is_filling: bool
    """Some of the time in which it was open is still being back-filled."""


def incident_of(cluster: Cluster, finding_id: str, pk: str) -> Shown:
    """The latest of this fingerprint, or the one that `pk` names. One query. Raises Http404."""
    known = Incident.objects.shown().filter(cluster=cluster, fingerprint=finding_id)
    if pk:
        known = known.filter(pk=int(pk)) if is_key(pk) else known.none()
    # The books of a ledger are large, and none of this page's business.
    known = known.select_related("assignee", "cluster__ledger").defer("cluster__ledger__data")
    left = Backfill.objects.filter(
        cluster=OuterRef("cluster"),
        status__in=(Backfill.Status.WAITING, Backfill.Status.RUNNING),
        start__lt=OuterRef("last_seen"),
        done_from__gt=Greatest("start", OuterRef("opened_at")),
    )
    incident = known.annotate(is_filling=Exists(left)).order_by("-first_seen", "-pk").first()
    if incident is None:
        msg = "There is no such finding, or it has not lasted long enough to count."
        raise Http404(msg)
    ledger = getattr(incident.cluster, "ledger", None)
    return Shown(incident, ledger and ledger.complete_through, getattr(incident, "is_filling", False))


def is_key(text: str) -> bool:
    """It fits a primary key of any database."""
    return text.isascii() and text.isdecimal() and len(text) < 19


def page_url(
    request: HtmxRequest, slug: str, incident: Incident, name: str = "finding_detail", **query: str
) -> str:
    """Address of a page about `incident`: of that very one where the reader has asked for it by number, else of the
    latest of its fingerprint.
    """
    asked = {"incident": str(incident.pk)} if request.GET.get("incident") else {}
    url = reverse(name, args=[slug, incident.fingerprint])
    return f"{url}?{urlencode(asked | query)}" if asked or query else url


def page_of(
    request: HtmxRequest,
    cluster: Cluster,
    about: Shown,
    *,
    frame: Frame,
    now: datetime,
    fix: str,
    notice: str = "",
    draft: str = "",
) -> FindingDetailPage:
    """`fix`: digest of the fix that the reader's page shows; empty for a page that is loaded anew."""
    incident = about.incident
    finding = incident.latest_finding
    subject = finding.subject
    current = hashlib.sha256(msgspec.json.encode(finding.fix)).hexdigest()[:12]
    events = events_of(incident)
    shown = fix[:12] or current
    # Up to the last poll that saw it.
    spans = open_spans(incident.opened_at, events, incident.resolved_at or incident.last_seen)
    return FindingDetailPage(
        frame=frame,
        now=now,
        finding=finding,
        status=incident.status,
        opened_at=incident.opened_at,
        reopened_at=incident.reopened_at,
        reopened_count=incident.reopened_count,
        hold=next((rule.hold for rule in catalogue() if rule.code == incident.code), 0),
        first_seen=incident.first_seen,
        last_seen=incident.last_seen,
        resolved_at=incident.resolved_at,
        resolution=incident.resolution,
        is_open=incident.is_open,
        since=incident.open_since,
        cause=cause_words(finding.cause),
        cost=cost_of(cluster, incident, spans, finding.nodes, about.complete_through),
        is_cost_growing=about.is_filling,
        subject_url=subject_url(cluster.slug, subject.kind, subject.namespace, subject.name),
        exception_url=_exception_url(cluster.slug, finding),
        nodes=tuple((name, node_url(cluster.slug, name)) for name in finding.nodes[:TOUCHED_SHOWN]),
        pods=_pods(cluster, finding),
        more=max(0, len(finding.nodes) - TOUCHED_SHOWN) + max(0, len(finding.pods) - TOUCHED_SHOWN),
        fix=shown,
        fix_changed=shown != current,
        tree=tree_of(cluster, incident),
        timeline=timeline(events, reverse("finding_excerpt", args=[cluster.slug, incident.fingerprint])),
        follow_up=_follow_up(request, cluster, incident, finding, events),
        notice=notice,
        draft=draft,
        address=page_url(request, cluster.slug, incident, fix=shown),
        url=page_url(request, cluster.slug, incident),
    )


def _exception_url(slug: str, finding: Finding) -> str:
    """The form of an exception, filled in as narrowly as it goes."""
    about = {"rule": finding.slug, "cluster": slug, "namespace": finding.subject.namespace}
    query = urlencode({key: value for key, value in about.items() if value})
    return f"{reverse('rule_settings')}?{query}#exception-form"


def _pods(cluster: Cluster, finding: Finding) -> tuple[Holder, ...]:
    """The pods that it touches. Those of a workload are that workload's; those that hold a device or a node's are
    looked up among what was held there, in one query.
    """
    pods, subject = finding.pods[:TOUCHED_SHOWN], finding.subject
    if subject.kind not in NO_WORKLOADS:
        # Whose they are need not be said again.
        url = subject_url(cluster.slug, subject.kind, subject.namespace, subject.name)
        return tuple(Holder(pod=pod, workload="", url=url) for pod in pods)
    owners = owners_of(cluster, finding.nodes[:TOUCHED_SHOWN], pods) if pods else {}
    return tuple(holder(cluster.slug, pod, *owners.get(pod, ("", "", ""))) for pod in pods)


def _follow_up(
    request: HtmxRequest,
    cluster: Cluster,
    incident: Incident,
    finding: Finding,
    events: Sequence[IncidentEvent],
) -> FollowUp:
    standing = checked(events)
    shown = shown_steps(finding.fix)
    digests = {step.digest for step in shown}
    users = User.objects.filter(is_active=True).order_by("username").values_list("username", flat=True)
    return FollowUp(
        pk=incident.pk,
        url=page_url(request, cluster.slug, incident, "follow_up"),
        me=request.user.get_username(),
        assignee=incident.assignee.get_username() if incident.assignee else "",
        users=tuple(users[:MOST_USERS]),
        steps=tuple(
            ShownFixStep(
                step=step, digest=one.digest, token=signed(incident.pk, one), checked=standing.get(one.digest)
            )
            for step, one in zip(finding.fix.steps, shown, strict=True)
        ),
        gone=tuple(
            GoneStep(title=one.step.title, token=signed(incident.pk, one.step), at=one.at, by=one.by)
            for digest, one in standing.items()
            if digest not in digests
        ),
        verification=verification(incident, cluster.last_taken_at),
        outcomes=outcomes(incident.code, incident.cause),
        last_event=events[-1].pk if events else 0,
    )
