"""A program on a GPU failed because shared memory, /dev/shm, is too small, or may outgrow the memory limit.

## Meaning
Data loader workers, NCCL and model servers hand data to each other through /dev/shm. Container runtimes make it 64 MiB
unless a volume in memory is mounted there; when it is full, writes fail or the process ends with a bus error. No
disk is full. A volume in memory that may hold more than the container's memory limit fails the other way: it counts
as the container's memory, and filling it ends in OOMKilled.

## Impact
Training ends in the first epoch, or a communicator of several GPUs never starts; the pod comes back to fail again.

## Evidence
Signals in the log of a failing GPU container, its exit code, the volume at /dev/shm and its size limit, the memory
limit.

## Not reported
`No space left on device` for another path: that is a disk. Too many open files, a shared memory object that does not
exist. A bus error or exit code 135 alone where a volume in memory is mounted at /dev/shm. A small /dev/shm of a program
that runs: many need no more.

## References
https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html
https://kubernetes.io/docs/concepts/storage/volumes/#emptydir
"""

from collections.abc import Iterator, Sequence

import msgspec

from diagnostics.findings import Confidence, Evidence, Hit, Severity, Subject, Unjudged
from diagnostics.fixes import Fix, Step, steps
from diagnostics.fixes.rolling import old_pod_first
from diagnostics.limits import Limits
from diagnostics.quantities import gib
from diagnostics.rules.base import rule
from diagnostics.rules.memory.changes import mount_in_memory, raise_memory_limit
from diagnostics.rules.memory.failing import Failure, failures, signals_of_run
from diagnostics.rules.memory.host_kills import memory_volumes
from diagnostics.snapshot import Container, LogSignal, Pod, Snapshot, Source, Volume
from diagnostics.text import counted, listed, printable

TOO_SMALL = "dev-shm-too-small"
ABOVE_LIMIT = "memory-volume-above-limit"

PATH = "/dev/shm"
DEFAULT_BYTES = 64.0 * 2**20
"""Docker, containerd and CRI-O (reference: their default of `--shm-size`)."""
SIGBUS, SIGBUS_EXIT = 7, 135

_CERTAIN = ("nccl-shm-full", "torch-shm-full", "dev-shm-no-space", "dataloader-bus-error")
_SUPPORTING = ("sigbus-child", "bus-error")
"""A bus error has other causes too: a file that was cut short under a mapping, for example."""


class _Case(msgspec.Struct, frozen=True):
    failure: Failure
    signal: LogSignal | None
    is_certain: bool


@rule(code="GPU407", slug="small-shm", severity=Severity.CRITICAL, needs={Source.PODS, Source.LOGS}, hold=1)
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Hit | Unjudged]:
    """One hit per root owner that failed for it, and one per owner whose volume may outgrow its memory limit."""
    found: dict[Subject, list[_Case]] = {}
    unread: dict[Subject, str] = {}
    for failure in failures(snapshot, limits):
        subject = Subject.of_pod(failure.pod)
        if (case := _case(snapshot, failure)) is not None:
            found.setdefault(subject, []).append(case)
        elif failure.pod.key not in snapshot.logs_read:
            unread[subject] = f"the log of {failure.pod.name} was not read"
    for subject, cases in found.items():
        yield _hit(snapshot, subject, cases)
    for subject, reason in unread.items():
        if subject not in found:
            yield Unjudged(subject, reason)
    oversized: dict[Subject, list[tuple[Pod, Container, str, float]]] = {}
    for pod in snapshot.pods:
        subject = Subject.of_pod(pod)
        if pod.gpus and not pod.is_finished and subject not in found:
            for container in pod.containers:
                if (wide := _above_limit(pod, container)) is not None:
                    oversized.setdefault(subject, []).append((pod, container, *wide))
    for subject, wides in oversized.items():
        yield _static_hit(subject, wides)


