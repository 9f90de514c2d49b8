"""One node: its devices, what speaks against it, what it did and what happened to it."""

from dataclasses import dataclass
from datetime import datetime

from django.http import Http404, HttpResponse
from django.views.decorators.http import require_safe

from diagnostics.models import Cluster, Device
from diagnostics.models import Node as NodeRecord
from diagnostics.picture import Devices, NodeLine
from diagnostics.picture.drawing import in_order
from diagnostics.snapshot import Condition, Event, Node, Snapshot, Taint
from diagnostics.storable import storable_text
from diagnostics.topology.slots import REST
from diagnostics.views.device_history import (
    EVENTS_OVER,
    HOLDS_SHOWN,
    Change,
    NodeHold,
    allocations_of,
    changes_of,
    events_of,
    holds_of,
)
from diagnostics.views.device_rows import DeviceRow, device_row, holders_by_slot
from diagnostics.views.latest import devices_of, node_of
from diagnostics.views.nodes.pods import NodePods, pods_on
from diagnostics.views.open_findings import FindingLine, open_findings
from diagnostics.views.page import HtmxRequest, Page, frame_of, gpu_url, render_page
from diagnostics.views.plots import Plots, has_plots, part_of, plots_of

DEVICES_SHOWN = 64
"""Of a node that is gone."""

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
class Gone:
    """A node that was there."""

    last_seen: datetime
    first_seen: datetime
    model: str
    driver: str
    rack: str
    gpus: tuple[tuple[str, str, str], ...]
    """(place, address, slot) of the devices that it had."""


@dataclass(frozen=True, kw_only=True)
class NodeDetailPage(Page):
    name: str
    line: NodeLine | None
    """As the latest poll saw it; None: no data, or gone."""
    held: int
    gone: Gone | None
    """What is remembered of a node that the latest poll does not see any more."""
    why_not: str
    metrics_why_not: str
    """Why device metrics are missing or old; empty when they are not."""
    findings: tuple[FindingLine, ...]
    devices: tuple[DeviceRow, ...]
    pods: NodePods | None
    """None where the latest poll did not see the node."""
    conditions: tuple[Condition, ...]
    taints: tuple[Taint, ...]
    labels: tuple[tuple[str, str], ...]
    facts: tuple[tuple[str, str | None], ...]
    created_at: datetime | None
    changes: tuple[Change, ...]
    holds: tuple[NodeHold, ...]
    events: tuple[Event, ...]
    events_hours: int
    plots: Plots | None
    """None where the part that was asked for has none."""
    address: str


@require_safe
def node_detail(request: HtmxRequest, slug: str, name: str) -> HttpResponse:
    cluster, frame, now = frame_of(slug, "nodes")
    devices, why_not = devices_of(cluster)
    line = next((line for line in devices.nodes if line.name == name), None) if devices else None
    stored_name = storable_text(name, 253)
    snapshot: Snapshot | None = None
    if line is not None or devices is None:
        snapshot, why_not = node_of(cluster, name)
    gone = _gone(cluster, stored_name) if devices is not None and line is None else None
    if devices is not None and line is None and gone is None:
        msg = "No poll of this cluster has seen such a node."
        raise Http404(msg)
    node = snapshot.node_by_name.get(name) if snapshot else None
    seen_at = frame.freshness.taken_at if frame.freshness else None
    page = NodeDetailPage(
        frame=frame,
        now=now,
        name=name,
        line=line,
        held=sum(bool(gpu.holders) for gpu in line.gpus) if line else 0,
        gone=gone,
        why_not=why_not,
        metrics_why_not=devices.metrics_doubt if devices else "",
        findings=tuple(open_findings(cluster).by_node.get(name, ())),
        devices=_devices(slug, snapshot, devices, line) if snapshot else (),
        pods=pods_on(snapshot, name) if snapshot else None,
        conditions=node.conditions if node else (),
        taints=node.taints if node else (),
        labels=_labels(node) if node else (),
        facts=_facts(node) if node else (),
        created_at=node.created_at if node else None,
        changes=changes_of(cluster, stored_name),
        holds=holds_of(slug, name, allocations_of(cluster, stored_name, HOLDS_SHOWN)),
        events=events_of(cluster, name, seen_at or now),
        events_hours=round(EVENTS_OVER.total_seconds() / 3600),
        plots=plots_of(cluster, _slots(line, gone), request.GET.get("period", ""), now)
        if has_plots(request)
        else None,
        address=request.get_full_path(),
    )
    return render_page(request, "pages/node_detail.html", page, partial=part_of(request))


def _gone(cluster: Cluster, name: str) -> Gone | None:
    """None for a node that no poll has seen. One query, or two for one that had no devices."""
    devices = list(
        Device.objects.filter(cluster=cluster, node__name=name)
        .exclude(slot__endswith=REST)
        .select_related("node")
        .order_by("-last_seen", "slot")[:DEVICES_SHOWN]
    )
    node = devices[0].node if devices else NodeRecord.objects.filter(cluster=cluster, name=name).first()
    if node is None:
        return None
    return Gone(
        last_seen=node.last_seen,
        first_seen=node.first_seen,
        model=node.model,
        driver=node.driver,
        rack=node.rack,
        gpus=tuple(
            (device.slot.removeprefix(f"{name}/"), gpu_url(cluster.slug, device.slot), device.slot)
            for device in sorted(devices, key=lambda device: device.slot)
        ),
    )


def _devices(
    slug: str, snapshot: Snapshot, devices: Devices | None, line: NodeLine | None
) -> tuple[DeviceRow, ...]:
    if devices is None or line is None:
        return ()
    holders = holders_by_slot(slug, devices, line)
    gpus = in_order(snapshot.gpus_by_node.get(line.name, []))
    return tuple(device_row(slug, gpu, holders.get(gpu.slot, ())) for gpu in gpus)


def _slots(line: NodeLine | None, gone: Gone | None) -> dict[str, str]:
    """Slot -> how the page calls it."""
    if line is not None:
        return {f"{line.name}/{cell.place}": cell.name for cell in line.gpus}
    return {slot: place for place, _, slot in gone.gpus} if gone is not None else {}


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
