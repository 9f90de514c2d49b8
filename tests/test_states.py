"""Exactly one state per device; the first definition that matches wins; missing data is no_data."""

from datetime import timedelta
from typing import Any

import pytest

from diagnostics.limits import Limits
from diagnostics.snapshot import Condition, Gpu, Metrics, Origin, Pod, Snapshot, Source, State, Terminated
from diagnostics.states import with_states
from tests.builders import (
    GIB,
    NOW,
    ago,
    container,
    gang,
    gpu,
    idle_window,
    node,
    pending_pod,
    pod,
    snapshot,
    stat,
    statuses,
    window,
)

HOLDER = "research/train-0"


def state_of(device: Gpu, *others: object, **fields: Any) -> State:
    shot: Snapshot = snapshot(*(others or (node(), pod())), device, **fields)
    return with_states(shot, Limits())[device.slot][0]


def held(**fields: Any) -> Gpu:
    return gpu(holders=(HOLDER,), **fields)


def not_ready(**fields: Any) -> Pod:
    return pod(conditions=(Condition("Ready", "False", since=ago(minutes=10)),), **fields)


def test_a_busy_gpu_is_effective() -> None:
    assert state_of(held()) is State.EFFECTIVE


def test_low_sm_and_dram_activity_is_ineffective() -> None:
    low = window(sm_active_ratio=stat(0.2), dram_active_ratio=stat(0.1))
    assert state_of(held(window=low)) is State.INEFFECTIVE


def test_a_memory_bound_gpu_is_effective_by_its_dram_activity() -> None:
    decoding = window(sm_active_ratio=stat(0.2), dram_active_ratio=stat(0.6))
    assert state_of(held(window=decoding)) is State.EFFECTIVE


def test_without_sm_and_dram_activity_effective_is_unjudged() -> None:
    device = held(window=window(sm_active_ratio=None, dram_active_ratio=None))
    assert with_states(snapshot(node(), pod(), device), Limits())[device.slot] == (State.EFFECTIVE, True)


def test_no_activity_with_memory_resident_is_idle_held() -> None:
    assert state_of(held(window=idle_window())) is State.IDLE_HELD


def test_no_activity_with_a_bare_context_is_idle_empty() -> None:
    assert state_of(held(window=idle_window(memory_bytes=0.4 * GIB))) is State.IDLE_EMPTY


def test_power_above_the_idle_band_is_not_idle() -> None:
    assert state_of(held(window=idle_window(power_w=stat(200.0)))) is State.INEFFECTIVE


@pytest.mark.parametrize(
    "device",
    [
        held(metrics=None),
        held(window=None),
        held(window=idle_window(coverage_ratio=0.5)),
        held(metrics=Metrics(sampled_at=ago(minutes=20)), window=idle_window()),
        held(metrics=Metrics(), window=idle_window()),
        held(window=idle_window(), holder_source="count"),
        held(
            window=window(
                utilization_ratio=None,
                gr_engine_ratio=None,
                sm_active_ratio=None,
                tensor_active_ratio=None,
                dram_active_ratio=None,
            )
        ),
    ],
    ids=[
        "no sample",
        "no window",
        "thin window",
        "stale",
        "undated",
        "holder by count",
        "no activity metric",
    ],
)
def test_missing_data_is_no_data_and_never_idle(device: Gpu) -> None:
    assert state_of(device) is State.NO_DATA


def test_a_gpu_of_a_node_that_is_not_ready_is_unavailable_even_when_held() -> None:
    lost = node(conditions=(Condition("Ready", "Unknown"),))
    assert state_of(held(), lost, pod()) is State.UNAVAILABLE


def test_an_unhealthy_gpu_is_unavailable() -> None:
    assert state_of(gpu(is_healthy=False)) is State.UNAVAILABLE


def test_a_cordoned_node_makes_only_its_free_gpus_unavailable() -> None:
    cordoned = node(unschedulable=True)
    assert state_of(gpu(), cordoned) is State.UNAVAILABLE
    assert state_of(held(), cordoned, pod()) is State.EFFECTIVE


