"""Celery tasks: what runs in the background, a few lines each."""

from datetime import timedelta

from celery import shared_task
from django.conf import settings
from django.utils import timezone

from diagnostics import pipeline, usage
from diagnostics.archive.deletion import delete_expired
from diagnostics.archive.event_hours import compact
from diagnostics.archive.live_reading import answer
from diagnostics.archive.rollups import roll_up
from diagnostics.backfill import due, find_gaps, run
from diagnostics.models import Backfill, Cluster

BACKFILL_FOR = timedelta(seconds=30)
"""Then a back-filling makes way for the polls that wait, and goes to the end of the queue."""
BACKFILL_LIMIT_S = 300

RETAIN_EVERY_S = 3600.0


@shared_task
def observe(slug: str) -> None:
    """One poll of one cluster; what was not observed before the first is filled by a task of its own."""
    if slug in settings.CLUSTERS:
        is_first = not Cluster.objects.filter(slug=slug, last_taken_at__isnull=False).exists()
        pipeline.observe(slug)
        if is_first:
            look_for_gaps(slug)
        fill_later(slug)


@shared_task
def observe_all() -> None:
    """A poll of every cluster. One that has not begun when the next is due is dropped."""
    for slug in settings.CLUSTERS:
        observe.apply_async((slug,), expires=settings.POLL_INTERVAL.total_seconds())


@shared_task(soft_time_limit=BACKFILL_LIMIT_S, time_limit=BACKFILL_LIMIT_S + 15)
def backfill(slug: str) -> None:
    """Some chunks of what was not observed of one cluster; a killed one is taken up where it was."""
    started = timezone.now()
    cluster = Cluster.objects.filter(slug=slug).first()
    row = None if cluster is None else next_row(cluster)
    if cluster is not None and row is not None:
        run(cluster, row, timezone.now, lambda: timezone.now() - started > BACKFILL_FOR)
        if next_row(cluster) is None:
            # Whoever has just connected a cluster looks at last month now.
            usage.roll_up(cluster, started - settings.RETENTION.usage)
        fill_later(slug)


@shared_task
def backfill_all() -> None:
    """What polls could not see, and rows that failed or were left by a killed worker."""
    for slug in settings.CLUSTERS:
        look_for_gaps(slug)
        fill_later(slug)


def look_for_gaps(slug: str) -> None:
    """Make rows of what was not observed."""
    cluster = Cluster.objects.filter(slug=slug).first()
    if cluster is not None:
        find_gaps(
            cluster,
            timezone.now(),
            interval=settings.POLL_INTERVAL,
            reach=settings.BACKFILL,
            thresholds=settings.LIMITS.site,
        )


@shared_task
def read_live_range(slug: str, slots: list[str]) -> None:
    """The last hours of these GPUs at full resolution, for whoever looks at their plots."""
    answer(slug, slots, timezone.now())


def fill_later(slug: str) -> None:
    """Send the task where a row is due."""
    cluster = Cluster.objects.filter(slug=slug).first()
    if cluster is not None and next_row(cluster) is not None:
        backfill.apply_async((slug,), expires=BACKFILL_LIMIT_S)


def next_row(cluster: Cluster) -> Backfill | None:
    """The span that is to be filled next."""
    return due(cluster, timezone.now(), interval=settings.POLL_INTERVAL, thresholds=settings.LIMITS.site)


@shared_task
def retain(pk: int) -> None:
    """Of one cluster: roll up and pack the hours that are over, then delete what has been kept for long enough."""
    cluster = Cluster.objects.filter(pk=pk).first()
    if cluster is not None:
        now = timezone.now()
        roll_up(cluster, settings.POLL_INTERVAL, now)
        compact(cluster, now)
        usage.roll_up(cluster, now - settings.RETENTION.usage)
        delete_expired(cluster, settings.RETENTION, now)


@shared_task
def roll_up_usage() -> None:
    """The ledger's roll-ups of every cluster, as soon as a team rule has changed."""
    for cluster in Cluster.objects.all():
        usage.roll_up(cluster, timezone.now() - settings.RETENTION.usage)


@shared_task
def retain_all() -> None:
    """Every cluster, also those that are declared no more: what is kept of them grows old too."""
    for pk in Cluster.objects.values_list("pk", flat=True):
        retain.apply_async((pk,), expires=RETAIN_EVERY_S)
