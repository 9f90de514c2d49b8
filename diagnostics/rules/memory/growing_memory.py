"""Memory of a GPU pod only grows, and will be full within a day.

## Meaning
The least that is in use rises from window to window over hours and never falls: a leak, a cache without a bound, or
lists that keep tensors alive. A load that comes and goes moves the peaks, not the least.

## Impact
Host memory ends in OOMKilled at the container's limit, GPU memory in an out-of-memory error of the program; both at a
time that nobody chose, and again after each restart.

## Evidence
The least use over windows of half an hour, up to four and a half hours back, of anonymous host memory and of each GPU's
memory; the container's limit (the node's memory without one), the GPU's total, and when the container began.

## Not reported
File cache, which the kernel gives back: only anonymous memory counts on the host. One jump and a flat line: something
was loaded. Growth that would take longer than `memory_full_within`, less than `memory_growth_min_ratio`, or seen in
fewer than three windows after the start. GPUs with several holders: nobody knows whose memory grows.

## References
https://kubernetes.io/docs/tasks/configure-pod-container/assign-memory-resource/
https://docs.pytorch.org/docs/stable/torch_cuda_memory.html
"""

from collections.abc import Iterator

from diagnostics.findings import Confidence, Evidence, Hit, Severity, Subject
from diagnostics.fixes import Fix, Risk, Step, StepKind, steps
from diagnostics.limits import Limits
from diagnostics.quantities import gib, span
from diagnostics.rules.base import rule
from diagnostics.rules.memory.growth import SUREST, Growth, growth_of
from diagnostics.snapshot import Container, ContainerUsage, Gpu, Pod, Snapshot, Source

HOST = "host-memory-only-grows"
GPU = "gpu-memory-only-grows"


@rule(
    code="GPU406",
    slug="growing-memory",
    severity=Severity.WARNING,
    needs={Source.PODS, Source.USAGE},
    uses={Source.NODES, Source.METRICS},
)
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Hit]:
    """One hit per root owner: of its pods' memory the one that is full first, host memory before GPU memory."""
    found: dict[Subject, list[tuple[Growth, Hit]]] = {}
    for pod in snapshot.pods:
        if not pod.gpus or not pod.holds_gpus:
            continue
        for growth, hit in (*_host(snapshot, limits, pod), *_gpus(snapshot, limits, pod)):
            found.setdefault(hit.subject, []).append((growth, hit))
    for cases in found.values():
        yield min(cases, key=lambda case: (case[0].full_in, case[1].cause != HOST, case[1].pods))[1]


def _host(snapshot: Snapshot, limits: Limits, pod: Pod) -> Iterator[tuple[Growth, Hit]]:
    values, node = limits.of(pod).values, snapshot.node_by_name.get(pod.node or "")
    for container in pod.containers:
        usage = snapshot.usage_by_container.get((pod.key, container.name))
        limit = container.limits.get("memory")
        total = limit if limit is not None else node.allocatable.get("memory") if node else None
        if usage is None or usage.rss_bytes is None or total is None or container.state != "running":
            continue
        growth = growth_of(
            usage.rss_lows, window=usage.span, since=container.running_since, peak_bytes=usage.rss_bytes.max,
            total_bytes=total, limits=values,
        )  # fmt: skip
        if growth is not None:
            yield growth, _host_hit(pod, container, usage, growth, total, is_limit=limit is not None)


def _gpus(snapshot: Snapshot, limits: Limits, pod: Pod) -> Iterator[tuple[Growth, Hit]]:
    values = limits.of(pod).values
    starts = [c.running_since for c in pod.containers if c.gpus and c.running_since is not None]
    for gpu in snapshot.gpus_by_pod.get(pod.key, ()):
        course, metrics = snapshot.course_by_slot.get(gpu.slot), gpu.metrics
        if course is None or metrics is None or gpu.window is None or gpu.holders != (pod.key,) or not starts:
            continue
        used, free, over = metrics.memory_used_bytes, metrics.memory_free_bytes, gpu.window.memory_used_bytes
        if used is None or free is None or over is None:
            continue
        growth = growth_of(
            course.lows, window=gpu.window.span, since=max(starts), peak_bytes=max(used, over.max),
            total_bytes=used + free, limits=values,
        )  # fmt: skip
        if growth is not None:
            yield growth, _gpu_hit(pod, gpu, growth, used + free)


