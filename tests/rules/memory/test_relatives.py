"""Relatives of the recorded cases: the same causes from other frameworks, in other versions and other words."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.corpus import mutations
from tests.rules.memory.failing_pods import failing_pod, found, looping
from tests.signatures.torch_messages import GENERATIONS, render

GIB = 2.0**30
OTHERS = "gpu-memory-held-by-other-process"
TOO_LARGE = "model-exceeds-gpu-memory"
KV = "kv-cache-does-not-fit"
BATCH = "batch-exceeds-gpu-memory"
PIECES = "allocator-fragmentation"
STARVED = "tf-preallocation-starves-cudnn"

RELATIVES = {
    "vllm 0.6, bytes without a unit": (
        OTHERS,
        "RuntimeError: Worker failed with error 'Error in memory profiling. Initial free memory 49586110464, current "
        "free memory 75894423552. This happens when the GPU memory was not properly cleaned up before initializing the "
        "vLLM instance.'",
    ),
    "vllm 0.9, GiB": (
        OTHERS,
        "AssertionError: Error in memory profiling. Initial free memory 8.46 GiB, current free memory 12.98 GiB. This "
        "happens when other processes sharing the same container release GPU memory while vLLM is profiling",
    ),
    "vllm 0.11, device named": (
        OTHERS,
        "ValueError: Free memory on device cuda:1 (2.11/23.53 GiB) on startup is less than "
        "desired GPU memory utilization (0.9, 21.18 GiB). Decrease GPU memory utilization or reduce GPU memory used by "
        "other processes.",
    ),
    "sglang, unequal GPUs": (
        OTHERS,
        "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. "
        "min_per_gpu_memory=16.28, local_gpu_memory=46.81, local_gpu_memory * 0.9=42.13",
    ),
    "tensorflow, no context": (
        OTHERS,
        "tensorflow.python.framework.errors_impl.InternalError: CUDA runtime implicit initialization on GPU:0 failed. "
        "failed call to cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY: out of memory; total memory reported: "
        "16945512448",
    ),
    "vllm, cache blocks": (
        KV,
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when "
        "initializing the engine.",
    ),
    "vllm v1, one request": (
        KV,
        "ValueError: To serve at least one request with the models's max seq len (40960), (5.62 GiB KV cache is "
        "needed, which is larger than the available KV cache memory (1.21 GiB). Based on the available memory, the "
        "estimated maximum model length is 8800. Try increasing `gpu_memory_utilization`",
    ),
    "vllm v0, tokens": (
        KV,
        "ValueError: The model's max seq len (131072) is larger than the maximum number of tokens that can be stored "
        "in KV cache (58240). Try increasing `gpu_memory_utilization` or decreasing `max_model_len`",
    ),
    "sglang, static fraction": (KV, "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."),
    "sglang, newer words": (
        KV,
        "RuntimeError: Not enough memory. Please try increasing --mem-fraction-static. Current value: "
        "mem_fraction_static=0.7",
    ),
    "tensorrt-llm, paged cache": (
        KV,
        "[TensorRT-LLM][ERROR] Assertion failed: maxTokensInPagedKvCache (2048) must be large enough to process at "
        "least 1 sequence to completion (i.e. must be larger than beam_width * tokensPerBlock)",
    ),
    "llama.cpp, cache": (
        KV, "llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache",
    ),
    "vllm, warm-up": (
        BATCH,
        "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests. Please try "
        "lowering `max_num_seqs` or `gpu_memory_utilization` when initializing the engine.",
    ),
    "sglang, prefill": (
        BATCH,
        "RuntimeError: Prefill out of memory. Try to lower your batch size.\nTry to allocate 8192 tokens.\n"
        "Available tokens: 3840",
    ),
    "tgi, prefill": (
        BATCH,
        "RuntimeError: Not enough memory to handle 4096 prefill tokens. You need to decrease "
        "`--max-batch-prefill-tokens`",
    ),
    "tensorflow 2.4, algorithm": (
        STARVED,
        "tensorflow.python.framework.errors_impl.UnknownError: Failed to get convolution algorithm. This is probably "
        "because cuDNN failed to initialize, so try looking to see if a warning log message was printed above.",
    ),
    "tensorflow 2.10, library": (
        STARVED,
        "E tensorflow/compiler/xla/stream_executor/cuda/cuda_dnn.cc:417] Could not create cudnn handle: "
        "CUDNN_STATUS_ALLOC_FAILED\nF tensorflow/core/kernels/conv_ops.cc: UNIMPLEMENTED: DNN library is not found.",
    ),
    "onnxruntime, its own limit": (
        "memory-fraction-cap",
        "onnxruntime::BFCArena::AllocateRawInternal(size_t) Available memory of 1048576 is smaller than requested "
        "bytes of 67108864",
    ),
    "cupy, its own limit": (
        "memory-fraction-cap",
        "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,000,000,000 bytes (allocated so far: "
        "12,000,000,000 bytes, limit set to: 16,000,000,000 bytes).",
    ),
    "hami, other numbers": (
        "vgpu-memory-limit-exceeded",
        "[HAMI-core ERROR (pid:77 thread=139 allocator.c:53)]: Device 1 OOM 8674869248 / 8589934592",
    ),
}  # fmt: skip


def causes(text: str) -> list[str]:
    return [f.cause for f in found("cuda-out-of-memory", failing_pod(), log=text)]


@pytest.mark.parametrize("name", RELATIVES)
def test_a_relative_gets_its_cause(name: str) -> None:
    cause, text = RELATIVES[name]
    assert causes(text) == [cause]


@pytest.mark.parametrize("name", RELATIVES)
@given(seed=st.integers(min_value=0, max_value=2**32))
@settings(max_examples=15, deadline=None)
def test_a_changed_relative_keeps_its_cause(name: str, seed: int) -> None:
    (cause, text), random = RELATIVES[name], Random(seed)
    for mutation in (mutations.wrapped, mutations.among_ranks, mutations.noisy):
        if random.random() < 0.7:
            text = mutation(text, random)
    assert causes(text) == [cause], text


BARE = {
    "torch 2.10": "torch.AcceleratorError: CUDA error: out of memory",
    "torch without NVML": 'RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.'
    'cpp":1090, please report a bug to PyTorch.',
    "driver": "RuntimeError: CUDA driver error: out of memory",
    "cublas": "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "jax": "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9.50GiB.",
    "xla": "INTERNAL: Failed to allocate request for 1.50GiB (1610612736B) on device ordinal 0",
    "onnxruntime": "Status Message: bfc_arena.cc:376 Failed to allocate memory for requested buffer of size 3221225472",
    "onnxruntime, call": "[E:onnxruntime:Default, cuda_call.cc:118] CUDA failure 2: out of memory ; GPU=0",
    "tensorrt 8": "[E] [TRT] 2: [virtualMemoryBuffer.cpp::resizePhysical::140] Error Code 2: OutOfMemory (no further "
    "information)",
    "tensorrt 10": "[TRT] [E] [resizingAllocator.cpp::allocate::74] Error Code 1: Cuda Runtime (out of memory)",
    "tensorrt-llm": "[TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, pool, stream): "
    "out of memory",
    "triton": "E1201 model_lifecycle.cc:630] failed to load 'bert' version 1: Internal: CUDA error: out of memory",
    "ggml": "ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 4294967296",
    "llama.cpp": "llama_model_load: error loading model: unable to allocate CUDA0 buffer",
    "paddle": "ResourceExhaustedError: Out of memory error on GPU 0. Cannot allocate 1.500000GB memory on GPU 0, "
    "30.120000GB memory has been allocated and available memory is only 611.562500MB.",
    "nccl": "gpu-7:12:99 [1] misc/alloc.h:120 NCCL WARN Failed to CUDA calloc 4194304 bytes",
    "numba": "numba.cuda.cudadrv.driver.CudaAPIError: [2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY",
}  # fmt: skip


@pytest.mark.parametrize("name", BARE)
def test_a_message_without_deciding_numbers_is_seen_and_not_explained_away(name: str) -> None:
    assert causes(BARE[name]) == ["unknown"]


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize(
    ("numbers", "cause"),
    [
        ({"requested": 0.5, "free": 0.2, "allocated": 22.4, "unallocated": 0.1, "own": 23.0}, TOO_LARGE),
        ({"requested": 2.0, "free": 0.3, "allocated": 15.0, "unallocated": 7.5, "own": 23.0}, PIECES),
        ({"requested": 1.0, "free": 0.2, "allocated": 9.0, "unallocated": 0.3, "own": 9.7}, OTHERS),
        ({"requested": 30.0, "free": 20.0, "allocated": 2.4, "unallocated": 0.1, "own": 3.0}, "request-exceeds-gpu"),
    ],
    ids=["shortage", "fragmentation", "others", "one request"],
)  # fmt: skip
def test_the_same_numbers_mean_the_same_in_every_generation(
    generation: str, numbers: dict[str, float], cause: str
) -> None:
    told = {name: value * GIB for name, value in numbers.items()}
    text = render(
        generation, requested=told["requested"], total=24 * GIB, free=told["free"], allocated=told["allocated"],
        unallocated=told["unallocated"], this_process=told["own"],
    )  # fmt: skip
    assert causes(text) == [cause]


SILENT = {
    "tensorflow asks for less and goes on": "W bfc_allocator.cc:275] Allocator (cpu) ran out of memory trying to "
    "allocate 1.0GiB",
    "pinned host memory": "failed to alloc 17179869184 bytes on host: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
    "a quota of gRPC": "status = StatusCode.RESOURCE_EXHAUSTED details = Received message larger than max",
    "another cudnn": "Loaded runtime CuDNN library: 8.0.5 but source was compiled with: 8.2.4.\n"
    "Could not create cudnn handle: CUDNN_STATUS_INTERNAL_ERROR",
    "preempted requests": "WARNING scheduler.py] KV cache pool is full. Retract requests. #retracted_reqs: 3, "
    "#new_token_ratio: 0.71 -> 0.85",
    "advice at start": "If you run out of memory during cudagraph capture, consider decreasing gpu_memory_utilization",
}  # fmt: skip


@pytest.mark.parametrize("name", SILENT)
def test_a_look_alike_is_left_alone(name: str) -> None:
    assert causes(SILENT[name]) == []


def test_a_shortage_in_float32_is_one_of_precision() -> None:
    text = render(
        "2.5", requested=GIB, total=24 * GIB, free=0.2 * GIB, allocated=23 * GIB, unallocated=0.1 * GIB,
        this_process=23.5 * GIB,
    )  # fmt: skip
    box = looping(args=("--model", "org/model-7b", "--dtype", "float32"))
    (finding,) = found("cuda-out-of-memory", failing_pod(box), log=text)
    assert finding.cause == "weights-in-float32"
    assert "--dtype float32" in finding.summary
    (plain,) = found("cuda-out-of-memory", failing_pod(looping(args=("--dtype", "bfloat16"))), log=text)
    assert plain.cause == TOO_LARGE


def test_a_framework_that_grows_already_is_not_told_to() -> None:
    box = looping(env={"TF_FORCE_GPU_ALLOW_GROWTH": "true"})
    text = RELATIVES["tensorflow 2.10, library"][1]
    assert STARVED not in [f.cause for f in found("cuda-out-of-memory", failing_pod(box), log=text)]
