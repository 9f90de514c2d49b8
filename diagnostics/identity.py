"""Which cluster answers under a slug: history belongs to the cluster's identity and is never mixed."""

from collections.abc import Collection

import msgspec

from diagnostics.findings import Subject, fingerprint
from diagnostics.models import Cluster, Incident
from diagnostics.models.cluster import GENERATED
from diagnostics.snapshot import Snapshot


class SameCluster(Exception):
    """Two declared slugs lead to one cluster; the second is not recorded."""


def is_real(identity: str) -> bool:
    """It was read from the cluster, not made up."""
    return bool(identity) and not identity.startswith(GENERATED)


def named(snapshot: Snapshot, cluster: Cluster) -> Snapshot:
    """The snapshot under the identity that is known, where the cluster itself does not say."""
    if is_real(snapshot.cluster_id):
        return snapshot
    return msgspec.structs.replace(snapshot, cluster_id=cluster.identity)


def settled(cluster: Cluster, identity: str, declared: Collection[str]) -> Cluster:
    """The row to record under for what answered as `identity` (empty if unreadable) to the slug of `cluster`.

    A made-up identity gives way to the real one. If another cluster answers than before, the old row keeps
    its history under `<slug>-<start of its identity>`, and a row of its own takes the slug.
    `declared` are the slugs in the settings. To be called in a transaction. Raises SameCluster.
    """
    if not is_real(identity) or identity == cluster.identity:
        return cluster
    known = Cluster.objects.filter(identity=identity).first()
    if known is not None and known.slug in declared:
        msg = f"this is the same cluster as {known.slug!r}; declare it once"
        raise SameCluster(msg)
    if known is None and not cluster.is_identified:
        return _identified(cluster, identity)
    slug, name = cluster.slug, cluster.name
    _set_aside(cluster)
    if known is None:
        return Cluster.objects.create(identity=identity, slug=slug, name=name)
    known.slug, known.name = slug, name
    known.save(update_fields=["slug", "name"])
    return known


def _set_aside(cluster: Cluster) -> None:
    """Free its slug; a row that never recorded anything goes."""
    if not cluster.is_identified and not cluster.observations.exists():
        cluster.delete()
        return
    cluster.slug = f"{cluster.slug}-{cluster.identity.removeprefix(GENERATED)[:8]}"
    cluster.save(update_fields=["slug"])


def _identified(cluster: Cluster, identity: str) -> Cluster:
    """Give the row its real identity. Fingerprints follow, because the identity is part of them."""
    cluster.identity = identity
    cluster.save(update_fields=["identity"])
    incidents = list(cluster.incidents.only("code", "subject_kind", "subject_namespace", "subject_name"))
    for incident in incidents:
        subject = Subject(incident.subject_kind, incident.subject_name, incident.subject_namespace)
        incident.fingerprint = fingerprint(identity, incident.code, subject)
    Incident.objects.bulk_update(incidents, ["fingerprint"], batch_size=500)
    return cluster
