"""One poll entered into the ledger."""

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from diagnostics.limits import Thresholds
from diagnostics.marks import marks_of
from diagnostics.models import Cluster, Device, StateInterval
from diagnostics.snapshot import Gpu, OwnerKey, Snapshot, Source, SourceState, State
from diagnostics.states import is_unavailable
from diagnostics.stretches import Mark
from diagnostics.usage import ledger as ledgers
from diagnostics.usage.books import Seen
from diagnostics.usage.moments import span_ms, to_ms
from diagnostics.usage.totals import write_totals
from diagnostics.usage.weights import NOBODY_KEY, Shape

if TYPE_CHECKING:
    from diagnostics.topology.known import Known

MISSED_POLLS = 2
"""Longer than so many intervals between two polls was not observed."""


def record(
    cluster: Cluster, snapshot: Snapshot, known: "Known", interval: timedelta, thresholds: Thresholds
) -> None:
    """Enter the poll into the ledger, in the caller's transaction; `interval` is the time between two polls.

    Run `topology.record` before: `known` is what it returned. A poll that is not later than the last one changes
    nothing.
    """
    at = to_ms(snapshot.taken_at)
    ledger = ledgers.locked(cluster)
    books = ledgers.opened(ledger, at)
    # Without the pods nobody knows who holds what, and a held GPU would pass for a free one.
    has_holders = snapshot.source(Source.PODS).state.is_usable
    seen = _seen(snapshot, known, thresholds) if has_holders else {}
    moved = books.advance(
        at,
        seen,
        _gone(snapshot, books.missing(seen.keys())) if has_holders else (),
        window=span_ms(thresholds.window),
        max_gap=MISSED_POLLS * span_ms(interval),
    )
    if books.at != at:
        return
    StateInterval.objects.bulk_create(ledgers.interval_rows(cluster, moved.ended), batch_size=ledgers.BATCH)
    write_totals(cluster, moved.totals, known.nobody)
    ledgers.close(ledger, books)


def _seen(snapshot: Snapshot, known: "Known", thresholds: Thresholds) -> dict[int, Seen]:
    """Primary key -> mark and shape of each device that the topology knows."""

    def workload_key(owner: OwnerKey) -> int:
        return known.workloads.get((owner.kind, owner.namespace, owner.name), NOBODY_KEY)

    marks = marks_of(snapshot, thresholds, workload_key)
    replicas = {gpu.slot: gpu.replicas for gpu in snapshot.gpus}
    models = ledgers.model_keys({device.model for device in known.devices.values()})
    shapes: dict[tuple[int, int, int, int, int], Shape] = {}
    found: dict[int, Seen] = {}
    for slot, device in known.devices.items():
        mark = marks.get(slot) or _unused(slot, snapshot)
        what = (models[device.model], device.offset, device.parts, device.whole, replicas.get(slot, 1))
        shape = shapes.get(what) or shapes.setdefault(what, Shape(*what))
        found[device.pk] = Seen(mark, shape)
    return found


def _unused(slot: str, snapshot: Snapshot) -> Mark:
    """Slices of a board that no MIG instance uses: nobody can, as the board is cut."""
    node = slot.partition("/")[0]
    rest = Gpu(slot=slot, node=node)
    return Mark(
        State.UNAVAILABLE if is_unavailable(rest, snapshot.node_by_name.get(node)) else State.STRANDED
    )


def _gone(snapshot: Snapshot, missing: set[int]) -> set[int]:
    """Which of the missing devices are known to be gone.

    Where the nodes could not be listed, nobody knows; where some could not be read, only of those that could.
    """
    state = snapshot.source(Source.NODES).state
    if not missing or not state.is_usable:
        return set()
    if state is SourceState.OK:
        return missing
    nodes: Mapping[int, str] = dict(
        Device.objects.filter(pk__in=missing).values_list("pk", "node__name"),
    )
    return {device for device in missing if nodes.get(device) in snapshot.node_by_name}
