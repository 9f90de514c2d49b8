"""Toolkits against drivers by NVIDIA's published tables, with their numbers."""

import pytest

from diagnostics.rules.stack import architectures
from diagnostics.rules.stack.cuda_compat import (
    FLOOR,
    PAIRED_DRIVER,
    Verdict,
    judged,
    newest_cuda,
    toolkit,
    version,
    written,
)
from diagnostics.rules.stack.cuda_images import (
    has_compat_package,
    runs_on,
    toolkit_of,
    wheel_architectures,
)
from tests.builders import node

A100, RTX = "NVIDIA-A100-SXM4-80GB", "NVIDIA-GeForce-RTX-4090"


def verdict(cuda: str, driver: str, product: str | None = A100) -> Verdict:
    numbers, drivers = toolkit(cuda), version(driver)
    assert numbers is not None
    assert drivers is not None
    found = judged(numbers, drivers, product)
    assert found is not None
    return found.verdict


@pytest.mark.parametrize(
    ("driver", "newest"),
    [
        ("450.80.02", (11, 0)), ("460.32.03", (11, 2)), ("470.57.02", (11, 4)), ("470.256.02", (11, 4)),
        ("510.47.03", (11, 6)), ("515.65.01", (11, 7)), ("520.61.05", (11, 8)), ("525.60.13", (12, 0)),
        ("530.30.02", (12, 1)), ("535.54.03", (12, 2)), ("535.183.01", (12, 2)), ("545.23.08", (12, 3)),
        ("550.54.14", (12, 4)), ("550.144.03", (12, 4)), ("555.42.06", (12, 5)), ("560.35.03", (12, 6)),
        ("565.57.01", (12, 7)), ("570.26", (12, 8)), ("570.124.06", (12, 8)), ("575.51.03", (12, 9)),
        ("580.65.06", (13, 0)), ("580.95.05", (13, 0)), ("590.48.01", (13, 1)), ("595.58.03", (13, 2)),
        ("610.43.02", (13, 3)), ("440.33.01", (10, 2)), ("418.39", (10, 1)), ("410.48", (10, 0)),
    ],
)  # fmt: skip
def test_a_driver_serves_the_cuda_that_nvidia_smi_prints(driver: str, newest: tuple[int, int]) -> None:
    numbers = version(driver)
    assert numbers is not None
    assert newest_cuda(numbers) == newest


@pytest.mark.parametrize("cuda", PAIRED_DRIVER)
def test_a_toolkit_fits_its_paired_driver_and_every_newer_one(cuda: tuple[int, int]) -> None:
    for driver in (PAIRED_DRIVER[cuda], *(d for c, d in PAIRED_DRIVER.items() if c >= cuda)):
        found = judged(cuda, driver)
        assert found is not None
        assert found.verdict is Verdict.FITS


@pytest.mark.parametrize(
    ("cuda", "driver"),
    [
        ("12.8", "535.183.01"), ("12.4", "525.60.13"), ("12.9", "525.85.12"), ("11.8", "450.80.02"),
        ("11.8", "470.82.01"), ("13.2", "580.65.06"), ("12.6", "550.90.07"), ("13.5", "580.95.05"),
    ],
)  # fmt: skip
def test_a_newer_minor_version_runs_with_limits(cuda: str, driver: str) -> None:
    assert verdict(cuda, driver) is Verdict.LIMITED
    assert verdict(cuda, driver, RTX) is Verdict.LIMITED


@pytest.mark.parametrize(
    ("cuda", "driver"),
    [
        ("12.1", "520.61.05"), ("12.0", "515.65.01"), ("13.0", "575.57.08"), ("13.1", "570.124.06"),
        ("11.4", "450.51.06"), ("12.4", "470.256.02"), ("10.2", "418.39"),
    ],
)  # fmt: skip
def test_a_newer_major_version_needs_the_compat_package_or_does_not_run(cuda: str, driver: str) -> None:
    assert verdict(cuda, driver) is Verdict.NEEDS_COMPAT
    assert verdict(cuda, driver, None) is Verdict.NEEDS_COMPAT
    assert verdict(cuda, driver, RTX) is Verdict.TOO_NEW


def test_the_floors_are_those_of_the_compatibility_guide() -> None:
    assert {major: written(driver) for major, driver in FLOOR.items()} == {
        11: "450.80.02",
        12: "525.60.13",
        13: "580.65.06",
    }


@pytest.mark.parametrize("cuda", ["9.0", "8.0"])
def test_says_nothing_of_a_toolkit_that_the_tables_do_not_have(cuda: str) -> None:
    numbers = toolkit(cuda)
    assert numbers is not None
    assert judged(numbers, (535, 54, 3)) is None


@pytest.mark.parametrize("text", ["", None, "latest", "12", "cuda", "99.1", "535.54"])
def test_takes_no_other_text_for_a_toolkit(text: str | None) -> None:
    assert toolkit(text) is None


