"""GPU205: NVML's failures by cause, on a node or in one container alone."""

from typing import Any

import pytest

from diagnostics.findings import Confidence
from diagnostics.limits import Limits
from diagnostics.rules import engine
from diagnostics.snapshot import Source
from tests.builders import ago, container, event, gpu, pod
from tests.rules.stack.failing_cuda import RULES, causes, ended, failing, found, looping, picture, refused

SLUG = "nvml-failing"
MISMATCH, NOT_LOADED, HANGING = "driver-library-mismatch", "driver-not-loaded", "driver-not-responding"
LOST, PERMISSION = "device-access-lost-after-reload", "nvml-insufficient-permissions"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.183", MISMATCH),
        ("pynvml.NVMLError_LibRmVersionMismatch: RM has detected an NVML/RM version mismatch.", MISMATCH),
        ("Failed to initialize NVML: ERROR_LIB_RM_VERSION_MISMATCH", MISMATCH),
        ("OCI runtime create failed: nvidia-container-cli: initialization error: nvml error: driver/library version "
         "mismatch: unknown", MISMATCH),
        ("NVRM: API mismatch: the client has the version 535.183.01, but\nNVRM: this kernel module has the version "
         "535.161.08.", MISMATCH),
        ("Failed to initialize NVML: Driver Not Loaded", NOT_LOADED),
        ("failed to initialize NVML: ERROR_DRIVER_NOT_LOADED", NOT_LOADED),
        ("nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown", NOT_LOADED),
        ("nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open shared "
         "object file: no such file or directory: unknown", NOT_LOADED),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest "
         "NVIDIA driver is installed and running.", NOT_LOADED),
        ("nvidia-container-cli: initialization error: driver rpc error: timed out: unknown", HANGING),
        ("nvidia-container-cli: initialization error: nvml error: unknown error: unknown", HANGING),
    ],
)  # fmt: skip
def test_a_driver_that_fails_befalls_its_node(text: str, cause: str) -> None:
    for shown in (failing(refused(text)), failing(looping(text))):
        (finding,) = found(SLUG, shown)
        assert (finding.cause, finding.subject.kind, finding.subject.name) == (cause, "Node", "gpu-1")
    assert causes(SLUG, failing(), log=text) == [cause]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("Failed to initialize NVML: Unknown Error", LOST),
        ("pynvml.nvml.NVMLError_Unknown: Unknown Error", LOST),
        ("could not initialize: Failed to initialize NVML: ERROR_UNKNOWN", LOST),
        (
            "RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment, e.g. changing "
            "env variable CUDA_VISIBLE_DEVICES after program start.",
            "cuda-initialisation-fails",
        ),
        ("failed call to cuInit: CUDA_ERROR_UNKNOWN: unknown error", "cuda-initialisation-fails"),
        (
            "RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment\nFailed to "
            "initialize NVML: Unknown Error",
            LOST,
        ),
        ("Failed to initialize NVML: Insufficient Permissions", PERMISSION),
        ("NVMLError_NoPermission: Insufficient Permissions", PERMISSION),
    ],
)
def test_a_container_that_lost_its_devices_is_alone(text: str, cause: str) -> None:
    (finding,) = found(SLUG, failing(looping(text)))
    assert (finding.cause, finding.subject.kind) == (cause, "Pod")


def test_a_pod_that_runs_says_it_too() -> None:
    text = "Failed to initialize NVML: Unknown Error"
    (finding,) = found(SLUG, failing(container()), log=text)
    assert (finding.cause, finding.confidence) == (LOST, Confidence.HIGH)


def test_pods_of_one_node_are_one_finding_with_the_versions() -> None:
    text = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.183"
    first, second = failing(looping(text)), failing(looping(text), name="train-1")
    (finding,) = found(SLUG, first, second, gpu(), gpu(1))
    assert finding.pods == ("research/train-0", "research/train-1")
    assert finding.gpus == 2
    assert ("Version of the library", "535.183") in [(e.label, e.value) for e in finding.evidence]


def test_a_container_error_on_a_broken_node_is_not_a_second_finding() -> None:
    broken = failing(looping("Failed to initialize NVML: Driver/library version mismatch"))
    other = failing(looping("Failed to initialize NVML: Unknown Error"), name="train-1")
    assert causes(SLUG, broken, other) == [MISMATCH]


def test_a_neighbour_that_works_lowers_the_confidence() -> None:
    text = "nvidia-container-cli: initialization error: driver rpc error: timed out"
    busy = pod("train-1")
    (finding,) = found(SLUG, failing(refused(text)), busy, gpu(1, holders=(busy.key,)))
    assert finding.confidence is Confidence.MEDIUM
    assert any(e.value == busy.key for e in finding.evidence)


def test_reads_the_kubelets_event() -> None:
    text = "Error: failed to create task: nvidia-container-cli: initialization error: nvml error: driver not loaded"
    assert causes(SLUG, failing(refused("", "CreateContainerError")), event("Failed", text)) == [NOT_LOADED]


def test_the_operators_own_pods_name_the_node_and_explain_their_failure() -> None:
    said = looping(
        "Failed to initialize NVML: Driver/library version mismatch", "driver-validation", 0, is_init=True
    )
    validator: Any = failing(
        said, name="nvidia-operator-validator-x", namespace="gpu-operator",
        labels={"app": "nvidia-operator-validator"}, created_at=ago(hours=1), conditions=(), phase="Pending",
    )  # fmt: skip
    outcome = engine.run(RULES, picture(validator), Limits())
    by_slug = {f.slug: f for f in outcome.findings}
    assert by_slug[SLUG].cause == MISMATCH
    assert by_slug["operator-component-failing"].caused_by == (by_slug[SLUG].id,)


@pytest.mark.parametrize(
    "text",
    [
        "Failed to initialize NVML: could not load NVML library: libnvidia-ml.so.1",
        "Failed to initialize NVML: ERROR_LIBRARY_NOT_FOUND",
        "nvml initialised: driver 550.90.07",
        "CUDA error: unknown error",
    ],
)
def test_is_silent_about_a_missing_library_and_other_errors(text: str) -> None:
    assert causes(SLUG, failing(looping(text))) == []


def test_is_silent_about_a_container_without_a_gpu() -> None:
    assert causes(SLUG, failing(looping("Failed to initialize NVML: Unknown Error", gpus=0))) == []


def test_is_silent_about_what_is_past() -> None:
    text = "Failed to initialize NVML: Driver/library version mismatch"
    recovered = container(last_terminated=ended(text), restarts=1)
    assert causes(SLUG, failing(recovered)) == []
    old = looping(state="terminated", terminated=ended(text, finished_at=ago(days=3)))
    assert causes(SLUG, failing(old, phase="Failed")) == []


def test_without_pods_it_is_not_judged() -> None:
    outcome = engine.run(RULES, picture(failing(), without=[Source.PODS]), Limits())
    assert "GPU205" in {s.code for s in outcome.skipped}
