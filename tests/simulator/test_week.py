"""The working week: at any moment enough is wrong, much is well, everything fits together, and it comes again."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from diagnostics.collect import take_snapshot
from diagnostics.collect.past import past_after
from diagnostics.collect.windows import RecentSamples
from diagnostics.findings import Finding
from diagnostics.limits import Limits
from diagnostics.rules import diagnose
from diagnostics.simulator import exporter
from diagnostics.simulator.build import build
from diagnostics.simulator.config import WORKING_WEEK, WorldConfig
from diagnostics.simulator.faults import CATALOGUE
from diagnostics.simulator.manifests.nodes import node_object
from diagnostics.simulator.manifests.pods import encoded_pod
from diagnostics.simulator.scheduling import refusals, usage_of
from diagnostics.simulator.week.arrivals import LANES, LINGERS, visits
from diagnostics.simulator.week.calendar import latest
from diagnostics.simulator.week.episodes import EPISODES
from diagnostics.simulator.world import World
from diagnostics.snapshot import Past, Snapshot
from tests.simulated import Stepping, simulated

START = datetime(2026, 6, 1, tzinfo=UTC)
CONFIG = replace(WORKING_WEEK, epoch=START - timedelta(days=1))
HOUR = timedelta(hours=1)
ENOUGH = 12
SLACK = timedelta(seconds=5)
"""From a pod's creation to its start."""


def at(hours: float) -> World:
    return build(CONFIG, START + timedelta(hours=hours))


def moments() -> Iterator[World]:
    """Two weeks, every three hours, at odd minutes."""
    for number in range(112):
        yield at(number * 3.013)


def faults_at(moment: datetime) -> set[str]:
    """Those that have been there for long enough to be found."""
    turns = {slug: latest(episode.spans, moment) for slug, episode in EPISODES.items()}
    return {slug for slug, turn in turns.items() if turn.has(moment) and moment - turn.start > HOUR}


def test_a_dozen_faults_can_be_seen_at_any_moment() -> None:
    for quarter in range(14 * 24 * 4):
        moment = START + quarter * timedelta(minutes=15)
        assert len(faults_at(moment)) >= ENOUGH, moment


def test_most_faults_come_back_and_none_is_always_there() -> None:
    hours = [START + hour * HOUR for hour in range(28 * 24)]
    for slug in EPISODES:
        there = [slug in faults_at(moment) for moment in hours]
        begins = sum(later and not earlier for earlier, later in pairwise(there))
        assert not all(there), slug
        assert begins >= 2, slug


def test_each_has_an_episode_only_if_the_catalogue_knows_it() -> None:
    assert set(EPISODES) <= set(CATALOGUE)
    # A week that comes again and again has a history of its own.
    wanted = {fault.rule for fault in CATALOGUE.values() if not fault.looks}
    assert {CATALOGUE[slug].rule for slug in EPISODES} == wanted


def test_a_node_of_its_own_is_one_episodes_alone() -> None:
    for quarter in range(14 * 24 * 4):
        moment = START + quarter * timedelta(minutes=15)
        there = [e.node for e in EPISODES.values() if e.node and latest(e.spans, moment).has(moment)]
        assert len(there) == len(set(there)), moment


def test_events_come_and_go_with_their_fault() -> None:
    during, after = ({note.reason for note in at(hours).notes} for hours in (2 * 24 + 12, 2 * 24 + 15))
    assert "Preempted" in during
    assert "Preempted" not in after


def test_every_gpu_has_one_holder_at_any_time() -> None:
    for world in moments():
        held = Counter(d.resource_id for p in world.pods if p.state.holds for d in p.devices)
        assert set(held.values()) <= {1}
        assert 25 <= len(held) <= 120


def test_nobody_changes_gpus_node_or_address() -> None:
    seen: dict[str, object] = {}
    for world in moments():
        for pod in world.pods:
            place = (pod.node, pod.address, pod.devices, pod.created)
            if pod.node:
                assert seen.setdefault(pod.uid, place) == place, (pod.name, world.now)


def test_nothing_is_there_before_it_was_made_and_everything_can_be_shown() -> None:
    for world in moments():
        assert all(pod.created <= world.now and encoded_pod(pod) for pod in world.pods)
        early = [p.name for p in world.pods if p.state.started and p.state.started > world.now + SLACK]
        assert early == [], world.now
        assert all(node_object(world, node) for node in world.nodes.values())
        assert sum(bool(exporter.page(world, node)) for node in world.nodes.values()) >= 14


