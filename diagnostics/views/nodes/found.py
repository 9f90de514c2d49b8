"""Open findings by the node that they touch."""

from collections import defaultdict
from dataclasses import dataclass

from django.urls import reverse

from diagnostics.models import Cluster


@dataclass(frozen=True, kw_only=True)
class NodeFinding:
    url: str
    severity: str
    rank: int
    title: str
    subject: str
    """Name of what it is about: a slot where it is a GPU."""


def findings_by_node(cluster: Cluster) -> dict[str, tuple[NodeFinding, ...]]:
    """Node -> open findings that touch it, worst first. One query."""
    found: dict[str, list[NodeFinding]] = defaultdict(list)
    rows = cluster.incidents.opened().values_list(
        "fingerprint", "severity", "severity_rank", "title", "subject_kind", "subject_name", "finding__nodes"
    )
    for fingerprint, severity, rank, title, kind, name, nodes in rows:
        finding = NodeFinding(
            url=reverse("finding_detail", args=[cluster.slug, fingerprint]),
            severity=severity,
            rank=rank,
            title=title,
            subject=name,
        )
        touched = {*(nodes or ())}
        if kind in {"Node", "GPU"}:
            touched.add(name.partition("/")[0] if kind == "GPU" else name)
        for node in touched:
            found[node].append(finding)
    return {
        node: tuple(sorted(findings, key=lambda f: (f.rank, f.title))) for node, findings in found.items()
    }