def test_a_free_gpu_is_free_even_without_metrics() -> None:
    assert state_of(gpu(metrics=None, window=None), node()) is State.FREE


def test_a_free_gpu_on_a_node_without_cpu_is_stranded() -> None:
    hog = pod("hog", gpus=0, containers=(container(gpus=0, requests={"cpu": 63.0}, limits={}),))
    assert state_of(gpu(), node(), hog) is State.STRANDED


def test_a_waiting_pod_that_would_fit_keeps_a_gpu_from_being_stranded() -> None:
    hog = pod("hog", gpus=0, containers=(container(gpus=0, requests={"cpu": 63.0}, limits={}),))
    small = pending_pod(containers=(container(requests={"cpu": 0.5, "nvidia.com/gpu": 1.0}, limits={}),))
    assert state_of(gpu(), node(), hog, small) is State.FREE


def test_a_crash_loop_is_stuck() -> None:
    looping = pod(
        containers=(
            container(state="waiting", waiting_reason="CrashLoopBackOff", restarts=5, is_ready=False),
        )
    )
    assert state_of(held(), node(), looping) is State.STUCK


def between_crashes(**fields: Any) -> Pod:
    """Ready, since it has no readiness probe: its last run ended badly after a minute, and it runs again."""
    last = Terminated("Error", 1, started_at=ago(minutes=7), finished_at=ago(minutes=6))
    defaults: dict[str, Any] = {"restarts": 5, "running_since": ago(minutes=1), "last_terminated": last}
    return pod(containers=(container(**(defaults | fields)),))


def test_a_crash_loop_stays_stuck_between_two_crashes() -> None:
    assert state_of(held(window=idle_window()), node(), between_crashes()) is State.STUCK
    ended = between_crashes(
        state="terminated", running_since=None, terminated=Terminated("Error", 1, finished_at=ago(seconds=2))
    )
    assert state_of(held(window=idle_window()), node(), ended) is State.STUCK


@pytest.mark.parametrize(
    "fields",
    [
        {"restarts": 2},
        {"running_since": ago(minutes=11)},
        {"running_since": None},
        {"last_terminated": Terminated("Completed", 0, finished_at=ago(minutes=6))},
        {"last_terminated": Terminated("Error", 1, started_at=ago(hours=3), finished_at=ago(minutes=6))},
    ],
    ids=["few restarts", "recovered", "start unknown", "ended well", "ran for hours before"],
)
def test_a_container_that_runs_again_is_not_stuck(fields: dict[str, Any]) -> None:
    assert state_of(held(), node(), between_crashes(**fields)) is State.EFFECTIVE


def test_terminating_past_its_grace_is_stuck_and_within_it_is_not() -> None:
    assert state_of(held(), node(), pod(deletion_at=ago(minutes=10))) is State.STUCK
    assert state_of(held(), node(), pod(deletion_at=NOW + timedelta(seconds=20))) is State.EFFECTIVE


def test_a_young_pod_that_is_not_ready_is_starting() -> None:
    assert state_of(held(), node(), not_ready(started_at=ago(minutes=10))) is State.STARTING


def test_a_pod_of_unknown_phase_may_have_finished_and_is_not_stuck() -> None:
    assert state_of(held(), node(), not_ready(phase="", started_at=ago(minutes=40))) is not State.STUCK


def test_a_pod_not_ready_for_longer_than_half_an_hour_is_stuck() -> None:
    old = pod(conditions=(Condition("Ready", "False", since=ago(hours=1)),), started_at=ago(hours=1))
    assert state_of(held(), node(), old) is State.STUCK


def test_a_running_member_whose_gang_is_incomplete_is_blocked() -> None:
    waiting = pending_pod("train-1")
    team = gang(members=(HOLDER, waiting.key), size=2)
    assert state_of(held(window=idle_window()), node(), pod(), waiting, team) is State.BLOCKED


