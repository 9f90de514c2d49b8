"""Causes that model servers and frameworks name in their own words and numbers: pure."""

import msgspec

from diagnostics.findings import Confidence
from diagnostics.limits import Thresholds
from diagnostics.quantities import gib, percent
from diagnostics.rules.memory import oom_numbers as oom
from diagnostics.rules.memory.oom_numbers import Verdict
from diagnostics.rules.memory.software import Software
from diagnostics.snapshot import LogSignal

Signals = dict[str, LogSignal]
"""Signal name -> the newest of it."""

_KV = (
    "vllm-kv-too-small", "vllm-seq-len-too-large", "vllm-no-cache-blocks", "sglang-no-memory", "trtllm-kv-too-small",
    "ggml-kv-oom",
)  # fmt: skip
_BATCH = {
    "vllm-warmup-oom": "Memory ran out while the server tried its largest batch at start",
    "sglang-batch-oom": "The token pool could not take the batch",
    "tgi-prefill-oom": "Memory ran out while the server tried its largest prefill",
}
_CUDNN = ("tensorflow-cudnn-start", "cudnn-oom")
_UNTOLD = "After the weights nothing of the server's memory budget is left for the KV cache."


def own_words(by_name: Signals, limits: Thresholds, software: Software) -> Verdict | None:
    """The first of: somebody else on the GPU, a KV cache, a batch, a cap, a library left without memory."""
    return (
        _free_at_start(by_name, limits)
        or _others_moved(by_name)
        or _kv_cache(by_name)
        or _batch(by_name)
        or _capped(by_name)
        or _starved(by_name, software)
        or _no_context(by_name)
    )


def in_float32(found: Verdict, software: Software) -> Verdict:
    """A shortage of a program that keeps 32 bits per value where 16 would do."""
    return msgspec.structs.replace(
        found,
        cause=oom.FLOAT32,
        confidence=Confidence.MEDIUM,
        because=f"{found.because} The program was told to use float32: `{software.because[:120]}`.",
    )


def _free_at_start(by_name: Signals, limits: Thresholds) -> Verdict | None:
    signal = by_name.get("vllm-free-memory")
    if signal is None:
        return None
    free, total = signal.numbers.get("free_bytes"), signal.numbers.get("total_bytes")
    wanted, ratio = signal.numbers.get("wanted_bytes"), signal.numbers.get("utilization_ratio")
    if free is None or total is None:
        return None
    floor = max(limits.oom_other_process_min_bytes, limits.oom_other_process_min_ratio * total)
    return Verdict(
        cause=oom.OTHER_PROCESS if total - free >= floor else oom.BUDGET_TOO_HIGH,
        confidence=Confidence.HIGH,
        because=f"Before the server loaded anything, {gib(total - free)} of {gib(total)} were taken; it plans with "
        f"{gib(wanted)} (gpu_memory_utilization {percent(ratio)}).",
        signal=signal,
    )


def _others_moved(by_name: Signals) -> Verdict | None:
    if (signal := by_name.get("vllm-profiling-disturbed")) is not None:
        before, after = signal.numbers.get("initial_bytes"), signal.numbers.get("current_bytes")
        because = (
            f"While the server measured its own need, free memory rose from {gib(before)} to {gib(after)}: "
        )
        because += "something else on the GPU gave memory back."
    elif (signal := by_name.get("sglang-unbalanced")) is not None:
        least, own = signal.numbers.get("least_bytes"), signal.numbers.get("own_bytes")
        told = (
            f": {gib(least)} on one, {gib(own)} on another" if least is not None and own is not None else ""
        )
        because = f"Before the server loaded anything, its GPUs had different amounts of free memory{told}."
    else:
        return None
    return Verdict(cause=oom.OTHER_PROCESS, confidence=Confidence.MEDIUM, because=because, signal=signal)


def _kv_cache(by_name: Signals) -> Verdict | None:
    for name in _KV:
        if (signal := by_name.get(name)) is not None:
            return Verdict(
                cause=oom.KV_CACHE, confidence=Confidence.HIGH, because=_kv_sentence(signal), signal=signal
            )
    return None


