"""GPU memory is nearly full and moves: the next peak will not fit.

## Meaning
Almost nothing of a GPU's memory is free at the peak, and what is in use goes up and down, or several pods share it.
Full memory alone means nothing: vLLM, TensorFlow and JAX reserve most of it at start, and PyTorch keeps what it
once had.

## Impact
The next larger batch, longer request or second process ends in an out-of-memory error; on a shared GPU it may be the
other pod's.

## Evidence
Memory in use and free, its least and most over the window, the GPU's holders, the framework by image and command line.

## Not reported
Memory that stands still at a high level. Servers and frameworks that reserve memory at start, unless others hold the
same GPU or the use rose over hours (a rule of its own). Pods that are loading: younger than `starting_for` and a
window. GPUs without a covered window.

## References
https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management
https://www.tensorflow.org/guide/gpu#limiting_gpu_memory_growth
https://docs.jax.dev/en/latest/gpu_memory_allocation.html
"""

from collections.abc import Iterator

import msgspec

from diagnostics.findings import Confidence, Evidence, Hit, Severity, Subject, Unjudged
from diagnostics.fixes import Fix, Risk, Step, StepKind, mildest_first, steps
from diagnostics.fixes.sharing import divided
from diagnostics.limits import Limits, Thresholds
from diagnostics.quantities import gib, percent
from diagnostics.rules.base import rule
from diagnostics.rules.memory.software import Software, software_of
from diagnostics.snapshot import Gpu, Pod, Snapshot, Source, Stat
from diagnostics.text import counted, listed

SHARED = "shared-gpu-memory-nearly-full"
PEAKS = "peaks-reach-gpu-memory"


class _Full(msgspec.Struct, frozen=True, kw_only=True):
    gpu: Gpu
    pods: tuple[Pod, ...]
    over: Stat
    now: float
    usable: float
    """Used and free together: without what the driver reserves."""
    software: Software

    @property
    def peak(self) -> float:
        return max(self.now, self.over.max)


@rule(
    code="GPU404",
    slug="gpu-memory-pressure",
    severity=Severity.WARNING,
    needs={Source.PODS, Source.METRICS, Source.WINDOW},
    caused_by=("growing-memory",),
)
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Hit | Unjudged]:
    """One hit per root owner of a GPU's only pod, and one per GPU that several pods share."""
    found: dict[Subject, list[_Full]] = {}
    shared: list[_Full] = []
    for gpu in snapshot.gpus:
        pods = tuple(pod for holder in gpu.holders if (pod := snapshot.pod_by_key.get(holder)) is not None)
        if not pods or not gpu.is_named or gpu.metrics is None:
            continue
        values = limits.of(pods[0]).values
        used, free = gpu.metrics.memory_used_bytes, gpu.metrics.memory_free_bytes
        if used is None or free is None or used + free <= 0:
            continue
        over = gpu.window.memory_used_bytes if gpu.window is not None else None
        is_covered = gpu.window is not None and gpu.window.coverage_ratio >= values.window_coverage_min_ratio
        if over is None or not is_covered:
            if (
                used >= values.memory_full_ratio * (used + free)
                and len(pods) == 1
                and not _is_young(snapshot, pods, values)
            ):
                yield Unjudged(
                    Subject.of_pod(pods[0]), f"the memory of GPU {gpu.slot} was not sampled over the window"
                )
            continue
        full = _Full(
            gpu=gpu, pods=pods, over=over, now=used, usable=used + free, software=_software(pods[0]),
        )  # fmt: skip
        if full.peak < values.memory_full_ratio * full.usable or _is_young(snapshot, pods, values):
            continue
        if len(pods) > 1:
            shared.append(full)
        elif _moves(full, values) and not full.software.preallocates:
            found.setdefault(Subject.of_pod(pods[0]), []).append(full)
    for subject, cases in found.items():
        yield _hit(snapshot, subject, PEAKS, cases)
    for full in shared:
        subject = Subject(kind="GPU", name=full.gpu.slot, uid=full.gpu.uuid or "")
        yield _hit(snapshot, subject, SHARED, [full])


def _software(pod: Pod) -> Software:
    box = next((c for c in pod.containers if c.gpus and not c.is_init), None)
    return software_of(box) if box is not None else Software()


