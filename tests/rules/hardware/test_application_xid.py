"""GPU102: whose fault an application Xid is."""

import pytest

from diagnostics.findings import Severity
from diagnostics.snapshot import Past, Workload
from tests.builders import ago, gpu, owner, pod
from tests.rules.hardware.boards import SLOT, board, diagnosed, facts, found, log, on_node, seen

KEY = "research/train-0"


@pytest.mark.parametrize("code", [13, 31, 43, 69])
def test_blames_the_program_that_held_the_gpu(code: int) -> None:
    (finding,) = found("application-xid", pod(), board(over={"xids": (seen(code),)}, holders=(KEY,)))
    assert (finding.subject.kind, finding.subject.name) == ("Pod", "train-0")
    assert finding.cause == "application-gpu-exception"
    assert finding.severity is Severity.INFO
    assert not any("drain" in s.command or "reset" in s.command for s in finding.fix.steps)


def test_reads_the_program_from_a_kernel_line() -> None:
    line = "NVRM: Xid (PCI:0000:13:00): 43, pid=318, name=trigger_xid, channel 0x0b00000a"
    (finding,) = found("application-xid", board(), signals=on_node(line, at=ago(minutes=5)))
    assert "trigger_xid" in finding.title
    assert "5 min ago" in finding.summary


def test_a_line_about_a_board_that_no_metric_knows_counts_too() -> None:
    line = "NVRM: Xid (PCI:0009:01:00): 31, pid=9, name=python3, Ch 00000008, intr 10000000. MMU Fault"
    (finding,) = found("application-xid", pod(), signals=log(line))
    assert finding.cause == "application-gpu-exception"
    assert finding.subject.name == "train-0"


@pytest.mark.parametrize("code", [45, 63, 14])
def test_ignores_what_is_no_fault_of_a_program(code: int) -> None:
    assert found("application-xid", board(over={"xids": (seen(code),)})) == []


def test_is_silent_about_consequences_of_a_fatal_xid() -> None:
    outcome = diagnosed(board(over={"xids": (seen(48, 10), seen(43, 10.4))}))
    assert [f.slug for f in outcome.findings] == ["fatal-xid"]


@pytest.mark.parametrize("minutes", [None, 25 * 60])
def test_is_silent_about_a_gauge_that_stands_and_an_old_xid(minutes: float | None) -> None:
    assert found("application-xid", board(metrics={"xid": 31}, over={"xids": (seen(31, minutes),)})) == []


def test_suspects_a_gpu_that_stops_different_workloads() -> None:
    job = owner(name="train")
    born = Workload(kind="Job", namespace="research", name="train", created_at=ago(hours=3))
    device = board(over={"xids": (seen(13, 5),)}, holders=(KEY,))
    earlier = Past(xids={SLOT: (seen(31, 60 * 9),)})
    (finding,) = found("application-xid", pod(root=job), device, workloads=(born,), past=earlier)
    assert finding.cause == "gpu-suspected-by-repeated-xids"
    assert finding.subject.name == SLOT
    assert finding.severity is Severity.WARNING
    assert "before train existed" in facts(finding)


def test_does_not_suspect_a_gpu_for_what_one_workload_did_twice() -> None:
    job = owner(name="train")
    born = Workload(kind="Job", namespace="research", name="train", created_at=ago(hours=12))
    device = board(over={"xids": (seen(13, 5),)}, holders=(KEY,))
    earlier = Past(xids={SLOT: (seen(31, 60 * 9),)})
    (finding,) = found("application-xid", pod(root=job), device, workloads=(born,), past=earlier)
    assert finding.cause == "application-gpu-exception"


def test_suspects_the_one_gpu_of_a_job_that_collects_them() -> None:
    device = board(over={"xids": (seen(13, 5, count=7),)}, holders=(KEY,))
    (finding,) = found("application-xid", pod(gpus=2), device, gpu(4, holders=(KEY,)))
    assert finding.cause == "gpu-suspected-by-repeated-xids"
    assert "7 times on this GPU" in facts(finding)


def test_blames_the_program_when_all_its_gpus_show_the_same() -> None:
    devices = [board(i, over={"xids": (seen(13, 5, count=7),)}, holders=(KEY,)) for i in (3, 4)]
    (finding,) = found("application-xid", pod(gpus=2), *devices)
    assert finding.cause == "application-gpu-exception"
    assert finding.gpus == 2


def test_suspects_a_gpu_on_which_the_kernel_stops_one_program_after_another() -> None:
    line = "NVRM: Xid (PCI:0000:13:00): 31, pid={0}, name={1}, Ch 00000010, intr 00000000"
    lines = on_node(line.format(77, "blender"), at=ago(hours=5)) + on_node(
        line.format(99, "python3"), at=ago(hours=1)
    )
    (finding,) = found("application-xid", board(), signals=lines)
    assert finding.cause == "gpu-suspected-by-repeated-xids"
    assert "blender" in facts(finding)


def test_two_processes_of_one_job_are_no_different_programs() -> None:
    line = "NVRM: Xid (PCI:0000:13:00): 31, pid={0}, name={1}, Ch 00000010, intr 00000000"
    lines = on_node(line.format(77, "pt_main"), at=ago(minutes=5)) + on_node(
        line.format(99, "pt_data"), at=ago(minutes=4)
    )
    (finding,) = found("application-xid", board(), signals=lines)
    assert finding.cause == "application-gpu-exception"
