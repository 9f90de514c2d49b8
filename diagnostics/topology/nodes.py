"""The nodes of a poll beside their rows: added, removed, re-created, rebooted, cordoned, another driver or sharing."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from diagnostics.models import ChangeKind, Cluster, Node, Workload
from diagnostics.snapshot import Node as NodeObject
from diagnostics.snapshot import Snapshot, Source, SourceState, gpu_resources
from diagnostics.storable import storable_text
from diagnostics.topology.changes import Changes
from diagnostics.topology.rows import assign, is_old, write
from diagnostics.topology.workloads import Workloads

MOST_REPLICAS = 32_767
"""What the column takes; a label can claim more."""
PCI_PREFIX = "feature.node.kubernetes.io/pci-"


@dataclass
class SeenNode:
    """A node that has or had GPUs, as this poll sees it, beside its row."""

    row: Node
    node: NodeObject
    is_quiet: bool = False
    """New, back, re-created, or seen by the cluster's first poll: what it is made of is no change."""


class Nodes:
    """All nodes of one poll that have or had GPUs."""

    def __init__(self, cluster: Cluster, snapshot: Snapshot, changes: Changes, owners: Workloads) -> None:
        self.cluster, self.at, self.changes, self.owners = cluster, snapshot.taken_at, changes, owners
        self.is_first = owners.is_first
        """To the first poll everything is new, so that nothing changes."""
        live = {row.name: row for row in Node.objects.filter(cluster=cluster, removed_at__isnull=True)}
        present = {storable_text(node.name, 253): node for node in snapshot.nodes}
        names = _with_gpus(present, snapshot) | (present.keys() & live.keys())
        self.changed: dict[str, Node] = {}
        self.absent = {name: row for name, row in live.items() if name not in present}
        """Rows of nodes that this poll does not show."""
        self.is_complete = snapshot.source(Source.NODES).state is SourceState.OK
        unknown = sorted(names - live.keys())
        earlier = Node.objects.filter(cluster=cluster, name__in=unknown) if unknown else ()
        returned = {row.name: row for row in earlier}
        self.seen: dict[str, SeenNode] = {}
        for name in sorted(names):
            node = present[name]
            row = live.get(name)
            self.seen[node.name] = (
                self._new(name, node, returned.get(name)) if row is None else self._known(row, node)
            )
        if self.is_complete:
            self._remove(self.absent.values())

    def _new(self, name: str, node: NodeObject, row: Node | None) -> SeenNode:
        if row is not None:
            seen = self._known(row, node, is_back=True)
        else:
            row = Node(cluster=self.cluster, name=name, first_seen=self.at, last_seen=self.at)
            assign(row, _facts(row, node))
            seen = SeenNode(row, node, is_quiet=True)
            # One that is older than our first look was missed or had no GPUs yet: it was not added.
            if not self.is_first and (node.created_at is None or node.created_at > self._first_poll):
                self._add(ChangeKind.NODE_ADDED, row, after=row.uid)
        row.last_seen, row.removed_at = self.at, None
        self.changed[row.name] = row
        return seen

    @cached_property
    def _first_poll(self) -> datetime:
        return Workload.objects.values_list("first_seen", flat=True).get(pk=self.owners.nobody)

    def _known(self, row: Node, node: NodeObject, *, is_back: bool = False) -> SeenNode:
        facts = _facts(row, node)
        is_other = bool(row.uid) and facts["uid"] != row.uid
        if is_other:
            self._add(ChangeKind.NODE_RECREATED, row, row.uid, facts["uid"])
            row.operator_pods = {}
        elif is_back:
            self._add(ChangeKind.NODE_ADDED, row, after=facts["uid"])
        else:
            self._compare(row, facts)
        self._compare_stack(row, facts)
        if assign(row, facts):
            self.changed[row.name] = row
        return SeenNode(row, node, is_quiet=is_other or is_back)

    def _compare(self, row: Node, facts: dict[str, Any]) -> None:
        if row.boot_id and facts["boot_id"] != row.boot_id:
            self._add(ChangeKind.NODE_REBOOTED, row, row.boot_id, facts["boot_id"])
        if facts["is_cordoned"] != row.is_cordoned:
            self._add(ChangeKind.CORDONED if facts["is_cordoned"] else ChangeKind.UNCORDONED, row)

    def _compare_stack(self, row: Node, facts: dict[str, Any]) -> None:
        if row.driver and facts["driver"] != row.driver:
            self._add(ChangeKind.DRIVER_CHANGED, row, row.driver, facts["driver"])
        if row.replicas is not None and facts["replicas"] != row.replicas:
            before, after = (_shares(count) for count in (row.replicas, facts["replicas"]))
            self._add(ChangeKind.SHARING_CHANGED, row, before, after)

    def _remove(self, rows: Iterable[Node]) -> None:
        for row in rows:
            row.removed_at = self.at
            self.changed[row.name] = row
            self._add(ChangeKind.NODE_REMOVED, row, row.uid)

    def _add(self, kind: ChangeKind, row: Node, before: object = "", after: object = "") -> None:
        self.changes.add(kind, row, row.name, before, after)

    def assign(self, row: Node, **values: object) -> None:
        """Give the row these values, and have it written when one is new."""
        if assign(row, values):
            self.changed[row.name] = row

    def write(self) -> None:
        """Write what changed, and once in a while when the rest was seen."""
        rows = [seen.row for seen in self.seen.values()]
        if any(is_old(row.last_seen, self.at) for row in rows):
            unseen = [] if self.is_complete else [row.pk for row in self.absent.values()]
            live = Node.objects.filter(cluster=self.cluster, removed_at__isnull=True)
            live.exclude(pk__in=unseen).update(last_seen=self.at)
            for row in rows:
                row.last_seen = self.at
        write(list(self.changed.values()))


def _with_gpus(present: dict[str, NodeObject], snapshot: Snapshot) -> set[str]:
    """Names of the nodes with devices, with GPU resources, or with NVIDIA hardware on the PCI bus."""
    return {
        name
        for name, node in present.items()
        if node.name in snapshot.gpus_by_node or gpu_resources(node.capacity) or _has_hardware(node)
    }


def _has_hardware(node: NodeObject) -> bool:
    if node.labels.get("nvidia.com/gpu.present") == "true":
        return True
    return any(
        key.startswith(PCI_PREFIX) and key.endswith("10de.present") and value == "true"
        for key, value in node.labels.items()
    )


def _facts(row: Node, node: NodeObject) -> dict[str, Any]:
    """What the object says of the node. What it does not say for the moment stays as it was last known."""
    return {
        "uid": storable_text(node.uid, 60) or row.uid,
        "rack": storable_text(node.rack or "", 253),
        "zone": storable_text(node.zone or "", 253),
        "nvlink_domain": storable_text(node.nvlink_domain or "", 253),
        "driver": storable_text(node.driver_version or "", 60) or row.driver,
        "kubelet": storable_text(node.kubelet_version, 60) or row.kubelet,
        "boot_id": storable_text(node.boot_id, 60) or row.boot_id,
        "mig_config": storable_text(node.labels.get("nvidia.com/mig.config", ""), 120),
        "is_cordoned": node.unschedulable,
        "replicas": (
            min(node.gpu_replicas, MOST_REPLICAS)
            if "nvidia.com/gpu.replicas" in node.labels
            else row.replicas
        ),
    }


def _shares(count: int) -> str:
    return "whole GPUs" if count == 1 else f"{count} shares per GPU"
