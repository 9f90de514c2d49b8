"""Who holds which devices from when to when: one row per pod, by its UID."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from diagnostics.models import Allocation, Cluster, Device, Node
from diagnostics.snapshot import Pod, Snapshot, Source, SourceState
from diagnostics.storable import storable_text
from diagnostics.topology.nodes import Nodes
from diagnostics.topology.rows import write
from diagnostics.topology.slots import UNNAMED, naming
from diagnostics.topology.workloads import Workloads


class _Open(NamedTuple):
    pk: int
    pod_uid: str
    pod: str
    workload_id: int
    slots: list[str]


type _Key = str | tuple[int, str]
"""UID of a pod, or its owner and name where it has none."""


class Allocations:
    """The allocations of one poll beside those that are open."""

    def __init__(
        self,
        cluster: Cluster,
        snapshot: Snapshot,
        nodes: Nodes,
        devices: Mapping[str, Device],
        owners: Workloads,
    ) -> None:
        self.cluster, self.snapshot, self.at = cluster, snapshot, snapshot.taken_at
        self.devices, self.owners = devices, owners
        self.nodes: dict[str, Node] = {name: seen.row for name, seen in nodes.seen.items()}
        if not nodes.is_complete:
            self.nodes |= nodes.absent
        self.opened: list[Allocation] = []
        self.corrected: list[Allocation] = []
        self.ended: list[int] = []
        self.unclaimed: dict[_Key, _Open] = {}
        rows = Allocation.objects.filter(cluster=cluster, ended_at__isnull=True).order_by("pk")
        for row in map(_Open._make, rows.values_list(*_Open._fields)):
            if self.unclaimed.setdefault(_key(row.pod_uid, row.workload_id, row.pod), row) is not row:
                self.ended.append(row.pk)  # a pod holds once

    def record(self) -> None:
        """Open what is new, end what is over, correct what is better known: at most three queries.

        Nothing ends while the pods could not all be read.
        """
        for pod in self.snapshot.pods:
            if pod.holds_gpus:
                self._hold(pod)
        if self.snapshot.source(Source.PODS).state is SourceState.OK:
            self.ended += [row.pk for row in self.unclaimed.values()]
        if self.ended:
            Allocation.objects.filter(pk__in=self.ended).update(ended_at=self.at)
        write([*self.opened, *self.corrected], ["workload", "slots"])

    def _hold(self, pod: Pod) -> None:
        workload = self.owners.by_pod[pod.key]
        key = _key(storable_text(pod.uid, 60), workload, storable_text(pod.name, 253))
        row = self.unclaimed.pop(key, None)
        node = self.nodes.get(pod.node or "")
        if node is None:  # the node was not read
            return
        slots = self._slots(pod)
        if row is None:
            self._open(pod, node, workload, slots, min(pod.started_at or self.at, self.at))
            return
        if slots != row.slots:
            if _are_others(slots, row.slots):  # the MIG layout changed under it, or a board was swapped
                self.ended.append(row.pk)
                self._open(pod, node, workload, slots, self.at)
                return
            if not _is_better(slots, row.slots):
                slots = row.slots
        if self.snapshot.source(Source.WORKLOADS).state is not SourceState.OK:
            workload = row.workload_id  # a chain of owners that could not be read ends too early
        if slots != row.slots or workload != row.workload_id:
            self._correct(row, pod, node, workload, slots)

    def _slots(self, pod: Pod) -> list[str]:
        """Without the node's name; `<resource>#?` for each device of which only the number is known."""
        held = self.snapshot.gpus_by_pod.get(pod.key, [])
        found: list[str] = []
        for gpu in held:
            row = self.devices.get(gpu.slot)
            is_vague = row is None or gpu.holder_source == "count"
            found.append(f"{gpu.resource}#?" if row is None or is_vague else row.slot.partition("/")[2])
        if not any(gpu.replicas > 1 for gpu in held) and len(found) < pod.gpu_count:
            for resource, amount in pod.gpus.items():
                there = sum(gpu.resource == resource for gpu in held)
                found += [f"{resource}#?"] * (min(int(amount), MOST_SLOTS) - there)
        return sorted(found)

    def _open(self, pod: Pod, node: Node, workload: int, slots: list[str], started: datetime) -> None:
        self.opened.append(self._row(pod, node, workload, slots, started))

    def _correct(self, row: _Open, pod: Pod, node: Node, workload: int, slots: list[str]) -> None:
        better = self._row(pod, node, workload, slots, self.at)
        better.pk, better._state.adding = row.pk, False
        self.corrected.append(better)

    def _row(self, pod: Pod, node: Node, workload: int, slots: list[str], started: datetime) -> Allocation:
        return Allocation(
            cluster=self.cluster,
            workload_id=workload,
            node=node,
            pod=storable_text(pod.name, 253),
            pod_uid=storable_text(pod.uid, 60),
            slots=[storable_text(slot) for slot in slots],
            started_at=started,
        )


MOST_SLOTS = 1024
"""A pod can ask for any number; no node has more."""


def _key(uid: str, workload: int, name: str) -> _Key:
    return uid or (workload, name)


def _naming(slots: list[str]) -> int:
    """How well the worst of them is named."""
    return min((naming(slot) for slot in slots), default=UNNAMED)


def _are_others(slots: list[str], before: list[str]) -> bool:
    """Both are known by name, equally well: the pod holds other devices now."""
    return _naming(slots) == _naming(before) > UNNAMED


def _is_better(slots: list[str], before: list[str]) -> bool:
    if _naming(slots) == _naming(before) == UNNAMED:
        return len(slots) != len(before)  # numbers of unnamed places mean nothing
    return _naming(slots) > _naming(before)
