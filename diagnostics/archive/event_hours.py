"""Kubernetes events, which the cluster itself forgets after an hour: one packed row per hour, each event once."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec
import zstandard

from diagnostics.models import Cluster, EventHour
from diagnostics.snapshot import Event

MOST_EVENTS = 20_000
"""Of one hour; beyond that the oldest that are no warnings go first."""
MOST_CHARACTERS = 1_000
"""Of a message."""
MOST_BYTES = 256 * 2**20
HOUR = timedelta(hours=1)

log = logging.getLogger(__name__)

Identity = tuple[str, str, str, str, str, str, int | None]
"""Kind, namespace and name of the object, reason, component, message, and the second when it was seen first."""


class Hour(NamedTuple):
    """A row, ready to be written."""

    hour: datetime
    events: int
    data: bytes


class _Columns(msgspec.Struct, gc=False):
    """Events by field, times in seconds after the hour's beginning; those of one object stand together."""

    kind: list[str] = []
    namespace: list[str] = []
    name: list[str] = []
    type: list[str] = []
    reason: list[str] = []
    component: list[str] = []
    host: list[str] = []
    message: list[str] = []
    count: list[int] = []
    first_s: list[int | None] = []
    last_s: list[int | None] = []


_TEXTS = ("kind", "namespace", "name", "type", "reason", "component", "host", "message")
_decoder = msgspec.msgpack.Decoder(_Columns)


def changed_hours(cluster: Cluster, events: Iterable[Event], now: datetime) -> list[Hour]:
    """The hours to which this poll's events add something, as they become. An event counts for the hour in which it
    was last seen; one that goes on is in each of its hours, with the count that it had reached.

    The last hours alone are looked at: what is older was there at earlier polls.
    """
    stored = EventHour.objects.filter(cluster=cluster, hour__lte=now)
    newest = stored.order_by("-hour").values_list("hour", flat=True).first()
    by_hour: dict[datetime, dict[Identity, Event]] = defaultdict(dict)
    for event in events:
        # A node's clock may run ahead; nothing was seen after now.
        last = min(now, event.last_at or event.first_at or now)
        hour = last.replace(minute=0, second=0, microsecond=0)
        if newest is None or hour >= newest - HOUR:
            kept = msgspec.structs.replace(
                event, uid="", message=event.message[:MOST_CHARACTERS], last_at=last
            )
            by_hour[hour][_identity(kept)] = kept
    known = {row.hour: row for row in stored.filter(hour__in=by_hour)}
    found = (_merged(hour, seen, known.get(hour)) for hour, seen in by_hour.items())
    return [hour for hour in found if hour is not None]


def keep(cluster: Cluster, hours: Iterable[Hour]) -> None:
    """In the poll's transaction."""
    EventHour.objects.bulk_create(
        [EventHour(cluster=cluster, hour=hour, count=number, data=data) for hour, number, data in hours],
        update_conflicts=True,
        unique_fields=["cluster", "hour"],
        update_fields=["count", "data"],
    )


def events(
    cluster: Cluster,
    start: datetime,
    end: datetime,
    *,
    kind: str | None = None,
    namespace: str | None = None,
    name: str | None = None,
) -> list[Event]:
    """Events last seen from `start` to before `end`, oldest first; each once, with the highest count.

    `kind`, `namespace` and `name` are those of the object that they are about. Times are whole seconds, messages have
    at most 1,000 characters, UIDs are not kept. Rows that cannot be read are left out.
    """
    first = start.replace(minute=0, second=0, microsecond=0)
    rows = EventHour.objects.filter(cluster=cluster, hour__gte=first, hour__lt=end).order_by("hour")
    found: dict[Identity, Event] = {}
    for row in rows.iterator(chunk_size=24):
        found |= {
            identity: event
            for identity, event in _read(row).items()
            if event.last_at is not None
            and start <= event.last_at < end
            and kind in (None, event.kind)
            and namespace in (None, event.namespace)
            and name in (None, event.name)
        }
    return sorted(found.values(), key=lambda event: event.last_at or start)


def _identity(event: Event) -> Identity:
    first = None if event.first_at is None else int(event.first_at.timestamp())
    return (
        *(event.kind, event.namespace, event.name),
        *(event.reason, event.component, event.message, first),
    )


def _merged(hour: datetime, seen: Mapping[Identity, Event], row: EventHour | None) -> Hour | None:
    """None where the row has all of it already."""
    known = {} if row is None else _read(row)
    fresh = {
        identity: event
        for identity, event in seen.items()
        if identity not in known or known[identity].count < event.count
    }
    if not fresh:
        return None
    merged = list({**known, **fresh}.values())
    if len(merged) > MOST_EVENTS:
        merged.sort(key=lambda event: (event.type != "Normal", event.last_at or hour), reverse=True)
        del merged[MOST_EVENTS:]
    return Hour(hour, len(merged), _packed(hour, merged))


def _packed(hour: datetime, kept: list[Event]) -> bytes:
    kept.sort(key=lambda event: (event.kind, event.namespace, event.name, event.reason))
    columns = _Columns(
        **{text: [getattr(event, text) for event in kept] for text in _TEXTS},
        count=[event.count for event in kept],
        first_s=[_seconds(event.first_at, hour) for event in kept],
        last_s=[_seconds(event.last_at, hour) for event in kept],
    )
    return zstandard.ZstdCompressor(level=6).compress(msgspec.msgpack.encode(columns))


def _read(row: EventHour) -> dict[Identity, Event]:
    """Empty for a row that cannot be read."""
    data = bytes(row.data)
    try:
        if not 0 <= zstandard.get_frame_parameters(data).content_size <= MOST_BYTES:
            raise ValueError("it would fill the memory")
        columns = _decoder.decode(zstandard.ZstdDecompressor().decompress(data))
        texts = zip(*(getattr(columns, text) for text in _TEXTS), strict=True)
        numbers = zip(columns.count, columns.first_s, columns.last_s, strict=True)
        found = [
            Event(
                **dict(zip(_TEXTS, text, strict=True)),
                count=count,
                first_at=_moment(first, row.hour),
                last_at=_moment(last, row.hour),
            )
            for text, (count, first, last) in zip(texts, numbers, strict=True)
        ]
    except (zstandard.ZstdError, msgspec.DecodeError, ValueError, OverflowError) as error:
        log.warning("events of %s cannot be read: %s", row.hour, error)
        return {}
    return {_identity(event): event for event in found}


def _seconds(moment: datetime | None, hour: datetime) -> int | None:
    return None if moment is None else int(moment.timestamp()) - int(hour.timestamp())


def _moment(seconds: int | None, hour: datetime) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(hour.timestamp() + seconds, UTC)
