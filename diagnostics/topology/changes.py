"""Collects what changed between two polls."""

from dataclasses import dataclass, field
from datetime import datetime

from diagnostics.models import ChangeKind, Cluster, Node, TopologyChange
from diagnostics.storable import storable_text


@dataclass
class Changes:
    """Changes that the poll at `at` is the first to see."""

    cluster: Cluster
    at: datetime
    found: list[TopologyChange] = field(default_factory=list)

    def add(
        self, kind: ChangeKind, node: Node | None, subject: str, before: object = "", after: object = ""
    ) -> None:
        """Note one; texts come from the cluster and are cut to what the columns take."""
        self.found.append(
            TopologyChange(
                cluster=self.cluster,
                node=node,
                at=self.at,
                kind=kind,
                subject=storable_text(subject, 600),
                before=storable_text(str(before), 300),
                after=storable_text(str(after), 300),
            )
        )

    def write(self) -> None:
        """Append them, in one query; their nodes are saved by now."""
        TopologyChange.objects.bulk_create(self.found)