def _case(snapshot: Snapshot, failure: Failure) -> _Case | None:
    signals = signals_of_run(snapshot, failure)
    newest = next((s for s in reversed(signals) if s.signal in _CERTAIN), None)
    if newest is not None:
        return _Case(failure, newest, is_certain=True)
    if shm_volume(failure.pod, failure.container) is not None:
        return None
    newest = next((s for s in reversed(signals) if s.signal in _SUPPORTING), None)
    ended = failure.ended
    by_signal = ended is not None and (ended.signal == SIGBUS or ended.exit_code == SIGBUS_EXIT)
    return _Case(failure, newest, is_certain=False) if newest is not None or by_signal else None


def shm_volume(pod: Pod, container: Container) -> Volume | None:
    """What is mounted at /dev/shm; None where the runtime's own small one is."""
    name = next((volume for path, volume in container.mounts.items() if path.rstrip("/") == PATH), None)
    if name is None:
        return None
    return next((v for v in pod.volumes if v.name == name), Volume(name, "unknown"))


def _above_limit(pod: Pod, container: Container) -> tuple[str, float] | None:
    """Mount path and size limit of a volume in memory that may hold more than the container's memory limit."""
    limit = container.limits.get("memory")
    if limit is None or not container.gpus:
        return None
    return next(((p, size) for p, size in memory_volumes(pod, container) if size and size > limit), None)


def _hit(snapshot: Snapshot, subject: Subject, cases: Sequence[_Case]) -> Hit:
    case = min(cases, key=lambda c: (not c.is_certain, c.failure.runs_again, c.failure.pod.key))
    pod, container = case.failure.pod, case.failure.container
    volume = shm_volume(pod, container)
    size = _size_words(volume)
    pods = tuple(sorted({c.failure.pod.key for c in cases}))
    runs_again = all(c.failure.runs_again for c in cases)
    how = "ran full" if case.is_certain else "most likely ran full: it ended with a bus error"
    return Hit(
        subject=subject,
        cause=TOO_SMALL,
        title=f"{subject}: shared memory ran out ({PATH} is {size})",
        summary=f"{PATH} of container {container.name} is {size}, and it {how}. Data loader workers, NCCL and model "
        "servers pass data through it. Neither a disk nor the GPU's memory is full.",
        evidence=tuple(_evidence(case, volume, pods)),
        fix=_fix(snapshot, case, volume),
        confidence=Confidence.HIGH if case.is_certain else Confidence.MEDIUM,
        severity=Severity.WARNING if runs_again else None,
        gpus=sum(snapshot.pod_by_key[key].gpu_count for key in pods),
        nodes=tuple(sorted({c.failure.pod.node for c in cases if c.failure.pod.node})),
        pods=pods,
    )


def _size_words(volume: Volume | None) -> str:
    if volume is None:
        return f"the runtime's default of {gib(DEFAULT_BYTES)}"
    if volume.size_limit_bytes is not None:
        return f"limited to {gib(volume.size_limit_bytes)}"
    return f"the volume {printable(volume.name, 80)} without a size limit of its own"


def _evidence(case: _Case, volume: Volume | None, pods: tuple[str, ...]) -> Iterator[Evidence]:
    pod, container, ended = case.failure.pod, case.failure.container, case.failure.ended
    if case.signal is not None:
        source = f"log of {pod.key}, container {container.name}"
        yield Evidence("message", case.signal.line, source=source)
    if ended is not None and ended.exit_code is not None:
        source = f"container status of {pod.key}/{container.name}"
        yield Evidence("ended", f"exit code {ended.exit_code}, {case.failure.ended_ago}", source=source)
    where = f"{pod.key}: spec.volumes and the container's volumeMounts"
    yield Evidence(PATH, _size_words(volume), source=where)
    limit = container.limits.get("memory")
    source = f"{pod.key}: spec, container {container.name}, resources.limits.memory"
    yield Evidence("host memory limit", gib(limit) if limit is not None else "none", source=source)
    yield Evidence(counted(len(pods), "pod"), listed(pods), source="pods of the owner that failed so")


