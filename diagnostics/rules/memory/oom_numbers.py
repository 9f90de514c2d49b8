"""What the numbers of one PyTorch out-of-memory message say: pure arithmetic on bytes.

Q requested, T total, F free, P this process, A allocated tensors, R reserved but unallocated, L cap, and
O = T - F - P what others hold. The allocator gives whole free blocks back to the driver before it complains,
so R is what remains in partly used segments (comment in c10/cuda/CUDACachingAllocator.cpp).
"""

from enum import StrEnum

import msgspec

from diagnostics.findings import Confidence
from diagnostics.limits import Thresholds
from diagnostics.quantities import gib
from diagnostics.snapshot import LogSignal

SHORTAGE = "model-exceeds-gpu-memory"
FRAGMENTED = "allocator-fragmentation"
OTHER_PROCESS = "gpu-memory-held-by-other-process"
ORPHANS = "orphan-processes-hold-gpu-memory"
SINGLE_REQUEST = "request-exceeds-gpu"
CAPPED = "memory-fraction-cap"
OUTSIDE = "outside-allocator"
MIG_TOO_SMALL = "mig-slice-smaller-than-need"
VGPU_LIMIT = "vgpu-memory-limit-exceeded"
KV_CACHE = "kv-cache-does-not-fit"
BUDGET_TOO_HIGH = "gpu-memory-utilization-too-high"
BATCH = "batch-exceeds-gpu-memory"
CUDNN_STARVED = "tf-preallocation-starves-cudnn"
FLOAT32 = "weights-in-float32"
UNKNOWN = "unknown"

CONTEXT_BYTES = 2.0**30
"""Taken off for this process' CUDA context where its own memory is unknown (0.3 to 0.6 GiB, with many kernels
more)."""
_ROUNDING_BYTES = 0.02 * 2**30
"""Amounts are printed with two decimals of GiB."""


class OomNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """One message, in bytes; None where it does not say."""

    requested: float | None = None
    total: float | None = None
    free: float | None = None
    process: float | None = None
    """This process, all of it."""
    is_process_guessed: bool = False
    """Taken from a "Process <pid>" entry that fits: in a pod NVML reports host PIDs."""
    allocated: float | None = None
    unallocated: float | None = None
    allowed: float | None = None
    private_pools: float | None = None
    others: dict[str, float] = {}
    """PID -> memory of the other processes that the message lists."""

    @property
    def used_by_others(self) -> float | None:
        """O, or its lower bound where P is unknown; None when it cannot be told."""
        if self.total is None or self.free is None:
            return None
        if self.process is not None:
            return self.total - self.free - self.process
        if self.allocated is None:
            return None
        return self.total - self.free - self.allocated - (self.unallocated or 0.0) - CONTEXT_BYTES

    @property
    def missing(self) -> float | None:
        """Least amount that would have to be freed for this one request: Q - F - R, never Q."""
        if self.requested is None or self.free is None or self.unallocated is None:
            return None
        return self.requested - self.free - self.unallocated

    @property
    def outside_allocator(self) -> float | None:
        if self.process is None or self.allocated is None or self.unallocated is None:
            return None
        return self.process - self.allocated - self.unallocated


class Whose(StrEnum):
    """Whose the other process on the GPU is."""

    OTHER_PODS = "other pods"
    OWN = "its own pod"
    OUTSIDE = "outside its pod"
    OPEN = "open"


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """A cause, how sure, and the sentence with the numbers that decide."""

    cause: str
    confidence: Confidence
    because: str
    signal: LogSignal | None = None
    numbers: OomNumbers | None = None
    decided_by: LogSignal | None = None
    """Another signal that decides: a listing of processes or of MIG devices, a memory segment."""
    whose: Whose = Whose.OPEN
    """Of the cause OTHER_PROCESS alone."""


