"""Kubernetes events, which the cluster itself forgets after an hour: one packed row per hour, each event once."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec
import zstandard

from diagnostics.models import Cluster, EventHour
from diagnostics.snapshot import Event

MOST_EVENTS = 50_000
"""Of one hour; from then on only warnings are added, and at twice as many nothing."""
SLACK = timedelta(minutes=5)
"""An event may reach the list so much later than its time: node clocks differ, and kubelets send in bulk."""
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


class _Chunk(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What one poll added to an hour; the first of several with the same event is outdone by the last."""

    written_s: int
    """Time of that poll, in seconds after the hour's beginning."""
    events: int
    packed: bytes


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
_chunks_decoder = msgspec.msgpack.Decoder(tuple[_Chunk, ...])


def changed_hours(cluster: Cluster, events: Iterable[Event], now: datetime) -> list[Hour]:
    """The hours to which this poll's events add something, as they become. An event counts for the hour in which it
    was last seen; one that goes on is in each of its hours, with the count that it had reached.

    What was seen last before the last poll that added something was there for it to add: such events, and what
    earlier polls wrote, are not looked at.
    """
    stored = EventHour.objects.filter(cluster=cluster, hour__lte=now)
    newest = stored.order_by("-hour").first()
    since = None if newest is None else _last_written(newest, now) - SLACK
    by_hour: dict[datetime, list[Event]] = defaultdict(list)
    for event in events:
        # A node's clock may run ahead; nothing was seen after now.
        last = min(now, event.last_at or event.first_at or now)
        if since is None or last >= since:
            hour = last.replace(minute=0, second=0, microsecond=0)
            by_hour[hour].append(
                msgspec.structs.replace(event, uid="", message=event.message[:MOST_CHARACTERS], last_at=last)
            )
    known = {row.hour: row for row in stored.filter(hour__in=by_hour)}
    found = (_with_more(hour, seen, known.get(hour), now, since) for hour, seen in by_hour.items())
    return [hour for hour in found if hour is not None]


def compact(cluster: Cluster, now: datetime) -> int:
    """Pack each hour that is over, of the last day, as one piece; how many there were to pack."""
    over = EventHour.objects.filter(cluster=cluster, hour__lt=now - HOUR - SLACK, hour__gte=now - 24 * HOUR)
    done = 0
    for pk in list(over.values_list("pk", flat=True)):
        row = EventHour.objects.get(pk=pk)
        chunks = _chunks(row)
        if len(chunks) < 2:
            continue
        kept = list(_read(row).values())
        last = max(chunk.written_s for chunk in chunks)
        data = _encoded([_Chunk(last, len(kept), _packed(row.hour, kept))])
        # Not where a late event was added in the meantime.
        unchanged = EventHour.objects.filter(pk=pk, count=row.count)
        done += unchanged.update(count=len(kept), data=data)
    return done


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
    about: Callable[[str, str, str], bool] | None = None,
) -> list[Event]:
    """Events last seen from `start` to before `end`, oldest first; each once, with the highest count.

    `kind`, `namespace` and `name` are those of the object that they are about; `about` is asked with all three. Times
    are whole seconds, messages have at most 1,000 characters, UIDs are not kept. Rows that cannot be read are left out.
    """
    first = start.replace(minute=0, second=0, microsecond=0)
    rows = EventHour.objects.filter(cluster=cluster, hour__gte=first, hour__lt=end).order_by("hour")
    found: dict[Identity, Event] = {}

    def is_wanted(its_kind: str, its_namespace: str, its_name: str) -> bool:
        return (
            kind in (None, its_kind)
            and namespace in (None, its_namespace)
            and name in (None, its_name)
            and (about is None or about(its_kind, its_namespace, its_name))
        )

    for row in rows.iterator(chunk_size=24):
        found |= {
            identity: event
            for identity, event in _read(row, is_wanted).items()
            if event.last_at is not None and start <= event.last_at < end
        }
    return sorted(found.values(), key=lambda e: (e.last_at or start, e.kind, e.namespace, e.name, e.reason))


