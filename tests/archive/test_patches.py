"""Snapshots as patches come back as they were, but for rounded metrics; damage is said and goes no further."""

import math
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnostics.archive.measured import STEPS
from diagnostics.archive.patches import Base, pack, sampled, unpack, unpack_devices
from diagnostics.picture import drawn
from diagnostics.snapshot import Metrics, Past, Snapshot, Stat, XidSeen
from diagnostics.snapshot.stored import UnreadableSnapshot
from tests.builders import GIB, NOW, ago, event, gang, gpu, node, owner, pod, snapshot, stat, window


def a_snapshot(*more: Any, **fields: Any) -> Snapshot:
    jobs = [pod(f"train-{i}", root=owner(), node=f"gpu-{i}") for i in range(3)]
    nodes = [node(f"gpu-{i}") for i in range(3)]
    gpus = [gpu(i, job.node or "", holders=(job.key,)) for job in jobs for i in range(2)]
    past = Past(taken_at=ago(minutes=1), xids={gpus[0].slot: (XidSeen(code=79, last_at=ago(hours=1)),)})
    return snapshot(
        *nodes, *jobs, *gpus, gang(members=(jobs[0].key,)), event("Failed"), *more, past=past, **fields
    )


def bare(one: Snapshot) -> Snapshot:
    """Without what is rounded."""
    return msgspec.structs.replace(
        one, gpus=tuple(msgspec.structs.replace(g, metrics=None, window=None) for g in one.gpus)
    )


def test_a_whole_one_comes_back() -> None:
    found = unpack(pack(a_snapshot(), None), None)
    assert bare(found) == bare(a_snapshot())
    assert found.gpus[0].metrics == a_snapshot().gpus[0].metrics
    assert found.gpus[0].window == a_snapshot().gpus[0].window


def test_a_patch_comes_back_with_its_base() -> None:
    base = Base.of(pack(a_snapshot(), None))
    later = a_snapshot(
        pod("new-0"),
        node("another"),
        taken_at=NOW + timedelta(minutes=5),
        clock_skew=timedelta(),
        has_pod_labels=False,
    )
    later = msgspec.structs.replace(later, pods=(later.pods[3], *later.pods[:2]), gpus=later.gpus[::-1])
    found = unpack(pack(later, base), base)
    assert bare(found) == bare(later)
    assert found.clock_skew == timedelta()


def test_an_empty_snapshot_comes_back_as_a_patch_and_whole() -> None:
    base = Base.of(pack(a_snapshot(), None))
    empty = Snapshot(taken_at=NOW)
    assert unpack(pack(empty, base), base) == unpack(pack(empty, None), None) == empty


def test_what_did_not_change_costs_next_to_nothing() -> None:
    many = snapshot(*(pod(f"pod-{i}", uid=f"{i * 7919:x}") for i in range(500)))
    whole = pack(many, None)
    patch = pack(msgspec.structs.replace(many, taken_at=NOW + timedelta(minutes=1)), Base.of(whole))
    assert len(patch) < 500


def test_unknown_stays_unknown_and_zero_stays_zero() -> None:
    gpus = (
        gpu(0, metrics=Metrics(sampled_at=NOW, utilization_ratio=0.0), window=None),
        gpu(1, metrics=None, window=window(power_w=None, utilization_ratio=stat(0.0))),
        gpu(2, metrics=Metrics(sampled_at=NOW, power_w=71.04, xid=0, row_remap_failed=False), window=None),
        gpu(3, metrics=Metrics(), window=None),
    )
    found = unpack(pack(snapshot(node(), *gpus), None), None).gpus
    assert found[0].metrics == gpus[0].metrics
    assert (found[0].window, found[1].metrics) == (None, None)
    assert found[1].window == gpus[1].window
    assert found[2].metrics == Metrics(sampled_at=NOW, power_w=71.0, xid=0, row_remap_failed=False)
    assert found[3].metrics == Metrics()


def test_values_that_cannot_be_rounded_are_kept_as_they_came() -> None:
    odd = Metrics(sampled_at=NOW, utilization_ratio=math.inf, memory_used_bytes=1e30, power_w=5.0)
    assert unpack(pack(snapshot(node(), gpu(metrics=odd, window=None)), None), None).gpus[0].metrics == odd


@settings(max_examples=60)
@given(
    ratio=st.floats(0, 1), used=st.floats(0, 192 * GIB), power=st.floats(0, 2000), heat=st.floats(-40, 200)
)
def test_rounding_stays_within_half_a_step(ratio: float, used: float, power: float, heat: float) -> None:
    metrics = Metrics(utilization_ratio=ratio, memory_used_bytes=used, power_w=power, temperature_c=heat)
    over = window(utilization_ratio=Stat(0.0, ratio, 1.0), xids=(XidSeen(code=31, last_at=NOW),))
    (found,) = unpack(pack(snapshot(node(), gpu(metrics=metrics, window=over)), None), None).gpus
    assert found.metrics is not None
    assert found.window is not None
    assert found.window.utilization_ratio is not None
    assert found.window.xids == over.xids
    near = {
        "utilization_ratio": "_ratio",
        "memory_used_bytes": "_bytes",
        "power_w": "_w",
        "temperature_c": "_c",
    }
    for field, ending in near.items():
        assert abs(getattr(found.metrics, field) - getattr(metrics, field)) <= STEPS[ending] * 0.5000001, (
            field
        )
    assert abs(found.window.utilization_ratio.mean - ratio) <= 0.00050001


def test_devices_are_read_with_whose_the_pods_are_and_without_the_rest_of_these() -> None:
    base = Base.of(pack(a_snapshot(), None))
    later = a_snapshot(pod("new-0"), taken_at=NOW + timedelta(minutes=5))
    data = pack(later, base)
    read, whole = unpack_devices(data, base), unpack(data, base)
    assert (read.taken_at, read.nodes, read.gangs) == (whole.taken_at, whole.nodes, whole.gangs)
    assert [gpu.metrics for gpu in read.gpus] == [gpu.metrics for gpu in whole.gpus]
    assert {(pod.key, pod.root) for pod in read.pods} == {(pod.key, pod.root) for pod in whole.pods}
    assert drawn(read).devices.nodes == drawn(whole).devices.nodes
    assert not any(pod.containers for pod in read.pods)


def test_samples_are_read_without_the_pods() -> None:
    base = Base.of(pack(a_snapshot(), None))
    read = sampled(pack(a_snapshot(pod("more")), base), base)
    assert read.slots == tuple((g.node, g.slot) for g in a_snapshot().gpus)


def test_damage_is_said(subtests: Any) -> None:
    whole = pack(a_snapshot(), None)
    base = Base.of(whole)
    patch = pack(a_snapshot(pod("more")), base)
    other = Base.of(pack(snapshot(pod("alone")), None))
    for name, data, given_base in (
        ("empty", b"", None),
        ("cut", whole[:-20], None),
        ("no msgpack", b"nonsense", base),
        ("without its base", patch, None),
        ("with another base", patch, other),
    ):
        with subtests.test(name), pytest.raises(UnreadableSnapshot):
            unpack(data, given_base)
        with subtests.test(f"samples, {name}"), pytest.raises(UnreadableSnapshot):
            sampled(data, given_base)
        with subtests.test(f"devices, {name}"), pytest.raises(UnreadableSnapshot):
            unpack_devices(data, given_base)
    with pytest.raises(UnreadableSnapshot):
        Base.of(patch)
