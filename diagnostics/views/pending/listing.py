"""Pods and gangs that wait for GPUs: why, for how long, what they ask for, and what is free meanwhile."""

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.core.paginator import Paginator
from django.http import HttpResponse, QueryDict
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from diagnostics.models import Cluster, Observation
from diagnostics.picture import Devices, Workloads
from diagnostics.rules import catalogue
from diagnostics.snapshot import State
from diagnostics.views import asked
from diagnostics.views.cause_words import cause_words
from diagnostics.views.page import HtmxRequest, Page, frame_of, render_page
from diagnostics.views.pages_of import Pages, pages_of
from diagnostics.views.pending.groups import WAITING, Group, Reasons, Waiting, group_of, waiting_of
from diagnostics.views.workloads.seen import sight_of

GROUPS_PER_PAGE = 100


@dataclass(frozen=True, kw_only=True)
class Room:
    """What nobody holds of one resource."""

    resource: str
    free: int
    nodes: int
    """With at least one of them."""
    most: int
    """On one node."""
    stranded: int


@dataclass(frozen=True, kw_only=True)
class Filters(asked.Filters):
    namespace: str = ""
    reason: str = ""
    resource: str = ""
    sort: str = ""


@dataclass(frozen=True, kw_only=True)
class PendingListPage(Page):
    filters: Filters
    namespaces: tuple[str, ...]
    reasons: tuple[tuple[str, str], ...]
    """(slug of the cause, in words)."""
    resources: tuple[str, ...]
    sorts: tuple[tuple[str, str], ...]
    groups: tuple[Group, ...] | None
    """None: no data."""
    pages: Pages | None
    total: int
    """Groups before filtering."""
    why_not: str
    """Why pods are missing or may be; empty when all were read."""
    not_explained: str
    """Why the rule that explains waiting could not look, or not at all; empty when it did."""
    pods: int
    gpus: int
    oldest: datetime | None
    rooms: tuple[Room, ...] | None
    """None: nothing is known of the devices."""
    rooms_why_not: str
    bound: int
    """Pods that have a node, and have not started."""
    bound_url: str
    address: str


NEVER = datetime.max.replace(tzinfo=UTC)
SORTS: dict[str, tuple[str, Callable[[Waiting], Any]]] = {
    "": ("Longest wait", lambda waiting: waiting.oldest or NEVER),
    "gpus": ("Most GPUs", lambda waiting: -waiting.gpus),
    "pods": ("Most pods", lambda waiting: -len(waiting.pods)),
}


@require_safe
def pending_list(request: HtmxRequest, slug: str) -> HttpResponse:
    cluster, frame, now = frame_of(slug, "pending")
    sight = sight_of(cluster)
    has_data = sight.workloads is not None
    reasons = Reasons(cluster)
    everything = waiting_of(sight.workloads, reasons) if sight.workloads else []
    filters = _filters(request.GET)
    matching = [waiting for waiting in everything if _is_wanted(waiting, filters)]
    matching.sort(key=lambda waiting: (waiting.owner.namespace, waiting.owner.kind, waiting.owner.name))
    matching.sort(key=SORTS[filters.sort][1])
    shown = Paginator(matching, GROUPS_PER_PAGE).get_page(request.GET.get("page"))
    bound = _bound(sight.workloads) if sight.workloads else 0
    page = PendingListPage(
        frame=frame,
        now=now,
        filters=filters,
        namespaces=tuple(sorted({waiting.owner.namespace for waiting in everything})),
        reasons=tuple(
            (cause, cause_words(cause)) for cause in sorted({waiting.cause for waiting in everything})
        ),
        resources=tuple(sorted({resource for waiting in everything for resource in waiting.resources})),
        sorts=tuple((key, label) for key, (label, _) in SORTS.items()),
        groups=tuple(group_of(slug, waiting, reasons) for waiting in shown) if has_data else None,
        pages=pages_of(shown) if has_data else None,
        total=len(everything),
        why_not=sight.doubt,
        not_explained=_not_explained(cluster),
        pods=sum(len(waiting.pods) for waiting in matching),
        gpus=sum(waiting.gpus for waiting in matching),
        oldest=min((waiting.oldest for waiting in matching if waiting.oldest), default=None),
        rooms=_rooms(sight.devices) if sight.devices else None,
        rooms_why_not=sight.devices_doubt,
        bound=bound,
        bound_url=f"{reverse('finding_list', args=[slug])}?{urlencode({'rule': 'stuck-holder'})}",
        address=request.get_full_path(),
    )
    return render_page(request, "pages/pending_list.html", page, partial="live")


def _filters(query: QueryDict) -> Filters:
    return Filters(
        q=asked.search(query),
        namespace=asked.text(query, "namespace"),
        reason=asked.text(query, "reason"),
        resource=asked.text(query, "resource"),
        sort=asked.choice(query, "sort", SORTS),
    )


def _is_wanted(waiting: Waiting, filters: Filters) -> bool:
    owner = waiting.owner
    if filters.namespace and owner.namespace != filters.namespace:
        return False
    if filters.reason and waiting.cause != filters.reason:
        return False
    if filters.resource and filters.resource not in waiting.resources:
        return False
    return filters.mention(owner.kind, f"{owner.namespace}/{owner.name}", waiting.queue)


def _rooms(devices: Devices) -> tuple[Room, ...]:
    """Devices that nobody holds, by resource: those that a pod could get, and those that none can use."""
    free: dict[str, Counter[str]] = defaultdict(Counter)
    stranded: Counter[str] = Counter()
    for node in devices.nodes:
        for cell in node.gpus:
            if cell.state is State.FREE:
                free[cell.resource][node.name] += 1
            elif cell.state is State.STRANDED:
                stranded[cell.resource] += 1
    return tuple(
        Room(
            resource=resource,
            free=free[resource].total(),
            nodes=len(free[resource]),
            most=max(free[resource].values(), default=0),
            stranded=stranded[resource],
        )
        for resource in sorted({*free, *stranded})
    )


def _bound(workloads: Workloads) -> int:
    return sum(
        pod.phase == "Pending" and pod.node is not None and pod.deletion_at is None
        for line in workloads.lines
        for pod in line.pods
    )


def _not_explained(cluster: Cluster) -> str:
    """One query."""
    code = next((rule.code for rule in catalogue() if rule.slug == WAITING), "")
    last = (
        cluster.observations.exclude(status=Observation.Status.FAILED)
        .values_list("rules_skipped", "rules_failed", "rules_partial")
        .first()
    )
    for rows in last or ():
        for row in rows:
            if row.get("code") == code:
                return str(row.get("reason") or row.get("error") or "it gave no reason")
    return ""
