"""Samples of dcgm-exporter, from wherever they were read, gathered into one reading per device."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import msgspec

from diagnostics.collect.dcgm_labels import (
    DeviceKey,
    Labels,
    device_key,
    driver_of,
    index_of,
    model_name,
    node_hints,
    owner_of,
)
from diagnostics.collect.dcgm_metrics import METRIC_BY_FIELD, METRIC_BY_NAME, measured
from diagnostics.collect.readings import DeviceReading
from diagnostics.snapshot import Metrics, Skipped, Window
from diagnostics.snapshot.pci import pci_address
from diagnostics.text import printable

LINGERING = timedelta(minutes=2)
"""A sample older than the device's newest by more than this is left over, for example from an exporter's
former pod, which Prometheus shows for up to 5 minutes more."""

NAMELESS = "series names no device"
DUPLICATE = "series occurs twice"
LEFT_OVER = "sample is older than others of the same device"

_FLAGS = frozenset({"row_remap_failed", "row_remap_pending", "page_retirement_pending"})
_INTEGERS = frozenset(
    {
        *("xid", "clock_event_reasons", "recovery_action"),
        *("pcie_link_gen", "pcie_link_gen_max", "pcie_link_width", "pcie_link_width_max"),
    }
)


class Sample(msgspec.Struct, frozen=True, gc=False):
    """One value of one series."""

    name: str
    labels: Labels
    value: float
    at: datetime | None = None
    """When it was scraped; None where that is not known."""


class Skips:
    """Counts what could not be used, by reason, with one example each."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = defaultdict(int)
        self._examples: dict[str, str] = {}

    def add(self, reason: str, example: str = "", count: int = 1) -> None:
        self._counts[reason] += count
        self._examples.setdefault(reason, printable(example, 120))

    def listed(self) -> tuple[Skipped, ...]:
        """Most frequent first."""
        reasons = sorted(self._counts, key=lambda reason: (-self._counts[reason], reason))
        return tuple(Skipped(r, self._counts[r], self._examples[r]) for r in reasons)


class _Value(msgspec.Struct, frozen=True, gc=False):
    rank: int
    value: float
    at: datetime | None
    owner: str | None


class Board:
    """What the series of one device said, before it is settled which of them count."""

    def __init__(self, labels: Labels, node: str | None) -> None:
        self._labels = labels
        self._hints = node_hints(labels, node)
        self._values: dict[str, list[_Value]] = {}

    def add(self, field: str, rank: int, value: float, sample: Sample) -> None:
        self._values.setdefault(field, []).append(_Value(rank, value, sample.at, owner_of(sample.labels)))

    def settle(self, skips: Skips) -> None:
        """Drop what is left over from earlier: old owners and old values."""
        times = [v.at for values in self._values.values() for v in values if v.at is not None]
        if not times:
            return
        oldest = max(times) - LINGERING
        for field, values in list(self._values.items()):
            fresh = [v for v in values if v.at is None or v.at >= oldest]
            if len(fresh) < len(values):
                skips.add(LEFT_OVER, field, len(values) - len(fresh))
                self._values[field] = fresh

    def owners(self, field: str) -> set[str | None]:
        """Pods that the series of one field name; None among them where a series names none.

        For a field without series: those of the whole device.
        """
        values = self._values.get(field) or [v for every in self._values.values() for v in every]
        return {v.owner for v in values}

    @property
    def source(self) -> tuple[str, str] | None:
        """Name of one of its metrics, and the label that holds its UUID; None where it has neither."""
        label = next((name for name in ("UUID", "uuid") if self._labels.get(name)), None)
        for field, values in self._values.items():
            if values and label is not None:
                return METRIC_BY_FIELD[field].names[values[0].rank], label
        return None

    def reading(self, window: Window | None = None) -> DeviceReading:
        labels = self._labels
        values = [v for every in self._values.values() for v in every]
        model = labels.get("modelName") or labels.get("model_name") or ""
        return DeviceReading(
            node_hints=self._hints,
            uuid=labels.get("UUID") or labels.get("uuid") or None,
            pci=pci_address(labels.get("pci_bus_id", "")),
            index=index_of(labels),
            model=model_name(model) or None,
            driver=driver_of(labels),
            mig_profile=labels.get("GPU_I_PROFILE") or None,
            mig_instance=labels.get("GPU_I_ID") or None,
            pods=tuple(sorted({v.owner for v in values if v.owner})),
            metrics=self._metrics(max((v.at for v in values if v.at), default=None)),
            window=window,
        )

    def _metrics(self, sampled_at: datetime | None) -> Metrics:
        found: dict[str, Any] = {}
        for field, values in self._values.items():
            if not values:
                continue
            best = min(v.rank for v in values)
            # The largest, never the sum: shares of one board repeat the board's value, one series per pod.
            value = max(v.value for v in values if v.rank == best)
            found[field] = value > 0 if field in _FLAGS else int(value) if field in _INTEGERS else value
        return Metrics(sampled_at=sampled_at, **found)


def boards_from(samples: Iterable[Sample], skips: Skips, node: str | None = None) -> dict[DeviceKey, Board]:
    """Samples by device (node hint, UUID, MIG instance), in one pass; other metrics are passed over.

    `node`: name of the node that was scraped, where the caller knows it.
    """
    boards: dict[DeviceKey, Board] = {}
    seen: set[int] = set()
    for sample in samples:
        entry = METRIC_BY_NAME.get(sample.name)
        if entry is None:
            continue
        metric, rank = entry
        key = device_key(sample.labels, node)
        if key is None:
            skips.add(NAMELESS, sample.name)
            continue
        series = hash((sample.name, frozenset(sample.labels.items())))
        if series in seen:
            skips.add(DUPLICATE, f"{sample.name} of {key.device}")
        seen.add(series)
        board = boards.get(key)
        if board is None:
            board = boards[key] = Board(sample.labels, node)
        try:
            value = measured(metric, sample.value)
        except ValueError as unusable:
            skips.add(str(unusable), f"{sample.name} of {key.device}")
            continue
        board.add(metric.field, rank, value, sample)
    for board in boards.values():
        board.settle(skips)
    return boards


def devices_from(
    samples: Iterable[Sample], *, node: str | None = None, skips: Skips | None = None
) -> tuple[DeviceReading, ...]:
    """One reading per device, in the order of node and device; what was dropped is counted in `skips`.

    A device whose samples are all unusable is still there, with empty metrics.
    """
    boards = boards_from(samples, Skips() if skips is None else skips, node)
    return tuple(boards[key].reading() for key in sorted(boards))
