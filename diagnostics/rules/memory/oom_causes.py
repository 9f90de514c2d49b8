"""From all signals of one container and what is known of its GPU to one cause: pure."""

from collections.abc import Sequence

import msgspec

from diagnostics.findings import Confidence
from diagnostics.limits import Thresholds
from diagnostics.quantities import gib
from diagnostics.rules.memory import oom_numbers as oom
from diagnostics.rules.memory.gpu_seen import Device
from diagnostics.rules.memory.oom_numbers import Verdict, Whose
from diagnostics.rules.memory.oom_words import in_float32, own_words
from diagnostics.rules.memory.software import NOTHING_KNOWN, Software
from diagnostics.snapshot import LogSignal
from diagnostics.text import listed

OUT_OF_MEMORY = frozenset(
    {
        "torch-cuda-oom", "cuda-oom", "cuda-runtime-oom", "cublas-oom", "cudnn-oom", "nccl-oom",
        "tensorflow-oom", "tensorflow-allocator-oom", "jax-oom", "tensorrt-oom", "tensorrt-runtime-oom",
        "ggml-cuda-oom", "vgpu-limit", "vllm-free-memory", "vllm-no-cache-blocks", "vllm-kv-too-small",
        "vllm-seq-len-too-large", "sglang-no-memory", "triton-load-oom",
        "tensorflow-start-oom", "cuda-context-oom", "tensorflow-cudnn-start", "xla-allocator-oom", "torch-nvml-assert",
        "onnxruntime-oom", "onnxruntime-arena-limit", "onnxruntime-cuda-oom", "tensorrt-size-oom", "tensorrt-llm-oom",
        "ggml-buffer-oom", "ggml-kv-oom", "ggml-old-oom", "cupy-oom", "paddle-oom", "mxnet-oom",
        "vllm-profiling-disturbed", "vllm-warmup-oom", "sglang-batch-oom", "sglang-unbalanced", "tgi-prefill-oom",
        "trtllm-kv-too-small",
    }
)  # fmt: skip
"""Signals that say GPU memory ran out, or would. Preempted requests and a full pool are not among them."""

_VAGUE = {"cublas-oom", "cudnn-oom", "tensorflow-cudnn-start"}
"""Usually exhausted memory, but these codes have other causes too."""
_OF_CUDNN = {"cudnn-oom", "tensorflow-cudnn-start"}
_RETRIED = {"tensorflow-start-oom"}
"""TensorFlow prints it, asks for less and goes on: of no weight beside another message."""

_OF_SIZE = {oom.SHORTAGE, oom.SINGLE_REQUEST, oom.KV_CACHE, oom.UNKNOWN}
"""Causes that half the bytes per value would change."""

MIG_NOMINAL_RATIO = 0.9
"""A total below this share of the card's nominal memory is not the whole card (driver reserve is a few
percent)."""


def cause_of(
    signals: Sequence[LogSignal], device: Device, limits: Thresholds, software: Software = NOTHING_KNOWN
) -> Verdict | None:
    """The best-founded cause, and where that is another process, whose it is; None for no signal of GPU memory."""
    found = _best(signals, device, limits, software)
    if found is not None and found.cause in _OF_SIZE and software.is_float32:
        found = in_float32(found, software)
    if found is None or found.cause != oom.OTHER_PROCESS:
        return found
    return _attributed(found, device, limits)


def _best(
    signals: Sequence[LogSignal], device: Device, limits: Thresholds, software: Software
) -> Verdict | None:
    """The best-founded cause among a container's signals; None when none of them is about GPU memory.

    Those that name their cause come first, then those with numbers, then listings, then bare messages; of
    equals the newest.
    """
    by_name: dict[str, LogSignal] = {s.signal: s for s in signals if s.signal in OUT_OF_MEMORY}
    if any(s.signal == "cudnn-version-mismatch" for s in signals):
        by_name = {name: s for name, s in by_name.items() if name not in _OF_CUDNN}
    if len(by_name) > 1:
        by_name = {name: s for name, s in by_name.items() if name not in _RETRIED} or by_name
    if not by_name:
        return None
    named = _vgpu(by_name) or _mig_too_small(by_name, device) or own_words(by_name, limits, software)
    if named is not None:
        return named
    listing = _listing(signals, device, next(reversed(by_name.values())))
    if (torch := by_name.get("torch-cuda-oom")) is not None:
        found = _placed(oom.verdict(oom.oom_numbers(torch, limits), limits, torch), device)
        if found.cause == oom.OTHER_PROCESS:
            return _piled_up(found, listing, device)
        if found.cause != oom.UNKNOWN:
            return found
    return (
        listing
        or _segments(signals, by_name, limits)
        or _too_large(by_name, device, limits)
        or _bare(by_name, device)
    )


