"""The page of the map."""

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from django.http import HttpResponse
from django.utils import timezone
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe

from diagnostics.models import Cluster
from diagnostics.picture import Devices, Owner, Workloads
from diagnostics.snapshot import State
from diagnostics.views.latest import devices_of, workloads_of
from diagnostics.views.maps.asked import COLOURS, GROUPS, Asked, asked_of
from diagnostics.views.maps.by_measure import MEASURES, Measure
from diagnostics.views.maps.groups import LABELS, chosen, groups_of
from diagnostics.views.maps.markup import Drawing
from diagnostics.views.maps.matching import matcher_of
from diagnostics.views.maps.moments import Choice, choices, seen_at
from diagnostics.views.maps.names import short_names
from diagnostics.views.maps.paint import LegendLine
from diagnostics.views.maps.painters import painter_of
from diagnostics.views.maps.selection import Selection, selection_of
from diagnostics.views.maps.touching import Touched, findings_at, touched_by
from diagnostics.views.page import HtmxRequest, Page, frame_of, render_page

OPTIONS_SHOWN = 300
"""In one list to choose from."""
LARGE = 1_500
"""GPUs from which they are drawn small."""
WIDEST = 8
"""GPUs of a node side by side."""


@dataclass(frozen=True, kw_only=True)
class MapGroup:
    """One rack, domain or zone as it is drawn."""

    name: str | None
    """None: of nodes whose label is missing."""
    noun: str
    """What the name is of, where it does not say so itself."""
    nodes: int
    gpus: int
    matching: int
    html: SafeString


@dataclass(frozen=True, kw_only=True)
class ClusterMapPage(Page):
    asked: Asked
    colours: tuple[str, ...]
    groupings: tuple[tuple[str, str], ...]
    """(word of an address, label)."""
    group: str
    namespaces: tuple[str, ...]
    models: tuple[str, ...]
    states: tuple[State, ...]
    groups: tuple[MapGroup, ...] | None
    """None: no data."""
    grouped_by: str
    """Noun of the groups; empty where there are none."""
    why_not: str
    metrics_why_not: str
    """Why measured values are missing or old, where the colour shows them; empty otherwise."""
    legend: tuple[LegendLine, ...]
    measure: Measure | None
    """That the colour shows; None where it shows none."""
    matching: int
    gpus: int
    matching_nodes: int
    nodes: int
    selection: Selection | None
    is_large: bool
    width: int
    """GPUs side by side."""
    seen_at: datetime | None
    """When what is shown was seen; None: no data."""
    at_local: str
    """That moment in the site's zone, as a field for it takes it."""
    zone: str
    choices: tuple[Choice, ...]
    clear_url: str
    """Without filters."""
    address: str


@require_safe
def cluster_map(request: HtmxRequest, slug: str) -> HttpResponse:
    cluster, frame, now = frame_of(slug, "map")
    asked = asked_of(request.GET)
    devices, workloads, why_not = _seen(cluster, asked)
    known = devices or Devices(now, (), (), "", "")
    owner = asked.owner
    findings = findings_at(cluster, asked.at) if asked.by == "finding" or owner else []
    touched = touched_by(findings, known) if asked.by == "finding" else Touched()
    painter = painter_of(asked, known, touched, request.path)
    names = short_names(node.name for node in known.nodes)
    drawing = Drawing(slug, known, painter, matcher_of(asked, known), names)
    by = chosen(asked.group, known)
    groups = [(group, drawing.draw(group.nodes)) for group in groups_of(by, known)]
    counts: Counter[Hashable] = Counter()
    for _, drawn in groups:
        counts.update(drawn.counts)
    noun = LABELS[by][0] if by in LABELS else ""
    gpus = sum(drawn.gpus for _, drawn in groups)
    shown_at = asked.at or (devices.taken_at if devices else None)
    page = ClusterMapPage(
        # The age of the latest poll says nothing of another moment.
        frame=frame if asked.at is None else replace(frame, freshness=None),
        now=now,
        asked=asked,
        colours=COLOURS,
        groupings=tuple((word, _grouping(word)) for word in GROUPS),
        group=by,
        namespaces=_options((o.namespace for o in known.owners), asked.namespace),
        models=_options((node.model for node in known.nodes), asked.model),
        states=tuple(State),
        groups=None
        if devices is None
        else tuple(
            MapGroup(
                name=group.name,
                noun="" if group.name and noun.lower() in group.name.lower() else noun,
                nodes=len(group.nodes),
                gpus=drawn.gpus,
                matching=drawn.matching,
                html=drawn.html,
            )
            for group, drawn in groups
        ),
        grouped_by=noun,
        why_not=why_not,
        metrics_why_not=known.metrics_doubt if asked.by in MEASURES else "",
        legend=painter.legend(counts) if gpus else (),
        measure=MEASURES.get(asked.by),
        matching=sum(drawn.matching for _, drawn in groups),
        gpus=gpus,
        matching_nodes=sum(drawn.matching_nodes for _, drawn in groups),
        nodes=len(known.nodes),
        selection=selection_of(slug, owner, known, findings, _collective(owner, workloads))
        if owner and devices
        else None,
        is_large=gpus > LARGE,
        width=min(WIDEST, max((len(node.gpus) for node in known.nodes), default=1)),
        seen_at=devices.taken_at if devices else None,
        at_local=f"{timezone.localtime(shown_at):%Y-%m-%dT%H:%M}" if shown_at else "",
        zone=timezone.get_current_timezone_name(),
        choices=choices(asked, request.path, now if asked.at or devices is None else devices.taken_at),
        clear_url=asked.address(request.path, namespace="", workload="", model="", state="", q=""),
        address=request.get_full_path(),
    )
    return render_page(request, "pages/cluster_map.html", page, partial="live")


def _seen(cluster: Cluster, asked: Asked) -> tuple[Devices | None, Workloads | None, str]:
    """Of the moment that is asked for; workloads only where a job is selected."""
    if asked.at is not None:
        return seen_at(cluster, asked.at)
    devices, why_not = devices_of(cluster)
    return devices, workloads_of(cluster)[0] if asked.owner else None, why_not


def _grouping(word: str) -> str:
    noun = LABELS[word][0] if word in LABELS else ""
    return f"{noun[0].upper()}{noun[1:]}s" if noun else "Nothing"


def _collective(owner: Owner, workloads: Workloads | None) -> str | None:
    lines = workloads.lines if workloads else ()
    return next((line.collective for line in lines if line.owner == owner), None)


def _options(names: Iterable[str | None], chosen: str) -> tuple[str, ...]:
    """The most frequent, by name; and the one that is chosen, whether it is there or not."""
    counted = Counter(name for name in names if name)
    found = {name for name, _ in counted.most_common(OPTIONS_SHOWN)} | ({chosen} if chosen else set())
    return tuple(sorted(found))
