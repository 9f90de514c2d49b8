"""The simulated month as samples for a real Prometheus. Needs no Django."""

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from diagnostics.collect.dcgm_metrics import METRIC_BY_FIELD
from diagnostics.collect.history.questions import FIELDS
from diagnostics.simulator.build import build
from diagnostics.simulator.config import WorldConfig
from diagnostics.simulator.exporter import history
from diagnostics.simulator.prometheus import kube_state

READ = {name for field in FIELDS for name in METRIC_BY_FIELD[field].names}
READ_CONDITIONS = {None, "Ready", "true"}
"""Of nodes and of pods."""
START = datetime(2026, 6, 1, tzinfo=UTC)
CONFIG = WorldConfig(schedule="month", epoch=START)


def openmetrics(
    start: datetime, end: datetime, step: timedelta, *, has_objects: bool = True
) -> Iterator[str]:
    """The simulated month's metrics that back-filling reads, and those of kube-state-metrics."""
    for family in history(CONFIG, start, end, step):
        if not family.startswith("#") and family.partition("{")[0] in READ:
            yield f"# TYPE {family.partition('{')[0]} unknown\n"
            yield family
    if has_objects:
        yield from _objects(start, end, step)
    yield "# EOF\n"


def _objects(start: datetime, end: datetime, step: timedelta) -> Iterator[str]:
    families: dict[str, list[str]] = defaultdict(list)
    moment = start
    while moment <= end:
        at = f"{moment.timestamp():.0f}"
        for name, labels, value in kube_state.lines(build(CONFIG, moment)):
            if dict(labels).get("condition") in READ_CONDITIONS:
                said = ",".join(f'{label}="{word}"' for label, word in labels)
                families[name].append(f"{name}{{{said}}} {value!r} {at}")
        moment += step
    for name, lines in families.items():
        yield f"# TYPE {name} unknown\n"
        yield "\n".join(lines) + "\n"
