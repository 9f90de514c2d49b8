"""Writes PyTorch's out-of-memory message as each generation of it does
(c10/cuda/CUDACachingAllocator.cpp)."""

from collections.abc import Mapping

GENERATIONS = ("1.9", "1.13", "2.1", "2.2", "2.5", "2.9")

_CLASSES = {
    "1.9": "RuntimeError", "1.13": "torch.cuda.OutOfMemoryError", "2.1": "torch.cuda.OutOfMemoryError",
    "2.2": "torch.cuda.OutOfMemoryError", "2.5": "torch.OutOfMemoryError", "2.9": "torch.OutOfMemoryError",
}  # fmt: skip
_HINT = "If reserved but unallocated memory is large try setting"
_HINTS = {
    "1.9": "",
    "1.13": " If reserved memory is >> allocated memory try setting max_split_size_mb to avoid "
    "fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF",
    "2.1": f" {_HINT} max_split_size_mb to avoid fragmentation.",
    "2.2": f" {_HINT} PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.",
    "2.5": f" {_HINT} PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.",
    "2.9": f" {_HINT} PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.",
}


def size(amount: float) -> str:
    """As the allocator's `format_size` prints it."""
    if amount <= 1024:
        return f"{int(amount)} bytes"
    for unit, step in (("KiB", 2**10), ("MiB", 2**20)):
        if amount <= step * 1024:
            return f"{amount / step:.2f} {unit}"
    return f"{amount / 2**30:.2f} GiB"


def render(
    generation: str,
    *,
    requested: float,
    total: float,
    free: float,
    allocated: float,
    unallocated: float,
    allowed: float | None = None,
    this_process: float | None = None,
    processes: Mapping[int, float] | None = None,
    pools: float | None = None,
    gpu: int | str = 0,
    platform: str = "CUDA",
    swapped: bool = False,
) -> str:
    """One message; amounts in bytes. Old generations know nothing of processes and pools and leave them
    out."""
    head = f"{_CLASSES[generation]}: {platform} out of memory. Tried to allocate {size(requested)}"
    cap = f"{size(allowed)} allowed; " if allowed is not None else ""
    if generation in ("1.9", "1.13"):
        return (
            f"{head} (GPU {gpu}; {size(total)} total capacity; {size(allocated)} already allocated; "
            f"{size(free)} free; "
            f"{cap}{size(allocated + unallocated)} reserved in total by PyTorch){_HINTS[generation]}"
        )
    capacity = "capacty" if generation == "2.1" else "capacity"
    others = [f"Process {pid} has {size(used)} memory in use. " for pid, used in (processes or {}).items()]
    own = [] if this_process is None else [
        f"Including non-PyTorch memory, this process has {size(this_process)} memory in use. "
    ]  # fmt: skip
    sentences = "".join(own + others if swapped else others + own)
    pool = "" if pools is None else f"with {size(pools)} allocated in private pools (e.g., CUDA Graphs), "
    return (
        f"{head}. GPU {gpu} has a total {capacity} of {size(total)} of which {size(free)} is free. "
        f"{sentences}{cap}Of "
        f"the allocated memory {size(allocated)} is allocated by PyTorch, {pool}and {size(unallocated)} is "
        f"reserved by "
        f"PyTorch but unallocated.{_HINTS[generation]}"
    )
