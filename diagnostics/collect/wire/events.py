"""Events of events.k8s.io/v1 and of core/v1: the same objects under two sets of names."""

import msgspec

from diagnostics.collect.wire.metadata import MetaWire, Parts, Time, Wire, message
from diagnostics.snapshot import Event


class _About(Wire):
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None


class _Series(Wire):
    count: int | None = None
    last_observed_time: Time | None = None


class _SourceWire(Wire):
    component: str | None = None
    host: str | None = None


class EventWire(Wire):
    """Either API; an event has the fields of one of them."""

    metadata: MetaWire
    type: str | None = None
    reason: str | None = None
    event_time: Time | None = None
    series: _Series | None = None
    # events.k8s.io/v1
    regarding: _About | None = None
    note: str | None = None
    reporting_controller: str | None = None
    deprecated_source: _SourceWire | None = None
    deprecated_first_timestamp: Time | None = None
    deprecated_last_timestamp: Time | None = None
    deprecated_count: int | None = None
    # core/v1
    involved_object: _About | None = None
    message: str | None = None
    reporting_component: str | None = None
    source: _SourceWire | None = None
    first_timestamp: Time | None = None
    last_timestamp: Time | None = None
    count: int | None = None


_NOWHERE = _SourceWire()


class EventConverter:
    """Converts the events of one list."""

    def __init__(self) -> None:
        self._parts = Parts()

    def __call__(self, wire: EventWire) -> Event:
        """The scheduler sets only eventTime and series, the kubelet only the old fields.

        The last time is the latest of all that are set. An event that is about nothing raises ValueError.
        """
        text = self._parts.text
        about = wire.regarding or wire.involved_object
        if about is None or not about.kind or not about.name:
            raise msgspec.ValidationError("the event does not say what it is about")
        source = wire.source or wire.deprecated_source or _NOWHERE
        series = wire.series or _Series()
        created = wire.metadata.creation_timestamp
        first = wire.first_timestamp or wire.deprecated_first_timestamp or wire.event_time or created
        times = [
            moment
            for moment in (
                series.last_observed_time,
                wire.last_timestamp,
                wire.deprecated_last_timestamp,
                wire.event_time,
                created,
            )
            if moment is not None
        ]
        return Event(
            namespace=text(about.namespace),
            type=text(wire.type),
            reason=text(wire.reason),
            message=message(wire.note or wire.message),
            kind=text(about.kind),
            name=text(about.name),
            uid=text(about.uid),
            component=text(source.component or wire.reporting_controller or wire.reporting_component),
            host=text(source.host),
            count=series.count or wire.count or wire.deprecated_count or 1,
            first_at=first,
            last_at=max(times, default=None),
        )
