"""What has been kept for long enough goes: in batches, a bounded number per run, patches before their bases."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from time import monotonic
from typing import Any, NamedTuple

from django.db import models, transaction
from django.db.models import Exists, OuterRef, QuerySet

from diagnostics.models import (
    Allocation,
    ArchivedSnapshot,
    ArchiveState,
    Cluster,
    Device,
    EventHour,
    Incident,
    MetricDay,
    Node,
    StateInterval,
    Tier,
    TopologyChange,
    UsageHour,
    UsageRollup,
    Workload,
)
from diagnostics.retention import Retention

BATCH = 500
"""Rows per transaction: a poll that waits for it waits for some hundredths of a second."""
MOST_ROWS = 100_000
"""Of one run and cluster; the next run goes on."""
MOST_TIME = timedelta(seconds=45)


class Expired(NamedTuple):
    """Rows of one kind that may go."""

    kind: str
    rows: QuerySet[Any]


def delete_expired(
    cluster: Cluster, keep_for: Retention, now: datetime, *, is_over: Callable[[], bool] | None = None
) -> dict[str, int]:
    """Delete what is older than `keep_for`; kind -> rows of it, with what hung on them not counted.

    Stops after MOST_ROWS, or when `is_over` says so: by default after MOST_TIME.
    """
    begun = monotonic()
    is_over = is_over or (lambda: monotonic() - begun > MOST_TIME.total_seconds())
    deleted: dict[str, int] = {}
    left = MOST_ROWS
    for kind, rows in expired(cluster, keep_for, now):
        while left > 0 and not is_over():
            gone = _batch(rows, min(BATCH, left))
            if not gone:
                break
            deleted[kind] = deleted.get(kind, 0) + gone
            left -= gone
    return deleted


def expired(cluster: Cluster, keep_for: Retention, now: datetime) -> Iterator[Expired]:
    """What may go, in the order in which it may: each query is asked when those before it are done."""
    yield from _snapshots(cluster, keep_for, now)
    yield Expired("events", EventHour.objects.filter(cluster=cluster, hour__lt=now - keep_for.events))
    metrics = MetricDay.objects.filter(node__cluster=cluster, day__lt=(now - keep_for.metrics).date())
    yield Expired("metrics", metrics)
    yield Expired("observations", cluster.observations.filter(taken_at__lt=now - keep_for.observations))
    resolved = cluster.incidents.filter(
        status=Incident.Status.RESOLVED, resolved_at__lt=now - keep_for.incidents
    )
    yield Expired("incidents", resolved)
    ended_ms = int((now - keep_for.states).timestamp() * 1000)
    yield Expired("states", StateInterval.objects.filter(cluster=cluster, end_ms__lt=ended_ms))
    # Before the hours that they were made of, so that none says more than these do.
    rolled_up = UsageRollup.objects.filter(cluster=cluster, day__lte=(now - keep_for.usage).date())
    yield Expired("usage roll-ups", rolled_up)
    yield Expired("usage", UsageHour.objects.filter(cluster=cluster, hour__lt=now - keep_for.usage))
    yield from _topology(cluster, now - keep_for.topology)
    yield from _workloads(cluster, now - max(keep_for.usage, keep_for.states, keep_for.topology))


def _snapshots(cluster: Cluster, keep_for: Retention, now: datetime) -> Iterator[Expired]:
    """An hour's polls stay until they are rolled up, and a whole one while patches need it."""
    rows = ArchivedSnapshot.objects.filter(cluster=cluster)
    has_patches = Exists(ArchivedSnapshot.objects.filter(base=OuterRef("pk")))
    state = ArchiveState.objects.filter(cluster=cluster).first()
    rolled_up_to = state.rolled_up_to if state is not None else None
    for tier, kept in ((Tier.POLL, keep_for.polls), (Tier.HOUR, keep_for.hours), (Tier.DAY, keep_for.days)):
        until = now - kept if rolled_up_to is None else min(now - kept, rolled_up_to)
        old = rows.filter(tier=tier, taken_at__lt=until)
        if rolled_up_to is None:
            old = old.none()
        yield Expired("snapshots", old.filter(~has_patches).order_by("taken_at"))


def _topology(cluster: Cluster, until: datetime) -> Iterator[Expired]:
    ended = Allocation.objects.filter(cluster=cluster, started_at__lt=until, ended_at__lt=until)
    yield Expired("topology", ended)
    yield Expired("topology", TopologyChange.objects.filter(cluster=cluster, at__lt=until))
    for model, field in ((Device, "device"), (Node, "node")):
        gone = model.objects.filter(cluster=cluster, removed_at__lt=until)
        if field == "device":
            gone = gone.filter(~Exists(StateInterval.objects.filter(device=OuterRef("pk"))))
        else:
            gone = gone.filter(~Exists(Device.objects.filter(node=OuterRef("pk"))))
        yield Expired("topology", gone)


def _workloads(cluster: Cluster, until: datetime) -> Iterator[Expired]:
    """Names of those that nothing refers to any more; states name their holders too, and are gone by then."""
    old = Workload.objects.filter(cluster=cluster, last_seen__lt=until).exclude(kind="")
    for model in (UsageHour, Allocation):
        old = old.filter(~Exists(model.objects.filter(workload=OuterRef("pk"))))
    yield Expired("workloads", old)


def _batch(rows: QuerySet[models.Model], size: int) -> int:
    with transaction.atomic():
        keys = list(rows.values_list("pk", flat=True)[:size])
        if keys:
            # Without the packed data, which Django would read only to throw it away.
            rows.model._base_manager.filter(pk__in=keys).only("pk").delete()
    return len(keys)
