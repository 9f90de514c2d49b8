"""What happened to a node and its devices: changes, who held them, and what Kubernetes said. Each list is bounded."""

import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models import Max, Q

from diagnostics.archive import event_hours
from diagnostics.models import Allocation, ChangeKind, Cluster, TopologyChange
from diagnostics.picture import GpuCell
from diagnostics.snapshot import Event
from diagnostics.views.page import gpu_url, workload_url

CHANGES_SHOWN = 30
CHANGES_READ = 200
ALLOCATIONS_READ = 200
"""Of a node, to find those of one of its devices among them."""
HOLDS_SHOWN = 20
EVENTS_SHOWN = 30
EVENTS_OVER = timedelta(hours=6)
SLOTS_SHOWN = 8
UNNAMED = "#?"
"""Ends a slot of an allocation of which only the number of devices is known."""


@dataclass(frozen=True, kw_only=True)
class Change:
    at: datetime
    kind: str
    subject: str
    """Empty where it is the node itself."""
    url: str
    before: str
    after: str
    times: int = 1
    """How often, one right after the other: a crash loop is one line."""


class HeldSlot(NamedTuple):
    """One device that was held."""

    name: str
    """`GPU 3` where the page knows it, else its place."""
    place: str
    url: str


@dataclass(frozen=True, kw_only=True)
class Hold:
    """One pod's hold on devices of one node."""

    pod: str
    slots: tuple[HeldSlot, ...]
    """The first devices."""
    more: int
    started_at: datetime
    ended_at: datetime | None
    is_backfilled: bool

    @property
    def lasted(self) -> timedelta | None:
        """None while it lasts."""
        return None if self.ended_at is None else self.ended_at - self.started_at


@dataclass(frozen=True, kw_only=True)
class NodeHold(Hold):
    """As the page of its node tells it."""

    workload: str
    """Kind and name."""
    namespace: str
    url: str


_ABSENT: dict[str, str] = dict.fromkeys((ChangeKind.GPU_LOST, ChangeKind.GPU_FOUND), "not offered")


def changes_of(cluster: Cluster, node: str, slot: str = "") -> tuple[Change, ...]:
    """The newest first; only those of one device, and of the node itself, where `slot` is given. One query."""
    # By the cluster of the node, so that no database walks through all that ever changed in it.
    rows = TopologyChange.objects.filter(node__cluster=cluster, node__name=node)
    if slot:
        board = slot.partition("/mig-")[0]
        rows = rows.filter(subject__in={slot, board, node})
    found = (
        Change(
            at=row.at,
            kind=ChangeKind(row.kind).words,
            subject="" if row.subject == node else row.subject.removeprefix(f"{node}/"),
            url=gpu_url(cluster.slug, row.subject) if row.subject.startswith(f"{node}/") else "",
            before=row.before or (_ABSENT.get(row.kind, "") if row.after else ""),
            after=row.after or (_ABSENT.get(row.kind, "") if row.before else ""),
        )
        for row in rows[:CHANGES_READ]
    )
    return tuple(_joined(found))[:CHANGES_SHOWN]


def _joined(changes: Iterable[Change]) -> Iterator[Change]:
    """Restarts of one operator pod that follow each other as one, from the first to the last; where their count falls,
    another run begins.
    """
    for (kind, subject), found in itertools.groupby(
        changes, key=lambda change: (change.kind, change.subject)
    ):
        if kind != ChangeKind.OPERATOR_POD_RESTARTED.words or not subject:
            yield from found
            continue
        newest, *run = found
        for older in run:
            if has_fallen(older.after, newest.before):
                yield newest
                newest = older
            else:
                newest = replace(newest, before=older.before, times=newest.times + 1)
        yield newest


def has_fallen(earlier: str, later: str) -> bool:
    """The restarts that a change ended with are more than those that the next one began with: they count anew."""
    before, after = (re.search(r"(\d+) restarts?$", words) for words in (earlier, later))
    return before is not None and after is not None and int(before[1]) > int(after[1])


def allocations_of(cluster: Cluster, node: str, most: int = ALLOCATIONS_READ) -> list[Allocation]:
    """The last on the node and all that are open, newest first, each with its workload. One query."""
    # By the cluster of the node, so that no database walks through all that the cluster ever held.
    rows = Allocation.objects.filter(node__cluster=cluster, node__name=node)
    newest = rows.order_by("-started_at", "-pk").values("pk")[:most]
    wanted = rows.filter(Q(ended_at__isnull=True) | Q(pk__in=newest))
    # Labels and annotations of the workloads are read from JSON otherwise.
    named = wanted.select_related("workload").defer("workload__labels", "workload__annotations")
    return list(named.order_by("-started_at", "-pk"))


def owners_of(
    cluster: Cluster, nodes: Collection[str], pods: Collection[str]
) -> dict[str, tuple[str, str, str]]:
    """Key (`namespace/name`) of a pod that held GPUs of these nodes -> kind, namespace and name of its workload; of
    several pods of a name, the last one's. One query.
    """
    names = {pod.rpartition("/")[2] for pod in pods}
    rows = Allocation.objects.filter(node__cluster=cluster, node__name__in=nodes, pod__in=names)
    owners = rows.values_list("pod", "workload__kind", "workload__namespace", "workload__name")
    last = owners.annotate(last=Max("started_at")).order_by("last")
    return {f"{namespace}/{pod}": (kind, namespace, name) for pod, kind, namespace, name, _ in last}


def holds_of(slug: str, node: str, allocations: list[Allocation], place: str = "") -> tuple[NodeHold, ...]:
    """Newest first; only those of one device where its `place` (slot without the node) is given."""
    rows = [row for row in allocations if not place or place in row.slots][:HOLDS_SHOWN]
    return tuple(
        NodeHold(
            pod=row.pod,
            workload=f"{row.workload.kind} {row.workload.name}" if row.workload.kind else "",
            namespace=row.workload.namespace,
            url=workload_url(slug, row.workload.kind, row.workload.namespace, row.workload.name),
            slots=held_slots(slug, node, row.slots),
            more=max(0, len(row.slots) - SLOTS_SHOWN),
            started_at=row.started_at,
            ended_at=row.ended_at,
            is_backfilled=row.is_backfilled,
        )
        for row in rows
    )


def held_slots(
    slug: str, node: str, places: Sequence[str], gpus: Iterable[GpuCell] = ()
) -> tuple[HeldSlot, ...]:
    """The first of the devices in `places` of the node; `gpus`: those whose names are known."""
    names = {gpu.place: gpu.name for gpu in gpus}
    return tuple(
        HeldSlot(
            names.get(place, place),
            place,
            "" if place.endswith(UNNAMED) else gpu_url(slug, f"{node}/{place}"),
        )
        for place in places[:SLOTS_SHOWN]
    )


def events_of(cluster: Cluster, node: str, until: datetime) -> tuple[Event, ...]:
    """What Kubernetes said about the node itself in the hours before `until`, newest first. One query."""
    found = event_hours.events(
        cluster, until - EVENTS_OVER, until + timedelta(seconds=1), kind="Node", name=node
    )
    return tuple(found[: -EVENTS_SHOWN - 1 : -1])
