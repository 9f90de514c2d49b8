"""Log tails: only of failing GPU pods, bounded, masked, and a log that is lost never costs the others."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from diagnostics.collect.kube_client import connect
from diagnostics.collect.pod_logs import cleaned, failing_gpu_pods, read_signals
from diagnostics.collect.target import Target
from diagnostics.masking import MASKED
from diagnostics.snapshot import Container, LogSignal, Pod, SourceState, SourceStatus, Terminated
from tests.fakes.replay import NOT_FOUND, Replay, recorded_error
from tests.fakes.web import Reply

Serve = Callable[[str], Replay]
MakeTarget = Callable[..., Target]
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
OOM = (
    b"2026-11-30T11:59:00.000000001Z torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0"
    b" has a total capacity of 79.15 GiB of which 17.81 MiB is free. Process 1 has 79.13 GiB memory in use. Of the"
    b" allocated memory 78.40 GiB is allocated by PyTorch, and 200.00 MiB is reserved by PyTorch but unallocated."
)


def container(**fields: Any) -> Container:
    return Container(**{"name": "main", "limits": {"nvidia.com/gpu": 1.0}} | fields)


def ended(minutes_ago: float, exit_code: int = 1) -> Terminated:
    return Terminated(exit_code=exit_code, finished_at=NOW - timedelta(minutes=minutes_ago))


def crashing(name: str = "train-0", minutes_ago: float = 5, **fields: Any) -> Pod:
    looping = container(
        state="waiting", waiting_reason="CrashLoopBackOff", last_terminated=ended(minutes_ago), restarts=3
    )
    return Pod(**{"namespace": "ml", "name": name, "node": "dgx-01", "containers": (looping,)} | fields)


def read(target: Target, *pods: Pod) -> tuple[tuple[LogSignal, ...], tuple[str, ...], SourceStatus]:
    with connect(target) as connection:
        return read_signals(connection, target, pods, NOW)


def log_path(name: str = "train-0", namespace: str = "ml") -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}/log"


class TestFailing:
    @pytest.mark.parametrize(
        "state",
        [
            {"state": "waiting", "waiting_reason": "CrashLoopBackOff"},
            {"state": "running", "last_terminated": ended(60, 137)},
            {"state": "terminated", "terminated": ended(60)},
        ],
    )
    def test_takes_a_pod_that_crashed(self, state: dict[str, Any]) -> None:
        pod = Pod(namespace="ml", name="a", containers=(container(**state),))
        assert failing_gpu_pods([pod], NOW) == [pod]

    @pytest.mark.parametrize(
        "state",
        [
            {"state": "running"},
            {"state": "terminated", "terminated": ended(5, 0)},
            {"state": "running", "last_terminated": ended(60 * 48)},
            {"state": "waiting", "waiting_reason": "ImagePullBackOff"},
            {"state": "waiting", "waiting_reason": "ContainerCreating"},
            {"limits": {}, "state": "terminated", "terminated": ended(5)},
        ],
    )
    def test_leaves_other_pods_alone(self, state: dict[str, Any]) -> None:
        assert failing_gpu_pods([Pod(namespace="ml", name="a", containers=(container(**state),))], NOW) == []

    def test_puts_the_newest_failure_first(self) -> None:
        pods = [crashing("old", 50), crashing("new", 1), crashing("middle", 20)]
        assert [pod.name for pod in failing_gpu_pods(pods, NOW)] == ["new", "middle", "old"]


def test_reads_a_signal_with_its_time(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    served.logs["ml/train-0/main/previous"] = b"2026-11-30T11:58:00Z step 1\n" + OOM
    signals, keys, status = read(target(served), crashing())
    assert [one.signal for one in signals] == ["torch-cuda-oom"]
    assert signals[0].previous
    assert signals[0].at is not None
    assert keys == ("ml/train-0",)
    assert (status.state, status.items) == (SourceState.OK, 1)
    [asked] = served.asked
    assert asked.query["tailLines"] == "400"
    assert asked.query["limitBytes"] == str(256 * 1024)
    assert asked.query["previous"] == "true"
    assert "*/*" in {name.lower(): value for name, value in asked.headers.items()}["accept"]


def test_reads_both_runs_of_a_container_that_runs_again(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    served.logs |= {"ml/a/main": b"fine", "ml/a/main/previous": OOM}
    again = container(state="running", last_terminated=ended(5, 137), restarts=7)
    signals, _, status = read(target(served), Pod(namespace="ml", name="a", containers=(again,)))
    assert [one.previous for one in signals] == [True]
    assert status.items == 2


def test_takes_the_only_log_of_a_container_that_waits(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    served.logs["ml/train-0/main"] = OOM
    signals, _, status = read(target(served), crashing())
    assert len(signals) == 1
    assert status.state is SourceState.OK


def test_looks_at_no_healthy_pod(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    signals, keys, status = read(target(served), Pod(namespace="ml", name="a", containers=(container(),)))
    assert (signals, keys, served.asked) == ((), (), [])
    assert (status.state, status.items) == (SourceState.OK, 0)


def test_is_bounded_in_pods_and_says_so(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    pods = [crashing(f"p-{number}", number) for number in range(5)]
    served.logs |= {f"ml/{pod.name}/main/previous": b"x" for pod in pods}
    _, keys, status = read(target(served, log_pods=2), *pods)
    assert keys == ("ml/p-0", "ml/p-1")
    assert status.state is SourceState.PARTIAL
    assert "3 failing GPU pods beyond the 2 newest" in status.detail


def test_reads_the_end_behind_a_line_of_megabytes(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    lines = [b"x" * 5_000_000, *[b"calm"] * 15, OOM]
    served.logs["ml/train-0/main/previous"] = b"\n".join(lines)
    signals, _, _ = read(target(served), crashing())
    assert [one.signal for one in signals] == ["torch-cuda-oom"]
    assert [asked.query["tailLines"] for asked in served.asked] == ["400", "40", "4"]


def test_cuts_a_server_that_keeps_to_no_bound(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    served.fault(log_path(), Reply(b"x" * 20_000_000))
    _, keys, status = read(target(served, log_bytes=1000), crashing())
    assert keys == ("ml/train-0",)
    assert status.state is SourceState.OK
    assert len(served.asked) == 3


def test_gives_up_a_log_that_never_ends(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    served.fault(log_path(), Reply(b"y" * 200, drip_s=0.05))
    _, keys, status = read(target(served, request_timeout_s=0.2), crashing())
    assert keys == ()
    assert status.skipped[0].reason == "its node does not answer"


def test_says_that_logs_may_not_be_read(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    for name in ("a", "b"):
        served.fault(log_path(name), Reply(recorded_error("403_no_token.json"), 403))
    signals, keys, status = read(target(served), crashing("a"), crashing("b"))
    assert (signals, keys) == ((), ())
    assert status.state is SourceState.FORBIDDEN
    assert "is forbidden" in status.detail
    assert len(served.asked) == 1, "a namespace that refuses is not asked again"


def test_reads_what_it_may_where_one_namespace_refuses(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    served.fault(log_path("a", "secret"), Reply(recorded_error("403_no_token.json"), 403))
    served.logs["ml/b/main/previous"] = OOM
    signals, keys, status = read(target(served), crashing("a", namespace="secret"), crashing("b"))
    assert keys == ("ml/b",)
    assert len(signals) == 1
    assert status.state is SourceState.PARTIAL
    assert status.skipped[0].example == "secret/a"


def test_counts_pods_that_are_gone(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    served.fault(log_path("gone"), Reply(NOT_FOUND, 404))
    served.logs["ml/b/main/previous"] = b"x"
    _, keys, status = read(target(served), crashing("gone"), crashing("b"))
    assert keys == ("ml/b",)
    assert status.state is SourceState.PARTIAL
    assert [(skip.count, skip.example) for skip in status.skipped] == [(1, "ml/gone")]


def test_does_not_wait_for_a_lost_node_twice(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    served.fault(log_path("a"), Reply(b'{"message": "dial tcp 10.0.0.3:10250: i/o timeout"}', 500))
    served.logs["ml/c/main/previous"] = b"x"
    pods = [crashing("a", 1), crashing("b", 2), crashing("c", 3, node="dgx-02")]
    _, keys, status = read(target(served), *pods)
    assert keys == ("ml/c",)
    assert [asked.path for asked in served.asked] == [log_path("a"), log_path("c")]
    assert status.skipped[0].count == 2


def test_stops_when_the_pass_is_over(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    _, _, status = read(target(served, poll_timeout_s=0.0), crashing("a"), crashing("b"))
    assert status.state is SourceState.FAILED
    assert "whole pass took longer" in status.detail


def test_does_not_put_a_hostile_name_into_a_path(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    _, _, status = read(
        target(served), crashing("../../nodes"), crashing("a?b"), crashing("ok", namespace="..")
    )
    assert served.asked == []
    assert status.skipped[0].count == 3


def test_reads_only_the_containers_that_failed(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    served.logs["ml/a/main"] = b"x"
    pod = Pod(
        namespace="ml",
        name="a",
        containers=(
            container(state="terminated", terminated=ended(1)),
            Container(name="sidecar", state="running"),
        ),
    )
    read(target(served), pod)
    assert [asked.query["container"] for asked in served.asked] == ["main"]


class TestCleaned:
    def test_replaces_invalid_bytes(self) -> None:
        assert cleaned(b"ok \xff\xfe then") == "ok \ufffd\ufffd then"

    def test_drops_colours_and_titles(self) -> None:
        assert cleaned(b"\x1b[1;31mERROR\x1b[0m x\x1b]0;title\x07y") == "ERROR xy"

    def test_makes_other_controls_visible(self) -> None:
        assert cleaned(b"a\x00b\x07c\td") == "a\ufffdb\ufffdc\td"

    def test_unrolls_a_progress_bar(self) -> None:
        assert cleaned(b" 10%\r 20%\r\nend") == " 10%\n 20%\nend"

    def test_masks_a_secret_that_colours_tried_to_hide(self) -> None:
        assert cleaned(b"password=\x1b[31mhunter\x1b[0m22") == f"password={MASKED}"

    def test_cuts_each_line(self) -> None:
        assert [len(line) for line in cleaned(b"z" * 100_000 + b"\nend").split("\n")] == [20_000, 3]


def test_reads_what_an_operator_pod_says(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    name = "nvidia-driver-daemonset-x"
    served.logs[f"gpu-operator/{name}/main/previous"] = b"Could not resolve Linux kernel version"
    driver = crashing(name, namespace="gpu-operator", labels={"app": "nvidia-driver-daemonset"})
    bare = msgspec.structs.replace(driver, containers=(container(limits={}, restarts=3, state="waiting"),))
    signals, keys, _ = read(target(served), bare)
    assert [one.signal for one in signals] == ["driver-kernel-headers-missing"]
    assert keys == (f"gpu-operator/{name}",)


def test_reads_no_operator_pod_where_logs_are_switched_off(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    driver = crashing("d", labels={"app": "nvidia-driver-daemonset"}, created_at=NOW - timedelta(hours=1))
    assert read(target(served, log_pods=0), driver)[1] == ()
    assert served.asked == []
