"""Required pod affinity and anti-affinity as the scheduler applies it, within one host or the one zone."""

from collections.abc import Sequence

from diagnostics.simulator.workloads import Json, SimPod

HOSTNAME = "kubernetes.io/hostname"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def refusal_by_pods(pod: SimPod, node: str, bound: Sequence[SimPod]) -> str:
    """Why the pods that are there rule the node out; empty where they do not."""
    affinity = pod.workload.template.more.get("affinity", {})
    for term in affinity.get("podAffinity", {}).get(_REQUIRED, ()):
        if not _beside(term, pod, node, bound):
            return "node(s) didn't match pod affinity rules"
    for term in affinity.get("podAntiAffinity", {}).get(_REQUIRED, ()):
        if _beside(term, pod, node, bound):
            return "node(s) didn't match pod anti-affinity rules"
    return ""


def _beside(term: Json, pod: SimPod, node: str, bound: Sequence[SimPod]) -> bool:
    wanted = term["labelSelector"]["matchLabels"].items()
    return any(
        other.namespace == pod.namespace
        and other.state.holds
        and wanted <= other.workload.template.labels.items()
        and (term["topologyKey"] != HOSTNAME or other.node == node)
        for other in bound
        if other.node
    )
