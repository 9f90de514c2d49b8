"""Messages about GPU memory of further libraries and runtimes, and what tells their causes apart.

Shapes: tensorflow and openxla (cuda_driver.cc, cuda_executor.cc, cuda_dnn.cc, bfc_allocator.cc), microsoft/onnxruntime
(bfc_arena.cc), NVIDIA/TensorRT and TensorRT-LLM, ggml, cupy, PaddlePaddle (cuda_allocator.cc), and PyTorch's check of
NVML in CUDACachingAllocator.cpp.
"""

from diagnostics.signatures.grammar import Signature

SIGNATURES = (
    Signature(
        name="tensorflow-start-oom",
        needles=("from device: CUDA_ERROR_OUT_OF_MEMORY",),
        pattern=r"failed to alloc(?:ate)? (?:[\d.]{1,10}\w{0,4} \()?(?P<requested_bytes>\d{1,15} bytes)\)? from "
        r"device: CUDA_ERROR_OUT_OF_MEMORY",
        is_repeated=True,
        example="E tensorflow/stream_executor/cuda/cuda_driver.cc:806] failed to allocate 14.60G (15678832640 bytes) "
        "from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
    ),
    Signature(
        name="cuda-context-oom",
        needles=("PrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY", "CtxCreate: CUDA_ERROR_OUT_OF_MEMORY"),
        pattern=r"Ctx(?:Retain|Create): CUDA_ERROR_OUT_OF_MEMORY(?:: out of memory)?"
        r"(?:; total memory reported: (?P<total_bytes>\d{1,15}))?",
        example="failed initializing StreamExecutor for CUDA device ordinal 0: Internal: failed call to "
        "cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY: out of memory; total memory reported: 16945512448",
    ),
    Signature(
        name="tensorflow-cudnn-start",
        needles=(
            "cuDNN failed to initialize",
            "DNN library is not found",
            "DNN library initialization failed",
            "No DNN in stream executor",
        ),
        pattern=r"cuDNN failed to initialize|DNN library is not found|DNN library initialization failed"
        r"|No DNN in stream executor",
        example="tensorflow.python.framework.errors_impl.UnknownError: Failed to get convolution algorithm. This is "
        "probably because cuDNN failed to initialize, so try looking to see if a warning log message was printed",
    ),
    Signature(
        name="cudnn-version-mismatch",
        needles=("but source was compiled with",),
        pattern=r"Loaded runtime CuDNN library: (?P<loaded>[\d.]{3,12}) but source was compiled with: "
        r"(?P<compiled>[\d.]{3,12})",
        example="Loaded runtime CuDNN library: 8.0.5 but source was compiled with: 8.2.4. CuDNN library needs to have "
        "matching major version and equal or higher minor version.",
    ),
    Signature(
        name="xla-allocator-oom",
        needles=("Failed to allocate request for",),
        pattern=r"Failed to allocate request for (?P<requested_bytes>SZ) \(\d{1,15}B\) on device ordinal "
        r"(?P<gpu_index>\d{1,3})",
        example="INTERNAL: Failed to allocate request for 1.50GiB (1610612736B) on device ordinal 0",
    ),
    Signature(
        name="torch-nvml-assert",
        needles=("NVML_SUCCESS == r INTERNAL ASSERT FAILED",),
        pattern=r"NVML_SUCCESS == r INTERNAL ASSERT FAILED at .{0,80}CUDACachingAllocator",
        example='RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":830, '
        "please report a bug to PyTorch.",
    ),
    Signature(
        name="onnxruntime-oom",
        needles=("Failed to allocate memory for requested buffer of size",),
        pattern=r"Failed to allocate memory for requested buffer of size (?P<requested_bytes>\d{1,15})",
        example="[E:onnxruntime:, sequential_executor.cc:516] Non-zero status code returned while running Conv node. "
        "Status Message: bfc_arena.cc:368 Failed to allocate memory for requested buffer of size 2147483648",
    ),
    Signature(
        name="onnxruntime-arena-limit",
        needles=("is smaller than requested bytes of",),
        pattern=r"Available memory of (?P<free_bytes>\d{1,15}) is smaller than requested bytes of "
        r"(?P<requested_bytes>\d{1,15})",
        example="onnxruntime::BFCArena::AllocateRawInternal(size_t) Available memory of 0 is smaller than requested "
        "bytes of 67108864",
    ),
    Signature(
        name="onnxruntime-cuda-oom",
        needles=("CUDA failure 2",),
        pattern=r"(?<!runtime error 6: )CUDA failure 2: out of memory",
        example="[E:onnxruntime:Default, cuda_call.cc:118 CudaCall] CUDA failure 2: out of memory ; GPU=0 ; "
        "hostname=emb-0 ; expr=cudaMalloc((void**)&p, size);",
    ),
    Signature(
        name="tensorrt-size-oom",
        needles=("Error Code 2: OutOfMemory",),
        pattern=r"Error Code 2: OutOfMemory(?: \(Requested size was (?P<requested_bytes>\d{1,15} bytes))?",
        example="[E] [TRT] 2: [executionContext.cpp::ExecutionContext::465] Error Code 2: OutOfMemory (Requested size "
        "was 10737418240 bytes.)",
    ),
    Signature(
        name="tensorrt-llm-oom",
        needles=("CUDA runtime error in",),
        pattern=r"CUDA runtime error in .{1,200}?: out of memory",
        example="[TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, mMemPool->getPool(), "
        "mCudaStream->get()): out of memory",
    ),
    Signature(
        name="ggml-buffer-oom",
        needles=("to allocate CUDA", "to allocate ROCm"),
        pattern=r"(?:unable|failed) to allocate (?P<buffer>(?:CUDA|ROCm)\d{1,2})(?:_Split)? buffer"
        r"(?: of size (?P<requested_bytes>\d{1,15}))?",
        example="ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 4294967296",
    ),
    Signature(
        name="ggml-kv-oom",
        needles=("buffer for kv cache", "llama_kv_cache_init"),
        pattern=r"failed to allocate buffer for kv cache|llama_kv_cache_init(?:\(\))? failed",
        example="llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache",
    ),
    Signature(
        name="ggml-old-oom",
        needles=("CUDA error 2 at",),
        pattern=r"CUDA error 2 at .{1,120}?: out of memory",
        example="CUDA error 2 at /tmp/pip-install/vendor/llama.cpp/ggml-cuda.cu:6006: out of memory",
    ),
    Signature(
        name="cupy-oom",
        needles=("Out of memory allocating",),
        pattern=r"Out of memory allocating (?P<requested_bytes>SZ) \(allocated so far: (?P<allocated_bytes>SZ)"
        r"(?:, limit set to: (?P<allowed_bytes>SZ))?",
        example="cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,000,000,000 bytes (allocated so far: "
        "12,000,000,000 bytes).",
    ),
    Signature(
        name="paddle-oom",
        needles=("Out of memory error on GPU",),
        pattern=r"Out of memory error on GPU (?P<gpu_index>\d{1,3})\. Cannot allocate (?P<requested_bytes>SZ) memory "
        r"on GPU \d{1,3},(?: (?P<allocated_bytes>SZ) memory has been allocated and)? available memory is only "
        r"(?P<free_bytes>SZ)",
        example="ResourceExhaustedError: Out of memory error on GPU 0. Cannot allocate 1.500000GB memory on GPU 0, "
        "30.120000GB memory has been allocated and available memory is only 611.562500MB.",
    ),
    Signature(
        name="mxnet-oom",
        needles=("cudaMalloc retry failed: out of memory",),
        pattern=r"cudaMalloc retry failed: out of memory",
        example="mxnet.base.MXNetError: [08:00:00] src/storage/./pooled_storage_manager.h:157: cudaMalloc retry "
        "failed: out of memory",
    ),
    Signature(
        name="weights-float32",
        needles=("torch.float32",),
        pattern=r"Casting torch\.(?:bfloat16|float16) to torch\.float32"
        r"|dtype=torch\.float32, (?:max_seq_len|max_model_len|quantization|seed|load_format)"
        r"|torch_dtype['\"]?[:=] ?['\"]?torch\.float32",
        is_repeated=True,
        example="WARNING config.py:1674] Casting torch.bfloat16 to torch.float32.",
    ),
)
