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
from diagnostics.snapshot import Gpu, Source, SourceState, State
from diagnostics.states import effective_activity
from tests.servers import prometheus

SPAN = timedelta(seconds=20)
FAULTS = (
    *("idle-loaded", "idle-empty", "warm-standby", "xid-95", "standing-xid", "application-xid"),
    *("scattered-job", "partial-gang", "pending-no-capacity", "plugin-crash-loop", "cuda-oom-fragmentation"),
)
XID_AGE = timedelta(minutes=10)
"""How long before the epoch the simulator's Xids happen."""
NEAR_RATIO = 0.1
"""What the activity of a server may move by from one sample to the next: 0.2 of its load, 0.6 of that in SM_ACTIVE."""


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
    clear = {gpu.slot for gpu in watched.snapshot.gpus if not is_at_the_line(gpu, limits.site)}
    states = {gpu.slot: gpu.state for gpu in watched.snapshot.gpus if gpu.slot in clear}
    assert {gpu.slot: gpu.state for gpu in scraped.gpus if gpu.slot in clear} == states
    assert {gpu.slot for gpu in scraped.gpus} == {gpu.slot for gpu in watched.snapshot.gpus}
    assert set(states.values()) >= {State.EFFECTIVE, State.BLOCKED, State.IDLE_HELD, State.FREE}
    for gpu in watched.snapshot.gpus:
        assert gpu.slot in clear or gpu.state in {State.EFFECTIVE, State.INEFFECTIVE}


def is_at_the_line(gpu: Gpu, t: Thresholds) -> bool:
    """The two windows begin and end a moment apart, and the exporter moves to its next sample within them: of a GPU
    whose activity is this near to what `effective` takes, each may rightly say the other thing."""
    activity = effective_activity(gpu.window) if gpu.window is not None else None
    return activity is not None and abs(activity - t.effective_activity_min_ratio) < NEAR_RATIO


def now() -> datetime:
    return datetime.now(UTC)
