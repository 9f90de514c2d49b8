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
        needles=("--mem-fraction-static", "for hybrid state cache"),
        pattern=r"Not enough memory[.;,] Please try (?:to increase|increasing) [`']?--mem-fraction-static"
        r"|Not enough GPU memory for hybrid state cache",
        example="RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
    ),
    Signature(
        name="vllm-profiling-disturbed",
        needles=("Error in memory profiling",),
        pattern=r"Error in memory profiling\. Initial free memory (?P<initial_bytes>SZ|\d{6,15}),? current free memory "
        r"(?P<current_bytes>SZ|\d{6,15})",
        example="AssertionError: Error in memory profiling. Initial free memory 21.70 GiB, current free memory 33.12 "
        "GiB. This happens when other processes sharing the same container release GPU memory while vLLM is profiling",
    ),
    Signature(
        name="vllm-warmup-oom",
        needles=("occurred when warming up",),
        pattern=r"out of memory occurred when warming up (?:sampler|the model) with (?P<requests_count>\d{1,9}) dummy "
        r"requests",
        example="RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy "
        "requests. Please try "
        "lowering `max_num_seqs` or `gpu_memory_utilization` when initializing the engine.",
    ),
    Signature(
        name="sglang-batch-oom",
        needles=("Try to lower your batch size",),
        pattern=r"(?:(?P<phase>Prefill|Decode) )?[Oo]ut of memory\. Try to lower your batch size",
        fields={"wanted": r"Try to allocate (?P<wanted_tokens>\d{1,12}) tokens"},
        example="RuntimeError: Prefill out of memory. Try to lower your batch size. Try to allocate 8192 tokens.",
    ),
    Signature(
        name="sglang-unbalanced",
        needles=("The memory capacity is unbalanced",),
        pattern=r"Error: The memory capacity is unbalanced",
        fields={
            "least": r"(?:pre_model_load_memory|min_per_gpu_memory|min_available_\w{2,6}_memory)="
            r"(?P<least_gib>[\d.]{1,12})",
            "own": r"local_(?:gpu|device)_memory=(?P<own_gib>[\d.]{1,12})",
        },
        example="ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. "
        "min_per_gpu_memory=16.28, local_gpu_memory=46.81, local_gpu_memory * 0.9=42.13",
    ),
    Signature(
        name="tgi-prefill-oom",
        needles=("Not enough memory to handle",),
        pattern=r"Not enough memory to handle (?P<wanted_tokens>\d{1,12}) (?:prefill |total )?tokens",
        example="RuntimeError: Not enough memory to handle 4096 prefill tokens. You need to decrease "
        "`--max-batch-prefill-tokens`",
    ),
    Signature(
        name="trtllm-kv-too-small",
        needles=("must be large enough to process at least",),
        pattern=r"[Mm]ax\w{0,12} ?[Ii]n ?[Pp]aged ?[Kk][Vv] ?[Cc]ache \((?P<possible_tokens>\d{1,12})\) must be large "
        r"enough to process at least",
        example="[TensorRT-LLM][ERROR] Assertion failed: maxTokensInPagedKvCache (2048) must be large "
        "enough to process "
        "at least 1 sequence to completion",
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
