"""The simulator's book-keeping agrees with what the simulated cluster shows."""

from collections import Counter
from datetime import timedelta
from itertools import pairwise

import pytest

from diagnostics.simulator import truth
from diagnostics.simulator.activity import PROFILES, Instant, Reading, reading
from diagnostics.simulator.build import build
from diagnostics.simulator.config import WorldConfig
from diagnostics.simulator.exporter import holders_of
from diagnostics.simulator.month import upheaval
from diagnostics.simulator.month.plan import month_of
from tests.simulator.test_month import CONFIG, START, at, moments

DAY = timedelta(days=1)
MONTH = (START, START + 30 * DAY)


def states(days: tuple[int, int] = (0, 30)) -> truth.Sums:
    return truth.usage(CONFIG, START + days[0] * DAY, START + days[1] * DAY)


def test_the_states_of_a_device_sum_to_the_time_it_existed() -> None:
    whole = 30 * 86_400_000
    sums = {name: sum(s.values()) for name, s in truth.by_device(CONFIG, *MONTH).items()}
    for name, total in sums.items():
        match name.partition("/")[0]:
            case "gpu-04":
                assert total == upheaval.REMOVED * 1000
            case "gpu-13":
                assert total == whole - upheaval.ADDED * 1000
            case _ if name.startswith("gpu-09/00000000:df"):
                is_part = "/mig-" in name
                assert total == (whole - upheaval.SPLIT_AT * 1000 if is_part else upheaval.SPLIT_AT * 1000)
            case _:
                assert total == whole, name


def test_spans_of_a_device_follow_each_other() -> None:
    for line in truth.timelines(CONFIG).values():
        assert all(one.end == two.start for one, two in pairwise(line))
        assert all(held.start < held.end for held in line)


def test_days_sum_to_the_month() -> None:
    days: Counter[tuple[str, str]] = Counter()
    for day in range(30):
        days.update(states((day, day + 1)))
    month = states()
    assert set(days) == set(month)
    assert all(abs(days[key] - ms) <= 30 for key, ms in month.items())


def test_every_state_occurs_and_every_team_wastes_something() -> None:
    sums = states()
    assert {state for _, state in sums} == {
        *("unavailable", "stranded", "free", "stuck", "starting", "blocked", "no_data"),
        *("hung", "idle_empty", "idle_held", "ineffective", "effective"),
    }
    assert {team for team, _ in sums} == {
        *("", "research", "vision", "speech", "recsys", "robotics", "serving", "data-science")
    }
    assert {state for team, state in sums if not team} == {"free", "stranded", "unavailable"}


def test_holders_are_those_that_the_exporter_names() -> None:
    lines = truth.timelines(CONFIG)
    for world in moments():
        t = int((world.now - START).total_seconds())
        for node in world.nodes.values():
            shown = holders_of(world, node)
            for device in node.devices:
                name = f"{node.name}/{device.pci_bus_id.lower()}" + (
                    f"/mig-{device.mig_id}" if device.mig_uuid else ""
                )
                held = next(h for h in lines[name] if h.start <= t < h.end)
                holder = shown.get(device.resource_id)
                assert held.team == (holder.namespace if holder else ""), (name, world.now)


def test_working_time_is_where_the_gpus_measure_it() -> None:
    lines = truth.timelines(CONFIG)
    for world in moments():
        t = int((world.now - START).total_seconds())
        for pod in world.pods:
            for device in pod.devices if pod.state.is_working and pod.state.is_ready else ():
                if device.mig_uuid:
                    continue
                line = lines[f"{device.node}/{device.pci_bus_id.lower()}"]
                held = next(h for h in line if h.start <= t < h.end)
                begun = pod.state.started or pod.created
                word = truth.judged(reading(pod.workload.activity, device, world.now, world.epoch, begun))
                if held.state in ("effective", "hung"):
                    assert word == held.state
                elif held.state in ("idle_empty", "idle_held"):
                    assert word in truth.IDLE


def test_a_short_pause_is_not_idle_and_a_night_is() -> None:
    line = truth.timelines(CONFIG)["gpu-09/00000000:1b:00.0"]
    idle = [held.end - held.start for held in line if held.state in truth.IDLE]
    pauses = [held.end - held.start for held in line if held.state == "ineffective"]
    assert max(idle) > 12 * 3600
    assert max(pauses) < truth.WINDOW_S
    assert len(pauses) > 100


def test_a_crash_loop_is_stuck_but_for_its_runs() -> None:
    sums = states()
    stays = [s for r in month_of(CONFIG).runs if r.path.startswith("speech/tts") for s in r.stays]
    held = sum(s.ended - s.bound for s in stays) * 1000
    assert 0.92 < sums["speech", "stuck"] / held < 0.94


@pytest.mark.parametrize("profile", sorted(PROFILES.keys() - {"inference", "notebook"}))
def test_chance_does_not_decide_what_a_profile_is(profile: str) -> None:
    device = at(0).nodes["gpu-01"].devices[0]
    begun = START - timedelta(hours=2)
    words = {
        truth.judged(reading(profile, device, START + timedelta(seconds=30 * i), START, begun))
        for i in range(200)
    }
    assert words == {truth.word_of(profile)}


def test_a_profile_that_chance_decides_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def gamble(at: Instant) -> Reading:
        return Reading(utilization=0.9, sm=at.near(0.5, 0.1, 0))

    monkeypatch.setitem(PROFILES, "gamble", gamble)
    with pytest.raises(ValueError, match="now effective and now ineffective"):
        truth.word_of("gamble")


def test_knows_nothing_beyond_the_month() -> None:
    with pytest.raises(ValueError, match="the month is over"):
        truth.usage(CONFIG, START, START + 32 * DAY)
    with pytest.raises(ValueError, match="the month is over"):
        truth.usage(CONFIG, START - DAY, START)
    with pytest.raises(ValueError, match="only a month"):
        truth.usage(WorldConfig(epoch=START), *MONTH)


def test_a_world_is_built_as_the_truth_has_it_when_a_gang_is_blocked() -> None:
    run = next(r for r in month_of(CONFIG).runs if r.path == "vision/vit-0")
    world = build(CONFIG, START + timedelta(seconds=run.created + 600))
    pods = [p for p in world.pods if p.workload.name == "vit-0"]
    assert Counter(bool(p.node) for p in pods) == {True: 5, False: 3}
    assert truth.by_device(CONFIG, world.now, world.now + timedelta(minutes=1))[
        f"{pods[0].node}/{pods[0].devices[0].pci_bus_id.lower()}"
    ] == {("vision", "blocked"): 60_000}
