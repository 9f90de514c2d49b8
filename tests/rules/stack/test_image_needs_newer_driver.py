"""GPU203: messages of every runtime and framework, the image against the driver, and what is no mismatch."""

import shlex
from typing import Any

import pytest

from diagnostics.findings import Confidence
from diagnostics.limits import Limits
from diagnostics.rules import engine
from diagnostics.snapshot import Snapshot, Source
from tests.builders import ago, container, event, gpu, node, owner, snapshot
from tests.rules.stack.failing_cuda import RULES, causes, ended, failing, found, looping, picture, refused

SLUG = "image-needs-newer-driver"
NEWER, SHADOWED = "image-cuda-newer-than-driver", "compat-library-shadows-driver"
REQUIREMENT = "nvidia-container-cli: requirement error: unsatisfied condition: {}, please update your driver to a newer version, or use an earlier cuda container"  # noqa: E501
WRAPPINGS = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
    "unable to start container process: error during container init: error running prestart hook #0: exit status 1, "
    "stdout: , stderr: Auto-detected mode as 'legacy'\n{}: unknown",
    "failed to start container: Error response from daemon: failed to create task for container: failed to create "
    "shim task: OCI runtime create failed: runc create failed: unable to start container process: error during "
    "container init: error running hook #1: error running hook: exit status 1, stdout: , stderr: Auto-detected mode "
    "as 'legacy'\\n{}: unknown",
    "container create failed: error executing hook `/usr/bin/nvidia-container-runtime-hook` (exit code: 1)\n{}\n",
    "container_linux.go:380: starting container process caused: process_linux.go:545: container init caused: Running "
    'hook #0:: error running hook: exit status 1, stdout: , stderr: {}\\\\n\\""',
    "error executing hook: crun: {}: Internal error",
)  # fmt: skip
OLD_DRIVER = {
    "nvidia.com/cuda.driver-version.full": "520.61.05",
    "nvidia.com/cuda.runtime-version.full": "11.8",
}


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize(
    "condition", ["cuda>=12.8", "cuda >= 11.6", "cuda\\u003e=12.1", "driver>=535", "brand = tesla"]
)
@pytest.mark.parametrize("reason", ["RunContainerError", "CreateContainerError", "StartError"])
def test_reads_the_requirement_error_in_every_runtimes_wrapping(
    wrapping: str, condition: str, reason: str
) -> None:
    text = wrapping.format(REQUIREMENT.format(condition))
    assert causes(SLUG, failing(refused(text, reason))) == [NEWER]
    stopped = looping(last_terminated=ended(text, 128, reason="StartError"))
    assert causes(SLUG, failing(stopped)) == [NEWER]


def test_reads_it_from_an_event_alone() -> None:
    text = "Error: " + WRAPPINGS[0].format(REQUIREMENT.format("cuda>=12.8"))
    (finding,) = found(SLUG, failing(refused("")), event("Failed", text))
    assert finding.cause == NEWER
    assert any("12.8" in e.value for e in finding.evidence if e.label == "Required cuda")


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        ("RuntimeError: The NVIDIA driver on your system is too old (found version 11040).", NEWER),
        ("RuntimeError: cuda runtime error (35) : CUDA driver version is insufficient for CUDA runtime version", NEWER),
        ("CUDA error at main.cu:12 code=35(cudaErrorInsufficientDriver)", NEWER),
        ("ERROR: This container was built for NVIDIA Driver Release 525.85 or later, but\n       version 470.82.01 "
         "was detected and compatibility mode is UNAVAILABLE.", NEWER),
        ("Unexpected error from cudaGetDeviceCount(). Error 804: forward compatibility was attempted on non "
         "supported HW", "forward-compat-on-unsupported-gpu"),
        ("[[ Forward compatibility ... (CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE) cuInit()=804 ]]",
         "forward-compat-on-unsupported-gpu"),
        ("Error 803: system has unsupported display driver / cuda driver combination", SHADOWED),
        ("cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", SHADOWED),
        ("E cuda_diagnostics.cc:313] kernel version 535.104.5 does not match DSO version 545.23.8 -- cannot find "
         "working devices in this configuration", SHADOWED),
        ("CUDA error: the provided PTX was compiled with an unsupported toolchain.", "ptx-newer-than-driver"),
        ("numba.cuda.cudadrv.driver.LinkerError: [222] Call to cuLinkAddData results in "
         "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "ptx-newer-than-driver"),
        ("ptxas application ptx input, line 9; fatal   : Unsupported .version 8.4; current version is '8.2'",
         "ptx-newer-than-driver"),
    ],
)  # fmt: skip
def test_names_the_cause_of_what_frameworks_print(log: str, cause: str) -> None:
    assert causes(SLUG, failing(), log=log, previous=True) == [cause]


def test_a_compat_path_before_the_driver_is_named_and_taken_out() -> None:
    env = {"LD_LIBRARY_PATH": "/usr/local/cuda-12.9/compat:/usr/local/nvidia/lib64"}
    box = looping("CUDA driver version is insufficient for CUDA runtime version", env=env)
    (finding,) = found(SLUG, failing(box, root=owner("Deployment", "api")))
    assert (finding.cause, finding.confidence) == (SHADOWED, Confidence.HIGH)
    patch = next(s.command for s in finding.fix.steps if "LD_LIBRARY_PATH" in s.command)
    assert '"value":"/usr/local/nvidia/lib64"' in shlex.split(patch)[-2]


