"""A pod can use the GPUs of its node without having asked for any.

## Meaning
Kubernetes gives GPUs to containers that ask. Images built on NVIDIA's set NVIDIA_VISIBLE_DEVICES=all, and where
NVIDIA's runtime is the default it obeys: such a container sees every GPU of the node. Privileged containers, and those
that mount the devices from the host, see them in any case.

## Impact
It can take memory and time of GPUs that were given to others, whose programs then run out of memory or slow down for no
visible reason. No quota, no metric and no bill names it, because the scheduler knows nothing of it.

## Evidence
Containers that run on a GPU node without a request: their environment, image, privileges and mounted devices; where the
pod wants to run. GPUs of the node that nobody holds and that have memory in use or work all the same.

## Not reported
Components of the GPU Operator, DaemonSets and system namespaces, which watch the GPUs on purpose; containers with
`utility` as their only driver capability; NVIDIA_VISIBLE_DEVICES=void or none; privileged pods without a sign that they
mean the GPU; a CUDA image alone, without a sign that it means to run on a GPU node; nodes without GPUs.

## References
https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html
https://github.com/NVIDIA/k8s-device-plugin/blob/main/README.md
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from diagnostics.findings import Confidence, Evidence, Hit, Severity, Subject
from diagnostics.fixes import Fix, Risk, Step, StepKind, in_order, steps
from diagnostics.limits import Limits
from diagnostics.operator_components import component_label
from diagnostics.quantities import gib
from diagnostics.rules.base import rule
from diagnostics.rules.stack.container_patch import change, set_env
from diagnostics.rules.stack.heard import is_in_trouble
from diagnostics.snapshot import Container, Gpu, Pod, Snapshot, Source, Volume, gpu_resources
from diagnostics.snapshot.gpu_intent import NO_DEVICES, is_gpu_image, selects_gpu_node
from diagnostics.states import FRESH_FOR
from diagnostics.text import counted, listed, printable

VISIBLE = "unrequested-gpu-access-via-visible-devices"
PRIVILEGED, MOUNTED = "unrequested-gpu-access-via-privileged", "unrequested-gpu-access-via-host-devices"
_SYSTEM = re.compile(
    r"^(?:kube-system|kube-public|kube-node-lease|gpu-operator|nvidia-.+|openshift-.+|.*-system|monitoring)$"
)
_BASED_ON_NVIDIA = re.compile(
    r"(?:^|/)nvidia/|(?:^|/)pytorch/pytorch|tensorflow/tensorflow:.*gpu|vllm/vllm-openai"
)
"""Images whose base sets NVIDIA_VISIBLE_DEVICES=all."""
_IN_USE_RATIO = 0.05


@rule(
    code="GPU210",
    slug="gpu-used-unrequested",
    severity=Severity.WARNING,
    needs={Source.NODES, Source.PODS},
    uses={Source.METRICS},
)
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Hit]:
    """One hit per root owner with pods that see GPUs they did not ask for."""
    found: dict[Subject, list[tuple[Pod, Container, str, str]]] = defaultdict(list)
    for node in snapshot.nodes:
        if not gpu_resources({**node.capacity, **node.allocatable}):
            continue
        for pod in snapshot.pods_by_node.get(node.name, ()):
            if _is_meant_to_see_gpus(pod) or pod.phase != "Running":
                continue
            for container in pod.containers:
                way = _beyond(snapshot, limits, pod, container) if container.gpus else _way(pod, container)
                if way is not None and _runs_well(snapshot, limits, pod, container):
                    found[Subject.of_pod(pod)].append((pod, container, *way))
    for subject, ways in found.items():
        yield _hit(snapshot, limits, subject, ways)


def _runs_well(snapshot: Snapshot, limits: Limits, pod: Pod, container: Container) -> bool:
    """One that fails may fail for want of a GPU."""
    return container.state == "running" and not is_in_trouble(snapshot, limits.of(pod).values, container)


def _is_meant_to_see_gpus(pod: Pod) -> bool:
    """It is part of the cluster's own machinery, or was given devices by claims."""
    is_machinery = component_label(pod) is not None or _SYSTEM.match(pod.namespace) is not None
    is_daemon = any(o.kind in {"DaemonSet", "Node"} for o in pod.owners) or (
        pod.root is not None and pod.root.kind == "DaemonSet"
    )
    return is_machinery or is_daemon or bool(pod.resource_claims)


