"""The questions to Prometheus: a fixed number per poll, whatever the size of the cluster."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

from diagnostics.collect.dcgm_labels import DEVICE_LABELS, IDENTITY_LABELS, OWNER_LABELS
from diagnostics.collect.dcgm_metrics import COUNTERS, METRIC_BY_FIELD, METRICS, WINDOW_FIELDS, XID_COUNT

MEASURE = "measure"
"""Label that tells the parts of a window query apart: `max utilization_ratio`."""
WINDOW_LABELS = ("job", *DEVICE_LABELS, *OWNER_LABELS)
STATS = ("min", "avg", "max", "count")
_CURRENT_BATCHES = 3
_FIELDS_PER_WINDOW = 2
_PRESENCE = ("temperature_c", "power_w", "memory_used_bytes", "utilization_ratio", "gr_engine_ratio")
"""Fields of which every exporter collects at least one."""


class Questions:
    """PromQL for one poll. `matchers`: label matchers that go into every selector, such as `cluster="prod"`."""

    def __init__(self, matchers: str, span: timedelta) -> None:
        self._matchers = matchers.strip().strip(",").strip()
        self._range = f"[{max(1, round(span.total_seconds()))}s]"

    def current(self) -> list[str]:
        """Last value of every metric per device and holder; the labels that nobody reads are dropped."""
        names = [name for metric in METRICS for name in metric.names]
        size = -(-len(names) // _CURRENT_BATCHES)
        batches = [names[i : i + size] for i in range(0, len(names), size)]
        by = _by(("__name__", *IDENTITY_LABELS))
        return [f"max {by} ({self._any_of(batch)})" for batch in batches]

    def times(self) -> str:
        """When the last sample of each device and holder was scraped, in seconds since 1970."""
        each = " or ".join(f"timestamp({self._selector(name)})" for name in _names(_PRESENCE))
        return f"max {_by(IDENTITY_LABELS)} ({each})"

    def scrapes(self, name: str, label: str, devices: Sequence[str], back: timedelta) -> str:
        """Raw samples of one metric of a few devices (identifiers of letters, digits, `-` and `_`)."""
        chosen = f'{label}=~"{"|".join(devices)}"'
        return f"{self._selector(name, chosen)}[{round(back.total_seconds())}s]"

    def windows(self) -> list[str]:
        """min, avg, max and count over the span, per device, holder and scrape job.

        `*_over_time` drops the metric's name, so the field is put into the label MEASURE. The job is kept
        because pieces of one job follow each other, while two jobs tell the same thing twice.
        """
        by = _by((MEASURE, *WINDOW_LABELS))
        batches = [
            WINDOW_FIELDS[i : i + _FIELDS_PER_WINDOW]
            for i in range(0, len(WINDOW_FIELDS), _FIELDS_PER_WINDOW)
        ]
        return [
            f"max {by} ({' or '.join(self._measure(stat, field) for field in batch for stat in STATS)})"
            for batch in batches
        ]

    def growth(self) -> str:
        """By how much each of COUNTERS rose over the span, per device; the field is in the label MEASURE."""
        each = " or ".join(self._growth(field) for field in COUNTERS)
        return f"max {_by((MEASURE, *DEVICE_LABELS))} ({each})"

    def xids(self, end_s: int) -> str:
        """For a range query that ends at `end_s`: the gauge of each device on which it is not always 0."""
        names = METRIC_BY_FIELD["xid"].names
        ever = " or ".join(f"max_over_time({self._selector(n)}{self._range} @ {end_s})" for n in names)
        gauge = f"max {_by(DEVICE_LABELS)} ({self._any_of(names)})"
        same = ", ".join(DEVICE_LABELS)
        return f"{gauge} and on ({same}) (max {_by(DEVICE_LABELS)} ({ever}) > 0)"

    def xid_counts(self) -> str:
        """For a range query: Xids per code that the exporter counted in its own sliding window."""
        counted = self._selector(XID_COUNT, 'xid!=""')
        return f"max {_by(('xid', *DEVICE_LABELS))} ({counted}) > 0"

    def down(self) -> str:
        """Scrape targets that do not answer and had GPU metrics within the span, or are named after DCGM."""
        had = " or ".join(f"max_over_time({self._selector(n)}{self._range})" for n in _names(_PRESENCE))
        named = self._selector("up", 'job=~"(?i).*dcgm.*"')
        return f"max by (job, instance) ((up{self._braces()} == 0 and on (job, instance) ({had})) or {named} == 0)"

    def _measure(self, stat: str, field: str) -> str:
        names = METRIC_BY_FIELD[field].names
        each = " or ".join(f"{stat}_over_time({self._selector(name)}{self._range})" for name in names)
        return f'label_replace({each}, "{MEASURE}", "{stat} {field}", "", "")'

    def _growth(self, field: str) -> str:
        names = METRIC_BY_FIELD[field].names
        each = " or ".join(f"increase({self._selector(name)}{self._range})" for name in names)
        return f'label_replace({each}, "{MEASURE}", "{field}", "", "")'

    def _any_of(self, names: Iterable[str]) -> str:
        return self._braces(f'__name__=~"{"|".join(names)}"')

    def _selector(self, name: str, matcher: str = "") -> str:
        return name + self._braces(matcher)

    def _braces(self, matcher: str = "") -> str:
        inside = ",".join(filter(None, (matcher, self._matchers)))
        return "{" + inside + "}" if inside else ""


def _by(labels: Iterable[str]) -> str:
    return f"by ({', '.join(labels)})"


def _names(fields: Iterable[str]) -> list[str]:
    return [name for field in fields for name in METRIC_BY_FIELD[field].names]
