"""One GPU, MIG instance or unnamed place: its state and since when, what it measured, who held it, what happened."""

from dataclasses import dataclass
from datetime import datetime

from django.http import Http404, HttpResponse
from django.views.decorators.http import require_safe

from diagnostics.models import Cluster, Device, LedgerState
from diagnostics.snapshot import Gpu, Snapshot, State, XidSeen
from diagnostics.storable import storable_text
from diagnostics.templatetags.gpuhealth import STATES
from diagnostics.views.device_history import Change, NodeHold, allocations_of, changes_of, holds_of
from diagnostics.views.device_rows import DeviceRow, device_row, holders_of
from diagnostics.views.latest import NOTHING_YET, node_of
from diagnostics.views.open_findings import FindingLine, open_findings
from diagnostics.views.page import HtmxRequest, Page, frame_of, node_url, render_page
from diagnostics.views.plots import Plots, has_plots, part_of, plots_of
from diagnostics.views.state_course import Course, course_of
from diagnostics.xid import CATALOGUE, XIDS

WORKING = {State.EFFECTIVE, State.INEFFECTIVE}
"""One stay in the ledger."""


@dataclass(frozen=True, kw_only=True)
class Remembered:
    """What the records say of the device, whether or not it is there."""

    uuid: str
    model: str
    resource: str
    mig_profile: str
    parts: int
    whole: int
    """It is `parts` of `whole` compute slices of its board."""
    first_seen: datetime
    last_seen: datetime
    lost_at: datetime | None
    """Since then it cannot be given to pods."""
    removed_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class XidLine:
    seen: XidSeen
    meaning: str
    action: str
    severity: str


@dataclass(frozen=True, kw_only=True)
class GpuDetailPage(Page):
    slot: str
    name: str
    node: str
    place: str
    node_url: str
    device: DeviceRow | None
    """As the latest poll saw it; None: no data, or gone."""
    remembered: Remembered | None
    is_gone: bool
    """The latest poll does not see it any more."""
    since: datetime | None
    """Beginning of its present state; None where that is not known."""
    course: Course
    why_not: str
    xids: tuple[XidLine, ...]
    standing_xid: XidLine | None
    """What the gauge says, where nothing dates it."""
    catalogue: str
    findings: tuple[FindingLine, ...]
    """Of the device itself."""
    node_findings: tuple[FindingLine, ...]
    """Others that touch its node."""
    changes: tuple[Change, ...]
    holds: tuple[NodeHold, ...]
    legend: tuple[State, ...]
    plots: Plots | None
    """None where the part that was asked for has none."""
    address: str


@require_safe
def gpu_detail(request: HtmxRequest, slug: str, slot: str) -> HttpResponse:
    cluster, frame, now = frame_of(slug, "nodes")
    node, _, place = slot.partition("/")
    snapshot, why_not = node_of(cluster, node)
    if why_not == NOTHING_YET and frame.freshness and frame.freshness.taken_at:
        why_not = ""  # there was a poll: it saw no node that is kept where this one would be
    gpu = _seen(snapshot, node, slot)
    record, ledger = _record(cluster, storable_text(slot, 600))
    if gpu is None and record is None and not why_not:
        msg = "No poll of this cluster has seen such a GPU."
        raise Http404(msg)
    allocations = allocations_of(cluster, storable_text(node, 253))
    names = {row.workload_id: str(row.workload) for row in allocations}
    course = course_of(record, ledger, now, names)
    found = open_findings(cluster).by_node.get(node, ())
    device = device_row(slug, gpu, holders_of(slug, gpu, allocations)) if gpu is not None else None
    page = GpuDetailPage(
        frame=frame,
        now=now,
        slot=slot,
        name=device.name if device else place,
        node=node,
        place=place,
        node_url=node_url(slug, node),
        device=device,
        remembered=_remembered(record) if record else None,
        is_gone=gpu is None and record is not None and not why_not,
        since=_since(gpu, course),
        course=course,
        why_not=why_not,
        xids=_xids(gpu),
        standing_xid=_standing(gpu),
        catalogue=CATALOGUE,
        findings=tuple(finding for finding in found if finding.name == slot),
        node_findings=tuple(finding for finding in found if finding.name != slot),
        changes=changes_of(cluster, storable_text(node, 253), storable_text(slot, 600)),
        holds=holds_of(slug, node, allocations, place),
        legend=tuple(STATES),
        plots=plots_of(cluster, {slot: device.name if device else place}, request.GET.get("period", ""), now)
        if has_plots(request)
        else None,
        address=request.get_full_path(),
    )
    return render_page(request, "pages/gpu_detail.html", page, partial=part_of(request))


def _seen(snapshot: Snapshot | None, node: str, slot: str) -> Gpu | None:
    gpus = snapshot.gpus_by_node.get(node, []) if snapshot is not None else []
    return next((gpu for gpu in gpus if gpu.slot == slot), None)


def _record(cluster: Cluster, slot: str) -> tuple[Device | None, LedgerState | None]:
    """The device's row, and the ledger of its cluster. One query."""
    row = Device.objects.filter(cluster=cluster, slot=slot).select_related("cluster__ledger").first()
    return row, getattr(row.cluster, "ledger", None) if row is not None else None


def _remembered(record: Device) -> Remembered:
    return Remembered(
        uuid=record.uuid,
        model=record.model,
        resource=record.resource,
        mig_profile=record.mig_profile,
        parts=record.parts,
        whole=record.whole,
        first_seen=record.first_seen,
        last_seen=record.last_seen,
        lost_at=record.lost_at,
        removed_at=record.removed_at,
    )


def _since(gpu: Gpu | None, course: Course) -> datetime | None:
    """The ledger's open stay, if it is in the state that the latest poll saw."""
    if gpu is None or gpu.state is None or course.open_state is None:
        return None
    same = gpu.state is course.open_state or {gpu.state, course.open_state} <= WORKING
    return course.open_since if same else None


def _xids(gpu: Gpu | None) -> tuple[XidLine, ...]:
    """Dated ones of the window, newest first."""
    if gpu is None or gpu.window is None:
        return ()
    dated = [seen for seen in gpu.window.xids if seen.last_at is not None]
    dated.sort(key=lambda seen: seen.last_at.timestamp() if seen.last_at else 0.0, reverse=True)
    return tuple(map(_xid_line, dated))


def _standing(gpu: Gpu | None) -> XidLine | None:
    """None for 0, which says that there was none, for an unknown value, and for one that is dated."""
    code = gpu.metrics.xid if gpu is not None and gpu.metrics is not None else None
    if not code or any(line.seen.code == code for line in _xids(gpu)):
        return None
    window = gpu.window.xids if gpu is not None and gpu.window is not None else ()
    return _xid_line(next((seen for seen in window if seen.code == code), XidSeen(code=code)))


def _xid_line(seen: XidSeen) -> XidLine:
    known = XIDS.get(seen.code)
    return XidLine(
        seen=seen,
        meaning=known.meaning if known else "",
        action=str(known.action) if known else "",
        severity=str(known.severity) if known else "",
    )