def _way(pod: Pod, container: Container) -> tuple[str, str] | None:
    """(cause, in words) how the container comes to see GPUs; None where nothing shows that it does."""
    if container.env.get("NVIDIA_DRIVER_CAPABILITIES", "").strip() == "utility":
        return None
    devices = container.env.get("NVIDIA_VISIBLE_DEVICES")
    is_hidden = devices is not None and devices.strip().lower() in NO_DEVICES
    if devices is not None and not is_hidden and not devices.startswith("from "):
        return VISIBLE, f"NVIDIA_VISIBLE_DEVICES={printable(devices, 60)} in its environment"
    mounted = sorted(v.path for v in pod.volumes if v.name in container.mounts.values() and _is_device(v))
    if mounted:
        return MOUNTED, f"mounts {printable(mounted[0], 80)} of the node"
    if pod.gpus:
        return None  # another container of the pod asks, and gets its own devices
    if container.is_privileged and is_gpu_image(container.image):
        return PRIVILEGED, "privileged, with an image for GPUs"
    return None if is_hidden else _by_image(pod, container)


def _beyond(snapshot: Snapshot, limits: Limits, pod: Pod, container: Container) -> tuple[str, str] | None:
    """It asks for some GPUs and its variable shows it all: counts where one that nobody holds is in use there.

    Many manifests set the variable beside a request without any harm.
    """
    if container.env.get("NVIDIA_VISIBLE_DEVICES", "").strip().lower() != "all":
        return None
    here = snapshot.gpus_by_node.get(pod.node or "", ())
    resident = limits.of(pod).values.idle_memory_resident_bytes
    if not any(_is_used(snapshot, gpu, resident) for gpu in here):
        return None
    return (
        VISIBLE,
        "NVIDIA_VISIBLE_DEVICES=all in its environment, which overrides the GPUs that it was given",
    )


def _is_device(volume: Volume) -> bool:
    return volume.kind == "hostPath" and volume.path.startswith("/dev/nvidia")


def _by_image(pod: Pod, container: Container) -> tuple[str, str] | None:
    """Its image sets the variable; that it means the GPUs of its node, the pod has to show."""
    if not _BASED_ON_NVIDIA.search(container.image.lower()):
        return None
    if "nvidia" in pod.runtime_class:
        name = printable(pod.runtime_class, 60)
        return VISIBLE, f"runtime class {name}, and an image that sets NVIDIA_VISIBLE_DEVICES=all"
    if selects_gpu_node(pod):
        return VISIBLE, "an image that sets NVIDIA_VISIBLE_DEVICES=all, on nodes with GPUs"
    return None


