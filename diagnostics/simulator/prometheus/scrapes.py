"""What a Prometheus would hold that has scraped the simulated cluster for ever: made when it is asked for."""

import math
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from threading import Lock
from typing import NamedTuple

from diagnostics.simulator import exporter
from diagnostics.simulator.build import build
from diagnostics.simulator.config import WorldConfig
from diagnostics.simulator.prometheus import cadvisor, kube_state
from diagnostics.simulator.prometheus.series import Labels, Stored, labels_of
from diagnostics.simulator.prometheus.syntax import Matcher
from diagnostics.simulator.world import World

SCRAPE_S = 120
"""Far apart, since every scrape of the past that is asked for is made then; a window still has fifteen of them."""
THINNED = 2
THINNED_FOR = timedelta(days=15)
"""So long after the epoch only every second scrape is kept, as stores thin what is old: the two weeks before `up` was
started first are made at half the cost."""
OFFSET_S = 7
"""Scrapes come so long after the full minute, as they would not come just on it."""
BLOCK_SCRAPES = 16
BLOCK_S = BLOCK_SCRAPES * SCRAPE_S
MOST_BLOCKS = 96
"""Seventeen hours of three jobs, about 1 MB each."""

Frame = Iterator[tuple[str, Labels, float]]
_ABSENT = array("d", [math.nan] * BLOCK_SCRAPES)


