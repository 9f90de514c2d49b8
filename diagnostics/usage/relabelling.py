"""Workloads whose labels are others than when their hours were rolled up: whose time it is has to be looked up anew."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from diagnostics.models import Cluster, UsageHour, UsageRollup, Workload
from diagnostics.usage.covering import made_of
from diagnostics.usage.lines import Damaged, Line, Values, lines_of, unpacked
from diagnostics.usage.owners import looked_up
from diagnostics.usage.owners import read as read_keys

LAG = timedelta(hours=2)
"""`last_seen` of a workload may lag behind by minutes, and an hour is rolled up when it has been final for a while."""
WHOLE = UsageRollup.WHOLE_DAY


def doubt_relabelled(cluster: Cluster) -> set[int]:
    """Mark the roll-ups of workloads that say something else now, in a transaction that holds the ledger.

    Each workload that was seen lately is compared with the newest roll-up that knows it. Returns the relabelled ones.
    """
    rolled = UsageRollup.objects.filter(cluster=cluster)
    newest = (
        rolled.filter(hour__lt=WHOLE).order_by("-day", "-hour").values_list("day", "hour", "keys").first()
    )
    keys = read_keys(newest[2]) if newest is not None else None
    if newest is None or not keys:
        return set()
    day, hour, text = newest
    at = datetime(day.year, day.month, day.day, hour, tzinfo=UTC)
    seen = Workload.objects.filter(cluster=cluster, last_seen__gte=at - LAG).exclude(kind="")
    first_seen = dict(seen.values_list("pk", "first_seen"))
    left = looked_up(cluster, first_seen, keys)
    changed: set[int] = set()
    for until, lines in _newest_first(cluster, text):
        left = {pk: values for pk, values in left.items() if first_seen[pk] < until}
        if not left:
            break
        known: dict[int, Values] = {line.workload: line.owner for line in lines if line.workload in left}
        changed |= {pk for pk, values in known.items() if values != left.pop(pk)}
    if changed:
        _doubt(cluster, changed)
    return changed


def _newest_first(cluster: Cluster, text: str) -> Iterator[tuple[datetime, list[Line]]]:
    """End and lines of the roll-ups with these keys: hours that are in no whole day, and days."""
    rows = UsageRollup.objects.filter(cluster=cluster, keys=text, hour__lte=WHOLE)
    days = set(rows.filter(hour=WHOLE).values_list("day", flat=True))
    places = [
        (day, hour) for day, hour in rows.values_list("day", "hour") if hour == WHOLE or day not in days
    ]
    for day, hour in sorted(places, reverse=True):
        data = rows.filter(day=day, hour=hour).values_list("lines", flat=True).first()
        try:
            lines = lines_of(unpacked(bytes(data or b"")))
        except Damaged:
            continue
        end = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(hours=min(hour + 1, WHOLE))
        yield end, lines


def _doubt(cluster: Cluster, workloads: set[int]) -> None:
    hours = UsageHour.objects.filter(cluster=cluster, workload__in=workloads)
    moments = hours.values_list("hour", flat=True).order_by().distinct()
    for made in made_of(cluster, [hour.astimezone(UTC) for hour in moments]):
        made.update(keys="")
