"""A finding's subject as it was: what the poll saw at which its incident opened, came back or was resolved."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.http import Http404, HttpResponse
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from diagnostics.archive.excerpts import read
from diagnostics.models import Excerpt, IncidentEvent
from diagnostics.picture.drawing import cell_name, in_order
from diagnostics.snapshot import Event, Gpu, LogSignal, Node, Pod, Snapshot, gpu_resources
from diagnostics.views.finding_page import is_key
from diagnostics.views.finding_timeline import MOMENTS
from diagnostics.views.page import HtmxRequest, Page, frame_of, node_url, render_page

MOST_SHOWN = 100
"""Of each kind."""


@dataclass(frozen=True, kw_only=True)
class SeenNode:
    name: str
    url: str
    ready: str
    """yes or no; empty where nothing says."""
    gpus: tuple[tuple[str, float], ...]
    """(resource, amount) that pods could be given."""
    driver: str | None
    troubles: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class SeenPod:
    pod: Pod
    troubles: tuple[str, ...]
    """What its containers wait for or ended with."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """Objects of each kind, and where there were more."""

    nodes: tuple[SeenNode, ...]
    gpus: tuple[tuple[str, Gpu], ...]
    """(name on its node, GPU), by node and in the order of nvidia-smi"""
    pods: tuple[SeenPod, ...]
    events: tuple[Event, ...]
    """The newest first."""
    signals: tuple[LogSignal, ...]
    more: tuple[tuple[str, int], ...]
    """(what, number in all) where not all are shown."""


@dataclass(frozen=True, kw_only=True)
class FindingExcerptPage(Page):
    title: str
    finding_url: str
    moment: str
    """opened, reopened or resolved."""
    at: datetime
    is_cut: bool
    """Something was left out when it was stored."""
    seen: Seen | None
    """None where it cannot be read."""


@require_safe
def finding_excerpt(request: HtmxRequest, slug: str, finding_id: str) -> HttpResponse:
    """`?event=` is the primary key of the event at which it was kept."""
    cluster, frame, now = frame_of(slug, "incidents")
    key = request.GET.get("event", "")
    event = (
        IncidentEvent.objects.filter(
            pk=int(key) if is_key(key) else 0,
            kind__in=MOMENTS,
            incident__cluster=cluster,
            incident__fingerprint=finding_id,
        )
        .select_related("incident")
        .defer("incident__finding", "incident__summary")
        .first()
    )
    excerpt = None if event is None else Excerpt.objects.filter(incident=event.incident, at=event.at).first()
    if event is None or excerpt is None:
        msg = "What was seen at that moment is not kept, or not any more."
        raise Http404(msg)
    url = reverse("finding_detail", args=[slug, finding_id])
    snapshot = read(excerpt)
    page = FindingExcerptPage(
        frame=frame,
        now=now,
        # Kept since some version only.
        title=str(event.data.get("title") or event.incident.title),
        finding_url=f"{url}?{urlencode({'incident': event.incident.pk})}",
        moment=excerpt.moment,
        at=excerpt.at,
        is_cut=excerpt.is_cut,
        seen=_seen(slug, snapshot) if snapshot else None,
    )
    return render_page(request, "pages/finding_excerpt.html", page)


def _by_node(gpus: Iterable[Gpu]) -> list[Gpu]:
    return sorted(in_order(gpus), key=lambda gpu: gpu.node)


def _seen(slug: str, snapshot: Snapshot) -> Seen:
    kinds = (
        ("nodes", snapshot.nodes),
        ("GPUs", snapshot.gpus),
        ("pods", snapshot.pods),
        ("events", snapshot.events),
        ("log lines", snapshot.signals),
    )
    return Seen(
        nodes=tuple(_node(slug, node) for node in snapshot.nodes[:MOST_SHOWN]),
        gpus=tuple((cell_name(gpu), gpu) for gpu in _by_node(snapshot.gpus)[:MOST_SHOWN]),
        pods=tuple(SeenPod(pod=pod, troubles=_troubles(pod)) for pod in snapshot.pods[:MOST_SHOWN]),
        events=snapshot.events[:MOST_SHOWN],
        signals=snapshot.signals[:MOST_SHOWN],
        more=tuple((what, len(all_)) for what, all_ in kinds if len(all_) > MOST_SHOWN),
    )


def _node(slug: str, node: Node) -> SeenNode:
    ready = {None: "", True: "yes", False: "no"}[node.is_ready]
    troubles = ["cordoned"] if node.unschedulable else []
    troubles += [f"taint {taint.key}:{taint.effect}" for taint in node.taints]
    troubles += [
        f"{one.type} is {one.status}: {one.reason}"
        for one in node.conditions
        if (one.status == "True") != (one.type == "Ready")
    ]
    return SeenNode(
        name=node.name,
        url=node_url(slug, node.name),
        ready=ready,
        gpus=tuple(sorted(gpu_resources(node.allocatable).items())),
        driver=node.driver_version,
        troubles=tuple(troubles),
    )


def _troubles(pod: Pod) -> tuple[str, ...]:
    found = [pod.reason] if pod.reason else []
    scheduled = pod.condition("PodScheduled")
    if scheduled is not None and scheduled.status == "False" and scheduled.reason:
        found.append(scheduled.reason)
    for container in pod.containers:
        if container.waiting_reason:
            found.append(f"{container.name}: {container.waiting_reason}")
        if container.restarts:
            found.append(f"{container.name}: {container.restarts} restarts")
    return tuple(found)
