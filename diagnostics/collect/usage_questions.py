"""The questions to Prometheus about containers, the hours behind a device, and nodes: a fixed number per poll.

Names: kubelet's cAdvisor (google/cadvisor lib/metrics/prometheus.go), dcgm-exporter, node_exporter. The pod's labels
are `namespace`, `pod` and `container`; the sandbox has the container `POD` or none.
"""

import re
from collections.abc import Sequence
from datetime import timedelta

from diagnostics.collect.dcgm_labels import OWNER_LABELS
from diagnostics.collect.dcgm_metrics import METRIC_BY_FIELD

MEASURE = "measure"
"""Label that tells the parts of a question apart: `max rss`."""
LOW = "low "
"""Followed by how many seconds ago the window ended."""
IO_WAIT = "io_wait"
OFFSETS = (timedelta(), timedelta(hours=1), timedelta(hours=2), timedelta(hours=4))
"""Ends of the windows whose lows tell growth from a wave: over four hours and a half (ours)."""
MOST_NAMESPACES = 200
"""Beyond so many the answer is of the whole cluster, and what is not asked for is dropped."""
_PLAIN = re.compile(r"[a-z0-9-]{1,63}", re.ASCII)
_BY = f"by ({MEASURE}, namespace, pod, container)"


class UsageQuestions:
    """PromQL for one poll over the `span`; `matchers` go into every selector, such as `cluster="prod"`."""

    def __init__(self, matchers: str, span: timedelta, namespaces: Sequence[str]) -> None:
        self._matchers = matchers.strip().strip(",").strip()
        self._range = f"[{max(1, round(span.total_seconds()))}s]"
        plain = [name for name in namespaces if _PLAIN.fullmatch(name)]
        self._within = f'namespace=~"{"|".join(plain)}"' if len(plain) <= MOST_NAMESPACES else ""

    def all(self) -> list[str]:
        """Instant queries; what came back tells by its labels what it is about."""
        working_set, rss = "container_memory_working_set_bytes", "container_memory_rss"
        periods = self._rise("container_cpu_cfs_periods_total")
        throttled = f"{self._rise('container_cpu_cfs_throttled_periods_total')} / ({periods} > 0)"
        busy = f"rate({self._box('container_cpu_usage_seconds_total')}{self._range})"
        return [
            self._measured("working_set", working_set, "min", "avg", "max", "count"),
            self._measured("rss", rss, "min", "avg", "max"),
            self._lows(self._box(rss), _BY),
            self._named("throttled", throttled),
            self._named("cores", busy),
            self._named("oom_kills", self._rise("container_oom_events_total")),
            self._device_lows(),
            self._io_wait(),
        ]

    def _measured(self, name: str, metric: str, *parts: str) -> str:
        found = [
            self._label(f"{part}_over_time({self._box(metric)}{self._range})", f"{part} {name}")
            for part in parts
        ]
        return f"max {_BY} ({' or '.join(found)})"

    def _lows(self, selector: str, by: str) -> str:
        found = []
        for back in OFFSETS:
            seconds = round(back.total_seconds())
            offset = f" offset {seconds}s" if seconds else ""
            found.append(self._label(f"min_over_time({selector}{self._range}{offset})", f"{LOW}{seconds}"))
        return f"max {by} ({' or '.join(found)})"

    def _device_lows(self) -> str:
        names = METRIC_BY_FIELD["memory_used_bytes"].names
        labels = ", ".join((MEASURE, "UUID", "uuid", "GPU_I_ID", *OWNER_LABELS))
        return " or ".join(self._lows(name + self._braces(), f"by ({labels})") for name in names)

    def _io_wait(self) -> str:
        waits = f"rate(node_cpu_seconds_total{self._braces('mode="iowait"')}{self._range})"
        mean = f"avg by (node, nodename, kubernetes_node, instance) ({waits})"
        return self._label(mean, IO_WAIT)

    def _named(self, measure: str, expression: str) -> str:
        return f"max {_BY} ({self._label(expression, measure)})"

    def _rise(self, metric: str) -> str:
        return f"increase({self._box(metric)}{self._range})"

    def _label(self, expression: str, measure: str) -> str:
        return f'label_replace({expression}, "{MEASURE}", "{measure}", "", "")'

    def _box(self, metric: str) -> str:
        return metric + self._braces('container!="",container!="POD"', self._within)

    def _braces(self, *matchers: str) -> str:
        inside = ",".join(filter(None, (*matchers, self._matchers)))
        return "{" + inside + "}" if inside else ""