class _Block:
    """32 minutes of one job: the values of each series at its scrapes, NaN where it was not there."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.made: set[int] = set()
        """Which scrapes; the others nobody has asked for yet."""
        self.series: dict[str, dict[Labels, array[float]]] = {}

    def time(self, slot: int) -> int:
        """Of a scrape, in seconds since 1970."""
        return self.start + slot * SCRAPE_S

    def scrape(self, slot: int, frame: Frame) -> None:
        for name, labels, value in frame:
            by_labels = self.series.setdefault(name, {})
            values = by_labels.get(labels)
            if values is None:
                values = by_labels[labels] = _ABSENT[:]
            values[slot] = value
        self.made.add(slot)


class Scrapes:
    """A `series.Database`; `clock` says up to when there are samples."""

    lookback_s = float(THINNED * SCRAPE_S)
    """No scrape is ever missed: what the last one does not have has ended."""

    def __init__(self, config: WorldConfig, clock: Callable[[], datetime]) -> None:
        """Raises ValueError for a config without an epoch: its past would move along with the time."""
        if config.epoch is None:
            raise ValueError("a past needs a config with an epoch")
        self._config = config
        self._clock = clock
        self._whole_from = (config.epoch + THINNED_FOR).timestamp()
        self._blocks: OrderedDict[tuple[str, int], _Block] = OrderedDict()
        self._lock = Lock()

    def select(self, matchers: Sequence[Matcher], start: float, end: float) -> Iterator[Stored]:
        """Series that pass all matchers, with stale markers where a scrape did not find them any more."""
        names = [matcher for matcher in matchers if matcher.label == "__name__"]
        others = [matcher for matcher in matchers if matcher.label != "__name__"]
        end = min(end, self._clock().timestamp())
        for job in JOBS:
            # As an index would do it: a job is only scraped where it has a metric of such a name.
            wanted = {name for name in job.metrics if all(matcher.matches(name) for matcher in names)}
            if wanted:
                yield from self._of_job(job, wanted, others, start, end)

    def _of_job(
        self, job: "_Job", wanted: set[str], others: Sequence[Matcher], start: float, end: float
    ) -> Iterator[Stored]:
        found: dict[tuple[str, Labels], Stored | None] = {}
        first = _block_start(start)
        while first <= end:
            slots = [n for n in self._kept(first) if start < first + n * SCRAPE_S <= end]
            if slots:
                times = [float(first + slot * SCRAPE_S) for slot in slots]
                for key, values in self._content(job, first, slots, wanted):
                    if key not in found:
                        found[key] = _stored(*key, others)
                    if (stored := found[key]) is not None:
                        _append(stored, times, values, slots)
                _end_missing(found.values(), times[0])
            first += BLOCK_S
        yield from (stored for stored in found.values() if stored is not None and stored.times)

    def _kept(self, start: int) -> range:
        """The scrapes of a block that are kept."""
        return range(0, BLOCK_SCRAPES, 1 if start >= self._whole_from else THINNED)

    def _content(
        self, job: "_Job", start: int, slots: list[int], wanted: set[str]
    ) -> list[tuple[tuple[str, Labels], "array[float]"]]:
        """The series of a block with these scrapes in it; one scrape at a time is made, so that nobody waits long."""
        with self._lock:
            block = self._block(job, start)
        for slot in slots:
            with self._lock:
                if slot not in block.made:
                    moment = datetime.fromtimestamp(block.time(slot), UTC)
                    block.scrape(slot, job.frame(build(self._config, moment)))
        with self._lock:
            return [
                ((name, labels), values)
                for name in wanted & block.series.keys()
                for labels, values in block.series[name].items()
            ]

    def _block(self, job: "_Job", start: int) -> _Block:
        key = (job.name, start)
        block = self._blocks.get(key)
        if block is None:
            block = self._blocks[key] = _Block(start)
        self._blocks.move_to_end(key)
        while len(self._blocks) > MOST_BLOCKS:
            self._blocks.popitem(last=False)
        return block


def _block_start(moment: float) -> int:
    """Of the block with the last scrape at or before a moment."""
    return int((moment - OFFSET_S) // BLOCK_S) * BLOCK_S + OFFSET_S


def _stored(name: str, labels: Labels, matchers: Sequence[Matcher]) -> Stored | None:
    """None: it does not pass."""
    if matchers:
        read = dict(labels)
        if not all(matcher.matches(read.get(matcher.label, "")) for matcher in matchers):
            return None
    return Stored(_named(name, labels))


@lru_cache(maxsize=12_000)
def _named(name: str, labels: Labels) -> Labels:
    return labels_of({"__name__": name, **dict(labels)})


def _end_missing(found: Iterable[Stored | None], at: float) -> None:
    """A stale marker for each series that a block, whose first scrape is at this time, does not have."""
    for stored in found:
        if stored and stored.times and stored.times[-1] < at and stored.values[-1] is not None:
            stored.times.append(at)
            stored.values.append(None)


def _append(stored: Stored, times: list[float], values: "array[float]", slots: list[int]) -> None:
    """The samples of one block, with a stale marker where the series ends in it."""
    if len(slots) == BLOCK_SCRAPES and not math.isnan(sum(values)):
        stored.times += times
        stored.values += values
        return
    for time, slot in zip(times, slots, strict=True):
        value = values[slot]
        if not math.isnan(value):
            stored.times.append(time)
            stored.values.append(value)
        elif stored.values and stored.values[-1] is not None:
            stored.times.append(time)
            stored.values.append(None)


def frame(world: World) -> Frame:
    """Every sample of one scrape of all targets."""
    for job in JOBS:
        yield from job.frame(world)


def _exporters(world: World) -> Frame:
    """With `up` of all targets, so that what is down is known without the others' samples."""
    yield "up", labels_of(kube_state.TARGET), 1.0
    for node in world.nodes.values():
        target = {"instance": f"{node.name}:9400", "job": "dcgm-exporter"}
        yield "up", labels_of(target), float(node.has_exporter)
        if node.has_exporter:
            for metric, samples in exporter.families(world, node):
                for labels, value in samples:
                    yield metric.name, _with_target(labels, node.name), value


class _Job(NamedTuple):
    """Targets that are scraped alike, and the names of all their metrics."""

    name: str
    frame: Callable[[World], Frame]
    metrics: frozenset[str]


JOBS = (
    _Job("dcgm-exporter", _exporters, frozenset({"up", *exporter.METRIC_NAMES})),
    _Job("kube-state-metrics", kube_state.lines, kube_state.METRICS),
    _Job("kubelet", cadvisor.lines, cadvisor.METRICS),
)


_made: dict[tuple[Labels, str], Labels] = {}


def _with_target(labels: Labels, node: str) -> Labels:
    """Sorted, and the same object for the same labels."""
    key = (labels, node)
    found = _made.get(key)
    if found is None:
        if len(_made) > 4_000:
            _made.clear()
        found = _made[key] = labels_of(dict(labels) | {"instance": f"{node}:9400", "job": "dcgm-exporter"})
    return found