@pytest.mark.parametrize(
    ("image", "cuda"),
    [
        ("nvidia/cuda:12.4.1-runtime-ubuntu22.04", (12, 4)),
        ("docker.io/nvidia/cuda:11.8.0-cudnn8-devel-ubuntu20.04@sha256:abc", (11, 8)),
        ("nvcr.io/nvidia/cuda:13.0.1-base-ubi9", (13, 0)),
        ("registry.example:5000/mirror/nvidia/cuda:12.2.2-base-ubuntu22.04", (12, 2)),
        ("pytorch/pytorch:2.1.0-cuda12.1-cudnn8-devel", (12, 1)),
        ("pytorch/pytorch:2.13.0-cuda13.2-cudnn9-runtime", (13, 2)),
        ("nvcr.io/nvidia/pytorch:24.10-py3", (12, 6)),
        ("nvcr.io/nvidia/pytorch:23.02-py3", (12, 0)),
        ("nvcr.io/nvidia/tritonserver:25.01-py3", (12, 8)),
        ("nvcr.io/nvidia/jax:25.08-py3", (13, 0)),
        ("vllm/vllm-openai:v0.8.4", (12, 4)),
        ("docker.io/vllm/vllm-openai:v0.8.5", (12, 8)),
        ("vllm/vllm-openai:v0.20.1-cu129", (12, 9)),
        ("vllm/vllm-openai:v0.21.0", (13, 0)),
        ("lmsysorg/sglang:v0.5.16-cu130-runtime", (13, 0)),
        ("tensorflow/tensorflow:2.13.0-gpu", (11, 8)),
        ("tensorflow/tensorflow:2.20.0-gpu-jupyter", (12, 5)),
        ("rayproject/ray-ml:2.40.0-py310-cu121", (12, 1)),
        ("registry.example/team/train:v3-cuda118", (11, 8)),
    ],
)
def test_reads_the_toolkit_from_an_image_reference(image: str, cuda: tuple[int, int]) -> None:
    assert toolkit_of(image) == cuda


@pytest.mark.parametrize(
    "image",
    [
        "", "nvidia/cuda", "nvidia/cuda:latest", "registry.example/team/train:1.0", "vllm/vllm-openai:latest",
        "rocm/pytorch:rocm6.2_ubuntu22.04_py3.10_pytorch_release_2.3.0", "tensorflow/tensorflow:2.15.0",
        "nvcr.io/nvidia/tritonserver:25.09-trtllm-python-py3", "nvcr.io/nvidia/pytorch:29.01-py3",
        "registry.example:5000/team/cuda-tools", "team/app:circus12", "huggingface/transformers-pytorch-gpu:4.35.0",
        "vllm/vllm-openai:v0.9.0-rocm", "nvidia/cuda@sha256:0123",
    ],
)  # fmt: skip
def test_guesses_no_toolkit(image: str) -> None:
    assert toolkit_of(image) is None


def test_knows_which_images_bring_the_compat_package() -> None:
    assert has_compat_package("nvcr.io/nvidia/pytorch:24.10-py3")
    assert has_compat_package("nvidia/cuda:12.4.1-base-ubuntu22.04")
    assert not has_compat_package("pytorch/pytorch:2.1.0-cuda12.1-cudnn8-devel")


@pytest.mark.parametrize(
    ("product", "capability"),
    [
        ("Tesla-K80", (3, 7)), ("Tesla-P100-PCIE-16GB", (6, 0)), ("Tesla-P40", (6, 1)),
        ("Tesla-V100-SXM2-32GB", (7, 0)),
        ("Tesla-T4", (7, 5)), (A100, (8, 0)), ("NVIDIA-A30", (8, 0)), ("NVIDIA-A10G", (8, 6)), ("NVIDIA-A40", (8, 6)),
        ("NVIDIA-RTX-A6000", (8, 6)), ("NVIDIA-L4", (8, 9)), ("NVIDIA-L40S", (8, 9)), (RTX, (8, 9)),
        ("NVIDIA-H100-80GB-HBM3", (9, 0)), ("NVIDIA-H200", (9, 0)), ("NVIDIA-GH200-480GB", (9, 0)),
        ("NVIDIA-B200", (10, 0)), ("NVIDIA-GB200", (10, 0)), ("NVIDIA-B300-SXM6-AC", (10, 3)),
        ("NVIDIA-GeForce-RTX-5090", (12, 0)), ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", (12, 0)),
        ("NVIDIA-GB10", (12, 1)),
    ],
)  # fmt: skip
def test_knows_the_compute_capability_of_a_model(product: str, capability: tuple[int, int]) -> None:
    assert architectures.capability_of(product) == capability


def test_labels_tell_the_capability_of_a_node_before_its_model() -> None:
    labels = {"nvidia.com/gpu.compute.major": "9", "nvidia.com/gpu.compute.minor": "0"}
    assert architectures.capability_of_node(node(labels=labels)) == (9, 0)
    assert architectures.capability_of_node(node(labels={"nvidia.com/gpu.compute.major": "x"})) == (8, 0)
    assert architectures.capability_of_node(None) is None
    assert architectures.capability_of("AMD-Instinct-MI300X") is None


def test_machine_code_runs_on_the_same_major_capability() -> None:
    built = wheel_architectures("pytorch/pytorch:2.1.0-cuda12.1-cudnn8-devel")
    assert built is not None
    assert runs_on((8, 9), built)
    assert runs_on((9, 0), built)
    assert not runs_on((10, 0), built)
    assert not runs_on((12, 0), built)
    assert wheel_architectures("nvcr.io/nvidia/pytorch:24.10-py3") is None
    newer = wheel_architectures("pytorch/pytorch:2.13.0-cuda13.2-cudnn9-runtime")
    assert newer is not None
    assert runs_on((10, 3), newer)
    assert not runs_on((7, 0), newer)
