"""GPU109: what the device plugin and health agents say of GPUs and their node."""

from typing import Any

import pytest

from diagnostics.findings import Severity
from diagnostics.snapshot import Condition, DeviceHealth, Node, Source
from tests.builders import ago, container, gpu, node, pod
from tests.rules.hardware.boards import SLOT, board, diagnosed, facts, found, log, seen

KEY = "research/train-0"


def holder(health: str, device: str = "GPU-gpu-1-3") -> Any:
    return pod(containers=(container(devices=(DeviceHealth("nvidia.com/gpu", device, health),)),))


def short(count: float = 7.0, **fields: Any) -> Node:
    return node(allocatable={"nvidia.com/gpu": count}, **fields)


PLUGIN = pod("plugin", "kube-system", 0, labels={"app": "nvidia-device-plugin-daemonset"})
MARK = "XidCriticalError: Xid=94 on Device=GPU-gpu-1-3; marking device as unhealthy."
SKIPPED = "I1025 02:19:08 1 health.go:151] Skipping non-nvmlEventTypeXidCriticalError event: {EventType:2}"


@pytest.mark.parametrize("device", ["GPU-gpu-1-3", "GPU-gpu-1-3::2"])
def test_reads_the_health_of_a_device_from_pod_status(device: str) -> None:
    (finding,) = found(
        "reported-unhealthy", holder("Unhealthy", device), board(holders=(KEY,), is_healthy=False)
    )
    assert (finding.subject.name, finding.cause) == (SLOT, "device-unhealthy")
    assert finding.pods == (KEY,)


def test_unknown_health_is_said_to_be_unknown() -> None:
    (finding,) = found("reported-unhealthy", holder("Unknown"), board(holders=(KEY,)))
    assert (finding.cause, finding.severity) == ("device-health-unknown", Severity.INFO)


def test_a_healthy_device_is_left_alone() -> None:
    assert found("reported-unhealthy", holder("Healthy"), board(holders=(KEY,))) == []


def test_a_contained_error_that_left_the_device_out_is_named() -> None:
    told = log(f"{SKIPPED}\n{MARK}", "plugin", "kube-system")
    (finding,) = found("reported-unhealthy", short(), PLUGIN, board(), signals=told)
    assert (finding.subject.name, finding.cause) == (SLOT, "device-left-unhealthy-after-xid")
    assert "after Xid 94" in finding.title
    restart = next(s for s in finding.fix.steps if "-l app=" in s.command)
    assert "spec.nodeName=gpu-1" in restart.command


def test_a_mark_of_a_device_that_nothing_else_names_is_the_nodes() -> None:
    told = log(MARK, "plugin", "kube-system")
    (finding,) = found("reported-unhealthy", short(), PLUGIN, signals=told)
    assert (finding.subject.kind, finding.cause) == ("Node", "device-left-unhealthy-after-xid")


def test_the_gauge_tells_which_gpu_the_plugin_gave_up() -> None:
    standing = board(metrics={"xid": 94}, over={"xids": (seen(94, None, standing_since=ago(days=9)),)})
    (finding,) = found("reported-unhealthy", short(), standing, gpu(4))
    assert finding.subject.name == SLOT
    assert "at least 9 d" in facts(finding)


def test_is_silent_where_the_node_offers_all_its_gpus() -> None:
    told = log(MARK, "plugin", "kube-system")
    assert found("reported-unhealthy", PLUGIN, board(metrics={"xid": 94}), signals=told) == []


def test_is_silent_about_an_event_that_the_plugin_passed_over() -> None:
    assert found("reported-unhealthy", PLUGIN, board(), signals=log(SKIPPED, "plugin", "kube-system")) == []


