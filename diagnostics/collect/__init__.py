"""take_snapshot(): ask each source once, note what failed, assemble. The only code that talks to a cluster."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from diagnostics.collect import pod_logs
from diagnostics.collect.assemble import assemble
from diagnostics.collect.exporter import exporter_urls, read_exporters
from diagnostics.collect.kube_api import read_cluster
from diagnostics.collect.kube_client import Refused, connect
from diagnostics.collect.prometheus import read_prometheus
from diagnostics.collect.readings import ClusterObjects, LogReadings, Readings
from diagnostics.collect.target import PrometheusTarget, Target
from diagnostics.limits import Limits
from diagnostics.snapshot import Past, Snapshot, Source, SourceState, SourceStatus

__all__ = ["PrometheusTarget", "Take", "Target", "take_snapshot"]

Clock = Callable[[], datetime]
MIN_SKEW = timedelta(seconds=10)
KUBERNETES = (
    Source.NODES,
    Source.PODS,
    Source.EVENTS,
    Source.NAMESPACES,
    Source.WORKLOADS,
    Source.SERVICES,
)


@dataclass(frozen=True)
class Take:
    """A snapshot, and what it cost: seconds per stage (`kubernetes`, `logs`, `metrics`, `assemble`)."""

    snapshot: Snapshot
    seconds: dict[str, float]


def take_snapshot(
    target: Target,
    *,
    clock: Clock,
    past: Past | None = None,
    limits: Limits | None = None,
    correct_skew: bool = True,
) -> Take:
    """The cluster behind `target`, now. Never raises for a source that fails: its status says why.

    `clock` gives the local time in UTC; `taken_at` is that, corrected by the server's Date header unless the time
    was chosen on purpose (`correct_skew` False).
    """
    limits = limits or Limits()
    seconds: dict[str, float] = {}
    now = clock()
    objects, logs = _kubernetes(target, now, seconds)
    skew = _skew(objects, now) if correct_skew else None
    taken_at = now + (skew or timedelta())
    readings = _timed(seconds, "metrics", _metrics, target, objects, taken_at, limits.site.window, past)
    started = time.perf_counter()
    snapshot = assemble(
        objects,
        readings,
        snapshot=Snapshot(taken_at=taken_at, cluster=target.name, clock_skew=skew),
        logs=logs,
        rack_label=target.rack_label,
        past=past,
        limits=limits,
    )
    seconds["assemble"] = time.perf_counter() - started
    return Take(snapshot, seconds)


def _timed[**P, T](
    seconds: dict[str, float], stage: str, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    started = time.perf_counter()
    try:
        return work(*args, **kwargs)
    finally:
        seconds[stage] = time.perf_counter() - started


def _kubernetes(
    target: Target, now: datetime, seconds: dict[str, float]
) -> tuple[ClusterObjects, LogReadings]:
    try:
        connection = connect(target)
    except Refused as refusal:
        lost = tuple(SourceStatus(name=s, state=refusal.state, detail=refusal.detail) for s in KUBERNETES)
        none = SourceStatus(name=Source.LOGS, state=refusal.state, detail=refusal.detail)
        return ClusterObjects(statuses=lost), LogReadings(status=none)
    objects = _timed(seconds, "kubernetes", read_cluster, connection, target)
    signals, pods_read, status = _timed(
        seconds, "logs", pod_logs.read_signals, connection, target, objects.pods, now
    )
    return objects, LogReadings(status=status, signals=signals, pods_read=pods_read)


def _skew(objects: ClusterObjects, now: datetime) -> timedelta | None:
    """Server's clock minus ours; differences within the header's resolution and the way count as none."""
    if objects.server_time is None:
        return None
    skew = objects.server_time - now
    return skew if abs(skew) > MIN_SKEW else timedelta()


def _metrics(
    target: Target, objects: ClusterObjects, now: datetime, window: timedelta, past: Past | None
) -> Readings:
    if target.prometheus is not None:
        return read_prometheus(target.prometheus, window, now, target.request_timeout_s)
    return _exporters(target, objects, now, past)


def _exporters(target: Target, objects: ClusterObjects, now: datetime, past: Past | None) -> Readings:
    """Exporters read directly; the window then comes from earlier polls, where there are any."""
    if not target.exporters:
        nothing = "neither a Prometheus nor a dcgm-exporter is configured for this cluster"
        return Readings(
            statuses=tuple(
                SourceStatus(name=s, state=SourceState.ABSENT, detail=nothing)
                for s in (Source.METRICS, Source.WINDOW)
            )
        )
    urls = exporter_urls(target, objects.services, objects.pods)
    readings = read_exporters(urls, now, target.request_timeout_s)
    metrics = tuple(s for s in readings.statuses if s.name is not Source.WINDOW)
    if past is not None and past.windows:
        window = SourceStatus(name=Source.WINDOW, state=SourceState.OK, items=len(past.windows))
    else:
        window = SourceStatus(
            name=Source.WINDOW,
            state=SourceState.ABSENT,
            detail="a window of metrics needs Prometheus, or earlier polls of this cluster",
        )
    return Readings(
        devices=readings.devices,
        statuses=(*metrics, window),
        exporters_down=readings.exporters_down,
        has_pod_labels=readings.has_pod_labels,
    )