def _fix(snapshot: Snapshot, case: _Case, volume: Volume | None) -> Fix:
    pod, container = case.failure.pod, case.failure.container
    change = _mount(pod, container, volume)
    return Fix(
        summary=change.title,
        steps=(
            steps.read_log(
                pod, container.name, previous=case.failure.is_previous,
                expect="A message about shared memory, a bus error or NCCL's shm; no path of a disk beside it.",
            ),
            steps.describe_pod(pod),
            *old_pod_first([change], pod, snapshot),
            steps.verify_finding_gone(f"Container {container.name} passes the point where it failed, and stays."),
            steps.escalate(
                "the owner of the workload",
                why="How much is needed follows from the workers, their prefetching and the batch.",
                expect="Fewer workers, or the size that the program needs at its peak.",
            ),
        ),
    )  # fmt: skip


def _mount(pod: Pod, container: Container, volume: Volume | None) -> Step:
    size = _wanted_bytes(container, volume)
    return mount_in_memory(
        pod,
        container,
        volume.name if volume is not None else "dshm",
        PATH,
        size,
        title=f"Mount {gib(size)} of memory at {PATH}",
        why="An emptyDir in memory replaces the runtime's 64 MiB. What is written there counts as the container's "
        "memory, so the memory limit has to cover both. NCCL_SHM_DISABLE=1 would only hide it, and is slower.",
        expect=f"`df -h {PATH}` in the container shows the new size, and the program passes the point where it failed.",
    )


def _wanted_bytes(container: Container, volume: Volume | None) -> float:
    """Twice what there is, else 8 GiB; never more than half of the memory limit, which it counts towards (ours)."""
    limit = container.limits.get("memory")
    known = volume.size_limit_bytes if volume is not None and volume.size_limit_bytes else None
    wanted = 2 * known if known else 8.0 * 2**30
    return wanted if limit is None else max(min(wanted, limit / 2), known or 0.0, 2.0**28)


def _static_hit(subject: Subject, wides: Sequence[tuple[Pod, Container, str, float]]) -> Hit:
    pod, container, path, size = wides[0]
    limit = container.limits.get("memory", 0.0)
    pods = tuple(sorted({p.key for p, *_ in wides}))
    change = raise_memory_limit(
        pod, container, size + limit,
        why=f"The volume may take {gib(size)}, and the program had {gib(limit)} for everything. Or lower the volume's "
        f"sizeLimit below {gib(limit)}, if the program needs less there.",
    )  # fmt: skip
    return Hit(
        subject=subject,
        cause=ABOVE_LIMIT,
        severity=Severity.INFO,
        title=f"{subject}: the volume in memory at {path} may outgrow the memory limit",
        summary=f"The volume at {path} may hold {gib(size)}, the container's memory limit is {gib(limit)}, and what is "
        "in the volume counts towards it: filling it ends in OOMKilled, not in a full volume.",
        evidence=(
            Evidence(f"size limit of {path}", gib(size), source=f"{pod.key}: spec.volumes, emptyDir.sizeLimit"),
            Evidence(
                "host memory limit", gib(limit),
                source=f"{pod.key}: spec, container {container.name}, resources.limits.memory",
            ),
        ),
        fix=Fix(
            summary="Bring the volume's size and the memory limit together",
            steps=(
                steps.describe_pod(pod),
                change,
                steps.verify_finding_gone("The volume's size limit is below the container's memory limit."),
            ),
        ),
        confidence=Confidence.HIGH,
        nodes=tuple(sorted({p.node for p, *_ in wides if p.node})),
        pods=pods,
        gpus=sum(p.gpu_count for p in {p.key: p for p, *_ in wides}.values()),
    )  # fmt: skip
