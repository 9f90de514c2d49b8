"""The questions to Prometheus about a span of the past: metrics of the devices, and what kube-state-metrics kept.

Names and labels of kube-state-metrics: its `docs/metrics/` (cluster and workload). Its resources are spelled with
underscores (`nvidia_com_gpu`), and where the scrape does not honour its labels, `namespace` and `pod` are its own
pod's, and those of the object are `exported_namespace` and `exported_pod`.
"""

from datetime import timedelta

from diagnostics.collect.dcgm_metrics import METRIC_BY_FIELD

FIELDS = (
    "utilization_ratio",
    "gr_engine_ratio",
    "sm_active_ratio",
    "tensor_active_ratio",
    "dram_active_ratio",
    "memory_used_bytes",
    "power_w",
    "power_limit_w",
    "xid",
    "row_remap_failed",
)
"""Fields of `Metrics` that marks and states look at."""

PRESENCE = ("power_w", "memory_used_bytes", "utilization_ratio", "gr_engine_ratio", "temperature_c")
"""Fields of which every exporter collects at least one."""
_GPU_PODS = 'kube_pod_container_resource_requests{{resource=~"(nvidia|amd|gpu_intel)_com_.*"{more}}}'
_SAME = {
    "pod": "on (namespace, pod)",
    "exported_pod": "on (exported_namespace, exported_pod)",
}


class HistoryQuestions:
    """PromQL over `span`. `matchers`: label matchers that go into every selector, such as `cluster="prod"`."""

    def __init__(self, matchers: str, span: timedelta) -> None:
        self._matchers = matchers.strip().strip(",").strip()
        self._range = f"[{max(1, round(span.total_seconds()))}s]"

    def values(self, field: str) -> str:
        """For a range query: every series of one field, under any of its names."""
        return self._braces(f'__name__=~"{"|".join(METRIC_BY_FIELD[field].names)}"')

    def times(self, field: str) -> list[str]:
        """For range queries: when the samples of one field were scraped, in seconds since 1970."""
        return [f"timestamp({name}{self._braces()})" for name in METRIC_BY_FIELD[field].names]

    def devices(self) -> str:
        """How many series there are of the metric that most of them have: the number of devices, about."""
        each = " or ".join(f"count({n}{self._braces()})" for f in PRESENCE for n in METRIC_BY_FIELD[f].names)
        return f"max({each})"

    def requests(self) -> str:
        """For a range query: GPUs that each container asks for, as long as its pod exists."""
        return self._gpu_pods()

    def request_times(self) -> str:
        """For a range query: when the samples of `requests` were scraped."""
        return f"timestamp({self._gpu_pods()})"

    def pods(self, pod_label: str) -> dict[str, str]:
        """For range queries: what changes in the life of GPU pods. `pod_label`: see `exported_pod` above."""
        theirs = f"and {_SAME[pod_label]} {self._gpu_pods()}"
        waiting = f"kube_pod_container_status_waiting_reason{self._braces()}"
        by = _SAME[pod_label].replace("on", "by", 1)
        newest = f"max {by} (timestamp({self._gpu_pods()}))"
        return {
            "asks": f"{self._asks()} {theirs}",
            "phase": f"(kube_pod_status_phase{self._braces()} == 1) {theirs}",
            "ready": f"kube_pod_status_ready{self._braces('condition="true"')} {theirs}",
            # Crash loops wait and run in turns of seconds: only a reason of the pod's last scrape counts.
            "waiting": f"({waiting} == 1) and (timestamp({waiting}) >= {_SAME[pod_label]} group_left () {newest})",
            "restarts": f"kube_pod_container_status_restarts_total{self._braces()} {theirs}",
            "deletion": f"kube_pod_deletion_timestamp{self._braces()} {theirs}",
        }

    def fixed(self, pod_label: str) -> dict[str, str]:
        """For instant queries at the end: what stays the same while a pod or an owner exists."""
        theirs = f"and {_SAME[pod_label]} last_over_time({self._gpu_pods()}{self._range})"
        named = self._braces('owner_kind!="<none>"')
        return {
            "info": f"last_over_time(kube_pod_info{self._braces()}{self._range}) {theirs}",
            "owner": f"last_over_time(kube_pod_owner{named}{self._range}) {theirs}",
            "started": f"last_over_time(kube_pod_start_time{self._braces()}{self._range}) {theirs}",
            "created": f"last_over_time(kube_pod_created{self._braces()}{self._range}) {theirs}",
            "replicaset": f"last_over_time(kube_replicaset_owner{named}{self._range})",
            "job": f"last_over_time(kube_job_owner{named}{self._range})",
            "exporters": f"last_over_time(kube_pod_info{self._braces('pod=~".*dcgm.*"')}{self._range})",
        }

    def nodes(self, pod_label: str) -> dict[str, str]:
        """For range queries: whether nodes were Ready and schedulable, what they had, and what pods without GPUs took
        of it.
        """
        gpus = 'resource=~"cpu|memory|(nvidia|amd|gpu_intel)_com_.*"'
        same = _SAME[pod_label]
        alive = f"(kube_pod_status_phase{self._braces('phase!~"Succeeded|Failed"')} == 1)"
        others = f"({self._asks()} and {same} {alive}) unless {same} {self._gpu_pods()}"
        node = "exported_node" if pod_label == "exported_pod" else "node"
        return {
            "taken": f"sum by ({node}, resource) ({others})",
            "ready": f"kube_node_status_condition{self._braces('condition="Ready"')} == 1",
            "cordoned": f"kube_node_spec_unschedulable{self._braces()} == 1",
            "capacity": f"kube_node_status_capacity{self._braces(gpus)}",
            "allocatable": f"kube_node_status_allocatable{self._braces(gpus)}",
        }

    def _asks(self) -> str:
        return f"kube_pod_container_resource_requests{self._braces('resource=~"cpu|memory"')}"

    def _gpu_pods(self) -> str:
        return _GPU_PODS.format(more=f",{self._matchers}" if self._matchers else "")

    def _braces(self, matcher: str = "") -> str:
        inside = ",".join(filter(None, (matcher, self._matchers)))
        return "{" + inside + "}" if inside else ""
