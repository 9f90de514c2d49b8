"""GPU metrics are missing, so nothing can be said about use.

## Meaning
There is no source of GPU metrics, it does not answer, or some exporters are down.

## Impact
Idle, hung and faulty GPUs cannot be seen. They are "not evaluated", not healthy.

## Evidence
Status of the metrics source and of the window; nodes that have GPUs but no sample.

## Not reported
Nodes without GPUs.

## References
https://github.com/NVIDIA/dcgm-exporter
"""

from collections.abc import Iterator

from diagnostics.findings import Blind, Severity
from diagnostics.limits import Limits
from diagnostics.rules.base import rule
from diagnostics.snapshot import Snapshot, Source
from diagnostics.text import counted, listed


@rule(code="GPU901", slug="no-gpu-metrics", severity=Severity.INFO, needs={Source.NODES})
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Blind]:
    """Blind spots of the metrics source, of single nodes, and of the window."""
    has_gpus = {gpu.node for gpu in snapshot.gpus}
    if not has_gpus:
        return
    metrics, window = snapshot.source(Source.METRICS), snapshot.source(Source.WINDOW)
    if not metrics.state.is_usable:
        yield Blind(
            source=Source.METRICS,
            what=f"Use, temperature, memory and Xids of all GPUs: metrics {metrics.state} ({metrics.detail}).",
            cure="Name a Prometheus (--prometheus URL) that scrapes dcgm-exporter, or the exporters themselves "
            "(--exporter URL).",
        )
        return
    silent = sorted(has_gpus - {gpu.node for gpu in snapshot.gpus if gpu.metrics is not None})
    if silent:
        yield Blind(
            source=Source.METRICS,
            what=f"GPUs on {counted(len(silent), 'node')} ({listed(silent)}): no exporter reports them.",
            cure="Look why dcgm-exporter is not there: kubectl get pods -A -o wide -l app=nvidia-dcgm-exporter",
        )
    if snapshot.exporters_down:
        yield Blind(
            source=Source.METRICS,
            what=f"{counted(len(snapshot.exporters_down), 'exporter')} did not answer: "
            f"{listed(snapshot.exporters_down)}.",
            cure="Check that the exporter runs and that Prometheus may reach its port 9400.",
        )
    if not window.state.is_usable:
        yield Blind(
            source=Source.WINDOW,
            what="Whether GPUs are idle, hung or had a Xid lately: there is no window of metrics "
            f"({window.detail or window.state}).",
            cure="Name a Prometheus (--prometheus URL), or let the dashboard poll for 30 minutes.",
        )
    if snapshot.has_pod_labels is False and any(gpu.holders for gpu in snapshot.gpus):
        yield Blind(
            source=Source.METRICS,
            what="Which pod uses which GPU: no metric names a pod.",
            cure="Set DCGM_EXPORTER_KUBERNETES=true on dcgm-exporter and give it the kubelet's pod-resources socket.",
        )
