"""Roll-ups of the ledger, made from hours that are final: each hour by itself, days from hours, months from days.

Every step is a transaction that holds the ledger, so that a poll or a back-filling that writes to an hour comes before
it, or after it and takes the roll-up away (`forget`). What is not rolled up is read from the hours: nothing is counted
twice, nothing is dropped, and a run that is killed is taken up by the next.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import itemgetter
from time import monotonic

from django.db import transaction
from django.db.models import Min, Q

from diagnostics.models import Cluster, LedgerState, UsageHour, UsageRollup
from diagnostics.usage import ledger as ledgers
from diagnostics.usage.covering import DAY, HOUR, Place, made_of, range_of
from diagnostics.usage.lines import (
    Damaged,
    Kind,
    Line,
    by_kind,
    lines_of,
    packed,
    unpacked,
    with_owners,
    without_workloads,
)
from diagnostics.usage.mapping import team_rules
from diagnostics.usage.owners import Keys, answers, keys_of, looked_up, written
from diagnostics.usage.prices import floored
from diagnostics.usage.relabelling import doubt_relabelled

DAILY, MONTHLY = UsageRollup.WHOLE_DAY, UsageRollup.WHOLE_MONTH
MOST_TIME = timedelta(seconds=40)
"""Of one run; the next goes on."""


def roll_up(cluster: Cluster, since: datetime, *, is_over: Callable[[], bool] | None = None) -> int:
    """Bring the roll-ups of the days after `since` up to date, newest first; how many were written.

    Stops when `is_over` says so: by default after MOST_TIME.
    """
    begun = monotonic()
    is_over = is_over or (lambda: monotonic() - begun > MOST_TIME.total_seconds())
    keys = keys_of(team_rules(cluster))
    midnight = datetime(since.year, since.month, since.day, tzinfo=UTC) + DAY
    done = 0
    for step in _steps(cluster, midnight, keys):
        done += step()
        if is_over():
            break
    return done


def forget(cluster: Cluster, hours: Iterable[datetime]) -> None:
    """Take away what was made of these hours (UTC), in the transaction that writes to them."""
    for made in made_of(cluster, hours):
        made.delete()


def _steps(cluster: Cluster, since: datetime, keys: Keys) -> Iterator[Callable[[], int]]:
    """What there is to do, most useful first.

    The newest hour is looked up before all others: so a label that changes meanwhile shows when it is compared.
    """
    places = _places(cluster, since)
    if not places:
        return
    yield partial(_roll_newest, cluster, places[0], keys)
    made = dict(_made(cluster, since))
    for place in places:
        if place not in made:
            yield partial(_roll_hour, cluster, place, keys)
    for place in _whole(places):
        if place not in made:
            yield partial(_roll_whole, cluster, place, keys)
    doubtful = [place for place, text in made.items() if not answers(text, keys)]
    for place in sorted(doubtful, key=partial(_urgency, places[0])):
        yield partial(_look_up, cluster, place, keys)


def _urgency(newest: Place, place: Place) -> tuple[bool, bool, int, int]:
    """The newest hour, then months and days, then hours; new ones before old ones."""
    day, hour = place
    return place != newest, hour < DAILY, -day.toordinal(), -hour


def _places(cluster: Cluster, since: datetime) -> list[Place]:
    """Hours from `since` on that are final, newest first."""
    first = UsageHour.objects.filter(cluster=cluster).aggregate(first=Min("hour"))["first"]
    through = LedgerState.objects.filter(cluster=cluster).values_list("complete_through", flat=True).first()
    if first is None or through is None:
        return []
    start, end = max(since, first.astimezone(UTC)), floored(through)
    hours = (end - i * HOUR for i in range(1, max(0, (end - start) // HOUR) + 1))
    return [(hour.date(), hour.hour) for hour in hours]


def _made(cluster: Cluster, since: datetime) -> Iterator[tuple[Place, str]]:
    """Place -> keys of what is rolled up."""
    rows = UsageRollup.objects.filter(cluster=cluster, day__gte=since.date())
    return (((day, hour), text) for day, hour, text in rows.values_list("day", "hour", "keys").iterator())


def _whole(hours: list[Place]) -> list[Place]:
    """Days, and then months, all of whose hours there are."""
    found = Counter(place for day, _ in hours for place in ((day, DAILY), (day.replace(day=1), MONTHLY)))
    full = []
    for place, number in found.items():
        start, end = range_of(*place)
        if start + number * HOUR == end:
            full.append(place)
    return sorted(full, key=itemgetter(1))


def _roll_newest(cluster: Cluster, place: Place, keys: Keys) -> int:
    """Compare what workloads say now with what is rolled up, before the newest hour is."""
    day, hour = place
    with transaction.atomic():
        ledgers.locked(cluster)
        doubt_relabelled(cluster)
        if UsageRollup.objects.filter(cluster=cluster, day=day, hour=hour).exists():
            return 0
        return _roll_hour(cluster, place, keys)


def _roll_hour(cluster: Cluster, place: Place, keys: Keys) -> int:
    day, number = place
    hour = datetime(day.year, day.month, day.day, number, tzinfo=UTC)
    what = ("workload", "model__name", "state", "is_gap", "is_backfilled", "gpu_ms", "waste_ms")
    with transaction.atomic():
        ledger = ledgers.locked(cluster)
        if ledger.complete_through is None or hour + HOUR > ledger.complete_through:
            return 0
        rows = UsageHour.objects.filter(cluster=cluster, hour=hour).values_list(*what)
        lines = [Line(workload, (), Kind(*kind), gpu, waste) for workload, *kind, gpu, waste in rows]
        owners = looked_up(cluster, {line.workload for line in lines}, keys)
        _write(cluster, place, keys, list(with_owners(lines, owners)))
    return 1


def _roll_whole(cluster: Cluster, place: Place, keys: Keys) -> int:
    """A day from its hours, a month from its days, of which a damaged one is made anew by the next run."""
    day, length = place
    start, end = range_of(*place)
    if length == DAILY:
        parts, count = Q(day=day, hour__lt=DAILY), (end - start) // HOUR
    else:
        parts, count = Q(day__gte=day, day__lt=end.date(), hour=DAILY), (end - start) // DAY
    with transaction.atomic():
        ledgers.locked(cluster)
        rows = UsageRollup.objects.filter(parts, cluster=cluster)
        found = list(rows.values_list("pk", "keys", "lines"))
        texts = {text for _, text, _ in found}
        if len(found) < count or not all(answers(text, keys) for text in texts):
            return 0
        lines: list[Line] = []
        for pk, _, data in found:
            try:
                lines += lines_of(unpacked(bytes(data)))
            except Damaged:
                rows.filter(pk=pk).delete()
                return 0
        if texts != {written(keys)}:
            owners = looked_up(cluster, {line.workload for line in lines}, keys)
            lines = list(with_owners(lines, owners))
        _write(cluster, place, keys, lines)
    return 1


def _look_up(cluster: Cluster, place: Place, keys: Keys) -> int:
    """The owners of one roll-up anew."""
    day, hour = place
    with transaction.atomic():
        ledgers.locked(cluster)
        rows = UsageRollup.objects.filter(cluster=cluster, day=day, hour=hour)
        data = rows.values_list("lines", flat=True).first()
        if data is None:
            return 0
        try:
            lines = lines_of(unpacked(bytes(data)))
        except Damaged:
            rows.delete()
            return 0
        owners = looked_up(cluster, {line.workload for line in lines}, keys)
        _write(cluster, place, keys, list(with_owners(lines, owners)))
    return 1


def _write(cluster: Cluster, place: Place, keys: Keys, lines: list[Line]) -> None:
    day, hour = place
    values = {
        "keys": written(keys),
        "totals": packed(by_kind(lines)),
        "owners": packed(without_workloads(lines)),
        "lines": packed(lines),
    }
    UsageRollup.objects.update_or_create(cluster=cluster, day=day, hour=hour, defaults=values)
