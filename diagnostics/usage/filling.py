"""Unobserved time replaced by what Prometheus still knew of it, exactly once."""

from collections import defaultdict
from collections.abc import Iterable

from django.db import transaction

from diagnostics.models import STATES, Cluster, Device, StateInterval, UsageHour
from diagnostics.snapshot import State
from diagnostics.stretches import NOBODY, Piece
from diagnostics.usage import ledger as ledgers
from diagnostics.usage.books import Books, Ended, Key, Total
from diagnostics.usage.intervals import joined
from diagnostics.usage.moments import from_ms, to_ms
from diagnostics.usage.rollups import forget
from diagnostics.usage.totals import write_totals
from diagnostics.usage.weights import NOBODY_KEY, Shape, by_hour, shares_of

Span = tuple[int, int]
Deltas = dict[tuple[int, Key, bool], list[int]]
"""(hour, key, is_backfilled) -> [gpu_ms, waste_ms] to be added."""


class NobodyKnown(Exception):
    """The cluster has not been polled yet: there is nobody to whom unobserved time could belong."""


def fill(cluster: Cluster, start_ms: int, end_ms: int, pieces: dict[int, list[Piece]]) -> None:
    """Replace the unobserved time of some devices in [start_ms, end_ms) by `pieces`, by the device's primary key.

    Unobserved is what no stay covers (before the first poll) and what a gap covers; nothing that was seen, by a poll or
    by an earlier fill, is changed, so the same chunk may come twice. Pieces that are gaps themselves stay unobserved.
    One transaction. Raises NobodyKnown before the first poll.
    """
    with transaction.atomic():
        ledger = ledgers.locked(cluster)
        books = ledgers.opened(ledger, end_ms)
        nobody = ledgers.nobody_key(cluster.pk)
        if nobody is None:
            raise NobodyKnown(cluster.slug)
        StateInterval.objects.bulk_create(ledgers.interval_rows(cluster, books.released(pieces)))
        deltas: Deltas = defaultdict(lambda: [0, 0])
        rows = _rows_by_device(pieces, start_ms, end_ms)
        shapes = _present_shapes(cluster, pieces)
        replaced: list[int] = []
        filled: list[Ended] = []
        left: list[Ended] = []
        for device, found in pieces.items():
            if device not in shapes:
                continue
            entry = books.entries.get(device)
            end = min(end_ms, entry.settled_from) if entry is not None else end_ms
            plan = _Plan(device, shapes[device], start_ms, end, rows[device])
            plan.take(sorted(found))
            within = (
                start_ms,
                end,
            )  # what a gap is outside of it stays as it is: nothing need be summed anew
            for gap in plan.replaced:
                for piece in _clipped([_gap(gap.start_ms, gap.end_ms)], within):
                    _add(deltas, piece, ledgers.shape_of_gap(gap), -1)
            for shape, new in plan.pieces:
                for piece in _clipped(new, within):
                    _add(deltas, piece, shape, 1)
                stays = [Ended(device, stay, shape) for stay in joined(new)]
                filled += [one for one in stays if not one.interval.is_gap]
                left += [one for one in stays if one.interval.is_gap]
            replaced += [gap.pk for gap in plan.replaced]
        StateInterval.objects.filter(pk__in=replaced).delete()
        StateInterval.objects.bulk_create(
            [
                *ledgers.interval_rows(cluster, filled, is_backfilled=True),
                *ledgers.interval_rows(cluster, left),
            ],
            batch_size=ledgers.BATCH,
        )
        _apply(cluster, books, deltas, nobody)
        ledgers.close(ledger, books)


class _Plan:
    """What becomes of one device's time: which gap rows go, and which pieces come, by what they weigh."""

    def __init__(self, device: int, shape: Shape, start: int, end: int, rows: list[StateInterval]) -> None:
        self.device, self.shape = device, shape
        self.gaps = [row for row in rows if row.is_gap and row.start_ms < end and row.end_ms > start]
        self.uncovered = _without((start, end), [(row.start_ms, row.end_ms) for row in rows])
        self.start, self.end = start, end
        self.replaced: list[StateInterval] = []
        self.pieces: list[tuple[Shape, list[Piece]]] = []

    def take(self, found: list[Piece]) -> None:
        """Lay pieces, in order of time, over what is unobserved."""
        for span in self.uncovered:
            if new := _clipped(found, span):
                self.pieces.append((self.shape, new))
        for gap in self.gaps:
            within = (max(gap.start_ms, self.start), min(gap.end_ms, self.end))
            seen = [piece for piece in _clipped(found, within) if not piece.is_gap]
            if not seen:
                continue
            rest = _without((gap.start_ms, gap.end_ms), [(piece.start, piece.end) for piece in seen])
            self.replaced.append(gap)
            new = sorted([*seen, *(_gap(*span) for span in rest)])
            self.pieces.append((ledgers.shape_of_gap(gap), new))


