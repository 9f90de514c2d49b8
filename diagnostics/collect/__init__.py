"""take_snapshot(): ask each source once, note what failed, assemble. The only code that talks to a cluster."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from diagnostics.collect import pod_logs
from diagnostics.collect.assemble import assemble
from diagnostics.collect.container_usage import UsageReadings, read_usage, unasked, with_usage
from diagnostics.collect.exporter import exporter_urls, read_exporters
from diagnostics.collect.kube_api import read_cluster, unread_cluster
from diagnostics.collect.kube_client import Refused, connect
from diagnostics.collect.prometheus import read_prometheus
from diagnostics.collect.readings import ClusterObjects, LogReadings, Readings
from diagnostics.collect.target import PrometheusTarget, Target
from diagnostics.collect.windows import RecentSamples
from diagnostics.limits import Limits
from diagnostics.snapshot import Past, Snapshot, Source, SourceState, SourceStatus

__all__ = ["Clock", "PrometheusTarget", "Take", "Target", "take_snapshot"]

Clock = Callable[[], datetime]
MIN_SKEW = timedelta(seconds=10)
"""Less is the way there and back, and the whole seconds of the Date header."""
MAX_SKEW = timedelta(days=1)
"""More is no clock but a broken Date header, of a proxy perhaps: our own clock is nearer the truth."""


@dataclass(frozen=True)
class Take:
    """A snapshot, what it cost (seconds per stage: `kubernetes`, `logs`, `metrics`, `usage`, `assemble`), and the
    samples that make the next poll's windows where there is no Prometheus (None where there is).
    """

    snapshot: Snapshot
    seconds: dict[str, float]
    recent: RecentSamples | None


def take_snapshot(
    target: Target,
    *,
    clock: Clock,
    past: Past | None = None,
    recent: RecentSamples | None = None,
    limits: Limits | None = None,
    correct_skew: bool = True,
) -> Take:
    """The cluster behind `target`, now. Never raises for a source that fails: its status says why.

    `clock` gives the local time in UTC; `taken_at` is that, corrected by the server's Date header unless the time
    was chosen on purpose (`correct_skew` False). `past` and `recent` are what earlier polls left; a one-shot run has
    neither, and the rules that need a window are skipped.
    """
    limits = limits or Limits()
    seconds: dict[str, float] = {}
    now = clock()
    objects, logs, skew = _kubernetes(target, clock, seconds)
    if not correct_skew or (skew is not None and not MIN_SKEW < abs(skew) <= MAX_SKEW):
        skew = None
    taken_at = now + (skew or timedelta())
    readings = _timed(seconds, "metrics", _metrics, target, objects, taken_at, limits.site.window)
    usage = _timed(seconds, "usage", _usage, target, objects, taken_at, limits.site.window)
    started = time.perf_counter()
    assembled = assemble(
        objects,
        readings,
        snapshot=Snapshot(taken_at=taken_at, cluster=target.name, clock_skew=skew),
        logs=logs,
        rack_label=target.rack_label,
        past=past,
        recent=recent if target.prometheus is None else None,
        limits=limits,
    )
    snapshot = with_usage(assembled.snapshot, usage)
    seconds["assemble"] = time.perf_counter() - started
    return Take(snapshot, seconds, assembled.recent)


def _timed[**P, T](
    seconds: dict[str, float], stage: str, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    started = time.perf_counter()
    try:
        return work(*args, **kwargs)
    finally:
        seconds[stage] = time.perf_counter() - started


def _kubernetes(
    target: Target, clock: Clock, seconds: dict[str, float]
) -> tuple[ClusterObjects, LogReadings, timedelta | None]:
    """Objects, logs and the server's clock minus ours (None where no answer told it)."""
    try:
        connection = connect(target, clock)
    except Refused as refused:
        none = SourceStatus(name=Source.LOGS, state=refused.state, detail=refused.detail)
        return unread_cluster(refused), LogReadings(status=none), None
    with connection:
        objects = _timed(seconds, "kubernetes", read_cluster, connection, target)
        signals, pods_read, status = _timed(
            seconds, "logs", pod_logs.read_signals, connection, target, objects.pods, clock(), objects.nodes
        )
    logs = LogReadings(status=status, signals=signals, pods_read=pods_read)
    return objects, logs, connection.clock_skew


def _usage(target: Target, objects: ClusterObjects, now: datetime, window: timedelta) -> UsageReadings:
    if target.prometheus is None:
        return unasked()
    return read_usage(target.prometheus, objects.pods, window, now, target.request_timeout_s)


def _metrics(target: Target, objects: ClusterObjects, now: datetime, window: timedelta) -> Readings:
    if target.prometheus is not None:
        return read_prometheus(target.prometheus, window, now, target.request_timeout_s)
    if target.exporters:
        urls = exporter_urls(target, objects.services, objects.pods)
        return read_exporters(urls, now, target.request_timeout_s)
    nothing = "neither a Prometheus nor a dcgm-exporter is configured for this cluster"
    return Readings(
        statuses=tuple(
            SourceStatus(name=source, state=SourceState.ABSENT, detail=nothing)
            for source in (Source.METRICS, Source.WINDOW)
        )
    )
