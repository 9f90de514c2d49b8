"""The books and what they yield, in the database: read, locked and written in the caller's transaction."""

import logging
from collections.abc import Iterable

import msgspec
import zstandard

from diagnostics.models import (
    STATE_NUMBERS,
    STATES,
    Cluster,
    GpuModel,
    LedgerState,
    StateInterval,
    UsageHour,
    Workload,
)
from diagnostics.usage.books import Books, Ended, Key
from diagnostics.usage.moments import from_ms, to_ms
from diagnostics.usage.weights import HOUR_MS, NOBODY_KEY, Shape

log = logging.getLogger(__name__)

MAX_BOOKS_BYTES = 2**30
"""What a stored one may unpack to."""
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Books)
BATCH = 2_000


def locked(cluster: Cluster) -> LedgerState:
    """The cluster's ledger, held until the transaction ends: polls and back-filling wait for each other."""
    return LedgerState.objects.select_for_update().get_or_create(cluster=cluster)[0]


def opened(ledger: LedgerState, at: int) -> Books:
    """Its books; new ones where there are none, or none that can be read, as of the poll at `at` (ms).

    What unreadable books knew of open stays is lost and stands as unobserved; no sum is.
    """
    data = bytes(ledger.data)
    if data:
        try:
            return _decoder.decode(zstandard.decompress(data, max_output_size=MAX_BOOKS_BYTES))
        except (msgspec.MsgspecError, zstandard.ZstdError) as error:
            log.warning("the books of ledger %s cannot be read and are begun anew: %s", ledger.pk, error)
    through = to_ms(ledger.complete_through) if ledger.complete_through else at
    books = Books(through=through)
    rows = UsageHour.objects.filter(
        cluster=ledger.cluster_id, hour__gte=from_ms(through - through % HOUR_MS), is_backfilled=False
    )
    nobody = nobody_key(ledger.cluster_id)
    for row in rows:
        workload = NOBODY_KEY if row.workload_id == nobody else row.workload_id
        key = Key(workload, row.model_id, STATES[row.state], row.is_gap)
        books.add(to_ms(row.hour), key, row.gpu_ms, row.waste_ms)
    return books


def close(ledger: LedgerState, books: Books) -> None:
    """Store the books."""
    ledger.data = zstandard.compress(_encoder.encode(books), 1)
    ledger.complete_through = from_ms(books.through)
    ledger.save(update_fields=["data", "complete_through"])


def nobody_key(cluster_id: int) -> int | None:
    """Primary key of the row that stands for nobody; None before the first poll."""
    return Workload.objects.filter(cluster=cluster_id, kind="").values_list("pk", flat=True).first()


def model_keys(names: Iterable[str]) -> dict[str, int]:
    """Name -> primary key of each GPU model, new ones added."""
    wanted = set(names)
    known = dict(GpuModel.objects.values_list("name", "pk"))
    if new := wanted - known.keys():
        GpuModel.objects.bulk_create([GpuModel(name=name) for name in sorted(new)], ignore_conflicts=True)
        known = dict(GpuModel.objects.values_list("name", "pk"))
    return known


def interval_rows(
    cluster: Cluster, ended: Iterable[Ended], *, is_backfilled: bool = False
) -> list[StateInterval]:
    """Stays as rows, not yet written. A gap remembers what it weighs, for whoever fills it."""
    return [
        StateInterval(
            cluster=cluster,
            device_id=device,
            start_ms=stay.start,
            end_ms=stay.end,
            state=STATE_NUMBERS[stay.state],
            ineffective_ms=stay.ineffective_ms,
            waste_ms=stay.waste_ms,
            holders=list(stay.holders),
            is_gap=stay.is_gap,
            is_backfilled=is_backfilled and not stay.is_gap,
            gap_shape=msgspec.to_builtins(shape) if stay.is_gap else None,
        )
        for device, stay, shape in ended
    ]


def shape_of_gap(row: StateInterval) -> Shape:
    """What a gap weighs."""
    return msgspec.convert(row.gap_shape, Shape)
