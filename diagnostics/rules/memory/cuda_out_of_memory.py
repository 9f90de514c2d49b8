"""A program on a GPU failed because GPU memory ran out.

## Meaning
An allocation of GPU memory was refused and the program ended. The message always suggests fragmentation; its
numbers say what it really is: a model that does not fit, another process on the GPU, a cap, a MIG instance or
vGPU share, memory outside the allocator, a KV cache that is too small, a batch that is too large, weights in
float32, a framework that leaves nothing for its libraries, or fragmentation indeed.

## Impact
The training step or the model server ends with an ordinary exit code (1, or 134 after an abort), and comes
back only to fail again at the same load. Host memory and the pod's memory limit have nothing to do with it.

## Evidence
Signals in the log of a failing GPU container with their numbers; from the snapshot the MIG profile, the other
holders of the same GPU, its nominal memory, and what is in use on it while the container is down.

## Not reported
Messages in a container that is Ready and was not restarted: it caught the error and went on. Requests
preempted for lack of KV cache, Triton's full memory pool: slower, not failed. High GPU memory alone:
frameworks reserve it in advance. Host memory (OOMKilled): another rule. A failed attempt whose owner
succeeded since. Failures older than `oom_killed_recent` in pods that run again.

## References
https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management
https://docs.vllm.ai/en/stable/configuration/conserving_memory.html
"""

from collections.abc import Iterator

from diagnostics.findings import Confidence, Evidence, Hit, Severity, Subject, Unjudged
from diagnostics.limits import Limits
from diagnostics.quantities import gib
from diagnostics.rules.base import rule
from diagnostics.rules.memory.failing import Failure, failures, signals_of_run
from diagnostics.rules.memory.gpu_seen import Device, device_of
from diagnostics.rules.memory.oom_advice import MEANINGS, fix_for, title_of
from diagnostics.rules.memory.oom_arguments import size_arguments
from diagnostics.rules.memory.oom_causes import cause_of
from diagnostics.rules.memory.oom_numbers import UNKNOWN, Verdict
from diagnostics.rules.memory.software import software_of
from diagnostics.snapshot import Snapshot, Source
from diagnostics.text import counted, listed


@rule(
    code="GPU402",
    slug="cuda-out-of-memory",
    severity=Severity.CRITICAL,
    needs={Source.PODS, Source.LOGS},
    uses={Source.METRICS, Source.NODES},
    hold=1,
)
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Hit | Unjudged]:
    """One hit per root owner: its best-founded failure, with the pods that share it."""
    found: dict[Subject, list[tuple[Failure, Verdict, Device]]] = {}
    unread: dict[Subject, str] = {}
    for failure in failures(snapshot, limits):
        if failure.ended is not None and failure.ended.reason == "OOMKilled":
            continue  # host memory: a refused GPU allocation ends with an ordinary exit code
        subject = Subject.of_pod(failure.pod)
        signals = signals_of_run(snapshot, failure)
        device = device_of(snapshot, failure.pod, signals)
        software = software_of(failure.container, signals)
        verdict = cause_of(signals, device, limits.of(failure.pod).values, software)
        if verdict is not None:
            found.setdefault(subject, []).append((failure, verdict, device))
        elif failure.pod.key not in snapshot.logs_read:
            unread[subject] = f"the log of {failure.pod.name} was not read"
    for subject, cases in found.items():
        yield _hit(snapshot, subject, cases)
    for subject, reason in unread.items():
        if subject not in found:
            yield Unjudged(subject, reason)


def _hit(snapshot: Snapshot, subject: Subject, cases: list[tuple[Failure, Verdict, Device]]) -> Hit:
    failure, verdict, device = min(
        cases, key=lambda c: (c[1].cause == UNKNOWN, c[1].confidence.rank, c[0].runs_again, c[0].pod.key)
    )
    pods = tuple(sorted({f.pod.key for f, _, _ in cases}))
    runs_again = all(f.runs_again for f, _, _ in cases)
    again = " It runs again at the moment." if runs_again else ""
    return Hit(
        subject=subject,
        cause=verdict.cause,
        title=f"{subject} ran out of GPU memory: {title_of(verdict)}",
        summary=f"{verdict.because} {MEANINGS[verdict.cause]} Host memory is not concerned.{again}",
        evidence=tuple(_evidence(failure, verdict, device, pods)),
        fix=fix_for(verdict, failure, snapshot),
        confidence=verdict.confidence if verdict.cause != UNKNOWN else Confidence.LOW,
        severity=Severity.WARNING if runs_again else None,
        gpus=sum(snapshot.pod_by_key[key].gpu_count for key in pods),
        nodes=tuple(sorted({f.pod.node for f, _, _ in cases if f.pod.node})),
        pods=pods,
    )


def _evidence(
    failure: Failure, verdict: Verdict, device: Device, pods: tuple[str, ...]
) -> Iterator[Evidence]:
    name, pod = failure.container.name, failure.pod
    run = "before its last restart" if verdict.signal and verdict.signal.previous else "of its last run"
    log = f"log of {pod.key}, container {name}, {run}"
    if verdict.signal is not None:
        yield Evidence("message", verdict.signal.line, source=log)
    if verdict.decided_by is not None:
        yield Evidence("decided by", verdict.decided_by.line, source=f"log of {pod.key}, container {name}")
    n = verdict.numbers
    if n is not None:
        guessed = " (the listed process that fits it)" if n.is_process_guessed else ""
        for label, amount in (
            ("asked for last", n.requested), ("GPU memory as the process sees it", n.total), ("free", n.free),
            ("live tensors", n.allocated), ("reserved, not used", n.unallocated), (f"this process{guessed}", n.process),
            ("others (computed)", n.used_by_others), ("cap of the process", n.allowed),
            ("CUDA graph pools", n.private_pools), ("missing at least (computed)", n.missing),
        ):  # fmt: skip
            if amount is not None:
                yield Evidence(label, gib(max(0.0, amount)), source=log)
    if device.mig_profile:
        yield Evidence(
            "MIG profile", device.mig_profile, source="device, resource name or listing in the log"
        )
    if device.nominal_bytes:
        yield Evidence(
            "memory of the whole card", gib(device.nominal_bytes), source="node label nvidia.com/gpu.memory"
        )
    if device.names:
        yield Evidence("GPU of the pod", listed(device.names), source="holders of the devices")
    if device.left_bytes is not None:
        source = "metrics of its GPU, sampled after the container had ended"
        yield Evidence("memory in use while the container is down", gib(device.left_bytes), source=source)
    if device.sharers:
        yield Evidence("also on this GPU", listed(device.sharers), source="holders of the device")
    yield from _runs(failure)
    yield Evidence(counted(len(pods), "pod"), listed(pods), source="pods of the owner with such a message")


def _runs(failure: Failure) -> Iterator[Evidence]:
    """How it ended and how often, and what its command says of sizes."""
    name, pod = failure.container.name, failure.pod
    if failure.ended is not None:
        code = failure.ended.exit_code
        yield Evidence(
            "ended",
            f"exit code {code}, {failure.ended_ago}",
            source=f"container status of {pod.key}/{name}",
        )
        yield from failure.run_evidence()
    yield Evidence(
        "restarts", str(failure.container.restarts), source=f"container status of {pod.key}/{name}"
    )
    if sizes := size_arguments(failure.container):
        yield Evidence(
            "sizes in its command", listed(sizes), source=f"{pod.key}: spec, command and args of {name}"
        )