def test_a_pod_that_waits_fits_nowhere() -> None:
    for world in moments():
        usage = usage_of(world.pods)
        for pod in world.pods:
            has_claim = any("persistentVolumeClaim" in v for v in pod.workload.template.volumes)
            if pod.state.unscheduled == "Unschedulable" and not has_claim:
                nodes = world.nodes.values()
                assert all(refusals(n, usage.get(n.name, {}), pod.workload)[0] for n in nodes), pod.name


def test_same_input_gives_the_same_bytes_and_another_seed_another_week() -> None:
    one, other = ([encoded_pod(p) for p in at(300.5).pods] for _ in range(2))
    assert one == other
    changed = build(replace(CONFIG, seed=8), START + 300.5 * HOUR)
    assert {p.name for p in changed.pods} != {p.name for p in at(300.5).pods}


def test_a_job_ends_before_the_next_one_of_its_gpus_begins() -> None:
    for lane in LANES:
        ends = timedelta()
        for day in range(28):
            for visit in visits(7, lane, day):
                assert day * timedelta(days=1) + visit.start > ends
                ends = day * timedelta(days=1) + visit.end + LINGERS


def test_nights_and_weekends_are_quiet() -> None:
    def busy(hour: float) -> int:
        world = at(hour)
        working = {"training", "cell", "load-60", "load-75", "load-90"}
        held = (p for p in world.pods if p.state.is_working and p.workload.activity in working)
        return sum(len(p.devices) for p in held)

    assert min(busy(24 + 11), busy(48 + 15)) > 1.5 * max(busy(24 + 28), busy(6 * 24 + 4))
    books = [p.workload.activity for p in at(24 + 27).pods if p.name.startswith("notebook-")]
    assert books.count("thinking") >= 3


def test_what_comes_back_is_another_pod_of_the_same_owner() -> None:
    first, second = (
        next(p for p in at(hour).pods if p.workload.name == "tts-finetune") for hour in (6, 3 * 24)
    )
    assert first.workload.name == second.workload.name
    assert first.uid != second.uid


def test_nobody_works_on_it_before_its_epoch() -> None:
    assert CONFIG.epoch is not None
    world = build(CONFIG, CONFIG.epoch - timedelta(days=20))
    assert not world.expected
    assert not any(pod.devices for pod in world.pods)


def test_needs_its_nodes_and_takes_no_faults() -> None:
    with pytest.raises(ValueError, match="the week needs 16 nodes"):
        WorldConfig(schedule="week")
    with pytest.raises(ValueError, match="own pods and faults"):
        WorldConfig(schedule="week", nodes=16, faults=("xid-95",))


@pytest.mark.parametrize("hours", [35.4, 6 * 24 + 4.2])
def test_what_is_expected_is_found_and_what_is_well_is_left_alone(hours: float) -> None:
    moment = START + timedelta(hours=hours)
    findings = found(moment)
    known = {(f.slug, f.subject.kind, f.subject.namespace, f.subject.name) for f in findings}
    world = build(CONFIG, moment)
    begun = {
        slug: latest(episode.spans, moment).start
        for slug, episode in EPISODES.items()
        if slug in faults_at(moment)
    }
    due = {CATALOGUE[slug].rule for slug in begun}
    wanted = {(e.rule, e.kind, e.namespace, e.name) for e in world.expected}
    assert {one for one in wanted if one[0] in due} - known == set()
    silent = (
        "research/llm-",
        "vision/seg-train",
        "serving/embed",
        "serving/rerank",
        "serving/summarizer-standby",
    )
    for _, _, namespace, name in known:
        assert not f"{namespace}/{name}".startswith(silent) or "seg-train" in name


def found(moment: datetime) -> tuple[Finding, ...]:
    """After 35 minutes of polls."""
    clock = Stepping(moment - 7 * timedelta(minutes=5))
    recent: RecentSamples | None = RecentSamples()
    past, shot = Past(), Snapshot(taken_at=clock.now)
    limits = Limits()
    with simulated(CONFIG, clock) as (_, target):
        while clock.now <= moment:
            take = take_snapshot(target, clock=clock, past=past, recent=recent, limits=limits)
            shot, recent = take.snapshot, take.recent
            past = past_after(shot, limits.site.xid_recent)
            clock.now += timedelta(minutes=5)
    return diagnose(shot, limits).findings
