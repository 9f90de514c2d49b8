"""run(): fills a span from Prometheus, the newest chunk first, each exactly once whatever happens in between."""

import logging
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from traceback import format_exception

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from diagnostics import usage
from diagnostics.backfill.opening import MISSED_POLLS, MOST_ATTEMPTS, tail
from diagnostics.backfill.present import known_cluster
from diagnostics.backfill.rebuilding import Rebuilt, frame_of, rebuilt
from diagnostics.backfill.rows import Placed, placed, translated
from diagnostics.collect import Clock, PrometheusTarget
from diagnostics.collect.declared import declared_target
from diagnostics.collect.history import (
    Cluster as KnownCluster,
)
from diagnostics.collect.history import (
    Unreadable,
    coarse_step,
    devices_at,
    read_history,
    shown_name,
)
from diagnostics.masking import mask_text
from diagnostics.models import Backfill, Cluster
from diagnostics.snapshot import State
from diagnostics.storable import storable_text
from diagnostics.stretches import NOBODY, Piece
from diagnostics.text import counted
from diagnostics.usage.moments import from_ms, span_ms, to_ms

MOST_MARKS = 100_000
"""Devices times steps of one chunk: about two seconds of work, unless an hour has more."""
HOUR = timedelta(hours=1)
LONGEST, SHORTEST = 12 * HOUR, HOUR / 4
"""A chunk is an hour at least, because of the context that comes with it: less only where that is refused."""
READ_WITHIN_S = 120.0
Status = Backfill.Status
log = logging.getLogger(__name__)


class Overtaken(Exception):
    """Another run has filled this chunk; what this one made of it is not kept."""


class Impossible(Exception):
    """The span cannot be filled, whatever is tried again; says why."""


def run(
    cluster: Cluster,
    backfill: Backfill,
    clock: Clock,
    stop: Callable[[], bool] | None = None,
    told: Callable[[Backfill], None] | None = None,
) -> Backfill:
    """Fill the span of `backfill`, until it is done or `stop` says so between two chunks; gives the row as it is then.

    `told` hears of each chunk. Progress is stored with what it stands for, so that a killed run is taken up where it
    was. A Prometheus that does not answer is asked again later (`due`); its words are in the row's detail.
    """
    row = Backfill.objects.get(pk=backfill.pk)
    if row.status not in (Status.WAITING, Status.RUNNING):
        return row
    _set(row, status=Status.RUNNING)
    try:
        _fill(cluster, row, clock, stop or (lambda: False), told or (lambda _: None))
    except Unreadable as failure:
        target = _target(cluster)
        _failed(row, f"{shown_name(target)} {failure.detail}")
    except usage.NobodyKnown:
        _failed(row, "the cluster has not been polled yet")
    except Overtaken:
        row.refresh_from_db()
    except Impossible as why:
        _set(row, status=Status.FAILED, detail=str(why))
    except Exception as error:
        log.error("%s: back-filling broke: %s", cluster, mask_text("".join(format_exception(error))))
        _failed(row, f"{type(error).__name__}: {mask_text(str(error))[:500]}")
    return row


def _set(row: Backfill, **values: object) -> None:
    for name, value in values.items():
        setattr(row, name, storable_text(value, 2000) if isinstance(value, str) else value)
    row.save(update_fields=[*values, "updated_at"])


def _failed(row: Backfill, why: str) -> None:
    attempts = row.attempts + 1
    status = Status.FAILED if attempts >= MOST_ATTEMPTS else Status.WAITING
    log.warning("%s: back-filling stopped: %s", row.cluster, why)
    _set(row, status=status, attempts=attempts, detail=f"{why} ({counted(attempts, 'attempt')})")


def _target(cluster: Cluster) -> PrometheusTarget:
    declared = settings.CLUSTERS.get(cluster.slug)
    target = None if declared is None else declared_target(cluster.slug, declared).prometheus
    if target is None:
        msg = "no Prometheus is configured for this cluster"
        raise Impossible(msg)
    return target


def _fill(
    cluster: Cluster,
    row: Backfill,
    clock: Clock,
    stop: Callable[[], bool],
    told: Callable[[Backfill], None],
) -> None:
    work = _Work(cluster, _target(cluster), row, clock)
    while row.done_from > row.start:
        if stop():
            _set(row, status=Status.WAITING)
            return
        work.next_chunk()
        told(row)
    if row.status == Status.RUNNING:
        _set(row, status=Status.DONE)
        told(row)


