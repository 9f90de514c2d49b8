"""The last hours of a few devices as Prometheus has them, kept for a short while for whoever looks at them.

In the database and not in a cache: web and worker are other processes, a site may have no Redis but the broker, and a
table that comes with the migrations is there in every installation. Rows last an hour.
"""

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec
import zstandard

from diagnostics.models import Cluster, LiveRange

KEPT_FOR = timedelta(hours=1)
MOST_BYTES = 64 * 2**20
_encode = msgspec.msgpack.Encoder().encode


class Measured(msgspec.Struct, frozen=True, array_like=True):
    """Values at equal steps, the first at `start_s` (seconds since 1970)."""

    start_s: int
    step_s: int
    steps: int
    lines: dict[str, dict[str, list[float | None]]]
    """Slot -> field of `Metrics` -> a value per step in the field's unit, None where there is none."""

    @property
    def start(self) -> datetime:
        return datetime.fromtimestamp(self.start_s, UTC)

    @property
    def step(self) -> timedelta:
        return timedelta(seconds=self.step_s)


class Answer(NamedTuple):
    """What there is, and why it is not all."""

    at: datetime
    detail: str
    measured: Measured | None


_decoder = msgspec.msgpack.Decoder(Measured)


def key_of(slots: Iterable[str]) -> str:
    """Names a set of slots, whatever their order."""
    joined = "\n".join(sorted(set(slots)))
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()


def answer_to(cluster: Cluster, slots: Iterable[str]) -> Answer | None:
    """The last answer about these slots; None where there is none that can be read. One query."""
    row = LiveRange.objects.filter(cluster=cluster, key=key_of(slots)).first()
    if row is None:
        return None
    data = bytes(row.data)
    try:
        measured = _decoder.decode(zstandard.decompress(data, max_output_size=MOST_BYTES)) if data else None
    except (zstandard.ZstdError, msgspec.DecodeError):
        return None
    return Answer(row.answered_at, row.detail, measured)


def keep(cluster: Cluster, slots: Iterable[str], answer: Answer) -> None:
    """Let this be the last answer about these slots, and forget what nobody asked for lately."""
    data = zstandard.compress(_encode(answer.measured), 3) if answer.measured is not None else b""
    LiveRange.objects.update_or_create(
        cluster=cluster,
        key=key_of(slots),
        defaults={"answered_at": answer.at, "detail": answer.detail, "data": data},
    )
    LiveRange.objects.filter(answered_at__lt=answer.at - KEPT_FOR).delete()
