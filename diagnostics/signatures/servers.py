"""Messages of model servers about the memory that they plan: budgets, KV caches, pools and preempted
requests.

Shapes: vllm-project/vllm (v0 and v1 workers, kv_cache_utils), sgl-project/sglang, triton-inference-server.
"""

from diagnostics.signatures.grammar import Signature

SIGNATURES = (
    Signature(
        name="vllm-free-memory",
        needles=("on startup is less than desired",),
        pattern=r"Free memory on device (?:\S{1,20} )?\((?P<free_gib>[\d.]{1,12})(?: ?GiB)? ?/ "
        r"?(?P<total_bytes>SZ)\)"
        r" on startup is less than desired GPU memory utilization"
        r" \((?P<utilization_ratio>[\d.]{1,8}), (?P<wanted_bytes>SZ)\)",
        example="ValueError: Free memory on device (31.44/47.38 GiB) on startup is less than desired GPU "
        "memory utilization (0.95, 45.01 GiB). Decrease GPU memory utilization or reduce GPU memory used by "
        "other processes.",
    ),
    Signature(
        name="vllm-no-cache-blocks",
        needles=("No available memory for the cache blocks",),
        pattern=r"No available memory for the cache blocks",
        fields={"available": r"Available KV cache memory: (?P<available_bytes>SZ)"},
        example="ValueError: No available memory for the cache blocks. Try increasing "
        "`gpu_memory_utilization` when initializing the engine.",
    ),
    Signature(
        name="vllm-kv-available",
        needles=("Available KV cache memory",),
        pattern=r"Available KV cache memory: (?P<available_bytes>SZ)",
        is_repeated=True,
        example="INFO 06-30 13:53:19 [gpu_worker.py:276] Available KV cache memory: -0.31 GiB",
    ),
    Signature(
        name="vllm-kv-too-small",
        needles=("To serve at least one request",),
        pattern=r"To serve at least one request with the models?'s max seq len "
        r"\((?P<wanted_tokens>\d{1,12})\),"
        r" \(?(?P<needed_bytes>SZ) KV cache is needed, which is larger than the available KV cache memory"
        r" \((?P<available_bytes>SZ)\)",
        fields={"possible": r"estimated maximum model length is (?P<possible_tokens>\d{1,12})"},
        example="ValueError: To serve at least one request with the models's max seq len (131072), (16.00 "
        "GiB KV cache is needed, which is larger than the available KV cache memory (9.56 GiB). Based on the "
        "available memory, the estimated maximum model length is 78256.",
    ),
    Signature(
        name="vllm-seq-len-too-large",
        needles=("is larger than the maximum number of tokens",),
        pattern=r"max seq len \((?P<wanted_tokens>\d{1,12})\) is larger than the maximum number of tokens "
        r"that can be"
        r" stored in KV cache \((?P<possible_tokens>\d{1,12})\)",
        example="ValueError: The model's max seq len (32768) is larger than the maximum number of tokens "
        "that can be stored in KV cache (14592).",
    ),
    Signature(
        name="vllm-preempted",
        needles=("PreemptionMode",),
        pattern=r"is preempted by PreemptionMode\.(?P<mode>\w{1,20}) mode because there is not enough KV "
        r"cache space",
        fields={"total": r"total_(?:num_)?cumulative_preemption(?:_cnt)?=(?P<preemptions_count>\d{1,12})"},
        is_repeated=True,
        example="WARNING scheduler.py:1754] Sequence group 221 is preempted by PreemptionMode.RECOMPUTE mode "
        "because there is not enough KV cache space. total_num_cumulative_preemption=101",
    ),
    Signature(
        name="sglang-no-memory",
        needles=("Please try to increase --mem-fraction-static",),
        pattern=r"Not enough memory\. Please try to increase --mem-fraction-static",
        example="RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
    ),
    Signature(
        name="sglang-retracted",
        needles=("KV cache pool is full",),
        pattern=r"KV cache pool is full\. Retract requests\. #retracted_reqs: (?P<retracted_count>\d{1,9})",
        is_repeated=True,
        example="KV cache pool is full. Retract requests. #retracted_reqs: 3, #new_token_ratio: 0.71 -> 0.85",
    ),
    Signature(
        name="triton-pool-full",
        needles=("CNMEM_STATUS_OUT_OF_MEMORY",),
        pattern=r"Failed to allocate CUDA memory with byte size (?P<requested_bytes>\d{1,15}) on GPU "
        r"(?P<gpu_index>\d{1,3}):"
        r" CNMEM_STATUS_OUT_OF_MEMORY",
        is_repeated=True,
        example="W0610 08:00:00.000000 1 memory.cc:183] Failed to allocate CUDA memory with byte size "
        "67108864 on GPU 0: CNMEM_STATUS_OUT_OF_MEMORY, falling back to pinned system memory",
    ),
    Signature(
        name="triton-load-oom",
        needles=("failed to load '",),
        pattern=r"failed to load '(?P<model>[^'\n]{1,120})' version (?P<version_count>\d{1,9}): "
        r".{0,600}?out of memory",
        is_one_line=True,
        example="E0610 08:00:00.000000 1 model_lifecycle.cc:622] failed to load 'bert' version 1: Internal: "
        "onnx runtime error 6: CUDA failure 2: out of memory ; GPU=0",
    ),
)
