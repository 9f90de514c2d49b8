"""Windows out of our own samples: holders, gaps, late and repeated polls, Xids, and their stored form."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from diagnostics.collect.window_parts import (
    Covered,
    at_once,
    in_succession,
    window_from,
    with_counts,
    xids_of,
)
from diagnostics.collect.windows import (
    MOST_POLLS,
    PollSamples,
    RecentSamples,
    activity,
    decode,
    encode,
    extended,
    windows_of,
)
from diagnostics.snapshot import Gpu, Metrics, Stat, Window, XidSeen

NOW = datetime(2026, 11, 3, 12, 0, tzinfo=UTC)
SPAN = timedelta(minutes=30)
SLOT = "n1/00000000:0f:00.0"


def minute(number: float) -> datetime:
    """Minutes before NOW."""
    return NOW - timedelta(minutes=number)


def gpu(holder: str | None = "team-a/w-0", slot: str = SLOT, **metrics: Any) -> Gpu:
    return Gpu(
        slot=slot,
        node="n1",
        pci="00000000:0f:00.0",
        holders=(holder,) if holder else (),
        metrics=Metrics(**({"utilization_ratio": 0.5} | metrics)),
    )


def polled(polls: dict[float, Gpu]) -> RecentSamples:
    """Polls in the order given, by minutes before NOW."""
    recent = RecentSamples()
    for number, device in polls.items():
        recent = extended(recent, [device], minute(number), SPAN)
    return recent


def window(recent: RecentSamples) -> Window:
    return windows_of(recent, NOW, SPAN)[SLOT]


def test_gives_statistics_over_the_span() -> None:
    recent = polled({float(m): gpu(utilization_ratio=m / 100, power_w=100.0) for m in range(40, -1, -1)})
    found = window(recent)
    assert found.utilization_ratio == Stat(0.0, pytest.approx(0.15), 0.3)  # type: ignore[arg-type]
    assert found.power_w == Stat(100, 100, 100)
    assert found.sm_active_ratio is None, "not collected is not zero"
    assert found.coverage_ratio == 1.0
    assert found.span == SPAN


def test_missing_samples_lower_the_coverage() -> None:
    recent = RecentSamples()
    for m in range(30, -1, -1):
        devices = [gpu()] if m % 3 == 0 else []
        recent = extended(recent, devices, minute(m), SPAN)
    assert window(recent).coverage_ratio == pytest.approx(11 / 30)


def test_missed_polls_lower_the_coverage() -> None:
    recent = polled({float(m): gpu() for m in range(30, -1, -1) if not 10 < m < 20})
    assert window(recent).coverage_ratio == pytest.approx(22 / 30)


def test_one_poll_is_hardly_a_window() -> None:
    assert window(polled({0: gpu()})).coverage_ratio == pytest.approx(1 / 30)


def test_a_new_holder_starts_with_an_empty_window() -> None:
    polls = {float(m): gpu("a/old", utilization_ratio=1.0) for m in range(30, 5, -1)}
    polls |= {float(m): gpu("a/new", utilization_ratio=0.0) for m in range(5, -1, -1)}
    found = window(polled(polls))
    assert found.utilization_ratio == Stat(0, 0, 0)
    assert found.coverage_ratio == pytest.approx(6 / 30)


def test_a_holder_does_not_inherit_the_time_when_nobody_held_it() -> None:
    polls = {float(m): gpu(None) for m in range(30, 5, -1)} | {float(m): gpu() for m in range(5, -1, -1)}
    assert window(polled(polls)).coverage_ratio == pytest.approx(6 / 30)


def test_a_share_stays_covered_when_another_pod_joins() -> None:
    recent = RecentSamples()
    for m in range(30, -1, -1):
        holders = ("a/w",) if m > 5 else ("a/late", "a/w")
        device = Gpu(slot=SLOT, node="n1", pci="x", holders=holders, metrics=Metrics(utilization_ratio=0.1))
        recent = extended(recent, [device], minute(m), SPAN)
    assert window(recent).coverage_ratio == 1.0


def test_order_and_repetition_of_polls_do_not_matter() -> None:
    polls = {float(m): gpu(utilization_ratio=m / 100, xid=79 if m < 12 else 0) for m in range(30, -1, -1)}
    shuffled = list(polls.items())
    random.Random(3).shuffle(shuffled)
    again = polled(dict(shuffled))
    for number, device in shuffled[:7]:
        again = extended(again, [device], minute(number), SPAN)
    assert window(again) == window(polled(polls))


def test_a_stale_sample_counts_once_and_at_its_own_time() -> None:
    stale = gpu(sampled_at=minute(25))
    recent = polled({float(m): stale for m in range(25, -1, -1)})
    assert window(recent).coverage_ratio == pytest.approx(1 / 30)


def test_a_sample_of_the_future_counts_now() -> None:
    recent = polled({1: gpu(), 0: gpu(sampled_at=minute(-60))})
    assert window(recent).coverage_ratio == pytest.approx(2 / 30)


def test_a_sample_older_than_what_is_kept_is_dropped() -> None:
    recent = polled({0: gpu(sampled_at=minute(120))})
    assert windows_of(recent, NOW, SPAN) == {}


def test_a_late_poll_does_not_forget_what_is_newer() -> None:
    recent = polled({0: gpu(utilization_ratio=0.1), 5: gpu(utilization_ratio=0.9)})
    assert window(recent).utilization_ratio == Stat(0.1, 0.5, 0.9)


def test_forgets_devices_that_are_gone_and_samples_that_are_old() -> None:
    recent = polled({float(m): gpu(slot="n1/gone") for m in range(60, 50, -1)})
    recent = extended(recent, [gpu()], NOW, SPAN)
    assert recent.slots == {SLOT}
    assert [poll.at for poll in recent.polls] == [NOW]


def test_keeps_a_bounded_number_of_polls() -> None:
    recent = RecentSamples()
    for second in range(MOST_POLLS + 20):
        recent = extended(recent, [gpu()], NOW + timedelta(seconds=second), SPAN)
    assert len(recent.polls) == MOST_POLLS
    assert recent.polls[-1].at == NOW + timedelta(seconds=MOST_POLLS + 19)


def test_passes_over_devices_without_name_or_metrics() -> None:
    unnamed = Gpu(slot="n1/nvidia.com/gpu#3", node="n1", metrics=Metrics())
    silent = Gpu(slot=SLOT, node="n1", pci="x")
    assert extended(RecentSamples(), [unnamed, silent], NOW, SPAN).slots == frozenset()


def test_sees_when_the_xid_gauge_changed() -> None:
    polls = {float(m): gpu(xid=79 if m <= 12 else 0) for m in range(30, -1, -1)}
    assert window(polled(polls)).xids == (XidSeen(code=79, last_at=minute(12)),)


def test_xids_are_the_devices_whoever_held_it() -> None:
    polls = {float(m): gpu("a/old", xid=79 if m <= 12 else 0) for m in range(30, 8, -1)}
    polls |= {float(m): gpu("a/new", xid=79) for m in range(8, -1, -1)}
    assert window(polled(polls)).xids == (XidSeen(code=79, last_at=minute(12)),)


@pytest.mark.parametrize(
    ("course", "seen"),
    [
        ([0, 0, 0], ()),
        ([13, 13, 13], (XidSeen(code=13, standing_since=minute(2)),)),
        ([0, 79, 79], (XidSeen(code=79, last_at=minute(1)),)),
        ([13, 79, 79], (XidSeen(code=13, standing_since=minute(2)), XidSeen(code=79, last_at=minute(1)))),
        ([13, 31, 13], (XidSeen(code=13, last_at=minute(0)), XidSeen(code=31, last_at=minute(1)))),
        ([79, 0, 0], ()),
        ([79, 0, 79], (XidSeen(code=79, last_at=minute(0)),)),
        ([0, 79, 0], (XidSeen(code=79, last_at=minute(1)),)),
        ([], ()),
    ],
)
def test_reads_the_course_of_a_gauge(course: list[int], seen: tuple[XidSeen, ...]) -> None:
    assert xids_of((minute(len(course) - 1 - i), code) for i, code in enumerate(course)) == seen


def test_counts_of_the_exporter_show_repeats_that_the_gauge_hides() -> None:
    standing = XidSeen(code=94, standing_since=minute(30))
    counts = {94: [(minute(9), 1), (minute(8), 1), (minute(7), 3)], 31: [(minute(2), 1)]}
    assert with_counts([standing], counts, timedelta(minutes=1)) == (
        XidSeen(code=31, last_at=minute(2), count=1),
        XidSeen(code=94, last_at=minute(7), standing_since=minute(30), count=3),
    )


def test_a_count_that_ends_and_begins_anew_is_counted_anew() -> None:
    counts = {94: [(minute(20), 1), (minute(19), 1), (minute(4), 1)]}
    (seen,) = with_counts([], counts, timedelta(minutes=1))
    assert (seen.last_at, seen.count) == (minute(4), 2)


def test_a_metric_collected_for_part_of_the_span_is_left_out() -> None:
    stats = {
        "utilization_ratio": Covered(0, 0, 0, 30),
        "power_w": Covered(70, 71, 72, 27),
        "sm_active_ratio": Covered(0.9, 0.9, 0.9, 5),
    }
    found = window_from(stats, 60, SPAN)
    assert found.sm_active_ratio is None
    assert found.power_w is not None
    assert found.coverage_ratio == pytest.approx(27 / 30)


def test_nothing_measured_covers_nothing() -> None:
    assert window_from({}, 60, SPAN) == Window(span=SPAN, coverage_ratio=0.0)


def test_joins_pieces_in_time_and_series_side_by_side() -> None:
    first, second = Covered(1, 2, 3, 10), Covered(0, 8, 9, 30)
    assert in_succession(first, second) == Covered(0, 6.5, 9, 40)
    assert at_once(first, second) == Covered(1, 8, 9, 30)


def poll() -> PollSamples:
    devices = [gpu(xid=13, memory_used_bytes=7.1e10), gpu(None, slot="n1/other")]
    return extended(RecentSamples(), devices, NOW, SPAN).polls[0]


def test_survives_its_stored_form() -> None:
    stored = decode(encode(poll()))
    assert stored == poll()
    assert stored.at == NOW


def test_a_poll_of_the_same_moment_replaces_the_first() -> None:
    recent = extended(RecentSamples(), [gpu(utilization_ratio=0.1)], NOW, SPAN)
    recent = extended(recent, [gpu(utilization_ratio=0.3)], NOW, SPAN)
    assert len(recent.polls) == 1
    assert window(recent).utilization_ratio == Stat(0.3, 0.3, 0.3)


def test_finds_what_a_poll_measured() -> None:
    recent = polled({1: gpu(), 0: gpu()})
    assert recent.polled_at(minute(1)) == recent.polls[0]
    assert recent.polled_at(minute(7)) is None


def damaged() -> list[bytes]:
    good = encode(poll())

    def packed(**changed: Any) -> bytes:
        plain = msgspec.to_builtins(poll(), builtin_types=(bytes, datetime))
        return zstandard.compress(msgspec.msgpack.encode(plain | changed))

    assert decode(packed()) == poll(), "what is not damaged is read"
    values = poll().values
    return [
        b"",
        b"garbage",
        good[:-3],
        zstandard.compress(b"\xc1\xff"),
        packed(values={**values, "other": values["time"]}),
        packed(values={name: column for name, column in values.items() if name != "power_w"}),
        packed(values={**values, "power_w": values["power_w"][:-1]}),
        packed(holders=[["a"]]),
        packed(slots=["one"]),
        packed(at=datetime(2026, 11, 3)),  # noqa: DTZ001
        packed(at="x"),
    ]


@pytest.mark.parametrize("number", range(11))
def test_passes_over_damaged_bytes(number: int) -> None:
    assert decode(damaged()[number]) is None


@given(st.binary(max_size=60))
def test_survives_any_bytes(data: bytes) -> None:
    assert decode(data) is None


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ({}, None),
        ({"power_w": 300.0, "memory_copy_ratio": 0.4}, None),
        ({"utilization_ratio": 0.0}, 0.0),
        ({"utilization_ratio": 0.1, "dram_active_ratio": 0.7, "sm_active_ratio": 0.2}, 0.7),
        ({"gr_engine_ratio": 0.3, "tensor_active_ratio": 0.0}, 0.3),
    ],
)
def test_activity_is_the_largest_that_is_collected(metrics: dict[str, float], expected: float | None) -> None:
    assert activity(Metrics(**metrics)) == expected  # type: ignore[arg-type]


def test_a_counter_grows_by_the_sum_of_its_rises() -> None:
    recent = polled(
        {3: gpu(nvlink_recoveries=7.0), 2: gpu(nvlink_recoveries=9.0), 1: gpu(nvlink_recoveries=9.0)}
    )
    assert window(recent).nvlink_recoveries_grown == 2
    assert window(recent).pcie_replays_grown is None, "not collected is not zero"


def test_a_counter_that_falls_began_anew() -> None:
    recent = polled({3: gpu(pcie_replays=500.0), 2: gpu(pcie_replays=0.0), 1: gpu(pcie_replays=3.0)})
    assert window(recent).pcie_replays_grown == 3


def test_one_sample_of_a_counter_shows_no_growth() -> None:
    assert window(polled({1: gpu(pcie_replays=500.0)})).pcie_replays_grown is None


def test_a_counter_is_the_devices_whoever_held_it() -> None:
    recent = polled({2: gpu("team-a/old", pcie_replays=5.0), 1: gpu("team-b/new", pcie_replays=6.0)})
    assert window(recent).pcie_replays_grown == 1
