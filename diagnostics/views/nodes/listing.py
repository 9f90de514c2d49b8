"""The list of nodes with GPUs: what is fitted, offered and held, the state of each GPU, and what is wrong."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote

from django.core.paginator import Paginator
from django.http import HttpResponse, QueryDict
from django.views.decorators.http import require_safe

from diagnostics.picture import GpuCell, NodeLine
from diagnostics.snapshot import State
from diagnostics.views import asked
from diagnostics.views.latest import devices_of
from diagnostics.views.open_findings import FindingLine, open_findings
from diagnostics.views.page import HtmxRequest, Page, frame_of, gpu_url, node_url, render_page
from diagnostics.views.pages_of import Pages, pages_of

NODES_PER_PAGE = 100
BAD_STATES = {State.UNAVAILABLE, State.STUCK, State.HUNG, State.BLOCKED}
UNKNOWN = "unknown"
"""Stands in a filter for nodes that do not say."""


class Line(NamedTuple):
    """A node of the picture, and what touches it."""

    node: NodeLine
    findings: tuple[FindingLine, ...]

    @property
    def held(self) -> int:
        return sum(bool(gpu.holders) for gpu in self.node.gpus)

    @property
    def is_sound(self) -> bool:
        return self.node.readiness is True and not self.node.troubles


@dataclass(frozen=True, kw_only=True)
class GpuLink:
    """One GPU of a row."""

    cell: GpuCell
    url: str


@dataclass(frozen=True, kw_only=True)
class NodeRow:
    url: str
    name: str
    rack: str | None
    model: str | None
    driver: str | None
    fitted: int
    allocatable: int | None
    """None where the node says nothing of GPUs."""
    held: int
    gpus: tuple[GpuLink, ...]
    troubles: tuple[str, ...]
    """What its conditions and taints say against it, in words."""
    readiness: bool | None
    findings: tuple[FindingLine, ...]


@dataclass(frozen=True, kw_only=True)
class Filters(asked.Filters):
    rack: str = ""
    model: str = ""
    driver: str = ""
    state: str = ""
    """Of at least one of its GPUs."""
    findings: str = ""
    sort: str = ""

    def want(self, line: Line) -> bool:
        """The node is to be listed."""
        node = line.node
        named = ((self.rack, node.rack), (self.model, node.model), (self.driver, node.driver))
        return (
            all(not wanted or wanted == (value or UNKNOWN) for wanted, value in named)
            and (not self.state or any(gpu.state == self.state for gpu in node.gpus))
            and (not self.findings or bool(line.findings))
            and (not self.words or self._is_named(node))
        )

    def _is_named(self, node: NodeLine) -> bool:
        parts = [node.name, node.rack or "", node.model or "", node.driver or "", *node.troubles]
        return self.mention(*parts, *(holder for gpu in node.gpus for holder in gpu.holders))


@dataclass(frozen=True, kw_only=True)
class NodeListPage(Page):
    filters: Filters
    racks: tuple[str, ...]
    models: tuple[str, ...]
    drivers: tuple[str, ...]
    sorts: tuple[tuple[str, str], ...]
    rows: tuple[NodeRow, ...] | None
    """None: no data."""
    pages: Pages | None
    why_not: str
    """Why there is no data, or why it is not the whole truth; empty when it is."""
    total: int
    gpus: int
    states: tuple[tuple[State | None, int], ...]
    """(state, GPUs), over the nodes that the filter leaves."""
    legend: tuple[State, ...]
    address: str


def _worst(line: Line) -> tuple[Any, ...]:
    """By the worst finding, then what the node says against itself, then bad states."""
    worst = line.findings[0].rank if line.findings else 9
    return (worst, line.is_sound, -sum(gpu.state in BAD_STATES for gpu in line.node.gpus))


SORTS: dict[str, tuple[str, Callable[[Line], tuple[Any, ...]]]] = {
    "": ("Worst first", _worst),
    "name": ("Name", lambda _: ()),
    "rack": ("Rack", lambda line: (line.node.rack is None, line.node.rack or "")),
    "model": ("Model", lambda line: (line.node.model is None, line.node.model or "")),
    "driver": ("Driver", lambda line: (line.node.driver is None, line.node.driver or "")),
    "held": ("Most GPUs held", lambda line: (-line.held,)),
    "free": (
        "Most GPUs free",
        lambda line: (-sum(gpu.state is State.FREE for gpu in line.node.gpus),),
    ),
}


@require_safe
def node_list(request: HtmxRequest, slug: str) -> HttpResponse:
    cluster, frame, now = frame_of(slug, "nodes")
    devices, why_not = devices_of(cluster)
    filters = _filters(request.GET)
    lines: list[Line] = []
    if devices is not None:
        found = open_findings(cluster).by_node
        lines = [Line(node, tuple(found.get(node.name, ()))) for node in devices.nodes]
    key = SORTS[filters.sort][1]
    matching = sorted(filter(filters.want, lines), key=lambda line: (*key(line), line.node.name))
    shown = Paginator(matching, NODES_PER_PAGE).get_page(request.GET.get("page"))
    counted = Counter(gpu.state for line in matching for gpu in line.node.gpus)
    page = NodeListPage(
        frame=frame,
        now=now,
        filters=filters,
        racks=_choices(line.node.rack for line in lines),
        models=_choices(line.node.model for line in lines),
        drivers=_choices(line.node.driver for line in lines),
        sorts=tuple((name, words) for name, (words, _) in SORTS.items()),
        rows=None if devices is None else tuple(_row(slug, line) for line in shown),
        pages=None if devices is None else pages_of(shown),
        why_not=why_not,
        total=len(lines),
        gpus=counted.total(),
        states=tuple((state, counted[state]) for state in (*State, None) if counted[state]),
        legend=tuple(State),
        address=request.get_full_path(),
    )
    return render_page(request, "pages/node_list.html", page, partial="live")


def _filters(query: QueryDict) -> Filters:
    return Filters(
        q=asked.search(query),
        rack=asked.text(query, "rack"),
        model=asked.text(query, "model"),
        driver=asked.text(query, "driver"),
        state=asked.text(query, "state"),
        findings=asked.text(query, "findings"),
        sort=asked.choice(query, "sort", SORTS),
    )


def _choices(values: Iterable[str | None]) -> tuple[str, ...]:
    """What a filter offers, what nothing is known of last."""
    found = set(values)
    return (*sorted(value for value in found if value), *([UNKNOWN] if None in found or "" in found else []))


def _row(slug: str, line: Line) -> NodeRow:
    node = line.node
    # What the addresses of its GPUs begin with: to reverse each of them takes as long as all else.
    of_node = gpu_url(slug, f"{node.name}/-").removesuffix("-/")
    return NodeRow(
        url=node_url(slug, node.name),
        name=node.name,
        rack=node.rack,
        model=node.model,
        driver=node.driver,
        fitted=len(node.gpus),
        allocatable=node.allocatable,
        held=line.held,
        gpus=tuple(GpuLink(cell=gpu, url=f"{of_node}{quote(gpu.place, safe=':')}/") for gpu in node.gpus),
        troubles=node.troubles,
        readiness=node.readiness,
        findings=line.findings,
    )
