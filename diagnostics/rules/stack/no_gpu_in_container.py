"""A container looks for a GPU and has none.

## Meaning
A container sees GPUs when it asks for them, the container runtime hands the driver's files to it, and nothing in its
environment hides them. Here one of the three is missing: nobody asked, another container of the pod asked, the runtime
or its class is not NVIDIA's, a device is named that is not there (any more), or a variable hides them.

## Impact
The program fails, or goes on without the GPU, many times slower, while a GPU that was asked for stands idle. Where the
runtime is missing no GPU pod starts on the node.

## Evidence
Messages in logs, container states and events: error 100, no driver found, libcuda or NVML not found, no such runtime or
runtime class, CDI devices that cannot be resolved. The spec: which container asks, runtime class, environment, image.

## Not reported
A program that notes the missing GPU and runs on the CPU, without having asked for one; components of the GPU Operator,
which have a rule of their own; new pods on nodes whose runtime is still being set up (`operator_failing_after`); pods
that the API server does not even make, which are pending GPU pods; pods that run although their class is gone since.

## References
https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/
https://kubernetes.io/docs/concepts/containers/runtime-class/
https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from diagnostics.findings import Confidence, Evidence, Hit, Severity, Subject
from diagnostics.limits import Limits
from diagnostics.operator_components import component_label
from diagnostics.rules.base import rule
from diagnostics.rules.stack.absent_gpu import (
    ABSENT,
    CDI,
    CLASS_MISSING,
    CPU_BUILD,
    DEVICE,
    GENERIC,
    HIDDEN,
    NOT_USED,
    RUNTIME,
    SOFT,
    WRONG_CONTAINER,
    Absence,
    absence_of,
    without_class,
)
from diagnostics.rules.stack.absent_gpu_fix import absent_gpu_fix
from diagnostics.rules.stack.heard import Heard, heard, is_in_trouble
from diagnostics.snapshot import Pod, Snapshot, Source
from diagnostics.snapshot.gpu_intent import asks_for_gpu, signs_of_gpu
from diagnostics.text import counted, listed, printable

_AT_START = {
    "runtime-handler-missing": RUNTIME,
    "cdi-device-unresolvable": CDI,
    "nvidia-device-unknown": DEVICE,
}


@rule(
    code="GPU206",
    slug="no-gpu-in-container",
    severity=Severity.CRITICAL,
    needs={Source.PODS},
    uses={Source.NODES, Source.LOGS, Source.EVENTS, Source.POLICY},
    caused_by=("operator-component-failing", "nvml-failing", "fatal-xid"),
    hold=1,
)
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Hit]:
    """One hit per root owner, or per node whose container runtime does not know NVIDIA's."""
    found: dict[Subject, list[tuple[Absence, Heard]]] = defaultdict(list)
    for one in heard(snapshot, limits, (*_AT_START, *ABSENT)):
        absence = _absence(snapshot, limits, one)
        if absence is None:
            continue
        subject = Subject.of_pod(one.pod)
        if absence.cause == RUNTIME and one.pod.node:
            node = snapshot.node_by_name.get(one.pod.node)
            subject = Subject.of_node(node) if node else Subject(kind="Node", name=one.pod.node)
        found[subject].append((absence, one))
    for subject, pairs in found.items():
        pairs.sort(key=lambda pair: (pair[0].confidence.rank, pair[1].name in SOFT, pair[1].pod.key))
        yield _hit(snapshot, subject, pairs)
    classless: dict[tuple[Subject, str], list[tuple[Pod, tuple[Evidence, ...]]]] = defaultdict(list)
    for pod, name, said in without_class(snapshot, limits):
        classless[Subject.of_pod(pod), name].append((pod, said))
    for (subject, name), those in classless.items():
        yield _classless(snapshot, subject, name, those)


def _absence(snapshot: Snapshot, limits: Limits, one: Heard) -> Absence | None:
    """What the message comes from; None where it is no fault, or another rule's."""
    if component_label(one.pod) is not None:
        return None
    values = limits.of(one.pod).values
    if one.name in _AT_START:
        age = snapshot.age(one.pod.started_at or one.pod.created_at)
        is_new = age is not None and age < values.operator_failing_after
        return None if is_new else Absence(_AT_START[one.name], Confidence.HIGH)
    if not asks_for_gpu(one.pod, one.container):
        if one.name == "torch-without-cuda" or not is_in_trouble(snapshot, values, one.container):
            return None
        if one.name in SOFT and _is_explained(snapshot, one):
            return None
    elif one.name == "cuda-driver-insufficient":
        return None  # with a GPU it is about the driver's version
    return absence_of(snapshot, one)


def _is_explained(snapshot: Snapshot, one: Heard) -> bool:
    """Something else stands in the log of a program that only notes that it has no GPU."""
    told = snapshot.signals_by_pod.get(one.pod.key, ())
    return any(s.signal not in ABSENT for s in told)


_TITLES = {
    RUNTIME: "its container runtime does not know NVIDIA's runtime",
    CDI: "the container runtime finds no CDI description of its GPU",
    DEVICE: "it is given a GPU that the node does not have any more",
    WRONG_CONTAINER: "another container of its pod asks for the GPU",
    GENERIC: "it looks for a GPU and has none",
    HIDDEN: "its environment hides the GPU that it was given",
    CPU_BUILD: "its framework was built without CUDA",
    NOT_USED: "it does not run under NVIDIA's container runtime",
}