def _hit(
    snapshot: Snapshot, limits: Limits, subject: Subject, ways: Sequence[tuple[Pod, Container, str, str]]
) -> Hit:
    pod, container, cause, how = ways[0]
    pods = tuple(sorted({p.key for p, _, _, _ in ways}))
    nodes = tuple(sorted({p.node for p, _, _, _ in ways if p.node}))
    resident = limits.of(subject).values.idle_memory_resident_bytes
    used = [
        g for name in nodes for g in snapshot.gpus_by_node.get(name, ()) if _is_used(snapshot, g, resident)
    ]
    visible = sum(len(snapshot.gpus_by_node.get(name, ())) for name in nodes)
    by_nobody = (
        f" {counted(len(used), 'GPU')} of its node that nobody holds {'is' if len(used) == 1 else 'are'} in use."
        if used
        else ""
    )
    evidence = [
        Evidence("How it sees GPUs", how, source=f"{pod.key}: spec, container {container.name}"),
        Evidence(
            "GPUs that the container asks for",
            f"{sum(container.gpus.values()):.0f}" if container.gpus else "none",
            source=f"{pod.key}: spec",
        ),
        Evidence("Image", printable(container.image, 200), source=f"{pod.key}: spec"),
        Evidence("Runtime class", printable(pod.runtime_class, 60) or "none", source="spec.runtimeClassName"),
        Evidence("GPUs of its nodes", str(visible), "GPUs", "devices of the nodes"),
        *(
            Evidence(
                f"GPU {gpu.index if gpu.index is not None else gpu.slot} of {gpu.node}, held by nobody",
                gib(gpu.metrics.memory_used_bytes if gpu.metrics else None),
                "in use",
                "GPU metrics",
            )
            for gpu in used[:8]
        ),
        Evidence(counted(len(pods), "pod"), listed(list(pods)), source="pods that see GPUs unasked"),
    ]
    explicit = cause != VISIBLE or "in its environment" in how or bool(pod.runtime_class)
    return Hit(
        subject=subject,
        cause=cause,
        title=f"{subject}: it can use GPUs that it did not ask for",
        summary=f"Container {container.name} sees GPUs of its node that it did not ask for ({how}). What it uses is "
        f"taken from whoever was given these GPUs, and no number names it.{by_nobody}",
        evidence=tuple(evidence),
        confidence=Confidence.HIGH if used and explicit else Confidence.MEDIUM,
        gpus=len(used) or visible,
        nodes=nodes,
        pods=pods,
        fix=_fix(pod, container, cause),
    )


def _is_used(snapshot: Snapshot, gpu: Gpu, resident_bytes: float) -> bool:
    """Nobody holds it, and a fresh sample shows memory in use or work."""
    sample = gpu.metrics
    age = snapshot.age(sample.sampled_at) if sample else None
    if gpu.holders or sample is None or age is None or age > FRESH_FOR:
        return False
    busy = sample.utilization_ratio is not None and sample.utilization_ratio >= _IN_USE_RATIO
    return busy or (sample.memory_used_bytes or 0.0) > resident_bytes


def _fix(pod: Pod, container: Container, cause: str) -> Fix:
    looks = [steps.describe_pod(pod)]
    if pod.node:
        looks.append(steps.see_pods_on_node(pod.node))
    ask = change(
        pod,
        container,
        {"resources": {"limits": {"nvidia.com/gpu": "1"}}},
        title="If it needs a GPU, ask for one",
        why="It then gets a GPU of its own, and is counted.",
        expect="The pod is given a GPU, or waits until one is free.",
    )
    if cause == VISIBLE:
        take = set_env(
            pod,
            container,
            "NVIDIA_VISIBLE_DEVICES",
            "void",
            title="If it needs none, hide them: NVIDIA_VISIBLE_DEVICES=void",
            why="It overrides what the image sets.",
            expect="The container has no GPU device.",
        )
    else:
        take = Step(
            kind=StepKind.FIX,
            title="If it needs none, take the privilege or the mounted devices away",
            why="Both show a container every device of the node. The pods start anew.",
            risk=Risk.DISRUPTIVE,
            expect="The container has no GPU device.",
        )
    close = Step(
        kind=StepKind.FIX,
        title="Then close the way for everybody",
        why="In the container toolkit's configuration `accept-nvidia-visible-devices-envvar-when-unprivileged = "
        "false` and `accept-nvidia-visible-devices-as-volume-mounts = true` and the device plugin's strategy "
        "`volume-mounts`; or CDI without NVIDIA's runtime as the default. It restarts the container runtime of the "
        "nodes, one by one.",
        risk=Risk.DISRUPTIVE,
        expect="A pod without a request no longer lists a GPU.",
    )
    return Fix(
        summary="Ask for the GPU, or hide it",
        steps=in_order(
            *looks,
            ask,
            take,
            close,
            steps.verify_finding_gone("The pod asks for its GPU, or sees none any more."),
            steps.escalate(
                "the owner of the workload",
                why="They know whether it needs a GPU.",
                expect="A request for a GPU, or an image without CUDA.",
            ),
        ),
    )
