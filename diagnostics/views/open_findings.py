"""Findings as the pages of what they touch name them, and which nodes, devices, owners and pods each touches."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import QuerySet

from diagnostics.models import Cluster, Incident
from diagnostics.models.incident import OPEN_SINCE
from diagnostics.picture import Owner
from diagnostics.views.cause_words import cause_words
from diagnostics.views.page import finding_url


@dataclass(frozen=True)
class FindingLine:
    """One finding, in a line of another page."""

    cluster: str
    """Slug."""
    nodes: tuple[str, ...] = field(repr=False)
    pods: tuple[str, ...] = field(repr=False)
    """Keys (`namespace/name`)."""
    fingerprint: str
    rule: str
    """Slug."""
    severity: str
    rank: int
    """Of its severity, 0 the worst."""
    cause: str
    title: str
    summary: str
    gpus: int
    open_since: datetime | None
    resolved_at: datetime | None
    resolution: str
    kind: str
    namespace: str
    name: str
    """What it is about; a device by its slot."""

    @property
    def url(self) -> str:
        """Made when it is shown: of a thousand findings a page shows a few."""
        return finding_url(self.cluster, self.fingerprint)

    @property
    def owner(self) -> Owner:
        """What it is about, as the picture names workloads."""
        return Owner(self.kind, self.namespace, self.name)

    @property
    def words(self) -> str:
        """The cause in words."""
        return cause_words(self.cause)


_FIELDS = (
    *("finding__nodes", "finding__pods"),
    *("fingerprint", "slug", "severity", "severity_rank", "cause", "title", "summary", "gpus"),
    OPEN_SINCE,
    *("resolved_at", "resolution", "subject_kind", "subject_namespace", "subject_name"),
)


def finding_lines(cluster: Cluster, *parts: QuerySet[Incident], most: int | None = None) -> list[FindingLine]:
    """The incidents of all `parts`, worst first; of a single part the first `most`. One query."""
    first, *others = (part.values_list(*_FIELDS) for part in parts)
    # Parts of a union, not conditions joined by OR: each finds its rows by its own index.
    rows = (
        first.order_by().union(*(other.order_by() for other in others), all=True).order_by()
        if others
        else first
    )
    return in_order(
        FindingLine(cluster.slug, tuple(nodes or ()), tuple(pods or ()), *row)
        for nodes, pods, *row in rows[:most]
    )


def in_order(lines: Iterable[FindingLine]) -> list[FindingLine]:
    """Worst first."""
    return sorted(lines, key=lambda line: (line.rank, line.title, line.fingerprint))


class OpenFindings:
    """Findings by what they touch, each list in their order."""

    def __init__(self, lines: Iterable[FindingLine]) -> None:
        self.by_node: dict[str, list[FindingLine]] = defaultdict(list)
        """Node -> those about it or one of its devices, and those that name it."""
        self.by_slot: dict[str, list[FindingLine]] = defaultdict(list)
        self.by_owner: dict[Owner, list[FindingLine]] = defaultdict(list)
        """About anything but a device."""
        self.by_pod: dict[str, list[FindingLine]] = defaultdict(list)
        """Key -> those that name it."""
        for line in lines:
            nodes = set(line.nodes)
            if line.kind == "GPU":
                nodes.add(line.name.partition("/")[0])
                self.by_slot[line.name].append(line)
            else:
                if line.kind == "Node":
                    nodes.add(line.name)
                self.by_owner[line.owner].append(line)
            for node in nodes:
                self.by_node[node].append(line)
            for pod in line.pods:
                self.by_pod[pod].append(line)


def open_findings(cluster: Cluster) -> OpenFindings:
    """All that are open. One query."""
    return OpenFindings(finding_lines(cluster, cluster.incidents.opened()))
