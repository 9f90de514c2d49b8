"""Nodes with GPUs: what is fitted, allocatable and held, and the state of each GPU; and one node with its devices."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.core.paginator import Paginator
from django.http import Http404, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from diagnostics.models import Cluster
from diagnostics.picture import GpuCell, NodeLine
from diagnostics.picture.drawing import cell_name, in_order
from diagnostics.snapshot import Condition, Gpu, Metrics, Node, State, Taint
from diagnostics.views.latest import devices_of, node_of
from diagnostics.views.page import HtmxRequest, Page, frame_of, node_url, render_page
from diagnostics.views.pages_of import Pages, pages_of

NODES_PER_PAGE = 100
BAD_STATES = {State.UNAVAILABLE, State.STUCK, State.HUNG, State.BLOCKED}

LABELS_THAT_MATTER = (
    "nvidia.com/gpu.product",
    "nvidia.com/gpu.count",
    "nvidia.com/gpu.memory",
    "nvidia.com/gpu.replicas",
    "nvidia.com/gpu.sharing-strategy",
    "nvidia.com/gpu.clique",
    "nvidia.com/mig.strategy",
    "nvidia.com/mig.config",
    "nvidia.com/mig.config.state",
    "nvidia.com/cuda.driver-version.full",
    "nvidia.com/cuda.runtime-version.full",
    "nvidia.com/gpu-driver-upgrade-state",
    "nvidia.com/gpu.present",
    "nvidia.com/gpu.deploy.operands",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone",
)


@dataclass(frozen=True, kw_only=True)
class NodeFinding:
    url: str
    severity: str
    rank: int
    title: str


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
    cells: tuple[GpuCell, ...]
    troubles: tuple[str, ...]
    """What its conditions and taints say against it, in words."""
    readiness: bool | None
    findings: tuple[NodeFinding, ...]


@dataclass(frozen=True, kw_only=True)
class NodeListPage(Page):
    q: str
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


@require_safe
def node_list(request: HtmxRequest, slug: str) -> HttpResponse:
    cluster, frame, now = frame_of(slug, "nodes")
    devices, why_not = devices_of(cluster)
    q = request.GET.get("q", "").replace("\x00", "").strip()[:200]
    rows: list[NodeRow] = []
    if devices is not None:
        found = _findings_by_node(cluster)
        rows = [_row(slug, node, found.get(node.name, ())) for node in devices.nodes]
    matching = sorted((row for row in rows if _is_wanted(row, q)), key=_order)
    shown = Paginator(matching, NODES_PER_PAGE).get_page(request.GET.get("page"))
    counted = Counter(cell.state for row in matching for cell in row.cells)
    page = NodeListPage(
        frame=frame,
        now=now,
        q=q,
        rows=None if devices is None else tuple(shown),
        pages=None if devices is None else pages_of(shown),
        why_not=why_not,
        total=len(rows),
        gpus=counted.total(),
        states=tuple((state, counted[state]) for state in (*State, None) if counted[state]),
        legend=tuple(State),
        address=request.get_full_path(),
    )
    return render_page(request, "pages/node_list.html", page, partial="live")


def _findings_by_node(cluster: Cluster) -> dict[str, tuple[NodeFinding, ...]]:
    """Node -> open findings that touch it, worst first. One query."""
    found: dict[str, list[NodeFinding]] = defaultdict(list)
    rows = cluster.incidents.opened().values_list(
        "fingerprint", "severity", "severity_rank", "title", "subject_kind", "subject_name", "finding__nodes"
    )
    for fingerprint, severity, rank, title, kind, name, nodes in rows:
        finding = NodeFinding(
            url=reverse("finding_detail", args=[cluster.slug, fingerprint]),
            severity=severity,
            rank=rank,
            title=title,
        )
        for node in {*(nodes or ()), *([name] if kind == "Node" else ())}:
            found[node].append(finding)
    return {
        node: tuple(sorted(findings, key=lambda f: (f.rank, f.title))) for node, findings in found.items()
    }


def _row(slug: str, node: NodeLine, findings: tuple[NodeFinding, ...]) -> NodeRow:
    return NodeRow(
        url=node_url(slug, node.name),
        name=node.name,
        rack=node.rack,
        model=node.model,
        driver=node.driver,
        fitted=len(node.gpus),
        allocatable=node.allocatable,
        held=sum(bool(gpu.holders) for gpu in node.gpus),
        cells=node.gpus,
        troubles=node.troubles,
        readiness=node.readiness,
        findings=findings,
    )


def _is_wanted(row: NodeRow, q: str) -> bool:
    if not q:
        return True
    text = " ".join(
        (
            row.name,
            row.rack or "",
            row.model or "",
            *row.troubles,
            *(holder for cell in row.cells for holder in cell.holders),
        )
    ).lower()
    return all(word in text for word in q.lower().split())


def _order(row: NodeRow) -> tuple[int, int, int, str]:
    """Worst first: by the worst finding, then what the node says against itself, then bad states, then the name."""
    worst = min((finding.rank for finding in row.findings), default=9)
    return (
        worst,
        0 if row.readiness is not True or row.troubles else 1,
        -sum(cell.state in BAD_STATES for cell in row.cells),
        row.name,
    )


@dataclass(frozen=True, kw_only=True)
class Device:
    name: str
    slot: str
    uuid: str | None
    model: str | None
    resource: str
    replicas: int
    state: State | None
    is_unjudged: bool
    is_healthy: bool | None
    holders: tuple[str, ...]
    holder_source: str
    metrics: Metrics | None
    sampled_for: timedelta | None
    """Age of the sample when the snapshot was taken."""


@dataclass(frozen=True, kw_only=True)
class NodeDetailPage(Page):
    name: str
    row: NodeRow | None
    """None: no data."""
    why_not: str
    metrics_why_not: str
    """Why device metrics are missing or old; empty when they are not."""
    devices: tuple[Device, ...]
    conditions: tuple[Condition, ...]
    taints: tuple[Taint, ...]
    labels: tuple[tuple[str, str], ...]
    facts: tuple[tuple[str, str | None], ...]
    created_at: datetime | None
    address: str


@require_safe
def node_detail(request: HtmxRequest, slug: str, name: str) -> HttpResponse:
    cluster, frame, now = frame_of(slug, "nodes")
    snapshot, why_not = node_of(cluster, name)
    devices, _ = devices_of(cluster)
    node = snapshot.node_by_name.get(name) if snapshot else None
    line = next((line for line in devices.nodes if line.name == name), None) if devices else None
    if devices is not None and line is None:
        msg = "The latest snapshot of this cluster holds no such node."
        raise Http404(msg)
    page = NodeDetailPage(
        frame=frame,
        now=now,
        name=name,
        row=_row(slug, line, _findings_by_node(cluster).get(name, ())) if line else None,
        why_not=why_not,
        metrics_why_not=devices.metrics_doubt if devices else "",
        devices=tuple(
            _device(gpu, snapshot.taken_at) for gpu in in_order(snapshot.gpus_by_node.get(name, []))
        )
        if snapshot
        else (),
        conditions=node.conditions if node else (),
        taints=node.taints if node else (),
        labels=_labels(node) if node else (),
        facts=_facts(node) if node else (),
        created_at=node.created_at if node else None,
        address=request.get_full_path(),
    )
    return render_page(request, "pages/node_detail.html", page, partial="live")


def _device(gpu: Gpu, taken_at: datetime) -> Device:
    sampled_at = gpu.metrics.sampled_at if gpu.metrics else None
    return Device(
        name=cell_name(gpu),
        slot=gpu.slot,
        uuid=gpu.uuid,
        model=gpu.model,
        resource=gpu.mig_profile or gpu.resource,
        replicas=gpu.replicas,
        state=gpu.state,
        is_unjudged=gpu.is_unjudged,
        is_healthy=gpu.is_healthy,
        holders=gpu.holders,
        holder_source=gpu.holder_source,
        metrics=gpu.metrics,
        sampled_for=taken_at - sampled_at if sampled_at else None,
    )


def _labels(node: Node) -> tuple[tuple[str, str], ...]:
    return tuple((key, node.labels[key]) for key in LABELS_THAT_MATTER if key in node.labels)


def _facts(node: Node) -> tuple[tuple[str, str | None], ...]:
    return (
        ("Driver", node.driver_version),
        ("Kernel", node.kernel or None),
        ("System", node.os_image or None),
        ("Kubelet", node.kubelet_version or None),
        ("Container runtime", node.container_runtime or None),
        ("Rack", node.rack),
        ("Zone", node.zone),
        ("NVLink domain", node.nvlink_domain),
    )