def _hit(snapshot: Snapshot, subject: Subject, pairs: Sequence[tuple[Absence, Heard]]) -> Hit:
    absence, first = pairs[0]
    same = [one for other, one in pairs if other.cause == absence.cause]
    pods = tuple(sorted({one.pod.key for _, one in pairs}))
    touched = [snapshot.pod_by_key[key] for key in pods]
    where = f"Node {subject.name}" if subject.kind == "Node" else str(subject)
    gpus = len(snapshot.gpus_by_node.get(subject.name, ())) if subject.kind == "Node" else 0
    runs_on = first.container.state == "running" and first.container.is_ready
    return Hit(
        subject=subject,
        cause=absence.cause,
        title=f"{where}: {_TITLES[absence.cause]}",
        summary=_summary(absence, first),
        evidence=tuple(_evidence(same, absence, pods)),
        confidence=absence.confidence,
        severity=Severity.WARNING if runs_on or absence.confidence is Confidence.LOW else None,
        fix=absent_gpu_fix(absence, first.pod, first.container),
        gpus=gpus or sum(p.gpu_count for p in touched),
        nodes=tuple(sorted({p.node for p in touched if p.node})),
        pods=pods,
    )


_SUMMARIES = {
    RUNTIME: "The runtime class of its GPU pods names a handler that the node's container runtime does not have, so "
    "that no sandbox can be made: the container toolkit has not set it up there, or its change was undone.",
    CDI: "{box} cannot be started: the GPU that was allocated is not described in the node's CDI files, which are "
    "missing, or older than the node's present GPUs or MIG layout.",
    DEVICE: "{box} cannot be started: it was allocated a GPU or MIG instance whose id is no longer on the node, as "
    "after a change of the board or of the MIG layout behind the device plugin's back.",
    WRONG_CONTAINER: "{box} uses CUDA, but {detail} asks for the GPU: devices go to the container that asks.",
    HIDDEN: "{box} was given a GPU, and {detail} hides it from the program.",
    CPU_BUILD: "{box} was given a GPU, and the PyTorch in its image is a build for CPUs.",
    NOT_USED: "{box} was given a GPU, but the driver's files are not in it: the plain runtime started it. {detail}",
}


def _summary(absence: Absence, first: Heard) -> str:
    box = f"Container {first.container.name}"
    if absence.cause in _SUMMARIES:
        text = _SUMMARIES[absence.cause]
        return text.replace("{box}", box).replace("{detail}", absence.detail)
    if asks_for_gpu(first.pod, first.container):
        return f"{box} was given a GPU, and yet CUDA finds none in it. {absence.detail}".strip()
    return (
        f"{box} uses CUDA and asks for no GPU, so that it gets none. That libcuda loads means nothing: images bring a "
        "compatibility copy. There is no driver version to compare with here."
    )


def _evidence(same: Sequence[Heard], absence: Absence, pods: Sequence[str]) -> Iterator[Evidence]:
    for one in {one.signal.line: one for one in same[:4]}.values():
        yield one.evidence
    first = same[0]
    pod, box = first.pod, first.container
    asked = ", ".join(f"{name} {amount:.0f}" for name, amount in sorted(box.gpus.items())) or "none"
    yield Evidence("GPUs that the container asks for", asked, source=f"{pod.key}: spec, container {box.name}")
    others = [c.name for c in pod.containers if c.gpus and c.name != box.name]
    if others:
        yield Evidence("Containers that ask for one", listed(others), source=f"{pod.key}: spec")
    if pod.resource_claims:
        yield Evidence(
            "Resource claims of the pod", listed(list(pod.resource_claims)), source=f"{pod.key}: spec"
        )
    yield Evidence(
        "Runtime class", printable(pod.runtime_class, 80) or "none", source="spec.runtimeClassName"
    )
    for name in ("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
        if name in box.env:
            yield Evidence(
                name, printable(box.env[name], 80) or "(empty)", source="the container's environment"
            )
    if not box.gpus and (signs := list(signs_of_gpu(pod))):
        yield Evidence("It means to use a GPU", listed(signs), source=f"{pod.key}: spec")
    for fact in absence.facts:
        yield Evidence("Beside it", fact, source="pods of the node, runtime classes")
    yield Evidence(counted(len(pods), "pod"), listed(list(pods)), source="pods that said so")


def _classless(
    snapshot: Snapshot, subject: Subject, name: str, those: Sequence[tuple[Pod, tuple[Evidence, ...]]]
) -> Hit:
    pods = [pod for pod, _ in those]
    keys = [printable(pod.key, 160) for pod in pods]
    said = dict.fromkeys(fact for _, facts in those[:4] for fact in facts)
    return Hit(
        subject=subject,
        cause=CLASS_MISSING,
        title=f"{printable(str(subject), 200)}: its pods name a runtime class that does not exist",
        summary=f"{counted(len(pods), 'pod')} with a node cannot be started: there is no RuntimeClass "
        f"{printable(name, 80)} in the cluster, so that the kubelet knows no handler for them. The GPU Operator makes "
        "it, or whoever set the runtime up by hand. They hold their GPUs meanwhile.",
        evidence=(
            Evidence("Runtime class", printable(name, 80), source="spec.runtimeClassName"),
            *said,
            *_classes(snapshot),
            Evidence(counted(len(keys), "pod"), listed(keys), source="pods that name it and do not start"),
        ),
        fix=absent_gpu_fix(Absence(CLASS_MISSING, Confidence.HIGH, name), pods[0], None),
        gpus=sum(pod.gpu_count for pod in pods),
        nodes=tuple(sorted({pod.node for pod in pods if pod.node})),
        pods=tuple(pod.key for pod in pods),
    )


def _classes(snapshot: Snapshot) -> Iterator[Evidence]:
    classes = snapshot.policy.runtime_classes
    if classes is not None:
        names = listed(sorted(c.name for c in classes), 8)
        yield Evidence("Runtime classes of the cluster", names, source="runtimeclasses")
