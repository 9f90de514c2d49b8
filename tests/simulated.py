"""The simulated cluster read as a real one: over HTTP, exporters polled until their windows are full."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from diagnostics.collect import PrometheusTarget, Target, take_snapshot
from diagnostics.collect.past import past_after
from diagnostics.collect.windows import RecentSamples
from diagnostics.findings import Diagnosis, Finding
from diagnostics.limits import Limits
from diagnostics.rules import diagnose
from diagnostics.simulator.config import WorldConfig
from diagnostics.simulator.faults import CATALOGUE, TWINS
from diagnostics.simulator.faults.entry import Fault, Twin
from diagnostics.simulator.server import SimulatedCluster
from diagnostics.snapshot import Past, Snapshot, Source
from tests.polled import incidents_after

START = datetime(2026, 6, 1, 11, 0, tzinfo=UTC)
STEP, POLLS = timedelta(minutes=5), 8
ROOMY = 32
"""Nodes on which every fault of the catalogue finds room at once."""


class Stepping:
    """A clock that a test sets."""

    def __init__(self, now: datetime = START) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


@contextmanager
def simulated(config: WorldConfig, clock: Stepping) -> Iterator[tuple[SimulatedCluster, Target]]:
    """A running simulated cluster and the target that names it, with its exporters."""
    with TemporaryDirectory() as folder, SimulatedCluster(config, clock) as cluster:
        kubeconfig = Path(folder) / "kubeconfig"
        cluster.write_kubeconfig(kubeconfig)
        yield cluster, Target(name="simulated", kubeconfig=kubeconfig, exporters=tuple(cluster.exporter_urls))


def look_through_prometheus(config: WorldConfig, limits: Limits | None = None) -> Snapshot:
    """The same cluster at the same moment, as its Prometheus remembers it; two polls, so that there is a past."""
    clock = Stepping(START + (POLLS - 2) * STEP)
    config = replace(config, epoch=START + (POLLS - 1) * STEP)
    past, shot = Past(), Snapshot(taken_at=START)
    with simulated(config, clock) as (cluster, direct):
        through = replace(direct, exporters=(), prometheus=PrometheusTarget(url=cluster.prometheus_url))
        for _ in range(2):
            shot = take_snapshot(through, clock=clock, past=past, limits=limits).snapshot
            past = past_after(shot, (limits or Limits()).site.xid_recent)
            clock.now += STEP
    return shot


def look(config: WorldConfig, limits: Limits | None = None) -> Snapshot:
    """A snapshot of the cluster after 35 minutes of polls, so that its windows are full.

    The last poll is at the world's epoch, by which each fault has its age.
    """
    clock = Stepping()
    recent: RecentSamples | None = RecentSamples()
    past = Past()
    xid_recent = (limits or Limits()).site.xid_recent
    config = replace(config, epoch=START + (POLLS - 1) * STEP)
    shot = Snapshot(taken_at=START)
    with simulated(config, clock) as (cluster, target):
        for _ in range(POLLS):
            take = take_snapshot(target, clock=clock, past=past, recent=recent, limits=limits)
            shot, recent = take.snapshot, take.recent
            past = past_after(shot, xid_recent)
            clock.now += STEP
        assert {method for method, _ in cluster.requests} == {"GET"}
    return shot


@cache
def seen(*faults: str, nodes: int = 12) -> Snapshot:
    """The simulated cluster with these faults or twins, through its Prometheus and with a stored history where one of
    them needs it."""
    config = WorldConfig(faults=faults, nodes=nodes)
    entries: dict[str, Fault | Twin] = {**CATALOGUE, **TWINS}
    needs = [entries[slug].needs_prometheus for slug in faults]
    shot = look_through_prometheus(config) if any(needs) else look(config)
    if any(needs) and not all(needs):
        shot = with_usage_of(look(config), shot)
    remembered = tuple(slug for slug in faults if entries[slug].looks)
    return with_history_of(shot, remembered) if remembered else shot


def with_history_of(shot: Snapshot, faults: tuple[str, ...]) -> Snapshot:
    """The same moment, told besides of the incidents that an installation stored when it polled these faults before,
    on the smallest cluster: nodes are called the same in a larger one."""
    entries: dict[str, Fault | Twin] = {**CATALOGUE, **TWINS}
    looks = sorted({look for slug in faults for look in entries[slug].looks}, reverse=True)
    config = WorldConfig(faults=faults, epoch=START + (POLLS - 1) * STEP)
    past = msgspec.structs.replace(shot.past, incidents=incidents_after(config, looks))
    return msgspec.structs.replace(shot, past=past)


def with_usage_of(shot: Snapshot, through: Snapshot) -> Snapshot:
    """What exporters read directly show, with what only a Prometheus knows of the same moment."""
    others = tuple(status for status in shot.sources if status.name is not Source.USAGE)
    return msgspec.structs.replace(
        shot,
        sources=(*others, through.source(Source.USAGE)),
        usage=through.usage,
        gpu_courses=through.gpu_courses,
        node_usage=through.node_usage,
    )


@cache
def diagnosed(*faults: str, nodes: int = 12) -> Diagnosis:
    """What the rules say of the simulated cluster with these faults or twins."""
    return diagnose(seen(*faults, nodes=nodes))


@cache
def diagnosed_through_prometheus(*faults: str, nodes: int = 12) -> Diagnosis:
    return diagnose(look_through_prometheus(WorldConfig(faults=faults, nodes=nodes)))


@cache
def all_findings() -> tuple[Finding, ...]:
    """Findings of a cluster with every fault of the catalogue at once."""
    return diagnosed(*CATALOGUE, nodes=ROOMY).findings
