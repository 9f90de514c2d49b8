"""One poll of one cluster, from its APIs to what is kept: collect -> diagnose -> record -> publish."""

from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from diagnostics import archive, identity, observations, overrides, topology, usage
from diagnostics.collect import Clock, take_snapshot
from diagnostics.collect.declared import declared_target
from diagnostics.garbage import garbage_paused
from diagnostics.incidents import record
from diagnostics.leases import Lease, LeaseLost, confirm
from diagnostics.models import Cluster, Observation
from diagnostics.rules import diagnose


def observe(slug: str, clock: Clock = timezone.now) -> Observation | None:
    """Poll the cluster declared as `slug`; None while another poll of it runs, or when this one comes too late. All is
    kept in one transaction, if the lease is still ours: a poll that dies before leaves nothing behind."""
    declared = settings.CLUSTERS[slug]
    cluster, _ = Cluster.objects.update_or_create(slug=slug, defaults={"name": declared.name})
    with Lease(slug, timedelta(seconds=declared.poll_timeout_s)) as token:
        if token is None:
            return None
        stages = observations.Stages()
        try:
            return _observe(cluster, token, clock, stages)
        except LeaseLost:
            raise
        except Exception as error:
            with transaction.atomic():
                return observations.publish_broken(confirm(token), clock(), error, stages)
    return None


@garbage_paused()
def _observe(cluster: Cluster, token: str, clock: Clock, stages: observations.Stages) -> Observation | None:
    target = declared_target(cluster.slug, settings.CLUSTERS[cluster.slug])
    limits = overrides.limits_of(cluster, settings.LIMITS, clock())
    with stages.timed("collect"):
        past, recent = archive.earlier(cluster, limits.site.xid_recent)
        take = take_snapshot(target, clock=clock, past=past, recent=recent, limits=limits)
    snapshot = identity.named(take.snapshot, cluster)
    with stages.timed("diagnose"):
        diagnosis = diagnose(snapshot, limits)
    kept = archive.packed(cluster, snapshot, take.recent, limits)
    with transaction.atomic():
        with stages.timed("record"):
            cluster = identity.settled(confirm(token), snapshot.cluster_id, settings.CLUSTERS)
            recorded = record(cluster, snapshot, diagnosis)
        if recorded.is_late:
            return None
        with stages.timed("ledger"):
            known = topology.record(cluster, snapshot)
            usage.record(cluster, snapshot, known, settings.POLL_INTERVAL, limits.site)
        with stages.timed("archive"):
            archive.publish(cluster, kept)
        return observations.publish(cluster, snapshot, diagnosis, stages, take.seconds)
