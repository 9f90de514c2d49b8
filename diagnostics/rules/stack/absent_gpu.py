"""Why a container that looks for a GPU has none: what its spec and its neighbours tell. Pure."""

from collections.abc import Iterator

import msgspec

from diagnostics.findings import Confidence, Evidence
from diagnostics.limits import Limits
from diagnostics.operator_components import component_label
from diagnostics.rules.stack.heard import Heard, signals_of
from diagnostics.snapshot import Container, Pod, Snapshot
from diagnostics.snapshot.gpu_intent import NO_DEVICES, asks_for_gpu, means_gpu, selects_gpu_node
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


def without_class(snapshot: Snapshot, limits: Limits) -> Iterator[tuple[Pod, str, tuple[Evidence, ...]]]:
    """Pods that mean to use a GPU, have a node, and name a runtime class that does not exist: the pod, the name and
    what says so.

    The list of classes, or the kubelet's words where it could not be read. Pods that run are left alone: they
    were started while there was such a class. Those that the API server refuses exist nowhere: GPU303 tells of them.
    """
    classes = snapshot.policy.runtime_classes
    names = None if classes is None else {one.name for one in classes}
    for pod in snapshot.pods:
        name = pod.runtime_class
        is_waiting = pod.node is not None and pod.phase == "Pending" and pod.deletion_at is None
        if not name or not is_waiting or not means_gpu(pod) or (names is not None and name in names):
            continue
        age = snapshot.age(pod.started_at or pod.created_at)
        if age is None or age < limits.of(pod).values.operator_failing_after or component_label(pod):
            continue
        said = tuple(_said_of_class(snapshot, pod))
        if names is not None or said:
            yield pod, name, said


def _said_of_class(snapshot: Snapshot, pod: Pod) -> Iterator[Evidence]:
    """The newest warning about the pod that says that its class is not there."""
    for event in reversed(snapshot.events_by_object.get(("Pod", pod.namespace, pod.name), ())):
        told = signals_of(event.message, pod, Container(name=""))
        if any(one.signal == CLASS_MISSING for one in told):
            source = f"event {event.reason} of pod {pod.key}"
            yield Evidence("It was told", printable(event.message, 400), source=source)
            return
