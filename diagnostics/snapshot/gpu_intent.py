"""Whether a pod means to use a GPU although it asks for none. Pure.

A program that needs a GPU and got none fails like a broken driver; what its owner meant stands in its image, its
environment, its runtime class and where it wants to run.
"""

import re
from collections.abc import Iterator

from diagnostics.snapshot.kubernetes import Container, Pod

NO_DEVICES = {"void", "none", ""}
"""Values of NVIDIA_VISIBLE_DEVICES that hide every GPU (nvidia-container-runtime: void, none and empty)."""
_GPU_IMAGE = re.compile(
    r"cuda|nvidia|nvcr\.io|pytorch|(?<![a-z])gpu|vllm|sglang|tritonserver|text-generation-inference|tensorrt|rapids"
    r"|(?<![a-z0-9])cu\d{3}(?!\d)"
)
_NOT_CUDA = re.compile(r"(?<![a-z])cpu(?![a-z])|rocm|xpu|habana|neuron|device-plugin|exporter")
_GPU_LABEL = re.compile(r"nvidia|gpu|accelerator", re.IGNORECASE)


def asks_for_gpu(pod: Pod, container: Container) -> bool:
    """It requests GPUs of a device plugin, or its pod brings claims (which claim is whose is not read)."""
    return bool(container.gpus) or bool(pod.resource_claims)


def means_gpu(pod: Pod) -> bool:
    """Anything in the pod's spec that only makes sense with a GPU."""
    return next(signs_of_gpu(pod), None) is not None


def signs_of_gpu(pod: Pod) -> Iterator[str]:
    """The signs, in words, the surest first."""
    if pod.gpus:
        yield "asks for a GPU"
    if "nvidia" in pod.runtime_class:
        yield "runtime class nvidia"
    for container in pod.containers:
        if container.env.get("NVIDIA_VISIBLE_DEVICES", "void").strip().lower() not in NO_DEVICES:
            yield f"NVIDIA_VISIBLE_DEVICES in container {container.name}"
        if is_gpu_image(container.image):
            yield f"image of container {container.name}"
    if selects_gpu_node(pod):
        yield "selects or tolerates GPU nodes"


def is_gpu_image(image: str) -> bool:
    """The image's name speaks of CUDA or of a GPU framework, and not of CPUs."""
    name = image.partition("@")[0].lower()
    return _GPU_IMAGE.search(name) is not None and _NOT_CUDA.search(name) is None


def selects_gpu_node(pod: Pod) -> bool:
    """Its node selector, required affinity or tolerations name GPU nodes; a toleration of everything does not."""
    if any(_GPU_LABEL.search(key) for key in pod.node_selector):
        return True
    node_affinity = pod.affinity.get("nodeAffinity")
    if isinstance(node_affinity, dict) and _GPU_LABEL.search(
        str(node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution", ""))
    ):
        return True
    return any(t.key and _GPU_LABEL.search(t.key) for t in pod.tolerations)
