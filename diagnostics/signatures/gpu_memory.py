"""Messages about GPU memory that ran out, by framework and library.

Shapes: pytorch/pytorch c10/cuda/CUDACachingAllocator.cpp (five generations), and the messages of CUDA,
cuBLAS, cuDNN, NCCL, TensorFlow, XLA, TensorRT, ggml and HAMi as their users report them.
"""

from diagnostics.signatures.grammar import Signature

_TORCH_FIELDS = {
    # Each amount with the words on both sides of it, so that half a number is never taken for one.
    # Up to 2.0: "(GPU d; T total capacity; A already allocated; F free; [L allowed; ]RT reserved in total)".
    "old index": r"\(GPU (?P<gpu_index>\d{1,3});",
    "old total": r"GPU \d{1,3}; (?P<total_bytes>SZ) total capacity",
    "old allocated": r"capacity; (?P<allocated_bytes>SZ) already allocated",
    "old free": r"already allocated; (?P<free_bytes>SZ) free",
    "old reserved": r"; (?P<reserved_total_bytes>SZ) reserved in total",
    # From 2.1; the index may be empty, and 2.1 spells "capacty".
    "index": r"GPU (?P<gpu_index>\d{1,3}) has a total capaci?ty",
    "total": r"has a total capaci?ty of (?P<total_bytes>SZ)",
    "free": r"of which (?P<free_bytes>SZ) is free",
    "process_*": r"Process (?P<key>\d{1,10}) has (?P<bytes>SZ) memory in use",
    "this process": r"this process has (?P<process_bytes>SZ) memory in use",
    "allowed": r"[;.] (?P<allowed_bytes>SZ) allowed",
    "allocated": r"allocated memory (?P<allocated_bytes>SZ) is allocated by PyTorch",
    "pools": r"with (?P<private_pools_bytes>SZ) allocated in private pools",
    "unallocated": r"and (?P<reserved_unallocated_bytes>SZ) is reserved by PyTorch but unallocated",
}

