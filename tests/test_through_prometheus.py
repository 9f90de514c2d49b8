"""The simulated cluster scraped by a real Prometheus gives the same findings as its exporters read directly."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from diagnostics.collect import PrometheusTarget, Target, take_snapshot
from diagnostics.collect.windows import RecentSamples
from diagnostics.findings import Diagnosis
from diagnostics.limits import Limits, Thresholds
from diagnostics.rules import diagnose
from diagnostics.simulator.config import WorldConfig
from diagnostics.simulator.server import SimulatedCluster
from diagnostics.snapshot import Source, SourceState
from tests.servers import prometheus

SPAN = timedelta(seconds=20)
FAULTS = (
    *("idle-loaded", "idle-empty", "warm-standby", "xid-95", "standing-xid", "application-xid"),
    *("scattered-job", "partial-gang", "pending-no-capacity", "plugin-crash-loop", "cuda-oom-fragmentation"),
)
XID_AGE = timedelta(minutes=10)
"""How long before the epoch the simulator's Xids happen."""


def spoken(diagnosis: Diagnosis) -> set[tuple[str, str, str]]:
    return {(f.code, f.cause, str(f.subject)) for f in diagnosis.findings}


@pytest.mark.service
def test_both_ways_find_the_same_given_the_same_window(tmp_path: Path) -> None:
    limits = Limits(site=Thresholds(window=SPAN, idle_after=SPAN, starting_for=SPAN))
    epoch = datetime.now(UTC) + XID_AGE + SPAN / 2  # the Xids happen while it is watched
    with SimulatedCluster(WorldConfig(faults=FAULTS, epoch=epoch)) as cluster:
        kubeconfig = tmp_path / "kubeconfig"
        cluster.write_kubeconfig(kubeconfig)
        with prometheus(tmp_path, discovery_url=f"{cluster.url}/sd") as url:
            direct = Target(name="lab", kubeconfig=kubeconfig, exporters=tuple(cluster.exporter_urls))
            watched = take_snapshot(direct, clock=now, recent=RecentSamples(), limits=limits)
            deadline = time.monotonic() + 1.3 * SPAN.total_seconds()
            while time.monotonic() < deadline:
                watched = take_snapshot(direct, clock=now, recent=watched.recent, limits=limits)
                time.sleep(0.2)
            through = Target(name="lab", kubeconfig=kubeconfig, prometheus=PrometheusTarget(url=url))
            scraped = take_snapshot(through, clock=now, limits=limits).snapshot
    for shot in (watched.snapshot, scraped):
        assert shot.source(Source.METRICS).state is SourceState.OK, shot.source(Source.METRICS)
        assert shot.source(Source.WINDOW).state is SourceState.OK, shot.source(Source.WINDOW)
    found = spoken(diagnose(watched.snapshot, limits))
    assert spoken(diagnose(scraped, limits)) == found
    assert {code for code, _, _ in found} >= {"GPU101", "GPU201", "GPU301", "GPU302", "GPU303", "GPU501"}
    states = {gpu.slot: gpu.state for gpu in watched.snapshot.gpus}
    assert {gpu.slot: gpu.state for gpu in scraped.gpus} == states


def now() -> datetime:
    return datetime.now(UTC)