def oom_numbers(signal: LogSignal, limits: Thresholds) -> OomNumbers:
    """The numbers of a `torch-cuda-oom` signal, with this process found among the listed ones where it has to
    be."""
    told = signal.numbers
    allocated, unallocated = told.get("allocated_bytes"), told.get("reserved_unallocated_bytes")
    if unallocated is None and allocated is not None and "reserved_total_bytes" in told:
        unallocated = max(0.0, told["reserved_total_bytes"] - allocated)
    others = {
        name.removeprefix("process_").removesuffix("_bytes"): amount
        for name, amount in told.items()
        if name.startswith("process_") and name != "process_bytes"
    }
    process, guessed = told.get("process_bytes"), False
    if process is None and allocated is not None and unallocated is not None:
        low = allocated + unallocated - _ROUNDING_BYTES
        high = allocated + unallocated + limits.oom_outside_allocator_min_bytes
        own = [pid for pid, amount in others.items() if low <= amount <= high]
        if len(own) == 1:
            process, guessed = others.pop(own[0]), True
    return OomNumbers(
        requested=told.get("requested_bytes"),
        total=told.get("total_bytes"),
        free=told.get("free_bytes"),
        process=process,
        is_process_guessed=guessed,
        allocated=allocated,
        unallocated=unallocated,
        allowed=told.get("allowed_bytes"),
        private_pools=told.get("private_pools_bytes"),
        others=others,
    )


def verdict(n: OomNumbers, limits: Thresholds, signal: LogSignal | None = None) -> Verdict:
    """The cause, by the first condition that holds; thresholds from `limits` (all of them ours).

    cap, one request as large as the GPU, others on the GPU, fragmentation, true shortage, memory outside the
    allocator; `unknown` where the deciding numbers are missing.
    """
    cause, because = _decided(n, limits)
    confidence = Confidence.HIGH
    if cause == UNKNOWN:
        confidence = Confidence.LOW
    elif cause in (OTHER_PROCESS, SHORTAGE, FRAGMENTED) and (n.process is None or n.is_process_guessed):
        confidence = Confidence.MEDIUM
    return Verdict(cause=cause, confidence=confidence, because=because, signal=signal, numbers=n)


def _decided(n: OomNumbers, limits: Thresholds) -> tuple[str, str]:
    q, total, free, a, r = n.requested, n.total, n.free, n.allocated, n.unallocated
    if n.allowed is not None and a is not None and r is not None and q is not None and a + r + q > n.allowed:
        return CAPPED, (
            f"{gib(a + r)} are reserved and {gib(q)} were asked for, more than the {gib(n.allowed)} that the "
            "process allows itself."
        )
    if total is None or free is None or q is None:
        return UNKNOWN, "The message does not say how large the GPU is or how much of it is free."
    if q >= limits.oom_single_tensor_ratio * total:
        return SINGLE_REQUEST, f"One request of {gib(q)} cannot fit on a GPU of {gib(total)}."
    others = n.used_by_others
    floor = max(limits.oom_other_process_min_bytes, limits.oom_other_process_min_ratio * total)
    if others is not None and others >= floor:
        return OTHER_PROCESS, f"Other processes hold about {gib(others)} of the GPU's {gib(total)}."
    return _in_the_allocator(n, limits, q, total, free)


def _in_the_allocator(
    n: OomNumbers, limits: Thresholds, q: float, total: float, free: float
) -> tuple[str, str]:
    """The GPU is this process' own: fragmented, too small, or taken by the process outside the allocator."""
    a, r = n.allocated, n.unallocated
    if r is None or a is None:
        return UNKNOWN, "The message does not say how much PyTorch has allocated and reserved."
    if r + free >= q > free and r >= max(
        limits.oom_fragmented_min_bytes, limits.oom_fragmented_min_ratio * total
    ):
        return FRAGMENTED, (
            f"{gib(r)} are reserved but unused, with the free {gib(free)} enough for the {gib(q)} asked for, "
            "but in pieces."
        )
    if r + free < q:
        return SHORTAGE, (
            f"{gib(a)} of {gib(total)} are live tensors; unused and free memory together are "
            f"{gib(r + free)}, less than the {gib(q)} asked for."
        )
    outside = n.outside_allocator
    if outside is not None and not n.private_pools and outside >= limits.oom_outside_allocator_min_bytes:
        return OUTSIDE, f"{gib(outside)} of this process lie outside PyTorch's allocator."
    return UNKNOWN, "The numbers fit none of the known causes: enough was free when the message was written."