def _vgpu(by_name: dict[str, LogSignal]) -> Verdict | None:
    if (signal := by_name.get("vgpu-limit")) is None:
        return None
    wanted, limit = signal.numbers.get("wanted_bytes"), signal.numbers.get("limit_bytes")
    return Verdict(
        cause=oom.VGPU_LIMIT,
        confidence=Confidence.HIGH,
        because=f"{gib(wanted)} were wanted, {gib(limit)} is this pod's share of the GPU.",
        signal=signal,
    )


def _mig_too_small(by_name: dict[str, LogSignal], device: Device) -> Verdict | None:
    if device.mig_profile is None or device.mig_bytes is None:
        return None
    for signal in reversed(by_name.values()):
        wanted = signal.numbers.get("requested_bytes")
        if wanted is not None and wanted > device.mig_bytes:
            return Verdict(
                cause=oom.MIG_TOO_SMALL,
                confidence=Confidence.HIGH,
                because=f"{gib(wanted)} were asked for on a MIG instance {device.mig_profile} of "
                f"{gib(device.mig_bytes)}; the rest of the card belongs to others.",
                signal=signal,
            )
    return None


def _placed(found: Verdict, device: Device) -> Verdict:
    """A shortage on a part of a card is the part's size, not the card's."""
    if found.cause not in (oom.SHORTAGE, oom.SINGLE_REQUEST):
        return found
    total = found.numbers.total if found.numbers else None
    if device.mig_profile is not None:
        part = f"on a MIG instance {device.mig_profile}, a part of the card"
        cause = oom.MIG_TOO_SMALL
    elif total is not None and device.nominal_bytes and total < MIG_NOMINAL_RATIO * device.nominal_bytes:
        part = f"the process sees {gib(total)} of a card with {gib(device.nominal_bytes)}"
        cause = oom.VGPU_LIMIT
    else:
        return found
    return msgspec.structs.replace(
        found, cause=cause, confidence=Confidence.MEDIUM, because=f"{found.because[:-1]}: {part}."
    )


def _listing(signals: Sequence[LogSignal], device: Device, message: LogSignal) -> Verdict | None:
    """Processes that a listing in the log shows on the GPU."""
    shown = [s for s in signals if s.signal == "gpu-processes"]
    if not shown:
        return None
    numbers = shown[-1].numbers
    used, count = numbers.get("used_bytes"), int(numbers.get("processes_count", 0))
    total = numbers.get("total_bytes") or device.total_bytes or device.nominal_bytes
    if used is None or count == 0 or (total is not None and used < 0.5 * total):
        return None
    whole = f" of {gib(total)}" if total is not None else ""
    because = f"{count} processes hold {gib(used)}{whole} of the GPU, as the log's own listing says"
    is_orphans = count > 1 and not device.is_shared
    return Verdict(
        cause=oom.ORPHANS if is_orphans else oom.OTHER_PROCESS,
        confidence=Confidence.MEDIUM if total is not None else Confidence.LOW,
        because=f"{because}, and no other pod shares it." if is_orphans else f"{because}.",
        signal=message,
        decided_by=shown[-1],
    )


def _piled_up(found: Verdict, listing: Verdict | None, device: Device) -> Verdict:
    """Several other processes on a GPU that no other pod shares are leftovers of this pod, or from
    outside."""
    listed_others = len(found.numbers.others) if found.numbers else 0
    if device.is_shared is False and (listed_others > 1 or (listing and listing.cause == oom.ORPHANS)):
        return msgspec.structs.replace(
            found,
            cause=oom.ORPHANS,
            confidence=Confidence.MEDIUM,
            because=f"{found.because[:-1]}, in {max(listed_others, 2)} or more processes, and no other "
            "pod shares it.",
        )
    return found


