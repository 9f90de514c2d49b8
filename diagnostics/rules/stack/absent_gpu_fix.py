"""Guided fixes for a container without its GPU: each cause of GPU206 has its own repair."""

from diagnostics.fixes import Fix, Risk, Step, StepKind, in_order, kubectl, manifests, steps
from diagnostics.rules.stack.absent_gpu import (
    CDI,
    DEVICE,
    NOT_USED,
    RUNTIME,
    WRONG_CONTAINER,
    Absence,
)
from diagnostics.rules.stack.container_patch import change
from diagnostics.snapshot import Container, Pod
from diagnostics.text import printable

_RESOURCE = "nvidia.com/gpu"
_PLUGIN = "nvidia-device-plugin-daemonset"


def absent_gpu_fix(absence: Absence, pod: Pod, container: Container | None) -> Fix:
    """`container` of `pod` says so; None where the pod's runtime class is missing, so that none was started."""
    looks, node = _looks(absence, pod, container), pod.node
    repairs = [_make_class(absence)] if container is None else _repairs(absence, pod, container)
    return Fix(
        summary=repairs[0].title,
        steps=in_order(
            *looks,
            *repairs,
            steps.verify_finding_gone("The container starts and CUDA finds its GPU."),
            steps.escalate(
                "the platform team",
                why=f"The runtime of {printable(node or '', 80)} is set up by the node's image or the GPU Operator."
                if node
                else "Runtime classes are made by the GPU Operator or by the platform team.",
                expect="A small test pod with one GPU lists it with nvidia-smi on that node.",
            ),
        ),
    )


def _looks(absence: Absence, pod: Pod, container: Container | None) -> list[Step]:
    classes = steps.look(
        title="See which runtime classes there are, and their handlers",
        why="A runtime class names the handler that the node's container runtime has to know.",
        command=kubectl.kubectl("get", "runtimeclasses"),
        expect="A class for NVIDIA's runtime, `nvidia` as a rule.",
    )
    if container is None:
        return [steps.describe_pod(pod), classes]
    looks = [steps.describe_pod(pod)]
    if absence.cause in {RUNTIME, NOT_USED}:
        looks.append(classes)
    if absence.cause in {RUNTIME, CDI, DEVICE} and pod.node:
        looks.append(steps.see_operator_pods_on_node(pod.node))
    if container.last_terminated is not None or container.state in {"running", "terminated"}:
        looks.append(
            steps.read_log(
                pod,
                container.name,
                previous=container.terminated is None and container.last_terminated is not None,
                expect="What it looked for, and did not find.",
            )
        )
    return looks


def _step(title: str, why: str, expect: str, command: str = "", risk: Risk = Risk.DISRUPTIVE) -> Step:
    return Step(kind=StepKind.FIX, title=title, why=why, risk=risk, expect=expect, command=command)


def _repairs(absence: Absence, pod: Pod, container: Container) -> list[Step]:
    node = printable(pod.node or "", 80)
    match absence.cause:
        case "no-nvidia-runtime-configured":
            return [
                _step(
                    f"Have the container toolkit set up the runtime of node {node}",
                    "The toolkit's pod on the node writes the runtime's configuration and restarts it when it starts; "
                    "without the operator `nvidia-ctk runtime configure` does. While the runtime restarts, running "
                    "containers go on, and pods of the node cannot be started for some seconds.",
                    "The container runtime's configuration names the handler.",
                    _restart_toolkit(pod),
                )
            ]
        case "cdi-spec-missing-or-stale" | "gpu-id-stale":
            return _fresh_devices(absence, pod, node)
        case "visible-devices-hide-gpu":
            return [
                _step(
                    f"Take {absence.detail.partition('=')[0]} out of container {printable(container.name, 80)}",
                    "The device plugin sets what a container sees; a value in the manifest or in the image overrides "
                    "it. The pods start anew.",
                    "CUDA finds the GPU that was allocated.",
                )
            ]
        case "framework-without-cuda":
            return [
                _step(
                    "Use an image whose PyTorch is built for CUDA",
                    "The wheel in this image is the CPU build: take it from the index of the CUDA version, or an "
                    "image that has it. The pods start anew.",
                    "`python -c 'import torch; print(torch.version.cuda)'` in a test of the image prints a version.",
                )
            ]
        case "nvidia-runtime-not-used":
            return [_name_class(absence, pod)]
    if container.gpus:
        return [
            _step(
                "Find what keeps the GPU from this container",
                "It asks for a GPU and the runtime starts it without: the runtime class, NVIDIA's runtime as the "
                "node's default, or CDI hands the driver in; on GKE the libraries are under /usr/local/nvidia and "
                "LD_LIBRARY_PATH has to name them. A GPU that fell off the bus is seen in the kernel log.",
                "nvidia-smi in a small test pod with one GPU on the same node lists it.",
            )
        ]
    return _ask(absence, pod, container)


