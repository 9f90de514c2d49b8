"""What one poll hands to the next: bounded, dated, and forgotten when the GPU is put right."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from diagnostics.collect import past as past_module
from diagnostics.collect.past import past_after
from diagnostics.snapshot import ContainerUsage, Gpu, HostPeak, Metrics, Past, Stat, XidSeen
from tests.builders import GIB, NOW, ago, gpu, node, owner, pod, snapshot, stat, window

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


def held(*holders: str, now_gib: float = 10.0, most_gib: float = 40.0) -> Gpu:
    return gpu(
        holders=holders,
        metrics=Metrics(sampled_at=NOW, memory_used_bytes=now_gib * GIB),
        window=window(memory_used_bytes=stat(now_gib * GIB, high=most_gib * GIB)),
    )


def test_a_workload_s_memory_peak_is_the_most_of_all_polls_and_windows() -> None:
    job = pod("train-0", root=owner())
    first = past_after(snapshot(node(), job, held(job.key)), DAY)
    assert first.memory_peaks["Job/research/train"].gpu_bytes == 40.0 * GIB
    later = snapshot(node(), job, held(job.key, most_gib=20.0), past=first, taken_at=NOW + DAY)
    second = past_after(later, DAY).memory_peaks["Job/research/train"]
    assert (second.gpu_bytes, second.seen_at) == (40.0 * GIB, NOW + DAY)


def test_a_shared_device_says_nothing_of_one_workload_s_memory() -> None:
    pods = (pod("a"), pod("b"))
    assert past_after(snapshot(node(), *pods, held(*(p.key for p in pods))), DAY).memory_peaks == {}


def test_a_device_without_memory_metrics_has_no_peak() -> None:
    silent = gpu(holders=(pod().key,), metrics=Metrics(sampled_at=NOW), window=None)
    assert past_after(snapshot(node(), pod(), silent), DAY).memory_peaks == {}


def test_of_too_many_workloads_those_seen_last_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_module, "MOST_PEAKS", 2)
    past = Past()
    for hour, name in enumerate(("first", "second", "third")):
        job = pod(f"{name}-0", root=owner(name=name))
        at = NOW + timedelta(hours=hour)
        past = past_after(snapshot(node(), job, held(job.key), past=past, taken_at=at), DAY)
    assert past.memory_peaks.keys() == {"Job/research/second", "Job/research/third"}


def test_instances_that_pass_for_gpus_are_not_remembered_as_boards() -> None:
    cut = node(gpus=7, labels={"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"})
    instances = [gpu(slot=f"gpu-1/b/mig-{i}", mig_profile="1g.10gb", mig_instance=str(i)) for i in range(7)]
    unnamed = [gpu(slot=f"gpu-1/nvidia.com/gpu#{i}", pci=None, uuid=None) for i in range(7)]

    assert past_after(snapshot(cut, *instances), DAY).fitted == {}
    assert past_after(snapshot(cut, *unnamed), DAY).fitted == {}


def test_shares_whose_label_is_late_are_not_remembered_as_boards() -> None:
    late = node(gpus=8, labels={"nvidia.com/gpu.count": "2"})
    shares = [
        gpu(slot=f"gpu-1/nvidia.com/gpu#{i}", pci=None, uuid=None, is_healthy=None) for i in range(2, 8)
    ]

    assert past_after(snapshot(late, gpu(0), gpu(1), *shares), DAY).fitted == {"gpu-1": 2}


def test_boards_beyond_a_label_that_is_too_low_are_remembered() -> None:
    low = node(gpus=2, labels={"nvidia.com/gpu.count": "1"})

    assert past_after(snapshot(low, gpu(0), gpu(1)), DAY).fitted == {"gpu-1": 2}


def used(gib: float) -> ContainerUsage:
    rss = Stat(gib * GIB, gib * GIB, gib * GIB)
    return ContainerUsage(pod=pod().key, container="main", span=timedelta(minutes=30), rss_bytes=rss)


def test_the_most_host_memory_of_a_container_is_remembered_for_a_week() -> None:
    train = pod(root=owner())
    past = past_after(snapshot(node(), train, usage=(used(20),)), DAY)
    assert past.host_peaks == {"Job/research/train/main": HostPeak(rss_bytes=20 * GIB, at=NOW)}
    for days, expected in ((3, 20), (8, 12)):
        at = NOW + timedelta(days=days)
        later = past_after(snapshot(node(), train, usage=(used(12),), past=past, taken_at=at), DAY)
        assert later.host_peaks["Job/research/train/main"].rss_bytes == expected * GIB


def test_a_container_without_memory_metrics_has_no_host_peak() -> None:
    nothing = msgspec.structs.replace(used(1), rss_bytes=None)
    assert past_after(snapshot(node(), pod(), usage=(nothing,)), DAY).host_peaks == {}
