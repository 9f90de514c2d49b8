"""What the database takes now, by kind, and what it will take once each kind is kept for its whole retention."""

from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

from django.db import OperationalError, connection, models, transaction
from django.db.models import Count, Max, Min, Q, Sum
from django.db.models.functions import Length

from diagnostics import models as stored
from diagnostics.models import Cluster, Tier
from diagnostics.retention import Retention

SHORTEST = timedelta(minutes=30)
"""From less than this nothing is foretold."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PER_DAY = {Tier.HOUR: 24.0, Tier.DAY: 1.0}


class Size(NamedTuple):
    """One kind of record."""

    kind: str
    rows: int
    bytes_now: int | None
    """With its share of the indexes; None where the database does not tell (SQLite built without dbstat)."""
    kept_for: timedelta | None
    """None: there is one for all time, or they go with what they belong to."""
    bytes_then: int | None
    """At the whole retention, if things go on as now; None while too little is known."""


class _Kind(NamedTuple):
    kind: str
    model: type[models.Model]
    to_cluster: str
    """Look-up from the model to its cluster."""
    time: str
    """Field by which it ages; empty for what does not."""
    kept_for: timedelta | None
    only: Q = Q()


def sizes(cluster: Cluster, keep_for: Retention, interval: timedelta) -> list[Size]:
    """Every kind of record of this cluster. `interval`: between two polls.

    Bytes are those of the table with its indexes, by the cluster's share of the packed data or, where there is none, of
    the rows.
    """
    per_day = {Tier.POLL: timedelta(days=1) / interval, **PER_DAY}
    found = []
    for kind in _kinds(keep_for):
        mine = kind.model._base_manager.filter(kind.only, **{kind.to_cluster: cluster})
        rows, first, last = _extent(mine, kind.time)
        whole = _table_bytes(kind.model)
        if whole is None:
            found.append(Size(kind.kind, rows, None, kind.kept_for, None))
            continue
        now = round(whole * _share(kind.model, mine, rows))
        if kind.model is stored.ArchivedSnapshot:
            tier = Tier(kind.kind.partition(" ")[2])
            then = _archive_then(
                rows, now, (kind.kept_for or timedelta()) / timedelta(days=1) * per_day[tier]
            )
        else:
            then = _then(now, kind, last - first if first is not None and last is not None else None)
        found.append(Size(kind.kind, rows, now, kind.kept_for, then))
    return found


def _kinds(keep_for: Retention) -> list[_Kind]:
    archived = [
        _Kind(f"snapshots {tier}", stored.ArchivedSnapshot, "cluster", "taken_at", kept, Q(tier=tier))
        for tier, kept in (
            (Tier.POLL, keep_for.polls),
            (Tier.HOUR, keep_for.hours),
            (Tier.DAY, keep_for.days),
        )
    ]
    return [
        *archived,
        _Kind("latest snapshot", stored.StoredSnapshot, "cluster", "", None),
        _Kind("latest picture", stored.StoredPicture, "cluster", "", None),
        _Kind("samples of the window", stored.RecentSamplesRow, "cluster", "", None),
        _Kind("history for the next poll", stored.ArchiveState, "cluster", "", None),
        _Kind("events", stored.EventHour, "cluster", "hour", keep_for.events),
        _Kind("metrics", stored.MetricDay, "node__cluster", "day", keep_for.metrics),
        _Kind("observations", stored.Observation, "cluster", "taken_at", keep_for.observations),
        _Kind("incidents", stored.Incident, "cluster", "first_seen", keep_for.incidents),
        _Kind("events of incidents", stored.IncidentEvent, "incident__cluster", "at", keep_for.incidents),
        _Kind("excerpts", stored.Excerpt, "incident__cluster", "at", keep_for.incidents),
        _Kind("states", stored.StateInterval, "cluster", "end_ms", keep_for.states),
        _Kind("usage", stored.UsageHour, "cluster", "hour", keep_for.usage),
        _Kind("usage roll-ups", stored.UsageRollup, "cluster", "day", keep_for.usage),
        _Kind("ledger", stored.LedgerState, "cluster", "", None),
        _Kind("workloads", stored.Workload, "cluster", "first_seen", keep_for.usage),
        _Kind("holders", stored.Allocation, "cluster", "started_at", keep_for.topology),
        _Kind("changes", stored.TopologyChange, "cluster", "at", keep_for.topology),
        _Kind("nodes", stored.Node, "cluster", "", None),
        _Kind("devices", stored.Device, "cluster", "", None),
    ]


def _extent(rows: models.QuerySet[Any], time: str) -> tuple[int, datetime | None, datetime | None]:
    """Number of rows, and the first and the last time in them."""
    if not time:
        return rows.count(), None, None
    found = rows.order_by().aggregate(rows=Count("pk"), first=Min(time), last=Max(time))
    return found["rows"], _moment(found["first"]), _moment(found["last"])


def _moment(value: datetime | date | int | None) -> datetime | None:
    match value:
        case datetime() | None:
            return value
        case int():
            return EPOCH + timedelta(milliseconds=value)
    return datetime(value.year, value.month, value.day, tzinfo=EPOCH.tzinfo)


def _share(model: type[models.Model], mine: models.QuerySet[Any], rows: int) -> float:
    """Of the table, by packed bytes where there are any: a patch is a tenth of a whole snapshot."""
    if not rows:
        return 0.0
    if any(
        field.name == "data" and isinstance(field, models.BinaryField)
        for field in model._meta.concrete_fields
    ):
        of_mine = mine.order_by().aggregate(size=Sum(Length("data")))["size"] or 0
        of_all = model._base_manager.order_by().aggregate(size=Sum(Length("data")))["size"] or 0
        if of_all:
            return float(of_mine / of_all)
    return rows / model._base_manager.count()


def _then(now: int, kind: _Kind, spans: timedelta | None) -> int | None:
    if kind.kept_for is None or not now:
        return now
    if spans is None or spans < SHORTEST:
        return None
    if kind.model is stored.MetricDay:
        # The last day is one, too.
        spans += timedelta(days=1)
    return round(now * max(1.0, kind.kept_for / spans))


def _archive_then(rows: int, now: int, expected: float) -> int | None:
    """By the mean size of one; None without any."""
    return round(now / rows * max(rows, expected)) if rows else None


def _table_bytes(model: type[models.Model]) -> int | None:
    """Table, indexes and what is stored apart from them."""
    table = model._meta.db_table
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT pg_total_relation_size(%s::regclass)", [table])
            return int(cursor.fetchone()[0])
        try:
            with transaction.atomic():
                cursor.execute(
                    "SELECT COALESCE(SUM(pgsize), 0) FROM dbstat WHERE aggregate = TRUE AND name IN "
                    "(SELECT name FROM sqlite_master WHERE tbl_name = %s)",
                    [table],
                )
                return int(cursor.fetchone()[0])
        except OperationalError:
            return None