def test_says_which_nodes_would_do() -> None:
    box = looping(
        "driver version is insufficient for CUDA runtime version", image="nvidia/cuda:12.4.1-base-ubuntu22.04"
    )
    parts = (node(labels=OLD_DRIVER), node("gpu-2"), failing(box))
    (finding,) = found(SLUG, *parts)
    assert finding.confidence is Confidence.HIGH
    shown = {e.label: e.value for e in finding.evidence}
    assert shown["Nodes with a driver that would do"] == "gpu-2"
    assert shown["Driver that the image's CUDA needs at least"] == "525.60.13"


class TestWithoutAMessage:
    """The image against the node, for containers that crash."""

    def of(
        self, image: str, driver: str = "520.61.05", product: str = "Tesla-T4", **fields: Any
    ) -> list[str]:
        labels = {"nvidia.com/cuda.driver-version.full": driver, "nvidia.com/gpu.product": product}
        return causes(SLUG, node(labels=labels), failing(looping(image=image, **fields)))

    def test_finds_a_newer_major_version(self) -> None:
        assert self.of("pytorch/pytorch:2.4.0-cuda12.4-cudnn9-runtime") == [NEWER]
        assert self.of("nvidia/cuda:13.0.1-base-ubi9", "570.124.06", "NVIDIA-GeForce-RTX-4090") == [NEWER]

    @pytest.mark.parametrize(
        ("image", "driver"),
        [
            ("pytorch/pytorch:2.7.0-cuda12.8-cudnn9-runtime", "535.183.01"),
            ("nvidia/cuda:12.9.1-base-ubuntu22.04", "525.60.13"),
            ("pytorch/pytorch:1.13.0-cuda11.7-cudnn8-runtime", "530.30.02"),
            ("nvidia/cuda:11.8.0-base-ubuntu22.04", "580.95.05"),
            ("nvidia/cuda:12.4.1-base-ubuntu22.04", "520.61.05"),
            ("rocm/pytorch:rocm6.2", "450.80.02"),
            ("registry.example/train:latest", "450.80.02"),
        ],
    )
    def test_is_silent_where_minor_versions_compat_libraries_or_newer_drivers_serve(
        self, image: str, driver: str
    ) -> None:
        assert self.of(image, driver) == []

    def test_is_silent_for_a_pod_that_works_or_was_killed_for_memory(self) -> None:
        image = "pytorch/pytorch:2.4.0-cuda12.4-cudnn9-runtime"
        assert (
            self.of(image, state="running", is_ready=True, last_terminated=None, running_since=ago(hours=1))
            == []
        )
        assert self.of(image, last_terminated=ended(code=137, reason="OOMKilled")) == []
        assert self.of(image, waiting_reason="ImagePullBackOff", last_terminated=None) == []

    def test_reads_a_requirement_that_the_pod_overrides(self) -> None:
        env = {"NVIDIA_REQUIRE_CUDA": "cuda>=12.6 brand=tesla,driver>=470,driver<471"}
        assert self.of("registry.example/train:1", env=env) == [NEWER]


def test_is_silent_where_cuda_works_after_all() -> None:
    box = container(image="registry.example/x:1")
    busy = gpu(holders=("research/train-0",))
    log = "UserWarning: The NVIDIA driver on your system is too old (found version 11040)."
    assert causes(SLUG, failing(box), busy, log=log) == []


def test_a_compat_mode_that_is_enabled_is_no_mismatch() -> None:
    log = "NOTE: CUDA Forward Compatibility mode ENABLED. Using CUDA 12.8 driver version 570.1 with kernel driver 535"
    assert causes(SLUG, failing(), log=log) == []


def test_leaves_error_35_without_a_gpu_alone() -> None:
    box = looping("CUDA driver version is insufficient for CUDA runtime version", gpus=0)
    assert causes(SLUG, failing(box)) == []


def test_an_old_failure_that_was_made_good_is_not_reported() -> None:
    text = REQUIREMENT.format("cuda>=12.8")
    old = ended(text, finished_at=ago(days=2))
    assert causes(SLUG, failing(looping(state="terminated", terminated=old), phase="Failed")) == []
    job = owner()
    first = failing(
        looping(state="terminated", terminated=ended(text)), phase="Failed", root=job, created_at=ago(hours=3)
    )
    again = failing(container(), name="train-1", root=job, created_at=ago(hours=1))
    assert causes(SLUG, first, again) == []


def outcome(shot: Snapshot) -> Any:
    return engine.run(RULES, shot, Limits())


def test_without_log_driver_and_image_nothing_is_judged() -> None:
    shot = picture(failing(looping()), logs_read=())
    unjudged = [u for u in outcome(shot).unjudged if u.code == "GPU203"]
    assert unjudged
    assert not [f for f in outcome(shot).findings if f.slug == SLUG]


def test_without_pods_it_does_not_run() -> None:
    assert "GPU203" in {s.code for s in outcome(snapshot(node(), without=[Source.PODS])).skipped}
