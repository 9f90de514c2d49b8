"""What is to be filled: spans that nobody observed, as rows that wait, and which of them is next."""

from datetime import datetime, timedelta

from django.conf import settings

from diagnostics import usage
from diagnostics.limits import Thresholds
from diagnostics.models import Backfill, Cluster, Workload

MISSED_POLLS = 2
"""Longer than so many intervals between two polls was not observed (`usage`)."""
LEASE = timedelta(minutes=5)
"""A run that has not finished a chunk for so long is taken for dead. Two runs at once do no harm, only work."""
FIRST_RETRY, LAST_RETRY = timedelta(minutes=2), timedelta(hours=1)
MOST_ATTEMPTS = 30
"""In a row without progress, about a day: then somebody has to look."""
LONG_GAP = timedelta(hours=1)
"""Of a gap that still goes on, pieces of this length are filled."""

Status = Backfill.Status


def tail(interval: timedelta, thresholds: Thresholds) -> timedelta:
    """What follows a span must be known so far, before quiet time at its end can be judged."""
    return thresholds.window + MISSED_POLLS * interval


def open_span(cluster: Cluster, start: datetime, end: datetime, until_judged: timedelta) -> list[Backfill]:
    """A row for the span; its last part as a row of its own, since that has to wait until it can be judged."""
    return Backfill.objects.bulk_create(_parts(cluster, start, end, until_judged)) if start < end else []


def _parts(cluster: Cluster, start: datetime, end: datetime, until_judged: timedelta) -> list[Backfill]:
    cut = end - until_judged
    spans = [(start, end)] if cut - start < until_judged else [(start, cut), (cut, end)]
    return [Backfill(cluster=cluster, start=start, end=end, done_from=end) for start, end in spans]


def find_gaps(
    cluster: Cluster, now: datetime, *, interval: timedelta, reach: timedelta, thresholds: Thresholds
) -> list[Backfill]:
    """Rows for what was not observed and no row covers yet: the `reach` before the first poll, polls that did not come,
    and those that came but could not see everything. Nothing where the cluster has no Prometheus.
    """
    if not _has_prometheus(cluster):
        return []
    until_judged = tail(interval, thresholds)
    start, end = now - reach, now - until_judged
    rows = Backfill.objects.filter(cluster=cluster, end__gt=start).values_list("start", "end")
    covered = sorted(rows)
    found: list[Backfill] = []
    first = _first_poll(cluster)
    for begin, stop in _without((start, first), covered) if first is not None and start < first else ():
        found += _parts(cluster, begin, stop, until_judged)
    for gap in usage.gaps(cluster, start, end):
        for begin, stop in _without(gap, covered):
            is_open = stop >= end
            if stop - begin > MISSED_POLLS * interval and (not is_open or stop - begin >= LONG_GAP):
                found.append(Backfill(cluster=cluster, start=begin, end=stop, done_from=stop))
    return Backfill.objects.bulk_create(found) if found else []


def _first_poll(cluster: Cluster) -> datetime | None:
    """The row that stands for nobody is as old as the first poll that was recorded."""
    nobody = Workload.objects.filter(cluster=cluster, kind="")
    return nobody.values_list("first_seen", flat=True).first()


def _without(
    span: tuple[datetime, datetime], taken: list[tuple[datetime, datetime]]
) -> list[tuple[datetime, datetime]]:
    """What of `span` none of `taken` (in order) covers."""
    rest, (at, end) = [], span
    for start, stop in taken:
        if start >= end:
            break
        if start > at:
            rest.append((at, start))
        at = max(at, stop)
    if at < end:
        rest.append((at, end))
    return rest


def due(cluster: Cluster, now: datetime, *, interval: timedelta, thresholds: Thresholds) -> Backfill | None:
    """The row of the cluster that is to be filled next, the newest first; None while another is being filled.

    A row waits until what follows it is known, and after a failure for longer and longer.
    """
    rows = list(
        Backfill.objects.filter(cluster=cluster, status__in=(Status.WAITING, Status.RUNNING)).order_by("-end")
    )
    if any(row.status == Status.RUNNING and row.updated_at > now - LEASE for row in rows):
        return None
    judged = now - tail(interval, thresholds)
    return next((row for row in rows if row.end <= judged and _is_patient(row, now)), None)


def _is_patient(row: Backfill, now: datetime) -> bool:
    """It has not failed, or long enough ago."""
    if not row.attempts:
        return True
    pause = min(LAST_RETRY, FIRST_RETRY * 2 ** min(row.attempts - 1, 10))
    return bool(row.updated_at + pause <= now)


def _has_prometheus(cluster: Cluster) -> bool:
    declared = settings.CLUSTERS.get(cluster.slug)
    return declared is not None and declared.prometheus is not None