@pytest.mark.parametrize(
    ("condition", "cause"),
    [
        (("AcceleratedHardwareReady", "False", "NvidiaXID64Error"), "reported-xid"),
        (("AcceleratedHardwareReady", "False", "NvidiaDoubleBitError"), "reported-memory-errors"),
        (("GPUMissing", "True", "GPUMissing"), "reported-gpu-missing"),
        (("XIDErrors", "True", "XidErrorsFound"), "reported-xid"),
        (("NVLinkStatusInactive", "True", "NVLinkInactive"), "reported-nvlink-trouble"),
        (("UnhealthyNvidiaDevicePlugin", "True", "PluginUnhealthy"), "reported-stack-trouble"),
        (("GPUClockThrottling", "True", "Throttled"), "reported-slowdown"),
        (("GpuThermalWatch", "True", "GpuThermalWatchIsNotHealthy"), "reported-slowdown"),
        (("SysLogsGPUFallenOff", "True", "SysLogsGPUFallenOffIsNotHealthy"), "reported-gpu-missing"),
        (("SysLogsSXIDError", "True", "SysLogsSXIDErrorIsNotHealthy"), "reported-xid"),
        (("GpuMemWatch", "True", "GpuMemWatchIsNotHealthy"), "reported-memory-errors"),
        (("GpuCountMismatch", "True", "ExpectedEightFoundSeven"), "reported-gpu-missing"),
        (("XidCriticalError", "True", "XidCritical"), "reported-xid"),
        (("IBLinkFlapping", "True", "Flapping"), "reported-fabric-trouble"),
        (("GPUHealthy", "False", "GpuDegraded"), "reported-unhealthy"),
        (("DcgmExporterUnavailable", "True", "Down"), "reported-stack-trouble"),
    ],
)
def test_reads_conditions_of_health_agents(condition: tuple[str, str, str], cause: str) -> None:
    told = (Condition("Ready", "True"), Condition(*condition, "details", ago(minutes=40)))
    (finding,) = found("reported-unhealthy", node(conditions=told), gpu(1))
    assert (finding.subject.kind, finding.cause) == ("Node", cause)
    assert condition[0] in finding.title
    assert "40 min" in finding.summary


@pytest.mark.parametrize(
    "condition",
    [
        ("AcceleratedHardwareReady", "True", "NvidiaAcceleratedHardwareIsReady"),
        ("GPUMissing", "False", "NoGPUMissing"),
        ("GpuThermalWatch", "False", "GpuThermalWatchIsHealthy"),
        ("GPUHealthy", "True", "AllGood"),
        ("XIDErrors", "Unknown", "NoRecentReport"),
        ("GpuXidError", "True", "NoXidErrors"),
        ("NvidiaDriverLoaded", "True", "Loaded"),
        ("DiskPressure", "True", "KubeletHasDiskPressure"),
        ("KernelDeadlock", "True", "DockerHung"),
        ("ContainerRuntimeReady", "False", "RuntimeDown"),
    ],
)
def test_is_silent_about_conditions_that_are_well_or_of_other_things(condition: tuple[str, str, str]) -> None:
    told = (Condition("Ready", "True"), Condition(*condition))
    assert found("reported-unhealthy", node(conditions=told), gpu(1)) == []


def test_hostile_words_of_a_condition_are_made_printable() -> None:
    told = Condition("GPUMissing", "True", "x\x1b[2J", "<script>\n\u202e", ago(minutes=1))
    (finding,) = found("reported-unhealthy", node(conditions=(Condition("Ready", "True"), told)), gpu(1))
    assert "\x1b" not in facts(finding) + finding.summary
    assert "\u202e" not in facts(finding)


def test_a_fatal_xid_explains_a_device_that_is_marked() -> None:
    device = board(over={"xids": (seen(79),)}, holders=(KEY,), is_healthy=False)
    by_slug = {f.slug: f for f in diagnosed(holder("Unhealthy"), device).findings}
    assert by_slug["reported-unhealthy"].caused_by == (by_slug["fatal-xid"].id,)


def test_does_not_judge_a_withdrawn_gpu_without_logs() -> None:
    outcome = diagnosed(short(), board(is_healthy=False), without=[Source.LOGS])
    assert [u.subject.name for u in outcome.unjudged if u.code == "GPU109"] == [SLOT]