SIGNATURES = (
    Signature(
        name="torch-cuda-oom",
        needles=("Tried to allocate",),
        pattern=r"(?P<platform>CUDA|HIP|XPU|MPS) out of memory\. Tried to allocate (?P<requested_bytes>SZ)",
        fields=_TORCH_FIELDS,
        example="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
        "capacity of 79.10 GiB of which 1.12 GiB is free. Process 4711 has 77.97 GiB memory in use. Of the "
        "allocated memory 75.00 GiB is allocated by PyTorch, and 2.40 GiB is reserved by PyTorch but "
        "unallocated.",
    ),
    Signature(
        name="cuda-oom",
        needles=("out of memory",),
        pattern=r"(?P<platform>CUDA|HIP) out of memory(?!\. Tried to allocate| occurred when warming up)",
        example="RuntimeError: CUDA out of memory.",
    ),
    Signature(
        name="cuda-runtime-oom",
        needles=("error: out of memory", "cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY"),
        pattern=r"(?:CUDA|HIP) "
        r"(?:driver |runtime )?error: out of memory|cudaErrorMemoryAllocation"
        # Pinned host memory, an attempt that TensorFlow repeats with less, and a context have their own entries.
        r"|(?<!on host: )(?<!from device: )(?<!CtxRetain: )(?<!CtxCreate: )CUDA_ERROR_OUT_OF_MEMORY",
        example="RuntimeError: CUDA error: out of memory",
    ),
    Signature(
        name="cublas-oom",
        needles=("CUBLAS_STATUS_ALLOC_FAILED", "CUBLAS_STATUS_NOT_INITIALIZED"),
        pattern=r"(?P<status>CUBLAS_STATUS_(?:ALLOC_FAILED|NOT_INITIALIZED))",
        example="RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    ),
    Signature(
        name="cudnn-oom",
        needles=("CUDNN_STATUS_ALLOC_FAILED", "DEVICE_ALLOCATION_FAILED", "create cudnn handle"),
        pattern=r"(?P<status>CUDNN_STATUS_ALLOC_FAILED|CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)"
        r"|[Cc]ould not create cudnn handle: (?P<handle>CUDNN_STATUS_"
        r"(?:INTERNAL_ERROR|NOT_INITIALIZED|ALLOC_FAILED))",
        example="Could not create cudnn handle: CUDNN_STATUS_INTERNAL_ERROR",
    ),
    Signature(
        name="nccl-oom",
        needles=("Cuda failure", "Failed to CUDA"),
        pattern=r"NCCL WARN .{0,120}(?:Cuda failure (?:2 )?'out of memory'"
        r"|Failed to CUDA (?:calloc(?: async)?|malloc) (?P<requested_bytes>\d{1,15}))",
        example="gpu-3:71:92 [2] misc/strongstream.cc:46 NCCL WARN Cuda failure 2 'out of memory'",
    ),
    Signature(
        name="tensorflow-oom",
        needles=("OOM when allocating tensor",),
        pattern=r"OOM when allocating tensor with shape ?\[(?P<shape>[\d,]{1,80})\] and type "
        r"(?P<type>\w{1,20})"
        r" on \S{0,120}device:GPU:(?P<gpu_index>\d{1,3}) by allocator (?P<allocator>\w{1,40})",
        example="ResourceExhaustedError: OOM when allocating tensor with shape[64,128,128,64] and type float "
        "on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc [Op:Conv2D]",
    ),
    Signature(
        name="tensorflow-allocator-oom",
        needles=("ran out of memory trying to allocate",),
        pattern=r"Allocator \(GPU_(?P<gpu_index>\d{1,3})_bfc\) ran out of memory trying to allocate"
        r" (?P<requested_bytes>SZ)",
        example="W bfc_allocator.cc:457] Allocator (GPU_0_bfc) ran out of memory trying to allocate 1.00MiB "
        "(rounded to 1048576)requested by op Conv2D",
    ),
    Signature(
        name="jax-oom",
        needles=("RESOURCE_EXHAUSTED",),
        pattern=r"RESOURCE_EXHAUSTED: Out of memory(?! allocating)(?: while trying to allocate "
        r"(?P<requested_bytes>SZ))?",
        example="jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to "
        "allocate 13421772800 bytes.",
    ),
    Signature(
        name="tensorrt-oom",
        needles=("Requested amount of GPU memory",),
        pattern=r"Requested amount of GPU memory \((?P<requested_bytes>SZ)\) could not be allocated",
        example="Requested amount of GPU memory (22649242112 bytes) could not be allocated. There may not be "
        "enough free memory for allocation to succeed.",
    ),
    Signature(
        name="tensorrt-runtime-oom",
        needles=("Cuda Runtime (out of memory)",),
        pattern=r"Cuda Runtime \(out of memory\)",
        example="[defaultAllocator.cpp::allocateAsync::44] Error Code 1: Cuda Runtime (out of memory)",
    ),
    Signature(
        name="ggml-cuda-oom",
        needles=("cudaMalloc failed: out of memory",),
        pattern=r"(?:allocating (?P<requested_bytes>SZ) on device (?P<gpu_index>\d{1,3}): )?"
        r"cudaMalloc failed: out of memory",
        example="ggml_backend_cuda_buffer_type_alloc_buffer: allocating 4096.00 MiB on device 0: cudaMalloc "
        "failed: out of memory",
    ),
    Signature(
        name="vgpu-limit",
        needles=(" OOM ",),
        pattern=r"HAMI-core ERROR.{0,160}Device (?P<gpu_index>\d{1,3}) OOM (?P<wanted_bytes>\d{1,15}) ?/ "
        r"?(?P<limit_bytes>\d{1,15})",
        example="[HAMI-core ERROR (pid:30 thread=140382094939712 allocator.c:53)]: Device 0 OOM 3171158016 / "
        "3145728000",
    ),
)
