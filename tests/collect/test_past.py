"""What one poll hands to the next: bounded, dated, and forgotten when the GPU is put right."""

from datetime import timedelta
from typing import Any

import msgspec

from diagnostics.collect.past import past_after
from diagnostics.snapshot import Gpu, Metrics, Past, XidSeen
from tests.builders import NOW, ago, gpu, node, snapshot, window

DAY = timedelta(hours=24)


def broken(**fields: Any) -> Gpu:
    seen = XidSeen(code=95, last_at=ago(minutes=10))
    return gpu(metrics=Metrics(sampled_at=NOW, xid=95), window=window(xids=(seen,)), **fields)


def test_a_dated_xid_of_the_window_is_known_to_the_next_poll() -> None:
    past = past_after(snapshot(node(), broken()), DAY)
    assert [x.code for x in past.xids[broken().slot]] == [95]


def test_it_stays_known_through_polls_without_a_window() -> None:
    first = past_after(snapshot(node(), broken()), DAY)
    silent = gpu(metrics=None, window=None)
    second = past_after(snapshot(node(), silent, past=first, taken_at=NOW + timedelta(hours=5)), DAY)
    assert second.xids == first.xids


def test_it_is_forgotten_after_a_day() -> None:
    first = past_after(snapshot(node(), broken()), DAY)
    later = snapshot(node(), gpu(metrics=None, window=None), past=first, taken_at=NOW + timedelta(hours=30))
    assert past_after(later, DAY).xids == {}


def test_it_is_forgotten_when_the_gauge_reads_zero_again_on_a_healthy_gpu() -> None:
    first = past_after(snapshot(node(), broken()), DAY)
    well = gpu(metrics=Metrics(sampled_at=NOW, xid=0), window=window())
    assert past_after(snapshot(node(), well, past=first), DAY).xids == {}
    still_bad = msgspec.structs.replace(well, is_healthy=False)
    assert past_after(snapshot(node(), still_bad, past=first), DAY).xids == first.xids


def test_a_standing_gauge_is_not_remembered() -> None:
    standing = gpu(window=window(xids=(XidSeen(code=94, standing_since=ago(hours=1)),)))
    assert past_after(snapshot(node(), standing), DAY).xids == {}


def test_activity_and_the_most_gpus_are_kept() -> None:
    busy, idle = gpu(0), gpu(1, metrics=Metrics(sampled_at=NOW, utilization_ratio=0.0))
    first = past_after(snapshot(node(gpus=2), busy, idle), DAY)
    assert first.last_active == {busy.slot: NOW}
    assert first.fitted == {"gpu-1": 2}
    second = past_after(snapshot(node(gpus=2), busy, past=first, taken_at=NOW + DAY), DAY)
    assert second.fitted == {"gpu-1": 2}


def test_a_node_that_is_gone_is_forgotten() -> None:
    known = Past(last_active={"gone/x": NOW}, fitted={"gone": 8})
    past = past_after(snapshot(node(), past=known), DAY)
    assert "gone" not in past.fitted
    assert "gone/x" not in past.last_active
