"""GPU207: error 802 on a node, from whatever says it."""

import pytest

from diagnostics.findings import Confidence
from diagnostics.limits import Limits
from diagnostics.rules import engine
from diagnostics.snapshot import Source
from tests.builders import ago, container, event, gpu, node, pod
from tests.rules.stack.failing_cuda import RULES, causes, ended, failing, found, looping, picture, refused

SLUG, CAUSE = "fabric-manager-down", "fabric-manager-down-or-mismatched"


@pytest.mark.parametrize(
    "text",
    [
        "cudaGetDeviceProperties returned 802\n-> system not yet initialized",
        'CUDA error at bandwidthTest.cu:256 code=802(cudaErrorSystemNotReady) "cudaSetDevice(currentDevice)"',
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling "
        "NumCudaDevices() that might have already set an error? Error 802: system not yet initialized",
        "The NVIDIA Driver is present, but CUDA failed to initialize.\n [[ System not yet initialized (error 802) ]]",
        "fabric manager NVIDIA GPU driver interface version 535.129.03 don't match with driver version 535.154.05. "
        "Please update with matching NVIDIA driver package.",
        "failed call to cuInit: CUDA_ERROR_SYSTEM_NOT_READY: system not yet initialized",
        "Failed to allocate device vector A (error code system not yet initialized)!",
        "[Vector addition of 50000 elements]\nFailed to allocate device vector A (code\nsystem not yet initialized)!",
    ],
)
def test_names_the_fabric_manager_at_the_node(text: str) -> None:
    for shown, log in ((failing(looping(text)), ""), (failing(), text)):
        (finding,) = found(SLUG, shown, gpu(), gpu(1), log=log)
        assert (finding.cause, finding.subject.kind, finding.subject.name) == (CAUSE, "Node", "gpu-1")
        assert finding.gpus == 2


def test_the_validator_says_it_and_its_failure_is_the_consequence() -> None:
    said = looping("error code system not yet initialized", "cuda-validation", 0, is_init=True)
    validator = failing(
        said, name="nvidia-cuda-validator-x", namespace="gpu-operator", labels={"app": "nvidia-cuda-validator"},
        created_at=ago(hours=1), conditions=(), phase="Pending",
    )  # fmt: skip
    outcome = engine.run(RULES, picture(validator), Limits())
    by_slug = {f.slug: f for f in outcome.findings}
    assert by_slug["operator-component-failing"].caused_by == (by_slug[SLUG].id,)


def test_names_the_imex_domain_of_a_rack() -> None:
    home = node(labels={"nvidia.com/gpu.product": "NVIDIA-GB200", "nvidia.com/gpu.clique": "a.1"})
    assert causes(SLUG, home, failing(looping("Error 802: system not yet initialized"))) == [
        "imex-domain-not-ready"
    ]


def test_the_driver_version_stands_in_the_fix() -> None:
    (finding,) = found(
        SLUG, failing(refused("", "StartError")), event("Failed", "error 802: system not yet initialized")
    )
    assert any("550.90.07" in step.title for step in finding.fix.steps)


def test_a_neighbour_that_computes_contradicts_it() -> None:
    busy = pod("other-0")
    (finding,) = found(
        SLUG, failing(looping("system not yet initialized")), busy, gpu(3, holders=(busy.key,))
    )
    assert finding.confidence is Confidence.MEDIUM


def test_is_silent_where_it_works_now() -> None:
    text = "Error 802: system not yet initialized"
    assert causes(SLUG, failing(container(last_terminated=ended(text), restarts=1))) == []
    working = failing(container())
    assert causes(SLUG, working, gpu(holders=(working.key,)), log=text) == []


@pytest.mark.parametrize(
    "text", ["returned 8020 rows", "fabric manager is running", "distributed not initialized"]
)
def test_is_silent_about_other_words(text: str) -> None:
    assert causes(SLUG, failing(looping(text))) == []


def test_without_pods_it_is_not_judged() -> None:
    outcome = engine.run(RULES, picture(failing(), without=[Source.PODS]), Limits())
    assert "GPU207" in {s.code for s in outcome.skipped}
