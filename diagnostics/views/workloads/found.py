"""Findings that concern a workload: about itself, its gang, one of its pods, or a GPU that it holds."""

from collections.abc import Iterable

from django.db.models import QuerySet

from diagnostics.findings import Subject
from diagnostics.models import Cluster, Incident
from diagnostics.picture import Owner
from diagnostics.storable import storable_text
from diagnostics.views.open_findings import FindingLine, OpenFindings, in_order
from diagnostics.views.subjects import fingerprints
from diagnostics.views.workloads.seen import Seen


def concerning(seen: Seen, findings: OpenFindings) -> list[FindingLine]:
    """Worst first, each once."""
    found = [*findings.by_owner.get(seen.owner, ())]
    if seen.line.gang is not None:
        found += findings.by_owner.get(seen.line.gang, ())
    if findings.by_pod:
        namespace = seen.owner.namespace
        for pod in seen.line.pods:
            found += findings.by_pod.get(f"{namespace}/{pod.name}", ())
    for node, cells in seen.held:
        if node.name in findings.by_node:
            for cell in cells:
                found += findings.by_slot.get(f"{node.name}/{cell.place}", ())
    return in_order({line.fingerprint: line for line in found}.values()) if len(found) > 1 else found


def about(owner: Owner, findings: OpenFindings) -> list[FindingLine]:
    """Those about the owner itself, worst first; all that can be told of one without a pod in the picture."""
    # As incidents keep what a cluster said.
    stored = Owner(
        storable_text(owner.kind, 80), storable_text(owner.namespace, 253), storable_text(owner.name, 600)
    )
    return findings.by_owner.get(stored, [])


def pods_named(owner: Owner, lines: Iterable[FindingLine]) -> set[str]:
    """Names of the owner's pods among those that its findings name: these may name victims of others too."""
    keys = (pod.partition("/") for line in lines for pod in line.pods)
    return {
        name
        for namespace, _, name in keys
        if namespace == owner.namespace and (name == owner.name or name.startswith(f"{owner.name}-"))
    }


def resolved_about(cluster: Cluster, owner: Owner) -> QuerySet[Incident]:
    """What was resolved about it: looked for by fingerprints, which are indexed, as subjects are not."""
    subject = Subject(owner.kind, owner.name, owner.namespace)
    # By status, SQLite would look at all that ever was resolved.
    return cluster.incidents.filter(resolved_at__isnull=False, fingerprint__in=fingerprints(cluster, subject))
