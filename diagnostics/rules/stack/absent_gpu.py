"""Why a container that looks for a GPU has none: what its spec and its neighbours tell. Pure."""

from collections.abc import Iterator

import msgspec

from diagnostics.findings import Confidence, Evidence, Subject
from diagnostics.limits import Limits
from diagnostics.rules.stack.heard import Heard, signals_of
from diagnostics.snapshot import Container, OwnerKey, Pod, Snapshot
from diagnostics.snapshot.gpu_intent import NO_DEVICES, asks_for_gpu, selects_gpu_node
from diagnostics.text import printable

RUNTIME, CDI, DEVICE = "no-nvidia-runtime-configured", "cdi-spec-missing-or-stale", "gpu-id-stale"
CLASS_MISSING = "runtime-class-missing"
GENERIC, WRONG_CONTAINER = "no-gpu-in-container", "wrong-container-requests-gpu"
HIDDEN, CPU_BUILD, NOT_USED = "visible-devices-hide-gpu", "framework-without-cuda", "nvidia-runtime-not-used"

SOFT = {"no-nvidia-driver", "cuda-no-device"}
"""Some programs only note these, and go on with the CPU."""
_NO_LIBRARY = {"no-nvidia-driver", "nvml-library-not-found", "nvidia-smi-not-injected"}
"""The driver's files are not in the container at all."""
ABSENT = ("nvidia-smi-not-injected", "nvml-library-not-found", "no-nvidia-driver", "cuda-no-device",
          "torch-without-cuda", "cuda-driver-insufficient")  # fmt: skip
_HIDING = {"", "-1", "none", "void", "nodevfiles"}


class Absence(msgspec.Struct, frozen=True):
    """A cause with what is said about it."""

    cause: str
    confidence: Confidence
    detail: str = ""
    facts: tuple[str, ...] = ()


def absence_of(snapshot: Snapshot, one: Heard) -> Absence:
    """The cause of a message that names an absent GPU or driver."""
    pod, box = one.pod, one.container
    if not asks_for_gpu(pod, box):
        return _not_asked(one)
    if one.name == "torch-without-cuda":
        return Absence(CPU_BUILD, Confidence.HIGH)
    hiding = _hiding_variable(box)
    if hiding:
        return Absence(HIDDEN, Confidence.HIGH, hiding)
    if one.name in _NO_LIBRARY and not pod.runtime_class:
        users = _with_runtime_class(snapshot, pod)
        known = [
            c.name
            for c in snapshot.policy.runtime_classes or ()
            if "nvidia" in f"{c.name} {c.handler}".lower()
        ]
        if users:
            fact = f"{users[0]} on the same node has a runtime class and works"
            detail = "Others on the node name a runtime class; this one names none, and NVIDIA's is not the default."
            return Absence(NOT_USED, Confidence.HIGH, detail, (fact,))
        if known:
            detail = f"There is a RuntimeClass {printable(known[0], 60)}, which the pod does not name."
            return Absence(NOT_USED, Confidence.MEDIUM, detail, (f"RuntimeClass {known[0]}",))
    detail = (
        "The driver's files are not in it: the container runtime does not hand them in."
        if one.name in _NO_LIBRARY
        else "The device may be gone, or its files are not open to the container."
    )
    return Absence(GENERIC, Confidence.MEDIUM, detail)


def _not_asked(one: Heard) -> Absence:
    others = [c.name for c in one.pod.containers if c.gpus]
    if others:
        named = f"container {printable(others[0], 80)}"
        return Absence(WRONG_CONTAINER, Confidence.HIGH, named)
    is_meant = bool(one.pod.runtime_class) or selects_gpu_node(one.pod)
    is_sure = is_meant or one.name not in SOFT or "RuntimeError" in one.signal.line
    return Absence(GENERIC, Confidence.HIGH if is_sure else Confidence.LOW)


def _hiding_variable(box: Container) -> str:
    """The variable that hides every GPU from the program; values from elsewhere are unknown."""
    for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"):
        value = box.env.get(name)
        hiding = NO_DEVICES if name.startswith("NVIDIA") else _HIDING
        if value is not None and value.strip().lower() in hiding:
            return f"{name}={value.strip() or '(empty)'}"
    return ""


def _with_runtime_class(snapshot: Snapshot, pod: Pod) -> list[str]:
    """Ready GPU pods of the same node that name a runtime class."""
    here = snapshot.pods_by_node.get(pod.node or "", ())
    return [p.key for p in here if p.key != pod.key and p.gpus and p.is_ready and "nvidia" in p.runtime_class]


def refused_owners(snapshot: Snapshot, limits: Limits) -> Iterator[tuple[Subject, Evidence, str]]:
    """Controllers whose pods were refused for a runtime class that is not there: subject, evidence and its name."""
    seen: set[Subject] = set()
    names = {c.name for c in snapshot.policy.runtime_classes or ()}
    for (kind, namespace, owner), events in snapshot.events_by_object.items():
        if kind == "Pod":
            continue
        for event in reversed(events):
            if event.reason != "FailedCreate" or "RuntimeClass" not in event.message:
                continue
            signals = signals_of(event.message, Pod(namespace=namespace, name=owner), Container(name=""))
            name = next((s.words["name"] for s in signals if s.signal == "runtime-class-missing"), "")
            subject = _controller(snapshot, kind, namespace, owner)
            age = snapshot.age(event.last_at)
            is_old = age is not None and age > limits.of(subject).values.cuda_error_recent
            if not name or name in names or is_old or subject in seen:
                continue
            seen.add(subject)
            source = f"event FailedCreate of {kind} {namespace}/{owner}"
            yield subject, Evidence("It was told", printable(event.message, 400), source=source), name


def _controller(snapshot: Snapshot, kind: str, namespace: str, name: str) -> Subject:
    """The top of the owner chain of the controller that could not make pods."""
    workload = snapshot.workload_by_key.get((kind, namespace, name))
    for _ in range(5):
        if workload is None or not workload.owners:
            break
        above = workload.owners[0]
        found = snapshot.workload_by_key.get((above.kind, above.namespace or namespace, above.name))
        if found is None:
            return Subject.of_owner(above)
        workload = found
    if workload is None:
        return Subject.of_owner(OwnerKey(kind, namespace, name))
    return Subject.of_owner(workload.key)