def _gap(start: int, end: int) -> Piece:
    return Piece(start, end, State.NO_DATA, NOBODY, 0.0, is_gap=True)


def _clipped(pieces: list[Piece], span: Span) -> list[Piece]:
    """The parts of `pieces` within `span`; where two overlap, the first counts."""
    found: list[Piece] = []
    at = span[0]
    for piece in pieces:
        start, end = max(piece.start, at), min(piece.end, span[1])
        if start < end:
            found.append(piece._replace(start=start, end=end))
            at = end
    return found


def _without(span: Span, taken: Iterable[Span]) -> list[Span]:
    """What of `span` no span of `taken` covers, in order."""
    rest: list[Span] = []
    at, end = span
    for start, stop in sorted(taken):
        if start > at:
            rest.append((at, min(start, end)))
        at = max(at, stop)
        if at >= end:
            break
    if at < end:
        rest.append((at, end))
    return [(start, stop) for start, stop in rest if start < stop]


def _rows_by_device(devices: Iterable[int], start: int, end: int) -> dict[int, list[StateInterval]]:
    found: dict[int, list[StateInterval]] = defaultdict(list)
    rows = StateInterval.objects.filter(device__in=list(devices), start_ms__lt=end, end_ms__gt=start)
    for row in rows.order_by("start_ms"):
        found[row.device_id].append(row)
    return found


def _present_shapes(cluster: Cluster, devices: Iterable[int]) -> dict[int, Shape]:
    """What each device weighs now: stands for the time before it was first seen."""
    rows = list(Device.objects.filter(cluster=cluster, pk__in=list(devices)))
    models = ledgers.model_keys({row.model for row in rows})
    return {row.pk: Shape(models[row.model], row.offset, row.parts, row.whole) for row in rows}


def _add(deltas: Deltas, piece: Piece, shape: Shape, sign: int) -> None:
    for hour, start, end in by_hour(piece.start, piece.end):
        for workload, state, gpu_ms, waste_ms in shares_of(piece, start, end, shape):
            delta = deltas[hour, Key(workload, shape.model, state, piece.is_gap), not piece.is_gap]
            delta[0] += sign * gpu_ms
            delta[1] += sign * waste_ms


def _apply(cluster: Cluster, books: Books, deltas: Deltas, nobody: int) -> None:
    """Sums of hours that polls may still add to are the books'; those of back-filled time are never in them."""
    changed = {what: delta for what, delta in deltas.items() if any(delta)}
    if not changed:
        return
    stored = _stored(cluster, {hour for hour, _, _ in changed}, nobody)
    totals: dict[bool, list[Total]] = {False: [], True: []}
    for (hour, key, is_backfilled), (gpu_ms, waste_ms) in changed.items():
        if not is_backfilled and books.is_open(hour):
            totals[is_backfilled].append(books.add(hour, key, gpu_ms, waste_ms))
        else:
            old = stored.get((hour, key, is_backfilled), (0, 0))
            totals[is_backfilled].append(Total(hour, key, old[0] + gpu_ms, old[1] + waste_ms))
    for is_backfilled, found in totals.items():
        write_totals(cluster, found, nobody, is_backfilled=is_backfilled)
    forget(cluster, {from_ms(hour) for hour, _, _ in changed})


def _stored(cluster: Cluster, hours: set[int], nobody: int) -> dict[tuple[int, Key, bool], tuple[int, int]]:
    """Sums of gaps and of back-filled time as they stand."""
    rows = UsageHour.objects.filter(
        cluster=cluster, hour__gte=from_ms(min(hours)), hour__lte=from_ms(max(hours))
    )
    found: dict[tuple[int, Key, bool], tuple[int, int]] = {}
    for row in rows.exclude(is_gap=False, is_backfilled=False):
        workload = NOBODY_KEY if row.workload_id == nobody else row.workload_id
        key = Key(workload, row.model_id, STATES[row.state], row.is_gap)
        found[to_ms(row.hour), key, row.is_backfilled] = row.gpu_ms, row.waste_ms
    return found