def test_a_gpu_of_which_only_pods_show_that_it_is_given_out_by_claims_is_not_called_free() -> None:
    assert state_of(gpu(origin=Origin.DRA), node()) is State.NO_DATA


def test_a_published_gpu_that_no_claim_has_is_free() -> None:
    assert state_of(gpu(origin=Origin.DRA, device="gpu.nvidia.com/gpu-1/gpu-0"), node()) is State.FREE


def test_a_published_gpu_is_not_called_free_where_a_claim_keeps_it_or_claims_cannot_be_read() -> None:
    published = gpu(origin=Origin.DRA, device="gpu.nvidia.com/gpu-1/gpu-0")
    kept = gpu(origin=Origin.DRA, device="gpu.nvidia.com/gpu-1/gpu-0", claims=("research/left-over",))
    assert state_of(kept, node()) is State.NO_DATA
    assert state_of(published, node(), without=[Source.CLAIMS]) is State.NO_DATA


def test_a_gang_whose_members_could_not_all_be_read_is_not_blocked() -> None:
    team = gang(members=(HOLDER,), size=2)
    whole, part = statuses(), statuses(partial={Source.PODS})
    assert state_of(held(), node(), pod(), team, sources=whole) is State.BLOCKED
    assert state_of(held(), node(), pod(), team, sources=part) is State.EFFECTIVE


def test_an_elastic_job_with_enough_members_is_not_blocked() -> None:
    waiting = pending_pod("train-1")
    team = gang(members=(HOLDER, waiting.key), size=2, min_available=1)
    assert state_of(held(), node(), pod(), waiting, team) is State.EFFECTIVE


def test_a_pod_of_which_the_kubelet_has_said_nothing_is_not_stuck() -> None:
    assert state_of(held(), node(), pod(conditions=())) is State.EFFECTIVE


def test_a_gang_that_is_not_collective_blocks_nobody() -> None:
    waiting = pending_pod("train-1")
    servers = gang(members=(HOLDER, waiting.key), size=2, collective="")
    assert state_of(held(), node(), pod(), waiting, servers) is State.EFFECTIVE


def test_finished_members_are_not_missing() -> None:
    root = pod().root
    done = pod("train-1", phase="Succeeded", root=root)
    team = gang(members=(HOLDER,), size=2)
    assert state_of(held(), node(), pod(root=root), done, team) is State.EFFECTIVE


def waiting_window(**fields: Any) -> object:
    return window(
        utilization_ratio=stat(1.0),
        gr_engine_ratio=stat(1.0),
        sm_active_ratio=stat(0.1),
        dram_active_ratio=stat(0.01),
        tensor_active_ratio=stat(0.0),
        power_w=stat(120.0, low=118.0, high=122.0),
        **fields,
    )


def test_every_member_spinning_at_low_flat_power_is_hung() -> None:
    team = gang(members=(HOLDER,), size=1)
    assert state_of(held(window=waiting_window()), node(), pod(), team) is State.HUNG


def test_one_working_member_keeps_a_gang_from_being_hung() -> None:
    other = pod("train-1")
    team = gang(members=(HOLDER, other.key), size=2)
    busy = gpu(1, holders=(other.key,))
    assert state_of(held(window=waiting_window()), node(), pod(), other, busy, team) is State.INEFFECTIVE


def test_a_single_spinning_pod_without_a_gang_is_not_hung() -> None:
    assert state_of(held(window=waiting_window())) is State.INEFFECTIVE


def test_a_shared_gpu_is_stuck_only_when_all_its_holders_are() -> None:
    looping = pod(
        containers=(
            container(state="waiting", waiting_reason="CrashLoopBackOff", restarts=5, is_ready=False),
        )
    )
    well = pod("other")
    shared = gpu(holders=(looping.key, well.key), replicas=4)
    assert state_of(shared, node(), looping, well) is State.EFFECTIVE
