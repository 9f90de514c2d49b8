"""What happened to a workload: who of it held which devices when, and what Kubernetes said about it lately."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from diagnostics.archive import event_hours
from diagnostics.models import Allocation, Cluster
from diagnostics.picture import Devices, GpuCell, Owner
from diagnostics.snapshot import Event
from diagnostics.views.page import gpu_url, node_url

HOLDS_SHOWN = 40
SLOTS_SHOWN = 8
EVENTS_SHOWN = 40
EVENTS_OVER = timedelta(hours=6)
UNNAMED = "#?"
"""Ends a slot of which only the number is known."""


class HeldSlot(NamedTuple):
    """One device that was held."""

    name: str
    """`GPU 3` where the last poll saw it, else its place."""
    place: str
    url: str


@dataclass(frozen=True, kw_only=True)
class Hold:
    """One pod's hold on devices of one node."""

    pod: str
    node: str
    node_url: str
    slots: tuple[HeldSlot, ...]
    """The first devices."""
    more: int
    devices: int
    started_at: datetime
    ended_at: datetime | None
    is_backfilled: bool

    @property
    def lasted(self) -> timedelta | None:
        """None while it lasts."""
        return None if self.ended_at is None else self.ended_at - self.started_at


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

    lines: tuple[Hold, ...]
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
        Hold(
            pod=pod,
            node=node,
            node_url=node_url(cluster.slug, node),
            slots=_slots(cluster.slug, node, slots[:SLOTS_SHOWN], nodes.get(node, ())),
            more=max(0, len(slots) - SLOTS_SHOWN),
            devices=len(slots),
            started_at=started_at,
            ended_at=ended_at,
            is_backfilled=is_backfilled,
        )
        for pod, node, slots, started_at, ended_at, is_backfilled in rows
    ]
    return Holds(tuple(found[:HOLDS_SHOWN]), len(found) > HOLDS_SHOWN)


def _slots(slug: str, node: str, places: list[str], gpus: Iterable[GpuCell]) -> tuple[HeldSlot, ...]:
    names = {gpu.place: gpu.name for gpu in gpus}
    return tuple(
        HeldSlot(
            names.get(place, place),
            place,
            "" if place.endswith(UNNAMED) else gpu_url(slug, f"{node}/{place}"),
        )
        for place in places
    )


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