def _kv_sentence(signal: LogSignal) -> str:
    needed, available = signal.numbers.get("needed_bytes"), signal.numbers.get("available_bytes")
    wanted, possible = signal.numbers.get("wanted_tokens"), signal.numbers.get("possible_tokens")
    if needed is not None and available is not None:
        longest = f"; at most {possible:,.0f} tokens fit" if possible is not None else ""
        return (
            f"One request of full length needs {gib(needed)} of KV cache, {gib(available)} are left{longest}."
        )
    if wanted is not None and possible is not None:
        return f"The KV cache holds {possible:,.0f} tokens, one request may have {wanted:,.0f}."
    if possible is not None:
        return f"The KV cache holds {possible:,.0f} tokens, fewer than one request may have."
    return _UNTOLD


def _batch(by_name: Signals) -> Verdict | None:
    for name, words in _BATCH.items():
        if (signal := by_name.get(name)) is None:
            continue
        tokens, requests = signal.numbers.get("wanted_tokens"), signal.numbers.get("requests_count")
        told = f" of {tokens:,.0f} tokens" if tokens is not None else ""
        told = f" of {requests:,.0f} requests" if requests is not None else told
        return Verdict(cause=oom.BATCH, confidence=Confidence.HIGH, because=f"{words}{told}.", signal=signal)
    return None


def _capped(by_name: Signals) -> Verdict | None:
    if (signal := by_name.get("onnxruntime-arena-limit")) is not None:
        free, wanted = signal.numbers.get("free_bytes"), signal.numbers.get("requested_bytes")
        because = f"{gib(wanted)} were asked for, {gib(free)} are left of the arena's gpu_mem_limit."
        return Verdict(cause=oom.CAPPED, confidence=Confidence.HIGH, because=because, signal=signal)
    signal = by_name.get("cupy-oom")
    if signal is None:
        return None
    wanted, allowed = signal.numbers.get("requested_bytes"), signal.numbers.get("allowed_bytes")
    allocated = signal.numbers.get("allocated_bytes")
    if wanted is None or allowed is None or allocated is None or allocated + wanted <= allowed:
        return None
    because = f"{gib(allocated)} are allocated, {gib(wanted)} were asked for; the pool's own limit is {gib(allowed)}."
    return Verdict(cause=oom.CAPPED, confidence=Confidence.HIGH, because=because, signal=signal)


def _starved(by_name: Signals, software: Software) -> Verdict | None:
    """cuDNN finds no memory for its handle beside a framework that reserved nearly all of it."""
    signal = next((by_name[name] for name in _CUDNN if name in by_name), None)
    if signal is None or software.grows or set(by_name) - {*_CUDNN, "tensorflow-start-oom", "cublas-oom"}:
        return None
    is_tensorflow = software.framework == "TensorFlow" or "tensorflow" in signal.line.lower()
    is_jax = software.framework == "JAX" or "jax" in signal.line.lower()
    words_of_both = "create cudnn handle" in signal.line.lower() or signal.signal == "tensorflow-cudnn-start"
    if not (is_tensorflow or is_jax or words_of_both):
        return None
    framework = "JAX" if is_jax and not is_tensorflow else "TensorFlow"
    return Verdict(
        cause=oom.CUDNN_STARVED,
        confidence=Confidence.HIGH if is_tensorflow else Confidence.MEDIUM,
        because=f"{framework} reserves most of the GPU's memory at start, and cuDNN found none for its handle.",
        signal=msgspec.structs.replace(signal, words=signal.words | {"framework": framework}),
    )


def _no_context(by_name: Signals) -> Verdict | None:
    """Not even a context, some hundred MiB, found room: this process had nothing on the GPU yet."""
    if (signal := by_name.get("cuda-context-oom")) is None:
        return None
    total = signal.numbers.get("total_bytes")
    whole = f" of {gib(total)}" if total is not None else ""
    return Verdict(
        cause=oom.OTHER_PROCESS,
        confidence=Confidence.MEDIUM,
        because=f"A CUDA context could not be made: before this process had anything on the GPU{whole}, it was full.",
        signal=signal,
    )
