"""One workload: what it is, its GPUs and pods now, what is wrong, what it cost, and what happened to it."""

from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

from django.core.paginator import Paginator
from django.db.models import OuterRef, Subquery
from django.http import Http404, HttpResponse
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from diagnostics.models import Cluster, LedgerState, Workload
from diagnostics.picture import DemandLine, GpuCell, Owner, PodLine
from diagnostics.snapshot import State
from diagnostics.storable import storable_text
from diagnostics.templatetags.gpuhealth import number
from diagnostics.usage.mapping import team_rules
from diagnostics.usage.teams import Owner as Mapped
from diagnostics.usage.teams import team_of
from diagnostics.views.bars import Segment, bar
from diagnostics.views.device_history import EVENTS_OVER
from diagnostics.views.open_findings import FindingLine, OpenFindings, finding_lines
from diagnostics.views.page import HtmxRequest, Page, frame_of, gpu_url, node_url, render_page, workload_url
from diagnostics.views.pages_of import Pages, pages_of
from diagnostics.views.plots import Plots, has_plots, part_of, plots_of
from diagnostics.views.workloads.found import about, concerning, pods_named, resolved_about
from diagnostics.views.workloads.happened import EventLine, Holds, events_of, holds_of
from diagnostics.views.workloads.seen import Held, Mean, Pods, Seen, Sight, seen_of, sight_of
from diagnostics.views.workloads.spent import Spent, spent_of

PODS_PER_PAGE = 50
NODES_SHOWN = 40
PAST_SHOWN = 20
MEMBERS_SHOWN = 20
"""And one more, by which the template knows that there are."""


class GpuLink(NamedTuple):
    """One device that it holds."""

    cell: GpuCell
    url: str


@dataclass(frozen=True, kw_only=True)
class NodeGpus:
    """Its devices on one node."""

    name: str
    url: str
    rack: str | None
    troubles: tuple[str, ...]
    gpus: tuple[GpuLink, ...]


@dataclass(frozen=True, kw_only=True)
class PodRow:
    """One of its pods."""

    pod: PodLine
    node_url: str
    asks: tuple[tuple[str, str], ...]
    """(amount, resource)."""


@dataclass(frozen=True, kw_only=True)
class Present:
    """What the last poll saw of it."""

    phase: str
    counts: Pods
    wanted: int | None
    min_available: int | None
    gang_scheduler: str
    system: str
    collective: str
    gang: Owner | None
    queue: str
    priority: int | None
    held: int
    bar: tuple[Segment, ...]
    utilization: Mean | None
    activity: Mean | None
    demands: tuple[DemandLine, ...]
    demands_left: int
    """Unfinished pods with demands of yet another kind, which are not kept."""
    nodes: tuple[NodeGpus, ...]
    more_nodes: int
    pods: tuple[PodRow, ...]
    pages: Pages


@dataclass(frozen=True, kw_only=True)
class WorkloadDetailPage(Page):
    owner: Owner
    team: str
    present: Present | None
    """None: the last poll did not see it, or nothing is known of it."""
    is_gone: bool
    """The last poll read all pods, and none that asks for a GPU or holds one was its."""
    members: tuple[tuple[str, str], ...]
    """(name, address) of the workloads whose pods it groups, as a PodGroup of bare pods; of many the first."""
    why_not: str
    """Why pods are missing or may be; empty when all were read."""
    devices_why_not: str
    metrics_why_not: str
    first_seen: datetime | None
    """With GPUs, by a poll or by what was filled in; None for what was never recorded or only findings name."""
    last_seen: datetime | None
    map_url: str
    findings: list[FindingLine]
    past: list[FindingLine]
    """The last that were resolved, newest first."""
    spent: Spent | None
    """None where the ledger knows nothing of it."""
    holds: Holds | None
    """None beside plots that were asked for: no page may ask for everything at once."""
    events: tuple[EventLine, ...] | None
    """The same."""
    events_hours: int
    legend: tuple[State, ...]
    plots: Plots | None
    """Of the devices that it holds now; None where they were not asked for."""
    can_plot: bool
    """It holds some."""
    address: str


