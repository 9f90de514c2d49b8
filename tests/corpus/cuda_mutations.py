"""Changes to the text of a case about CUDA that leave its meaning alone: versions, runtimes, frameworks, names."""

import re
from random import Random

from tests.corpus import mutations

_PAIRS = (
    ("550.144.03", "12.4", ("12.5", "12.8", "13.0")),
    ("535.183.01", "12.2", ("12.3", "12.6", "13.1")),
    ("525.147.05", "12.0", ("12.1", "12.4")),
    ("470.256.02", "11.4", ("11.6", "12.0")),
    ("580.95.05", "13.0", ("13.1", "13.3")),
)
_WRAPPINGS = (
    "Error: failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create "
    "failed: unable to start container process: error during container init: error running prestart hook #0: exit "
    "status 1, stdout: , stderr: Auto-detected mode as 'legacy'\n",
    "Error: failed to start container \"main\": Error response from daemon: OCI runtime create failed: "
    "container_linux.go:380: starting container process caused: process_linux.go:545: container init caused: Running "
    "hook #0:: error running hook: exit status 1, stdout: , stderr: ",
    "Error: container create failed: error executing hook `/usr/bin/nvidia-container-runtime-hook` (exit code: 1)\n",
    "Error: CreateContainer failed: error executing hook using runc: stderr: ",
)  # fmt: skip
_802 = (
    "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized",
    "failed call to cuInit: CUDA_ERROR_SYSTEM_NOT_READY: system not yet initialized",
    "Failed to allocate device vector A (error code system not yet initialized)!",
)


def versions(text: str, random: Random) -> str:
    """Another driver, and an image that wants more than it serves; another version of the framework."""
    driver, newest, wanted = random.choice(_PAIRS)
    text = re.sub(r"cuda>=[\d.]+(?=,)", f"cuda>={random.choice(wanted)}", text)
    text = re.sub(r"Driver Version: \S+", f"Driver Version: {driver}", text)
    text = re.sub(r"CUDA Version: \S+", f"CUDA Version: {newest}", text)
    text = re.sub(r"libcudart\.so\.[\d.]+", f"libcudart.so.{random.randrange(9, 14)}.0", text)
    return re.sub(r"(\.(?:cc|cu)):\d+", lambda m: f"{m[1]}:{random.randrange(1, 3000)}", text)


def runtime(text: str, random: Random) -> str:
    """The same words in the wrapping of another container runtime."""
    return re.sub(
        r"Error: .*?(?=nvidia-container-cli)",
        lambda _: random.choice(_WRAPPINGS),
        text,
        count=1,
        flags=re.DOTALL,
    )


def framework(text: str, random: Random) -> str:
    """Error 802 as another program prints it."""
    if "cudaGetDeviceProperties" not in text:
        return text.replace("(app-0)", f"(pod-{random.randrange(99)})")
    return text.split("cudaGetDeviceProperties", maxsplit=1)[0] + random.choice(_802) + "\n"


def manifest(text: str, random: Random) -> str:
    """Other names, image versions and ways to choose the node."""
    image = random.choice(
        ["nvidia/cuda", "nvcr.io/nvidia/cuda:12.4.1-base-ubuntu22.04", "docker.io/nvidia/cuda:11.8.0-devel-ubuntu22.04"]
    )  # fmt: skip
    selector = random.choice(["nvidia.com/gpu.present", "cloud.google.com/gke-accelerator", "accelerator"])
    text = text.replace('"nvidia/cuda"', f'"{image}"').replace("nvidia.com/node_type", selector)
    return text.replace("gpu-resource-test", f"test-{random.randrange(99)}").replace(
        '"cuda"', f'"box{random.randrange(9)}"'
    )


EVENTS = (versions, runtime)
LOG = (versions, framework, mutations.wrapped, mutations.among_ranks, mutations.noisy)
MANIFEST = (manifest,)
