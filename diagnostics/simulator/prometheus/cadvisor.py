"""What the kubelets' cAdvisor and node_exporter say of the simulated cluster, as Prometheus stores it.

Names and labels: google/cadvisor lib/metrics/prometheus.go, as kube-prometheus scrapes it; prometheus/node_exporter.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from diagnostics.simulator.identity import hex_of, noise
from diagnostics.simulator.prometheus.series import Labels, labels_of
from diagnostics.simulator.workloads import SimPod
from diagnostics.simulator.world import World

METRICS = frozenset(
    {
        "container_memory_working_set_bytes",
        "container_memory_rss",
        "container_cpu_usage_seconds_total",
        "container_cpu_cfs_periods_total",
        "container_cpu_cfs_throttled_periods_total",
        "container_oom_events_total",
        "container_spec_memory_limit_bytes",
        "node_cpu_seconds_total",
    }
)
GIB = 2.0**30
PERIOD_S = 0.1
"""Of the CPU quota: the kernel's default."""
NO_LIMIT_GIB = 64.0
"""What a container without a limit is taken to use a share of."""

Line = tuple[str, Labels, float]


@dataclass(frozen=True, slots=True)
class Share:
    """Of the memory limit, 0 to 1."""

    rss: float
    cache: float
    """File cache that counts into the working set."""


def _steady(_age_s: float, jitter: float) -> Share:
    return Share(0.42 + 0.03 * jitter, 0.12)


def _tight(_age_s: float, jitter: float) -> Share:
    """As much as the limit allows, and nothing to spare."""
    return Share(0.94 + 0.02 * jitter, 0.02)


def _cached(_age_s: float, jitter: float) -> Share:
    """Files that it has read fill the rest of the limit, and can be dropped at any time."""
    return Share(0.42 + 0.03 * jitter, 0.53)


def _growing(age_s: float, jitter: float) -> Share:
    """A little more every hour, and none of it given back."""
    return Share(min(0.85, 0.2 + 0.1 * age_s / 3600) + 0.005 * jitter, 0.05)


def _caching(age_s: float, jitter: float) -> Share:
    """The same curve, of file cache."""
    return Share(0.2 + 0.005 * jitter, min(0.65, 0.05 + 0.1 * age_s / 3600))


PROFILES: dict[str, Callable[[float, float], Share]] = {
    "steady": _steady,
    "tight": _tight,
    "cached": _cached,
    "growing": _growing,
    "caching": _caching,
}


def lines(world: World) -> Iterator[Line]:
    """All of one moment: the containers that run, and how the nodes wait for their disks."""
    moment = world.now.timestamp()
    for pod in world.pods:
        state = pod.state
        if pod.node and state.is_working and state.started is not None and state.started <= world.now:
            yield from _of_container(pod, moment, moment - state.started.timestamp())
    for node in world.nodes.values():
        labels = labels_of(
            {"instance": f"{node.name}:9100", "job": "node-exporter", "cpu": "0", "mode": "iowait"}
        )
        yield "node_cpu_seconds_total", labels, 0.01 * (moment - node.created.timestamp())


def _of_container(pod: SimPod, moment: float, age_s: float) -> Iterator[Line]:
    template, labels = pod.workload.template, _labels(pod)
    limit = (template.memory_gib or NO_LIMIT_GIB) * GIB
    share = PROFILES[pod.workload.host_memory](age_s, noise(pod.uid, int(moment) // 60)[0])
    rss = share.rss * limit
    yield "container_memory_rss", labels, rss
    yield "container_memory_working_set_bytes", labels, rss + share.cache * limit
    if template.memory_gib:
        yield "container_spec_memory_limit_bytes", labels, limit
    yield "container_cpu_usage_seconds_total", labels, 0.6 * (template.cpu_cores or 1.0) * age_s
    yield "container_oom_events_total", labels, 0.0
    if "cpu" in template.app["resources"].get("limits", {}):
        yield "container_cpu_cfs_periods_total", labels, age_s / PERIOD_S
        yield "container_cpu_cfs_throttled_periods_total", labels, 0.02 * age_s / PERIOD_S


def _labels(pod: SimPod) -> Labels:
    app = pod.workload.template.app
    return labels_of(
        {
            "job": "kubelet",
            "metrics_path": "/metrics/cadvisor",
            "instance": f"{pod.node_ip}:10250",
            "node": pod.node,
            "namespace": pod.namespace,
            "pod": pod.name,
            "container": app["name"],
            "image": app["image"],
            "id": f"/kubepods.slice/kubepods-pod{pod.uid}.slice/cri-containerd-{hex_of(64, pod.uid)}.scope",
        }
    )