@require_safe
def workload_detail(request: HtmxRequest, slug: str, kind: str, namespace: str, name: str) -> HttpResponse:
    cluster, frame, now = frame_of(slug, "workloads")
    owner = Owner(kind, namespace, name)
    sight = sight_of(cluster)
    seen = seen_of(sight, owner)
    row = _known(cluster, owner)
    is_stored = seen is not None or row is not None
    are_plots_alone = bool(request.htmx) and part_of(request) == "plots"
    opened, past = ([], []) if are_plots_alone and is_stored else _findings(cluster, owner, seen)
    if not (is_stored or opened or past) and sight.workloads is not None:
        msg = "No poll of this cluster has seen such a workload with GPUs, and no finding names it."
        raise Http404(msg)
    is_plotted = "period" in request.GET or part_of(request) == "plots"
    holds = events = None
    if not is_plotted:
        holds = holds_of(cluster, row.pk, sight.devices) if row else Holds((), are_more=False)
        pods = (
            {pod.name for pod in seen.line.pods}
            if seen
            else {hold.pod for hold in holds.lines} | pods_named(owner, (*opened, *past))
        )
        events = events_of(cluster, owner, pods, sight.workloads.taken_at if sight.workloads else now)
    plots = None
    if is_plotted and has_plots(request) and seen is not None and seen.held:
        plots = plots_of(cluster, _slots(seen), request.GET.get("period", ""), now)
    page = WorkloadDetailPage(
        frame=frame,
        now=now,
        owner=owner,
        team=_team(cluster, owner, row),
        present=_present(slug, seen, request.GET.get("page")) if seen and not are_plots_alone else None,
        is_gone=seen is None and sight.workloads is not None and not sight.doubt,
        members=() if is_stored else _members(slug, sight, owner),
        why_not=sight.doubt,
        devices_why_not=sight.devices_doubt if sight.devices_doubt != sight.doubt else "",
        metrics_why_not=sight.devices.metrics_doubt if sight.devices else "",
        first_seen=row.first_seen if row else None,
        last_seen=row.last_seen if row else None,
        map_url=_map_url(slug, owner) if seen and seen.held else "",
        findings=opened,
        past=past,
        spent=spent_of(cluster, row.pk, now, row.complete_through) if row and not are_plots_alone else None,
        holds=holds,
        events=events,
        events_hours=int(EVENTS_OVER.total_seconds() // 3600),
        legend=tuple(State),
        plots=plots,
        can_plot=seen is not None and bool(seen.held),
        address=request.get_full_path(),
    )
    return render_page(request, "pages/workload_detail.html", page, partial=part_of(request))


def _findings(
    cluster: Cluster, owner: Owner, seen: Seen | None
) -> tuple[list[FindingLine], list[FindingLine]]:
    """Open ones, only those about itself where nothing is known of its pods; and the last that were. One query."""
    lines = finding_lines(cluster, cluster.incidents.opened(), resolved_about(cluster, owner))
    findings = OpenFindings(line for line in lines if line.resolved_at is None)
    past = sorted((line for line in lines if line.resolved_at), key=attrgetter("resolved_at"), reverse=True)
    return concerning(seen, findings) if seen else about(owner, findings), past[:PAST_SHOWN]


def _members(slug: str, sight: Sight, owner: Owner) -> tuple[tuple[str, str], ...]:
    lines = sight.workloads.lines if sight.workloads else ()
    of_it = (line.owner for line in lines if line.gang == owner)
    return tuple(
        (one.name, workload_url(slug, one.kind, one.namespace, one.name))
        for one in islice(of_it, MEMBERS_SHOWN + 1)
    )


def _map_url(slug: str, owner: Owner) -> str:
    """The map with the workload's GPUs marked."""
    named = urlencode({"workload": f"{owner.kind}/{owner.namespace}/{owner.name}"})
    return f"{reverse('cluster_map', args=[slug])}?{named}"


class _Known(NamedTuple):
    """Its row."""

    pk: int
    labels: dict[str, str]
    annotations: dict[str, str]
    first_seen: datetime
    last_seen: datetime
    complete_through: datetime | None
    """Of the ledger."""


def _known(cluster: Cluster, owner: Owner) -> _Known | None:
    through = LedgerState.objects.filter(cluster=OuterRef("cluster")).values("complete_through")[:1]
    found = (
        Workload.objects.filter(
            cluster=cluster,
            kind=storable_text(owner.kind, 80),
            namespace=storable_text(owner.namespace, 253),
            name=storable_text(owner.name, 253),
        )
        .annotate(complete_through=Subquery(through))
        .values_list(*_Known._fields)
        .first()
    )
    return None if found is None else _Known(*found)


def _team(cluster: Cluster, owner: Owner, row: _Known | None) -> str:
    words = (row.labels or {}, row.annotations or {}) if row else ({}, {})
    return team_of(Mapped(owner.namespace, *words), team_rules(cluster))


def _present(slug: str, seen: Seen, asked_page: str | None) -> Present:
    line = seen.line
    pods = sorted(line.pods, key=_pod_order)
    shown = Paginator(pods, PODS_PER_PAGE).get_page(asked_page)
    return Present(
        phase=seen.phase.value,
        counts=seen.pods,
        wanted=line.wanted,
        min_available=line.min_available,
        gang_scheduler=line.gang_scheduler,
        system=line.system,
        collective=line.collective,
        gang=line.gang,
        queue=line.queue,
        priority=line.priority,
        held=len(seen.cells),
        bar=bar(seen.states),
        utilization=seen.utilization,
        activity=seen.activity,
        demands=line.demands,
        demands_left=seen.pods.unfinished - sum(demand.pods for demand in line.demands)
        if line.demands
        else 0,
        nodes=tuple(_on_node(slug, held) for held in seen.held[:NODES_SHOWN]),
        more_nodes=max(0, len(seen.held) - NODES_SHOWN),
        pods=tuple(
            PodRow(
                pod=pod,
                node_url=node_url(slug, pod.node or ""),
                asks=tuple((number(amount), resource) for resource, amount in sorted(pod.gpus.items())),
            )
            for pod in shown
        ),
        pages=pages_of(shown),
    )


def _slots(seen: Seen) -> dict[str, str]:
    """Slot -> what it is called, with its node where there are several."""
    is_one = len(seen.held) == 1
    return {
        f"{node.name}/{cell.place}": cell.name if is_one else f"{node.name} {cell.name}"
        for node, cells in seen.held
        for cell in cells
    }


def _pod_order(pod: PodLine) -> tuple[bool, bool, bool, str]:
    """What is wrong comes first, what is finished last."""
    return pod.is_finished, not pod.trouble, pod.is_ready, pod.name


def _on_node(slug: str, held: Held) -> NodeGpus:
    node, cells = held
    return NodeGpus(
        name=node.name,
        url=node_url(slug, node.name),
        rack=node.rack,
        troubles=node.troubles,
        gpus=tuple(GpuLink(cell, gpu_url(slug, f"{node.name}/{cell.place}")) for cell in cells),
    )
