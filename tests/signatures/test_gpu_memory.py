"""Numbers in messages about GPU memory, in every generation and unit."""

import pytest

from diagnostics.signatures import signals_in
from diagnostics.snapshot import LogSignal
from tests.signatures.torch_messages import GENERATIONS, render

GIB, MIB = 2.0**30, 2.0**20


def read(text: str) -> dict[str, LogSignal]:
    return {s.signal: s for s in signals_in(text, namespace="a", pod="b", container="c")}


@pytest.mark.parametrize("generation", GENERATIONS)
def test_reads_the_numbers_of_every_generation(generation: str) -> None:
    text = render(
        generation, requested=2 * GIB, total=80 * GIB, free=1.5 * GIB, allocated=70 * GIB,
        unallocated=3 * GIB, allowed=76 * GIB, this_process=75 * GIB, processes={77: 3 * GIB}, gpu=3,
    )  # fmt: skip
    numbers = read(text)["torch-cuda-oom"].numbers
    assert numbers["requested_bytes"] == 2 * GIB
    assert numbers["total_bytes"] == 80 * GIB
    assert numbers["free_bytes"] == 1.5 * GIB
    assert numbers["allocated_bytes"] == 70 * GIB
    assert numbers["allowed_bytes"] == 76 * GIB
    assert numbers["gpu_index"] == 3
    if generation in ("1.9", "1.13"):
        assert numbers["reserved_total_bytes"] == 73 * GIB
    else:
        assert numbers["reserved_unallocated_bytes"] == 3 * GIB
        assert numbers["process_bytes"] == 75 * GIB
        assert numbers["process_77_bytes"] == 3 * GIB


def test_reads_private_pools_an_empty_index_and_rocm() -> None:
    text = render(
        "2.9", requested=20 * MIB, total=64 * GIB, free=0, allocated=60 * GIB, unallocated=512 * MIB, pools=2
        * GIB, gpu="", platform="HIP",
    )  # fmt: skip
    signal = read(text)["torch-cuda-oom"]
    assert signal.words["platform"] == "HIP"
    assert signal.numbers["private_pools_bytes"] == 2 * GIB
    assert signal.numbers["free_bytes"] == 0
    assert "gpu_index" not in signal.numbers


@pytest.mark.parametrize(
    ("text", "signal", "numbers"),
    [
        ("Free memory on device cuda:0 (31.44/47.38 GiB) on startup is less than desired GPU memory "
         "utilization (0.95, 45.01 GiB).", "vllm-free-memory",
         {"free_bytes": 31.44 * GIB, "total_bytes": 47.38 * GIB, "utilization_ratio": 0.95,
          "wanted_bytes": 45.01 * GIB}),
        ("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 12.50GiB. [executable_name='jit_step']",
        "jax-oom",
         {"requested_bytes": 12.5 * GIB}),
        ("Available KV cache memory: -0.31 GiB", "vllm-kv-available", {"available_bytes": -0.31 * GIB}),
        ("ggml: allocating 512.00 MiB on device 1: cudaMalloc failed: out of memory", "ggml-cuda-oom",
         {"requested_bytes": 512 * MIB, "gpu_index": 1}),
    ],
)  # fmt: skip
def test_reads_numbers_with_their_units(text: str, signal: str, numbers: dict[str, float]) -> None:
    assert read(text)[signal].numbers == numbers


@pytest.mark.parametrize(
    "text",
    [
        "grpc: RESOURCE_EXHAUSTED: Received message larger than max (5242880 vs. 4194304)",
        "RESOURCE_EXHAUSTED: Quota exceeded for quota metric 'Requests'",
        "OOM when allocating tensor with shape[8,8] and type float on /device:CPU:0 by allocator cpu",
        "[ERROR] [launch.py:321] ['train.py'] exits with return code = -15",
        "CUDA error: unrecognized error code",
    ],
)
def test_takes_no_other_message_for_gpu_memory_that_ran_out(text: str) -> None:
    assert not {"jax-oom", "tensorflow-oom", "deepspeed-child-killed", "cuda-runtime-oom"} & set(read(text))
