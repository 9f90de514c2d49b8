"""The scheduler's own words for a pod that fits nowhere, worked out from the cluster as the scheduler does."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from diagnostics.simulator.claims import SimClaim, claims_of, refusal_for_all, refusal_of_node
from diagnostics.simulator.devices import CPU_CORES, MEMORY_GIB, SimNode
from diagnostics.simulator.pod_rules import refusal_by_pods
from diagnostics.simulator.workloads import SimPod, Workload

Usage = Mapping[str, Counter[str]]

NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"


def usage_of(pods: Iterable[SimPod]) -> dict[str, Counter[str]]:
    """What is requested on each node, by resource; CPU in cores, memory in GiB."""
    usage: dict[str, Counter[str]] = {}
    for pod in pods:
        if pod.node and pod.state.holds:
            used = usage.setdefault(pod.node, Counter())
            template = pod.workload.template
            used["cpu"] += int(template.cpu_cores * 1000)
            used["memory"] += int(template.memory_gib * 1024)
            if template.device_count:
                used[template.device_resource] += template.device_count
    return usage


def refusals(node: SimNode, used: Mapping[str, int], workload: Workload) -> tuple[list[str], bool]:
    """Why the node is refused, and whether evicting others could help. The first plugin that refuses ends
    the checks of a node; the last one names every resource that is short."""
    template = workload.template
    taints = [*node.taints, *lost_taints(node)]
    if any(e == "NoSchedule" and not tolerates(workload, k, v) for k, v, e in taints):
        return ["node(s) had untolerated taint(s)"], False
    labels = scheduling_labels(node)
    if any(labels.get(k) != v for k, v in template.node_selector.items()):
        return ["node(s) didn't match Pod's node affinity/selector"], False
    allocatable = node.allocatable() | {"cpu": CPU_CORES * 1000 - 500, "memory": (MEMORY_GIB - 4) * 1024}
    wanted = {"cpu": int(template.cpu_cores * 1000), "memory": int(template.memory_gib * 1024)}
    if template.device_count:
        wanted[template.device_resource] = template.device_count
    short = [r for r, n in wanted.items() if n > allocatable.get(r, 0) - used.get(r, 0)]
    return [f"Insufficient {r}" for r in short], all(wanted[r] <= allocatable.get(r, 0) for r in short)


def explain(
    nodes: Sequence[SimNode],
    usage: Usage,
    pod: SimPod,
    claims: Mapping[str, SimClaim] | None = None,
    bound: Sequence[SimPod] = (),
) -> str:
    """The message of the FailedScheduling event. Raises ValueError when the pod would fit."""
    total, known = len(nodes), claims or {}
    if before := refusal_for_all(pod, known):
        return f"0/{total} nodes are available: {before}"
    mounted = [known[f"{pod.namespace}/{name}"] for name in claims_of(pod)]
    reasons: Counter[str] = Counter()
    afterwards: Counter[str] = Counter()
    for node in nodes:
        found, is_curable = refusals(node, usage.get(node.name, {}), pod.workload)
        if not found and (
            late := refusal_of_node(mounted, node.name, bound) or refusal_by_pods(pod, node.name, bound)
        ):
            found = [late]
        if not found:
            raise ValueError(f"{pod.namespace}/{pod.name} waits although it fits on {node.name}")
        reasons.update(found)
        afterwards[NO_VICTIMS if is_curable else NOT_HELPFUL] += 1
    return (
        f"0/{total} nodes are available: {_counted(reasons)}. no new claims to deallocate, "
        f"preemption: 0/{total} nodes are available: {_counted(afterwards)}."
    )


def tolerates(workload: Workload, key: str, value: str) -> bool:
    return any(
        t.get("key") in (None, key) and (t.get("operator") == "Exists" or t.get("value", "") == value)
        for t in workload.template.tolerations
    )


def lost_taints(node: SimNode) -> list[tuple[str, str, str]]:
    cordon = [("node.kubernetes.io/unschedulable", "", "NoSchedule")] if node.is_cordoned else []
    if node.lost_since is None:
        return cordon
    return cordon + [("node.kubernetes.io/unreachable", "", e) for e in ("NoSchedule", "NoExecute")]


def scheduling_labels(node: SimNode) -> dict[str, str]:
    """The node's labels that pods of this world select by."""
    gpu = {} if node.driver_gone_since else {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    return {"example.com/pool": node.pool, "kubernetes.io/hostname": node.name} | gpu


def _counted(reasons: Counter[str]) -> str:
    return ", ".join(sorted(f"{n} {reason}" for reason, n in reasons.items()))
