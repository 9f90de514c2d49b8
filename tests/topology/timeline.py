"""A cluster's polls as a list: nodes, GPUs and pods go in, rows and changes come out."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from diagnostics.collect.devices import joined
from diagnostics.collect.readings import DeviceReading
from diagnostics.models import Allocation, Cluster, Device, Node, TopologyChange
from diagnostics.snapshot import Gpu, Past, Snapshot, Source
from diagnostics.snapshot import Node as NodeObject
from diagnostics.topology import Known, record
from tests.builders import NOW, gpu, snapshot

POLL = timedelta(seconds=60)


class Polls:
    """Polls one cluster, once a minute unless told otherwise."""

    def __init__(self, slug: str = "lab") -> None:
        self.cluster = Cluster.objects.create(slug=slug, name=slug, identity=f"uid-{slug}")
        self.at = NOW

    @staticmethod
    def count() -> int:
        """Clusters so far."""
        return Cluster.objects.count()

    def poll(
        self, *parts: Any, after: timedelta = POLL, without: Iterable[Source] = (), **fields: Any
    ) -> Known:
        """Poll `parts`; all sources are whole but those `without`."""
        self.at += after
        return self.poll_at(self.at, *parts, without=without, **fields)

    def poll_at(self, at: datetime, *parts: Any, without: Iterable[Source] = (), **fields: Any) -> Known:
        known = self.record(snapshot(*parts, without=without, **({"taken_at": at} | fields)))
        self.cluster.last_taken_at = at
        self.cluster.save()
        return known

    def record_late(self, *parts: Any) -> Known:
        """A poll that began before the last one and ends after it."""
        return self.record(snapshot(*parts, taken_at=self.at - timedelta(seconds=30)))

    def record(self, picture: Snapshot) -> Known:
        return record(Cluster.objects.get(pk=self.cluster.pk), picture)

    def changes(self) -> list[tuple[str, str, str, str]]:
        """(kind, subject, before, after) of every change, oldest first."""
        rows = TopologyChange.objects.filter(cluster=self.cluster).order_by("pk")
        return list(rows.values_list("kind", "subject", "before", "after"))

    def kinds(self) -> list[str]:
        return [kind for kind, *_ in self.changes()]

    def live(self) -> dict[str, Device]:
        """Slot -> row of each device that is there."""
        return {row.slot: row for row in Device.objects.filter(cluster=self.cluster, removed_at=None)}

    def node(self, name: str = "gpu-1") -> Node:
        return Node.objects.get(cluster=self.cluster, name=name)

    def holds(self) -> list[tuple[str, list[str], datetime, datetime | None]]:
        """(pod, slots, from, to) of every allocation, oldest first."""
        rows = Allocation.objects.filter(cluster=self.cluster).order_by("pk")
        return list(rows.values_list("pod", "slots", "started_at", "ended_at"))


def counted(node: NodeObject, *pods: Any, readings: Iterable[DeviceReading] = ()) -> tuple[Gpu, ...]:
    """The node's devices as collect joins them: unnamed where nothing but the counts is known."""
    return joined((node,), tuple(pods), tuple(readings), Past())


def mig_gpus(index: int, *profiles: str, node: str = "gpu-1", first: int = 1, **fields: Any) -> list[Gpu]:
    """The instances of one board, numbered from `first`."""
    board = gpu(index, node).slot
    return [
        gpu(
            index,
            node,
            **{
                "slot": f"{board}/mig-{number}",
                "resource": f"nvidia.com/mig-{profile}",
                "mig_profile": profile,
                "mig_instance": str(number),
                "is_healthy": None,
                **fields,
            },
        )
        for number, profile in enumerate(profiles, start=first)
    ]
