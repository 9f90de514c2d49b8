"""What happened to a workload: who of it held which devices when, and what Kubernetes said about it lately."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from diagnostics.archive import event_hours
from diagnostics.models import Allocation, Cluster
from diagnostics.picture import Devices, Owner
from diagnostics.snapshot import Event
from diagnostics.views.device_history import EVENTS_OVER, SLOTS_SHOWN, Hold, held_slots
from diagnostics.views.page import node_url

HOLDS_SHOWN = 40
EVENTS_SHOWN = 40


@dataclass(frozen=True, kw_only=True)
class WorkloadHold(Hold):
    """As the page of its workload tells it."""

    node: str
    node_url: str


@dataclass(frozen=True, kw_only=True)
class EventLine:
    """One event about the workload, its pods, or what stands between them."""

    type: str
    reason: str
    kind: str
    name: str
    message: str
    count: int
    first_at: datetime | None
    last_at: datetime | None


class Holds(NamedTuple):
    """The newest, and whether there are more."""

    lines: tuple[WorkloadHold, ...]
    are_more: bool


def holds_of(cluster: Cluster, workload: int, devices: Devices | None) -> Holds:
    """Newest first. One query."""
    nodes = {node.name: node.gpus for node in devices.nodes} if devices else {}
    rows = (
        Allocation.objects.filter(workload=workload)
        .order_by("-started_at", "-pk")
        .values_list("pod", "node__name", "slots", "started_at", "ended_at", "is_backfilled")[
            : HOLDS_SHOWN + 1
        ]
    )
    found = [
        WorkloadHold(
            pod=pod,
            node=node,
            node_url=node_url(cluster.slug, node),
            slots=held_slots(cluster.slug, node, slots, nodes.get(node, ())),
            more=max(0, len(slots) - SLOTS_SHOWN),
            started_at=started_at,
            ended_at=ended_at,
            is_backfilled=is_backfilled,
        )
        for pod, node, slots, started_at, ended_at, is_backfilled in rows
    ]
    return Holds(tuple(found[:HOLDS_SHOWN]), len(found) > HOLDS_SHOWN)


def events_of(cluster: Cluster, owner: Owner, pods: set[str], until: datetime) -> tuple[EventLine, ...]:
    """Of the last hours before `until`, newest first: about itself, `pods` by name, and what made these. One query."""
    makers = {name[:end] for name in pods for end in range(len(name)) if name[end] == "-"}

    def is_about(kind: str, namespace: str, name: str) -> bool:
        if namespace != owner.namespace:
            return False
        if name in pods:
            return kind == "Pod"
        # A ReplicaSet or Job between the workload and its pods is called like both; so is a PodGroup.
        return name == owner.name or (name in makers and name.startswith(f"{owner.name}-") and kind != "Pod")

    found = event_hours.events(
        cluster, until - EVENTS_OVER, until + timedelta(seconds=1), namespace=owner.namespace, about=is_about
    )
    return tuple(_event(event) for event in found[: -EVENTS_SHOWN - 1 : -1])


def _event(event: Event) -> EventLine:
    return EventLine(
        type=event.type,
        reason=event.reason,
        kind=event.kind,
        name=event.name,
        message=event.message,
        count=event.count,
        first_at=event.first_at,
        last_at=event.last_at,
    )
