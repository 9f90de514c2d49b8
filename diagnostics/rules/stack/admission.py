"""Whether and why a kubelet refused a pod: the reason and message of its status, read. Pure.

Messages: kubernetes/kubernetes pkg/kubelet/cm/devicemanager, pkg/kubelet/lifecycle; NVIDIA/k8s-device-plugin.
"""

import re
from dataclasses import dataclass
from datetime import datetime

from diagnostics.snapshot import GPU_RESOURCE_PREFIXES, Pod

UNEXPECTED = "UnexpectedAdmissionError"
_TOPOLOGY = "TopologyAffinityError"
_OUT_OF = re.compile(r"OutOf(?P<resource>[\w.-]+/[\w.-]+)")


@dataclass(frozen=True)
class Refusal:
    """What a kubelet's refusal says of itself."""

    cause: str
    """Empty where the message names no cause of its own."""
    words: str
    message: str
    says_plugin_away: bool = False
    """The kubelet knew of no such device, or of no healthy one, at that moment."""


_KNOWN: tuple[tuple[str, str, str], ...] = (
    (
        r"maximum request size for shared resources is \d+|request for \S{1,60} ?\d* ?\S? ?too large",
        "shared-replica-request-gt-1",
        "The node's GPUs are shared, and its device plugin hands out one share per container: more shares would be "
        "no more of a GPU.",
    ),
    (
        r"GPU is lost|ERROR_GPU_IS_LOST",
        "lost-gpu-blocks-allocation",
        "One GPU of the node is lost, and the device plugin cannot hand out the others while it is among them.",
    ),
    (
        r"error calling nvml\.Init|nvml init failed|[Ff]ailed to initialize NVML",
        "device-plugin-lost-driver",
        "The device plugin has lost its way to the driver and refuses every request until it is restarted.",
    ),
    (
        r"previously allocated devices are no longer healthy",
        "allocated-device-unhealthy",
        "The device that the container had is marked unhealthy, so that it cannot have it again.",
    ),
    (
        r"invalid allocation request for '?\S{1,60}'?: ?unknown device|unknown device: \S{1,80}",
        "device-unknown-to-plugin",
        "The kubelet asked for a device that the plugin no longer has, as after a change of the MIG layout.",
    ),
)
_COMPILED = tuple((re.compile(pattern), cause, words) for pattern, cause, words in _KNOWN)
_AWAY = re.compile(
    r"no healthy devices present|cannot allocate unregistered device|Available: 0\b|unavailable for \S+\. Requested"
    r"|endpoint \S* ?(?:not found|stopped)|has no endpoint"
)


def refusal_of(pod: Pod) -> Refusal | None:
    """The refusal of a pod that asks for GPUs; None for any other pod, and for one refused for another resource."""
    if pod.phase != "Failed" or not pod.gpus:
        return None
    out_of = _OUT_OF.fullmatch(pod.reason)
    if pod.reason == _TOPOLOGY:
        words = (
            "Its CPUs, memory and GPUs cannot be had from one NUMA node as the kubelet's topology policy asks, which "
            "the scheduler does not know of."
        )
        return Refusal("topology-not-aligned", words, pod.message)
    if out_of is not None:
        if not out_of["resource"].startswith(GPU_RESOURCE_PREFIXES):
            return None
        away = re.search(r"capacity: 0\b", pod.message) is not None
        return Refusal("", "", pod.message, says_plugin_away=away)
    if pod.reason != UNEXPECTED:
        return None
    for pattern, cause, words in _COMPILED:
        if pattern.search(pod.message):
            return Refusal(cause, words, pod.message)
    if (
        not any(name in pod.message for name in pod.gpus)
        and "/" in pod.message
        and "rpc error" not in pod.message
    ):
        return None  # refused for another kind of device
    return Refusal("", "", pod.message, says_plugin_away=_AWAY.search(pod.message) is not None)


def refused_at(pod: Pod) -> datetime | None:
    """The kubelet refuses a pod as soon as it sees it: at its start time."""
    return pod.started_at or pod.created_at