def _identity(event: Event) -> Identity:
    first = None if event.first_at is None else int(event.first_at.timestamp())
    return (
        *(event.kind, event.namespace, event.name),
        *(event.reason, event.component, event.message, first),
    )


def _with_more(
    hour: datetime, seen: list[Event], row: EventHour | None, now: datetime, since: datetime | None
) -> Hour | None:
    """None where the row has all of it already."""
    chunks = [] if row is None else _chunks(row)
    count = sum(chunk.events for chunk in chunks)
    known: dict[Identity, Event] = {}
    for chunk in chunks:
        if since is None or chunk.written_s >= _seconds(since, hour):
            known |= _unpacked(chunk, hour)
    fresh = {_identity(event): event for event in seen}
    added = [
        event
        for identity, event in fresh.items()
        if (identity not in known or known[identity].count < event.count)
        and (count < MOST_EVENTS or (event.type != "Normal" and count < 2 * MOST_EVENTS))
    ][:MOST_EVENTS]
    if not added:
        return None
    chunks.append(_Chunk(_seconds(now, hour), len(added), _packed(hour, added)))
    return Hour(hour, count + len(added), _encoded(chunks))


def _last_written(row: EventHour, now: datetime) -> datetime:
    """Time of the last poll that added to it; its beginning where it cannot be read."""
    last = max((chunk.written_s for chunk in _chunks(row)), default=0)
    return min(now, row.hour + timedelta(seconds=last))


def _encoded(chunks: list[_Chunk]) -> bytes:
    return msgspec.msgpack.encode(chunks)


def _chunks(row: EventHour) -> list[_Chunk]:
    """Empty for a row that cannot be read, which is begun anew."""
    try:
        return list(_chunks_decoder.decode(bytes(row.data)))
    except msgspec.DecodeError as error:
        log.warning("events of %s cannot be read: %s", row.hour, error)
        return []


def _packed(hour: datetime, kept: list[Event]) -> bytes:
    kept.sort(key=lambda event: (event.kind, event.namespace, event.name, event.reason))
    columns = _Columns(
        **{text: [getattr(event, text) for event in kept] for text in _TEXTS},
        count=[event.count for event in kept],
        first_s=[None if event.first_at is None else _seconds(event.first_at, hour) for event in kept],
        last_s=[None if event.last_at is None else _seconds(event.last_at, hour) for event in kept],
    )
    return zstandard.ZstdCompressor(level=3).compress(msgspec.msgpack.encode(columns))


def _read(row: EventHour, is_wanted: Callable[[str, str, str], bool] | None = None) -> dict[Identity, Event]:
    """Each event once; what cannot be read is left out."""
    found: dict[Identity, Event] = {}
    for chunk in _chunks(row):
        found |= _unpacked(chunk, row.hour, is_wanted)
    return found


def _unpacked(
    chunk: _Chunk, hour: datetime, is_wanted: Callable[[str, str, str], bool] | None = None
) -> dict[Identity, Event]:
    """Asking before an event is made of its columns takes a tenth of the time."""
    data = chunk.packed
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
                first_at=_moment(first, hour),
                last_at=_moment(last, hour),
            )
            for text, (count, first, last) in zip(texts, numbers, strict=True)
            if is_wanted is None or is_wanted(*text[:3])
        ]
    except (zstandard.ZstdError, msgspec.DecodeError, ValueError, OverflowError) as error:
        log.warning("some events of %s cannot be read: %s", hour, error)
        return {}
    return {_identity(event): event for event in found}


def _seconds(moment: datetime, hour: datetime) -> int:
    return int(moment.timestamp()) - int(hour.timestamp())


def _moment(seconds: int | None, hour: datetime) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(hour.timestamp() + seconds, UTC)