def _ask(absence: Absence, pod: Pod, container: Container) -> list[Step]:
    resource = next((name for c in pod.containers for name in c.gpus), _RESOURCE)
    title = f"Ask for the GPU in container {printable(container.name, 80)}"
    why = "Only a container that asks for a GPU gets one; the scheduler then finds a node that has it free."
    if absence.cause == WRONG_CONTAINER:
        title += f", not in {absence.detail}"
        why = f"Devices go to the container that asks. Take the request out of {absence.detail} if it needs none."
    repairs = [
        change(
            pod,
            container,
            {"resources": {"limits": {resource: "1"}}},
            title=title,
            why=why,
            expect="The container sees the GPU.",
        )
    ]
    if absence.cause != WRONG_CONTAINER:
        repairs.append(
            _step(
                "Or run it as what it is: a CPU program",
                "Where it needs no GPU, an image and a configuration for CPUs end the search for one.",
                "It starts without looking for CUDA.",
            )
        )
    return repairs


def _fresh_devices(absence: Absence, pod: Pod, node: str) -> list[Step]:
    again = _step(
        f"Then start pod {printable(pod.name, 80)} anew",
        "Its allocation names the old device and is kept for as long as the pod lives.",
        "It is allocated a device that is there.",
        kubectl.delete_pod(pod.name, pod.namespace),
    )
    if not pod.node:
        return [again]
    what = "its CDI files" if absence.cause == CDI else "its list of devices"
    return [
        steps.restart_pod_on_node(
            _PLUGIN,
            pod.node,
            why=f"When it starts, the plugin reads the GPUs of node {node} again and renews {what}. While it "
            "restarts, this node offers no GPU and new pods on it are refused.",
        ),
        again,
    ]


def _restart_toolkit(pod: Pod) -> str:
    if not pod.node:
        return ""
    return kubectl.kubectl(
        "delete", "pod", "-n", steps.OPERATOR_NAMESPACE, "-l", "app=nvidia-container-toolkit-daemonset",
        "--field-selector", f"spec.nodeName={pod.node}",
    )  # fmt: skip


def _name_class(absence: Absence, pod: Pod) -> Step:
    owner = pod.root
    patchable = owner is not None and owner.kind in {"Deployment", "StatefulSet", "DaemonSet"}
    command = ""
    if owner is not None and patchable:
        body = '{"spec":{"template":{"spec":{"runtimeClassName":"nvidia"}}}}'
        command = kubectl.patch(owner.kind.lower(), owner.name, owner.namespace, body)
    return _step(
        "Name NVIDIA's runtime class in the pod: `runtimeClassName: nvidia`",
        "Or make it the default runtime of the GPU nodes, or turn CDI on in the GPU Operator: then no pod has to name "
        "it. The pods start anew.",
        "The driver's files are in the container.",
        command,
    )


def _make_class(absence: Absence) -> Step:
    name = absence.detail
    return Step(
        kind=StepKind.FIX,
        title=f"Have RuntimeClass {printable(name, 80)} made, or take its name out of the pods",
        why="The GPU Operator makes the class `nvidia` when it is installed. Where CDI or the default runtime hands "
        "the driver in, pods need no class. Made by hand, its handler has to be one that the nodes' runtime knows.",
        risk=Risk.SAFE,
        manifest=_manifest(name),
        expect="The kubelet starts the pods at its next try.",
    )


def _manifest(name: str) -> str:
    document = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": name},
        "handler": name,
    }
    return manifests.to_yaml(document)
