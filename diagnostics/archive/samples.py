"""What the last polls measured, a row each: the next poll makes windows of them where there is no Prometheus."""

import logging
from datetime import datetime
from typing import NamedTuple

from diagnostics.collect import windows
from diagnostics.collect.windows import RecentSamples
from diagnostics.models import Cluster, RecentSamplesRow

log = logging.getLogger(__name__)


class Entry(NamedTuple):
    """This poll's row, ready to be written, and from when on rows are still needed."""

    taken_at: datetime
    data: bytes
    oldest: datetime


def entry(recent: RecentSamples, taken_at: datetime) -> Entry | None:
    """What the poll at `taken_at` added to `recent`; None where it came too late to count."""
    poll = recent.polled_at(taken_at)
    return None if poll is None else Entry(taken_at, windows.encode(poll), recent.polls[0].at)


def keep(cluster: Cluster, kept: Entry) -> None:
    """In the poll's transaction. A poll repeated for the same moment replaces its row; old ones go."""
    RecentSamplesRow.objects.bulk_create(
        [RecentSamplesRow(cluster=cluster, taken_at=kept.taken_at, data=kept.data)],
        update_conflicts=True,
        unique_fields=["cluster", "taken_at"],
        update_fields=["data"],
    )
    RecentSamplesRow.objects.filter(cluster=cluster, taken_at__lt=kept.oldest).delete()


def known(cluster: Cluster) -> RecentSamples:
    """All that is kept, oldest first. A row that cannot be read costs its poll's samples."""
    rows = RecentSamplesRow.objects.filter(cluster=cluster).order_by("taken_at")
    polls = []
    for taken_at, data in rows.values_list("taken_at", "data"):
        poll = windows.decode(bytes(data))
        if poll is None:
            log.warning("%s: samples of %s cannot be read", cluster, taken_at)
        else:
            polls.append(poll)
    return RecentSamples(tuple(polls))