def _host_hit(
    pod: Pod, container: Container, usage: ContainerUsage, growth: Growth, total: float, *, is_limit: bool
) -> Hit:
    query = f'min_over_time(container_memory_rss{{namespace="{pod.namespace}",pod="{pod.name}"}}[{span(usage.span)}])'
    whole = "its limit" if is_limit else "all that the node has"
    return _hit(
        pod,
        HOST,
        growth,
        title=f"host memory of container {container.name} only grows",
        summary=f"It rose by {gib(growth.grown_bytes)} in {span(growth.span)} and never fell. At this rate {whole}, "
        f"{gib(total)}, is used up in about {span(growth.full_in)}; then the kernel kills it. File cache "
        f"is not counted.",
        evidence=(
            *_course(growth, query),
            Evidence("most in use now", gib(usage.rss_bytes.max if usage.rss_bytes else None), source=query),
            Evidence(
                "host memory limit" if is_limit else "memory of the node", gib(total),
                source=f"{pod.key}: spec, container {container.name}" if is_limit else f"node {pod.node}: allocatable",
            ),
        ),
        container=container.name,
        advice="On the host: data loader workers that keep what they touched (persistent_workers, Python "
               "lists of objects "
        "copied on write), caches without a bound, results that are appended and never written out.",
    )  # fmt: skip


def _gpu_hit(pod: Pod, gpu: Gpu, growth: Growth, total: float) -> Hit:
    query = f"min_over_time of memory in use on GPU {gpu.slot}"
    name = f"GPU {gpu.index}" if gpu.index is not None else f"GPU {gpu.slot}"
    return _hit(
        pod,
        GPU,
        growth,
        title=f"memory of its {name} on {gpu.node} only grows",
        summary=f"It rose by {gib(growth.grown_bytes)} in {span(growth.span)} and never fell. At this rate the GPU's "
        f"{gib(total)} are used up in about {span(growth.full_in)}; then an allocation fails.",
        evidence=(
            *_course(growth, query),
            Evidence("memory of the GPU", gib(total), source=f"metrics of GPU {gpu.slot}: used and free"),
        ),
        container="",
        advice="On the GPU: losses or outputs that are kept with their graph (use .item() or .detach()), "
        "lists of tensors, "
        "shapes that vary and fill the allocator's cache, models that are loaded and never unloaded.",
    )


def _course(growth: Growth, query: str) -> Iterator[Evidence]:
    now = growth.lows[-1].at
    for low in growth.lows:
        back = span(now - low.at) + " ago" if low.at != now else "now"
        yield Evidence(f"least in use, {back}", gib(low.used_bytes), source=query)
    yield Evidence("growth (computed)", f"{gib(growth.rate_bytes_per_h)} per hour", source=query)


def _hit(
    pod: Pod,
    cause: str,
    growth: Growth,
    *,
    title: str,
    summary: str,
    evidence: tuple[Evidence, ...],
    container: str,
    advice: str,
) -> Hit:
    subject = Subject.of_pod(pod)
    return Hit(
        subject=subject,
        cause=cause,
        title=f"{subject}: {title}",
        summary=summary,
        evidence=evidence,
        fix=Fix(
            summary="Find what holds on to the memory",
            steps=(
                steps.read_log(
                    pod,
                    container,
                    expect="Its own memory report, or what it does over and over while memory rises.",
                ),
                steps.describe_pod(pod),
                Step(
                    kind=StepKind.FIX,
                    title="Release what is no longer needed, or bound the cache",
                    why=f"{advice} A higher limit only moves the end. Until it is found, restart at a time of your "
                    "choice, after a checkpoint.",
                    risk=Risk.DISRUPTIVE,
                    expect="The least in use stays level over several hours at the same load.",
                ),
                steps.verify_finding_gone("The least in use no longer rises from window to window."),
                steps.escalate(
                    "the owner of the workload",
                    why="Only a profile of the program shows what keeps the memory.",
                    expect="A heap profile (py-spy dump, tracemalloc), or a memory snapshot of the framework.",
                ),
            ),
        ),
        confidence=Confidence.HIGH if len(growth.lows) >= SUREST else Confidence.MEDIUM,
        gpus=pod.gpu_count,
        nodes=(pod.node,) if pod.node else (),
        pods=(pod.key,),
    )
