"""What a Prometheus would hold that has scraped the simulated cluster for ever: made when it is asked for."""

import math
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from threading import Lock
from typing import NamedTuple

from diagnostics.simulator import exporter
from diagnostics.simulator.build import build
from diagnostics.simulator.config import WorldConfig
from diagnostics.simulator.prometheus import kube_state
from diagnostics.simulator.prometheus.series import Labels, Stored, labels_of
from diagnostics.simulator.prometheus.syntax import Matcher
from diagnostics.simulator.world import World

SCRAPE_S = 120
"""Far apart, since every scrape of the past that is asked for is made then; a window still has fifteen of them."""
OFFSET_S = 7
"""Scrapes come so long after the full minute, as they would not come just on it."""
BLOCK_SCRAPES = 15
BLOCK_S = BLOCK_SCRAPES * SCRAPE_S
MOST_BLOCKS = 64
"""Sixteen hours of two jobs, about 1 MB each."""

Frame = Iterator[tuple[str, Labels, float]]


class _Block:
    """Half an hour: the values of each series at its scrapes, NaN where it was not there."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.count = 0
        """Scrapes that have been made."""
        self.series: dict[str, dict[Labels, array[float]]] = {}

    def scrape(self, frame: Frame) -> None:
        absent = array("d", [math.nan] * BLOCK_SCRAPES)
        for name, labels, value in frame:
            by_labels = self.series.setdefault(name, {})
            values = by_labels.get(labels)
            if values is None:
                values = by_labels[labels] = absent[:]
            values[self.count] = value
        self.count += 1


class Scrapes:
    """A `series.Database`; `clock` says up to when there are samples."""

    def __init__(self, config: WorldConfig, clock: Callable[[], datetime]) -> None:
        """Raises ValueError for a config without an epoch: its past would move along with the time."""
        if config.epoch is None:
            raise ValueError("a past needs a config with an epoch")
        self._config = config
        self._clock = clock
        self._blocks: OrderedDict[tuple[str, int], _Block] = OrderedDict()
        self._lock = Lock()

    def select(self, matchers: Sequence[Matcher], start: float, end: float) -> Iterator[Stored]:
        """Series that pass all matchers, with stale markers where a scrape did not find them any more."""
        names = [matcher for matcher in matchers if matcher.label == "__name__"]
        others = [matcher for matcher in matchers if matcher.label != "__name__"]
        found: dict[tuple[str, Labels], Stored | None] = {}
        end = min(end, self._clock().timestamp())
        with self._lock:
            for job in JOBS:
                # As an index would do it: a job is only scraped where it has a metric of such a name.
                if any(all(matcher.matches(name) for matcher in names) for name in job.metrics):
                    self._gather(found, job, names, others, start, end)
        yield from (stored for stored in found.values() if stored is not None)

    def _gather(
        self,
        found: dict[tuple[str, Labels], Stored | None],
        job: "_Job",
        names: Sequence[Matcher],
        others: Sequence[Matcher],
        start: float,
        end: float,
    ) -> None:
        first = _block_start(start)
        while first <= end:
            block = self._block(job, first, end)
            times = [float(block.start + number * SCRAPE_S) for number in range(block.count)]
            for name, by_labels in block.series.items():
                if all(matcher.matches(name) for matcher in names):
                    for labels, values in by_labels.items():
                        key = (name, labels)
                        if key not in found:
                            found[key] = _stored(name, labels, others)
                        if (stored := found[key]) is not None:
                            _append(stored, times, values)
            if times:
                _end_missing(found.values(), times[0])
            first += BLOCK_S

    def _block(self, job: "_Job", start: int, end: float) -> _Block:
        """With all scrapes up to `end` at least."""
        block = self._blocks.get((job.name, start))
        if block is None:
            block = self._blocks[job.name, start] = _Block(start)
        self._blocks.move_to_end((job.name, start))
        while len(self._blocks) > MOST_BLOCKS:
            self._blocks.popitem(last=False)
        while block.count < BLOCK_SCRAPES and block.start + block.count * SCRAPE_S <= end:
            moment = datetime.fromtimestamp(block.start + block.count * SCRAPE_S, UTC)
            block.scrape(job.frame(build(self._config, moment)))
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


@lru_cache(maxsize=50_000)
def _named(name: str, labels: Labels) -> Labels:
    return labels_of({"__name__": name, **dict(labels)})


def _end_missing(found: Iterable[Stored | None], at: float) -> None:
    """A stale marker for each series that a block which begins at this time does not have."""
    for stored in found:
        if stored is not None and stored.times[-1] < at and stored.values[-1] is not None:
            stored.times.append(at)
            stored.values.append(None)


def _append(stored: Stored, times: list[float], values: "array[float]") -> None:
    """The samples of one block, with a stale marker where the series ends in it."""
    if len(times) == BLOCK_SCRAPES and not math.isnan(sum(values)):
        stored.times += times
        stored.values += values
        return
    for time, value in zip(times, values, strict=False):
        if value == value:  # noqa: PLR0124 - not NaN
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
)


_made: dict[tuple[Labels, str], Labels] = {}


def _with_target(labels: Labels, node: str) -> Labels:
    """Sorted, and the same object for the same labels."""
    key = (labels, node)
    found = _made.get(key)
    if found is None:
        if len(_made) > 50_000:
            _made.clear()
        found = _made[key] = labels_of(dict(labels) | {"instance": f"{node}:9400", "job": "dcgm-exporter"})
    return found