def _attributed(found: Verdict, device: Device, limits: Thresholds) -> Verdict:
    """Sharers are known by name; memory that stays or goes while the pod is down tells inside from outside.

    Where neither is known, an open question remains, and with it no high confidence.
    """
    because, left = found.because[:-1], device.left_bytes
    if device.sharers:
        whose, because = Whose.OTHER_PODS, f"{because}; it is shared with {listed(device.sharers)}"
    elif left is None:
        whose = Whose.OPEN
    elif left < limits.oom_other_process_min_bytes:
        whose = Whose.OWN
        because = (
            f"{because}; with the container down {gib(left)} are in use: most likely a second process of its own pod "
            "had them"
        )
    else:
        whose = Whose.OUTSIDE
        because = f"{because}; with the container down {gib(left)} stay in use, so a process outside the pod has them"
    confidence = found.confidence
    if whose is Whose.OPEN and confidence is Confidence.HIGH:
        confidence = Confidence.MEDIUM
    elif whose is Whose.OTHER_PODS and found.numbers is not None:
        confidence = Confidence.HIGH
    return msgspec.structs.replace(found, confidence=confidence, because=f"{because}.", whose=whose)


def _segments(
    signals: Sequence[LogSignal], by_name: dict[str, LogSignal], limits: Thresholds
) -> Verdict | None:
    """A large cached segment cut up by small live blocks: neither reusable nor releasable."""
    worst: tuple[float, LogSignal] | None = None
    for signal in signals:
        total, active = signal.numbers.get("total_bytes"), signal.numbers.get("active_bytes")
        if signal.signal != "torch-memory-segment" or total is None or active is None:
            continue
        is_cut = signal.numbers.get("active_count", 0) > 0 and signal.numbers.get("inactive_count", 0) > 0
        idle = total - active
        if (
            is_cut
            and active <= idle
            and idle >= limits.oom_fragmented_min_bytes
            and (not worst or idle > worst[0])
        ):
            worst = (idle, signal)
    if worst is None:
        return None
    idle, signal = worst
    return Verdict(
        cause=oom.FRAGMENTED,
        confidence=Confidence.HIGH,
        because=f"A cached segment of {gib(signal.numbers['total_bytes'])} has {gib(idle)} unused between "
        f"live blocks "
        f"of {gib(signal.numbers['active_bytes'])}: it can neither be reused nor given back.",
        signal=next(reversed(by_name.values())),
        decided_by=signal,
    )


def _too_large(by_name: dict[str, LogSignal], device: Device, limits: Thresholds) -> Verdict | None:
    total = device.total_bytes or device.nominal_bytes
    for signal in reversed(by_name.values()):
        wanted = signal.numbers.get("requested_bytes")
        if signal.signal == "torch-cuda-oom" or not wanted or not total:
            continue
        if wanted >= limits.oom_single_tensor_ratio * total:
            return Verdict(
                cause=oom.SINGLE_REQUEST,
                confidence=Confidence.MEDIUM,
                because=f"One request of {gib(wanted)} cannot fit on a GPU of {gib(total)}.",
                signal=signal,
            )
    return None


def _bare(by_name: dict[str, LogSignal], device: Device) -> Verdict | None:
    """Messages without numbers: only what the snapshot adds."""
    firm = [s for name, s in by_name.items() if name not in _VAGUE]
    signal = firm[-1] if firm else next(reversed(by_name.values()))
    if device.sharers:
        return Verdict(
            cause=oom.OTHER_PROCESS,
            confidence=Confidence.MEDIUM if firm else Confidence.LOW,
            because="The message has no numbers.",
            signal=signal,
        )
    return Verdict(
        cause=oom.UNKNOWN,
        confidence=Confidence.LOW,
        because="The message has no numbers that tell a shortage from another process on the GPU.",
        signal=signal,
    )
