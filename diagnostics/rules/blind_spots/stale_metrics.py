"""GPU metrics are older than three scrapes.

## Meaning
Prometheus still answers with the last value, but the exporter has stopped sending.

## Impact
What is shown is the past. Rules that need fresh values do not judge these GPUs.

## Evidence
Time of each device's last sample against the time of the snapshot; status of the metrics source.

## Not reported
Devices without any sample (no-gpu-metrics).

## References
https://prometheus.io/docs/prometheus/latest/querying/basics/#staleness
"""

from collections.abc import Iterator
from datetime import timedelta

from diagnostics.findings import Blind, Severity
from diagnostics.limits import Limits
from diagnostics.quantities import span
from diagnostics.rules.base import rule
from diagnostics.snapshot import Snapshot, Source, SourceState
from diagnostics.states import FRESH_FOR
from diagnostics.text import counted, listed


@rule(code="GPU902", slug="stale-metrics", severity=Severity.INFO, needs={Source.NODES, Source.METRICS})
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Blind]:
    """One blind spot for all devices whose sample is too old, with the nodes and the oldest age."""
    ages = {
        gpu.slot: (gpu.node, age)
        for gpu in snapshot.gpus
        if gpu.metrics is not None and (age := snapshot.age(gpu.metrics.sampled_at)) is not None
    }
    stale = {slot: pair for slot, pair in ages.items() if pair[1] > FRESH_FOR}
    status = snapshot.source(Source.METRICS)
    if not stale and status.state is not SourceState.STALE:
        return
    nodes = sorted({node for node, _ in stale.values()})
    oldest = max((age for _, age in stale.values()), default=timedelta())
    which = (
        f"{counted(len(stale), 'GPU')} on {listed(nodes)}: the last sample is up to {span(oldest)} old"
        if stale
        else f"GPU metrics are stale ({status.detail})"
    )
    yield Blind(
        source=Source.METRICS,
        what=f"{which}.",
        cure="Check the scrape target in Prometheus (up, scrape errors) and the exporter's pod on those nodes.",
    )
