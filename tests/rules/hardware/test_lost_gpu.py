"""GPU107: a GPU that is gone, by the words of kernel and tools or by its silence."""

from typing import Any

import pytest

from diagnostics.snapshot import Condition, Gpu, Past, Pod, Source
from tests.builders import NOW, ago, gpu, node, pod
from tests.rules.hardware.boards import SLOT, board, diagnosed, facts, found, log, on_node

PROBE = (
    "NVRM: The NVIDIA GPU 0000:13:00.0\n  NVRM: (PCI ID: 10de:26b5) installed in this system has\n"
    "  NVRM: fallen off the bus and is not responding to commands."
)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (PROBE, "gpu-fallen-off-bus"),
        ("NVRM: GPU 0000:13:00.0: GPU has fallen off the bus.", "gpu-fallen-off-bus"),
        ("Unable to determine the device handle for GPU0000:13:00.0: Unknown Error", "gpu-not-answering"),
        (
            "Unable to determine the device handle for GPU 0000:13:00.0: GPU is lost.  Reboot",
            "gpu-not-answering",
        ),
        (
            "| 3  NVIDIA L40S  On | 00000000:13:00.0 Off | ERR! |\n|ERR! ERR! ERR!  ERR! / ERR!|",
            "gpu-not-answering",
        ),
        ("NVRM: GPU 0000:13:00.0: rm_init_adapter failed, device minor number 3", "gpu-not-initialised"),
    ],
)
@pytest.mark.parametrize("is_known", [True, False])
def test_reads_which_gpu_is_lost(text: str, cause: str, is_known: bool) -> None:
    devices = [board()] if is_known else []
    (finding,) = found("lost-gpu", *devices, signals=on_node(text, at=ago(minutes=5)))
    assert (finding.cause, finding.subject.kind, finding.subject.name) == (cause, "GPU", SLOT)
    assert any("Reboot" in s.title for s in finding.fix.steps)


def test_an_index_names_the_gpu() -> None:
    text = "Unable to determine the device handle for GPU3: Unknown Error"
    (finding,) = found("lost-gpu", board(), signals=on_node(text))
    assert finding.subject.name == SLOT


def test_a_line_that_names_no_gpu_is_about_the_node() -> None:
    (finding,) = found(
        "lost-gpu", board(), signals=on_node("error creating nvml.Device 3: nvml: GPU is lost")
    )
    assert (finding.subject.kind, finding.cause) == ("Node", "gpu-not-answering")


def test_is_silent_about_a_line_of_the_day_before_yesterday() -> None:
    assert found("lost-gpu", board(), signals=on_node(PROBE, at=ago(hours=40))) == []


def plugin() -> Pod:
    return pod("plugin", "gpu-operator", 0, labels={"app": "nvidia-device-plugin-daemonset"})


def test_no_devices_means_all_where_a_component_says_so() -> None:
    silent = [gpu(i, metrics=None, window=None, is_healthy=False) for i in range(2)]
    told = log("No devices were found", "plugin", "gpu-operator")
    (finding,) = found("lost-gpu", *silent, plugin(), signals=told)
    assert (finding.cause, finding.gpus) == ("no-gpu-answers", 2)


def test_no_devices_in_a_pod_of_users_is_not_ours() -> None:
    silent = [gpu(i, metrics=None, window=None) for i in range(2)]
    assert found("lost-gpu", *silent, pod(), signals=log("No devices were found")) == []
    assert (
        found("lost-gpu", board(), plugin(), signals=log("No devices were found", "plugin", "gpu-operator"))
        == []
    )


def gone(**fields: Any) -> Gpu:
    return gpu(3, **({"metrics": None, "window": None, "is_healthy": False} | fields))


def test_a_gpu_that_fell_silent_and_is_not_offered_is_lost() -> None:
    past = Past(last_active={SLOT: ago(hours=2)})
    (finding,) = found("lost-gpu", gone(), gpu(4), past=past)
    assert (finding.cause, finding.subject.name) == ("gpu-vanished", SLOT)
    assert "it worked last: 2 h ago" in facts(finding)


def test_is_silent_where_the_silence_has_another_reason() -> None:
    assert found("lost-gpu", gone(is_healthy=True), gpu(4)) == [], "the node offers it"
    assert found("lost-gpu", gone()) == [], "no neighbour has metrics: the exporter is down"
    assert found("lost-gpu", gone(pci=None, uuid=None, slot="gpu-1/nvidia.com/gpu#3"), gpu(4)) == []
    not_ready = node(conditions=(Condition("Ready", "False"),))
    assert found("lost-gpu", not_ready, gone(), gpu(4)) == []


def test_is_silent_without_metrics() -> None:
    outcome = diagnosed(gone(), gpu(4), without=[Source.METRICS])
    assert [f for f in outcome.findings if f.slug == "lost-gpu"] == []
    assert SLOT in {u.subject.name for u in outcome.unjudged if u.code == "GPU107"}


def test_an_xid_79_of_the_same_gpu_explains_it() -> None:
    lines = on_node(
        "NVRM: Xid (PCI:0000:13:00): 79, pid=1, name=x, GPU has fallen off the bus.\n" + PROBE, at=NOW
    )
    by_slug = {f.slug: f for f in diagnosed(board(), signals=lines).findings}
    assert by_slug["lost-gpu"].caused_by == (by_slug["fatal-xid"].id,)
