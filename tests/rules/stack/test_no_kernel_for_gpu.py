"""GPU204: builds without code for the GPU, newer or older than it, and warnings that mean nothing."""

import pytest

from diagnostics.snapshot import Source
from tests.builders import container, gpu, node, owner
from tests.rules.stack.failing_cuda import causes, failing, found, looping, refused

SLUG, CAUSE, TOO_OLD = "no-kernel-for-gpu", "no-kernels-for-gpu-architecture", "gpu-too-old-for-image"
NO_IMAGE = "RuntimeError: CUDA error: no kernel image is available for execution on the device"
WARNING = (
    "UserWarning: \n{gpu} with CUDA capability {sm} is not compatible with the current PyTorch installation.\nThe "
    "current PyTorch install supports CUDA capabilities {built}.\nIf you want to use the {gpu} GPU with PyTorch, "
    "please check the instructions at https://pytorch.org/get-started/locally/"
)
BLACKWELL = node(labels={"nvidia.com/gpu.product": "NVIDIA-B200"})
V100 = node(labels={"nvidia.com/gpu.product": "Tesla-V100-SXM2-32GB"})


@pytest.mark.parametrize(
    "log",
    [
        NO_IMAGE,
        "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device\nSearch for "
        "`cudaErrorNoKernelImageForDevice' in https://docs.nvidia.com/",
        "CUDA_ERROR_NO_BINARY_FOR_GPU: no kernel image is available for execution on the device",
        "cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorNoKernelImageForDevice: no kernel image is "
        "available for execution on the device",
        WARNING.format(
            gpu="NVIDIA GeForce RTX 5090", sm="sm_120", built="sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90"
        ),
        "CUDA error: device kernel image is invalid",
        "RuntimeError: HIP error: invalid device function",
        "ptxas fatal   : Value 'sm_103' is not defined for option 'gpu-name'",
        "nvcc fatal   : Unsupported gpu architecture 'compute_120'",
        "RuntimeError: Internal Triton PTX codegen error: ptxas fatal : Value 'sm_120a' is not defined for option "
        "'gpu-name'",
        '"hipErrorNoBinaryForGpu: Unable to find code object for all current devices!"',
    ],
)
def test_names_a_build_that_does_not_know_the_gpu(log: str) -> None:
    assert causes(SLUG, BLACKWELL, failing(), log=log, previous=True) == [CAUSE]
    assert causes(SLUG, BLACKWELL, failing(looping(log))) == [CAUSE]


@pytest.mark.parametrize(
    "log",
    [
        WARNING.format(gpu="Tesla V100-SXM2-32GB", sm="sm_70", built="sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"),
        "Found GPU0 Tesla K40c which is of cuda capability 3.5.\nPyTorch no longer supports this GPU because it "
        "is too old.",
        "Found GPU0 Tesla P100-PCIE-16GB which is of cuda capability 6.0.\n    Minimum and Maximum cuda capability "
        "supported by this version of PyTorch is\n    (7.0) - (12.0)",
        "nvidia-container-cli: requirement error: unsatisfied condition: arch>=7.5",
    ],
)
def test_names_a_gpu_that_is_too_old_for_the_build(log: str) -> None:
    assert causes(SLUG, V100, failing(), log=log) == [TOO_OLD]


def test_says_what_the_gpu_is_and_what_the_build_has() -> None:
    log = (
        WARNING.format(gpu="NVIDIA GeForce RTX 5090", sm="sm_120", built="sm_80 sm_86 sm_90")
        + "\n"
        + NO_IMAGE
    )
    (finding,) = found(SLUG, failing(root=owner("Deployment", "api")), log=log)
    shown = {e.label: e.value for e in finding.evidence}
    assert shown["Compute capability of the GPU"] == "12.0"
    assert shown["Built for"] == "8.0, 8.6 and 9.0"
    assert shown["First CUDA with code for it"] == "12.8"


@pytest.mark.parametrize(
    ("image", "product", "cause"),
    [
        ("pytorch/pytorch:2.1.0-cuda12.1-cudnn8-devel", "NVIDIA-B200", [CAUSE]),
        ("pytorch/pytorch:2.6.0-cuda12.4-cudnn9-runtime", "NVIDIA-GeForce-RTX-5090", [CAUSE]),
        ("pytorch/pytorch:2.9.1-cuda13.0-cudnn9-runtime", "Tesla-V100-SXM2-32GB", [TOO_OLD]),
        ("nvidia/cuda:13.0.1-base-ubuntu24.04", "Tesla-P100-PCIE-16GB", [TOO_OLD]),
        ("pytorch/pytorch:2.1.0-cuda12.1-cudnn8-devel", "NVIDIA-L40S", []),
        ("pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime", "NVIDIA-B300-SXM6-AC", []),
        ("pytorch/pytorch:2.1.0-cuda12.1-cudnn8-devel", "NVIDIA-Unheard-Of-9000", []),
        ("nvidia/cuda:12.1.1-base-ubuntu22.04", "NVIDIA-B200", []),
        ("registry.example/team/train:1.0", "NVIDIA-B200", []),
    ],
)  # fmt: skip
def test_judges_the_image_of_a_container_that_crashes(image: str, product: str, cause: list[str]) -> None:
    home = node(
        labels={"nvidia.com/gpu.product": product, "nvidia.com/cuda.driver-version.full": "580.95.05"}
    )
    assert causes(SLUG, home, failing(looping(image=image))) == cause
    assert causes(SLUG, home, failing(container(image=image))) == []


@pytest.mark.parametrize(
    "log",
    [
        "TensorFlow was not built with CUDA kernel binaries compatible with compute capability 12.0. CUDA kernels "
        "will be jit-compiled from PTX, which could take 30 minutes or longer.",
        "Found GPU0 NVIDIA GB10 which is of cuda capability 12.1.\n    Minimum and Maximum cuda capability supported "
        "by this version of PyTorch is\n    (8.0) - (12.0)",
        "FATAL: no kernel image found in /boot",
        "loaded kernel for sm_90",
    ],
)
def test_is_silent_about_notes_that_stop_nothing(log: str) -> None:
    assert causes(SLUG, BLACKWELL, failing(), log=log) == []


def test_is_silent_where_the_gpu_works() -> None:
    log = WARNING.format(gpu="NVIDIA A100", sm="sm_80", built="sm_37 sm_50 sm_60 sm_70")
    assert causes(SLUG, failing(container()), gpu(holders=("research/train-0",)), log=log) == []


def test_without_the_nodes_a_message_still_tells() -> None:
    assert causes(SLUG, failing(), log=NO_IMAGE, without=[Source.NODES]) == [CAUSE]
    assert causes(SLUG, failing(refused("", image="pytorch/pytorch:2.1.0-cuda12.1-cudnn8-devel"))) == []