def _is_young(snapshot: Snapshot, pods: tuple[Pod, ...], values: Thresholds) -> bool:
    """A holder may still be loading in a part of the window."""
    ages = [snapshot.age(c.running_since) for p in pods for c in p.containers if c.gpus and not c.is_init]
    return any(age is None or age < values.starting_for + values.window for age in ages)


def _moves(full: _Full, values: Thresholds) -> bool:
    return full.over.max - full.over.min >= values.memory_moving_min_ratio * full.usable


def _hit(snapshot: Snapshot, subject: Subject, cause: str, cases: list[_Full]) -> Hit:
    full = max(cases, key=lambda c: (c.peak / c.usable, c.gpu.slot))
    gpu, pods = full.gpu, tuple(sorted({p.key for c in cases for p in c.pods}))
    left, name = (
        max(0.0, full.usable - full.peak),
        f"GPU {gpu.index}" if gpu.index is not None else f"GPU {gpu.slot}",
    )
    if cause == SHARED:
        title = f"{name} on {gpu.node}: {counted(len(pods), 'pod')} share its memory, and it is nearly full"
        what = f"{listed(pods)} hold the same GPU, whose memory nothing divides between them."
    else:
        title = f"{subject}: its peaks fill the memory of {counted(len(cases), 'GPU')}"
        what = f"It went between {gib(full.over.min)} and {gib(full.over.max)}, so it was not reserved once for all."
    return Hit(
        subject=subject,
        cause=cause,
        title=title,
        summary=f"At the peak {gib(left)} of {gib(full.usable)} were free on {name} of {gpu.node}. {what} "
        f"Nothing failed "
        "yet; a slightly larger batch or request will.",
        evidence=tuple(_evidence(full, pods)),
        fix=_fix(snapshot, full, cause),
        confidence=Confidence.HIGH if cause == SHARED or full.software.framework else Confidence.MEDIUM,
        gpus=len(cases),
        nodes=tuple(sorted({c.gpu.node for c in cases})),
        pods=pods,
    )


def _evidence(full: _Full, pods: tuple[str, ...]) -> Iterator[Evidence]:
    source = f"metrics of GPU {full.gpu.slot}"
    yield Evidence("in use now", f"{gib(full.now)} of {gib(full.usable)}", source=source)
    yield Evidence("least over the window", gib(full.over.min), source=source)
    yield Evidence(
        "most over the window", f"{gib(full.over.max)}, {percent(full.peak / full.usable)}", source=source
    )
    yield Evidence(
        "holders", listed(pods), source=f"holders of the device, by {full.gpu.holder_source or 'pod status'}"
    )
    if full.software.framework:
        yield Evidence(
            "program", full.software.framework, source=f"{full.pods[0].key}: image and command line"
        )


def _fix(snapshot: Snapshot, full: _Full, cause: str) -> Fix:
    pod = full.pods[0]
    node = snapshot.node_by_name.get(full.gpu.node)
    layout = divided(node, snapshot) if cause == SHARED and node is not None else ()
    if cause == SHARED:
        change = Step(
            kind=StepKind.FIX,
            title="Give each pod its share of the GPU, or a GPU of its own",
            why="Time-slicing and MPS do not divide memory: budgets have to add up to less than one "
            "(gpu_memory_utilization, per-process fractions, MPS pinned memory limits). MIG divides it for good.",
            risk=Risk.DISRUPTIVE,
            expect="At the highest load of all of them together some memory is free.",
        )
    else:
        change = Step(
            kind=StepKind.FIX,
            title="Take the peak down, or bound it",
            why="A limit on batch, sequence length or concurrent requests, activation checkpointing, or "
            "16 bits per value. "
            "Where shapes vary, PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True wastes less between them.",
            risk=Risk.DISRUPTIVE,
            expect="The peak leaves a few percent of the memory free.",
        )
    look = steps.see_pods_on_node(full.gpu.node) if cause == SHARED else steps.describe_pod(pod)
    return Fix(
        summary=change.title,
        steps=mildest_first(
            look,
            steps.read_log(pod, expect="Memory reports of the program, and errors that it caught."),
            change,
            *layout,
            steps.verify_finding_gone("The most in use over a window stays below the GPU's memory."),
            steps.escalate(
                "the owner of the workload",
                why="What a peak is made of, batch or request, only the program knows.",
                expect="A bound on it, or the request for a larger GPU.",
            ),
        ),
    )
