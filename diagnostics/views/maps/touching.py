"""Which open findings touch which GPUs: by slot, by node, or by the workload that holds them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Q

from diagnostics.models import Cluster
from diagnostics.picture import Devices, GpuCell, NodeLine
from diagnostics.views.open_findings import FindingLine, finding_lines

MOST = 5_000
"""Findings that are looked at, the worst of them."""


def findings_at(cluster: Cluster, at: datetime | None) -> list[FindingLine]:
    """Open now, or open at `at` as far as the latest opening tells; worst first. One query."""
    if at is None:
        found = cluster.incidents.opened()
    else:
        found = cluster.incidents.filter(Q(resolved_at=None) | Q(resolved_at__gt=at), opened_at__lte=at)
    return finding_lines(cluster, found.order_by("severity_rank", "pk"), most=MOST)


@dataclass(frozen=True)
class Touched:
    """The worst finding's rank: of nodes, slots and pods by name, of owners by their place."""

    nodes: dict[str, int] = field(default_factory=dict)
    slots: dict[str, int] = field(default_factory=dict)
    owners: dict[int, int] = field(default_factory=dict)
    pods: dict[str, int] = field(default_factory=dict)

    def worst(self, node: NodeLine, cell: GpuCell) -> int | None:
        """Rank of the worst finding that touches this GPU, 0 the worst; None: none does."""
        ranks = [self.owners[owner] for owner in cell.owners if owner in self.owners]
        if self.pods:
            ranks += [self.pods[key] for key in cell.holders if key in self.pods]
        if (rank := self.nodes.get(node.name)) is not None:
            ranks.append(rank)
        if self.slots and (rank := self.slots.get(f"{node.name}/{cell.place}")) is not None:
            ranks.append(rank)
        return min(ranks, default=None)


def touched_by(findings: Iterable[FindingLine], devices: Devices) -> Touched:
    """A finding about a GPU or a workload touches these GPUs alone, one about a node all of the node's.

    One about anything else (a gang, a quota) touches the GPUs that the pods it names hold; where it names none, those
    of the nodes that it names.
    """
    places = {owner: place for place, owner in enumerate(devices.owners)}
    found = Touched()
    for finding in findings:
        if finding.kind == "GPU":
            _keep(found.slots, [finding.name], finding.rank)
        elif finding.kind == "Node":
            _keep(found.nodes, [finding.name, *finding.nodes], finding.rank)
        elif (place := places.get(finding.owner)) is not None:
            _keep(found.owners, [place], finding.rank)
        elif finding.pods:
            _keep(found.pods, finding.pods, finding.rank)
        else:
            _keep(found.nodes, finding.nodes, finding.rank)
    return found


def _keep[K](ranks: dict[K, int], names: Iterable[K], rank: int) -> None:
    for name in names:
        ranks[name] = min(rank, ranks.get(name, rank))
