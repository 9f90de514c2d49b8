"""From snapshots of the past to what the ledger and the topology want to know of one chunk. Pure.

Holders are numbered as they turn up; the rows behind the numbers come later.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

import msgspec

from diagnostics.limits import Thresholds
from diagnostics.marks import marks_of
from diagnostics.snapshot import Gpu, OwnerKey, Pod, Snapshot
from diagnostics.stretches import Piece, Track, advance, begun
from diagnostics.usage.moments import span_ms, to_ms

OwnerName = tuple[str, str, str]


class Frame(NamedTuple):
    """What is judged, in milliseconds: the chunk, and the spans by which it is judged."""

    start: int
    end: int
    step: int
    window: int
    max_gap: int


class SeenDevice(msgspec.Struct):
    """A device, its first mark in the chunk, and its last, which may be after it (ms since 1970)."""

    gpu: Gpu
    first: int
    last: int


class Hold(msgspec.Struct):
    """One pod's hold on devices of one node within the chunk."""

    pod: Pod
    root: OwnerKey
    slots: tuple[str, ...]
    start: int
    end: int


class Rebuilt(msgspec.Struct):
    """One chunk of the past."""

    devices: dict[str, SeenDevice] = {}
    """By slot: those that have pieces."""
    pieces: dict[str, list[Piece]] = {}
    """By slot, clipped to the chunk; their holders are places in `owners`, counted from 1."""
    owners: list[OwnerKey] = []
    holds: list[Hold] = []
    is_gone: bool = False
    """A device that was not seen was not there: kube-state-metrics would have told of it."""

    @property
    def is_empty(self) -> bool:
        """Nothing was observed in the chunk."""
        return all(piece.is_gap for pieces in self.pieces.values() for piece in pieces)


def frame_of(start: datetime, end: datetime, step: int, max_gap: int, thresholds: Thresholds) -> Frame:
    """For a chunk; `step` and `max_gap` in milliseconds."""
    return Frame(to_ms(start), to_ms(end), step, span_ms(thresholds.window), max_gap)


def rebuilt(snapshots: Iterable[Snapshot], thresholds: Thresholds, frame: Frame, *, is_gone: bool) -> Rebuilt:
    """The chunk from `snapshots`, oldest first, which reach a window beyond it on both sides.

    `is_gone`: a device that they do not show was not there; else nobody knows, and its time is a gap if it comes back.
    """
    work = _Work(thresholds, frame, is_gone)
    for snapshot in snapshots:
        work.take(snapshot)
    return work.finished()


class _Work:
    def __init__(self, thresholds: Thresholds, frame: Frame, is_gone: bool) -> None:
        self._thresholds = thresholds
        self._frame = frame
        self._is_gone = is_gone
        self._tracks: dict[str, Track] = {}
        self._numbers: dict[OwnerName, int] = {}
        self._open: dict[tuple[str, str, str], Hold] = {}
        self._found = Rebuilt(is_gone=is_gone)

    def take(self, snapshot: Snapshot) -> None:
        at, frame = to_ms(snapshot.taken_at), self._frame
        for slot, mark in marks_of(snapshot, self._thresholds, self._number).items():
            track = self._tracks.get(slot)
            if track is not None and self._is_gone and at - track.at > frame.max_gap:
                self._end(slot, track)
                track = None
            if track is None:
                self._tracks[slot] = begun(at, mark)
            else:
                pieces = advance(track, at, mark, window=frame.window, max_gap=frame.max_gap)
                self._keep(slot, pieces)
        for gpu in snapshot.gpus:
            seen = self._found.devices.get(gpu.slot)
            if seen is None:
                self._found.devices[gpu.slot] = SeenDevice(gpu, at, at)
            else:
                seen.gpu, seen.last = gpu, at
        self._hold(snapshot, at)

    def finished(self) -> Rebuilt:
        for slot, track in self._tracks.items():
            self._end(slot, track)
        start, end = self._frame.start, self._frame.end
        found = self._found
        found.pieces = {slot: pieces for slot, pieces in found.pieces.items() if pieces}
        found.devices = {slot: seen for slot, seen in found.devices.items() if slot in found.pieces}
        for seen in found.devices.values():
            seen.first = max(seen.first, start)
        for hold in (*self._found.holds, *self._open.values()):
            hold.start, hold.end = max(hold.start, start), min(hold.end, end)
        holds = (*self._found.holds, *self._open.values())
        self._found.holds = [hold for hold in holds if hold.start < hold.end]
        return self._found

    def _end(self, slot: str, track: Track) -> None:
        """It was there until the step after its last mark."""
        frame = self._frame
        after = track.at + frame.step
        self._keep(slot, advance(track, after, None, window=frame.window, max_gap=frame.max_gap))

    def _keep(self, slot: str, pieces: Iterable[Piece]) -> None:
        start, end = self._frame.start, self._frame.end
        kept = self._found.pieces.setdefault(slot, [])
        for piece in pieces:
            if piece.start < end and piece.end > start:
                kept.append(piece._replace(start=max(piece.start, start), end=min(piece.end, end)))

    def _number(self, owner: OwnerKey) -> int:
        name = (owner.kind, owner.namespace, owner.name)
        number = self._numbers.get(name)
        if number is None:
            self._found.owners.append(owner)
            number = self._numbers[name] = len(self._found.owners)
        return number

    def _hold(self, snapshot: Snapshot, at: int) -> None:
        frame = self._frame
        for key, gpus in snapshot.gpus_by_pod.items():
            pod = snapshot.pod_by_key.get(key)
            if pod is None:
                continue
            node = gpus[0].node
            slots = tuple(sorted(gpu.slot.removeprefix(f"{node}/") for gpu in gpus))
            name = (key, pod.uid, node)
            hold = self._open.get(name)
            if hold is not None and (hold.slots != slots or at - hold.end > frame.max_gap):
                self._found.holds.append(hold)
                hold = None
            if hold is None:
                root = pod.root or OwnerKey("Pod", pod.namespace, pod.name)
                hold = self._open[name] = Hold(pod, root, slots, at, at)
            hold.end = at + frame.step