class _Work:
    """One run over one row."""

    def __init__(self, cluster: Cluster, target: PrometheusTarget, row: Backfill, clock: Clock) -> None:
        self.cluster, self.target, self.row, self.clock = cluster, target, row, clock
        declared = settings.CLUSTERS[cluster.slug]
        self.timeout_s: float = declared.request_timeout_s
        self.step: timedelta = settings.POLL_INTERVAL
        self.limits = settings.LIMITS
        self.known: KnownCluster = known_cluster(cluster, row.start)
        self.most = LONGEST
        """A chunk may be so long: less after one that could not be read in one go."""
        self.coarse = coarse_step(row.start, row.done_from)
        self.held: list[tuple[datetime, int]] | None = None
        self.left_out: Counter[str] = Counter()
        self.is_by_labels = False
        """Some of it rests on the labels of GPU metrics alone."""

    def next_chunk(self) -> None:
        """Fill the chunk before `done_from`, or find out that there is nothing to fill it with."""
        if self.held is None:
            self.held = devices_at(self.target, self.row.start, self.row.done_from, self.timeout_s)
        end = self.row.done_from
        held = [(at, count) for at, count in self.held if at <= end]
        start = self._start(end, max((count for _, count in held[-3:]), default=1))
        found = self._read(start, end)
        if found is None:
            return
        if not found.is_empty:
            self._commit(start, end, found)
        elif held and held[-1][0] > self.row.start:
            # Prometheus holds nothing of this chunk, but of earlier ones.
            self._commit(max(self.row.start, min(start, held[-1][0] + self.coarse)), end, found)
        else:
            self._nothing_before(end)

    def _start(self, end: datetime, devices: int) -> datetime:
        """Chunks begin at whole multiples of their length, so that hours are summed in one go."""
        length = min(self.most, max(HOUR, self.step * (MOST_MARKS // max(1, devices))))
        for whole in (12, 6, 4, 3, 2, 1):
            if length >= timedelta(hours=whole):
                length = timedelta(hours=whole)
                break
        ms = span_ms(length)
        return max(self.row.start, from_ms((to_ms(end) - 1) // ms * ms))

    def _read(self, start: datetime, end: datetime) -> Rebuilt | None:
        """None where the chunk is too much for Prometheus: the next one is shorter."""
        step = self.step
        context = tail(step, self.limits.site)
        until = min(end + context, self.clock())
        try:
            history = read_history(
                self.target,
                start - context,
                until,
                step,
                cluster=self.known,
                limits=self.limits,
                timeout_s=self.timeout_s,
                budget_s=READ_WITHIN_S,
            )
        except Unreadable as failure:
            if failure.is_final or end - start <= SHORTEST:
                raise
            self.most = max(SHORTEST, (end - start) / 2)
            return None
        ms = span_ms(step)
        frame = frame_of(start, end, ms, MISSED_POLLS * ms, self.limits.site)
        found = rebuilt(history.snapshots, self.limits.site, frame, is_gone=history.has_objects)
        self.left_out.update({skip.reason: skip.count for skip in history.skipped})
        self.is_by_labels |= not (history.has_objects or found.is_empty)
        return found

    def _notes(self) -> str:
        """What the result rests on, and what could not be used."""
        notes = [f"{reason} ({count})" for reason, count in self.left_out.most_common(3)]
        words = [f"left out: {', '.join(notes)}"] if notes else []
        if self.is_by_labels:
            words.insert(0, "without kube-state-metrics: holders by the labels of GPU metrics alone")
        return storable_text("; ".join(words), 2000)

    def _commit(self, start: datetime, end: datetime, found: Rebuilt) -> None:
        """Keep the chunk and the progress, or neither."""
        with transaction.atomic():
            # As polls do before they write: so the two wait for each other, and never crosswise.
            Cluster.objects.select_for_update().get(pk=self.cluster.pk)
            self._progress(start, end)
            rows = placed(self.cluster, found, self.step)
            pieces = {
                rows.devices[slot].pk: translated(pieces, rows.workloads)
                for slot, pieces in found.pieces.items()
                if pieces and slot in rows.devices
            }
            usage.fill(self.cluster, to_ms(start), to_ms(end), pieces)
            self._fill_absences(found, rows, to_ms(end))
        self.row.refresh_from_db()

    def _progress(self, start: datetime, end: datetime) -> None:
        """Only one of two runs gets past this: the other finds that the chunk is done."""
        rows = Backfill.objects.filter(pk=self.row.pk, done_from=end, status=Status.RUNNING)
        if not rows.update(done_from=start, attempts=0, detail=self._notes(), updated_at=timezone.now()):
            raise Overtaken

    def _fill_absences(self, found: Rebuilt, rows: Placed, end: int) -> None:
        """A device that was there before and after, but not in between, was unobserved there."""
        gaps: dict[int, list[Piece]] = {}
        if found.is_gone:
            return
        for slot, known_from in rows.known_from.items():
            pieces = found.pieces.get(slot)
            last = pieces[-1].end if pieces else end
            if pieces and last < known_from and found.devices[slot].last < known_from:
                gap = Piece(last, known_from, State.NO_DATA, NOBODY, 0.0, is_gap=True)
                gaps[rows.devices[slot].pk] = [gap]
        if gaps:
            start = min(every[0].start for every in gaps.values())
            usage.fill(self.cluster, start, max(every[0].end for every in gaps.values()), gaps)

    def _nothing_before(self, end: datetime) -> None:
        """The rest of the span is beyond what Prometheus keeps: a row of its own says so."""
        words = f"{shown_name(self.target)} holds no GPU metrics before {end:%Y-%m-%d %H:%M} UTC"
        with transaction.atomic():
            rows = Backfill.objects.filter(pk=self.row.pk, done_from=end, status=Status.RUNNING)
            if end == self.row.end:
                changed = rows.update(status=Status.IMPOSSIBLE, detail=words, done_from=self.row.start)
            else:
                changed = rows.update(status=Status.DONE, start=end, detail=words)
            if not changed:
                raise Overtaken
            if end != self.row.end:
                rest = Backfill(cluster=self.cluster, start=self.row.start, end=end, done_from=self.row.start)
                rest.status, rest.detail = Status.IMPOSSIBLE, storable_text(words, 2000)
                rest.save()
        self.row.refresh_from_db()
