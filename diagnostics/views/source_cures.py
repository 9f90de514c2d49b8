"""What each source of a cluster is for, and the exact lines that cure one that does not answer in full."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from django.conf import settings

from diagnostics.clusters import DeclaredCluster
from diagnostics.fixes.kubectl import kubectl
from diagnostics.snapshot import Source, SourceState

SEEN_THROUGH: dict[Source, str] = {
    Source.NODES: "nodes, their GPUs, taints and conditions",
    Source.PODS: "who holds GPUs and who waits for them",
    Source.EVENTS: "what the scheduler and the kubelet said",
    Source.NAMESPACES: "teams, and the identity of the cluster",
    Source.WORKLOADS: "Deployments, Jobs and their like: who owns the pods",
    Source.SERVICES: "Services, and through them the exporters",
    Source.STORAGE: "volume claims, volumes and storage classes: why a volume is not there",
    Source.POLICY: "quotas, limits, traffic rules, priority and runtime classes, disruption budgets",
    Source.CUSTOM: "Kueue, Volcano, pod groups, jobs of operators: what holds a job back; the GPU Operator's state",
    Source.CLAIMS: "GPUs that are given out by claims (DRA), and who holds them",
    Source.LOGS: "why failing GPU pods fail: CUDA out of memory and its causes",
    Source.METRICS: "what each GPU does now",
    Source.WINDOW: "what each GPU did in the last half hour: idle, hung, Xids",
    Source.USAGE: "host memory and CPU of GPU pods: limits that are too low, memory that only grows",
}
_GRANTED: dict[Source, tuple[tuple[str, tuple[str, ...]], ...]] = {
    Source.NODES: (("", ("nodes",)),),
    Source.PODS: (("", ("pods",)),),
    Source.EVENTS: (("", ("events",)), ("events.k8s.io", ("events",))),
    Source.NAMESPACES: (("", ("namespaces",)),),
    Source.WORKLOADS: (
        ("apps", ("daemonsets", "deployments", "replicasets", "statefulsets")),
        ("batch", ("cronjobs", "jobs")),
    ),
    Source.SERVICES: (("", ("services",)),),
    Source.STORAGE: (
        ("", ("persistentvolumeclaims", "persistentvolumes")),
        ("storage.k8s.io", ("storageclasses",)),
    ),
    Source.POLICY: (
        ("", ("limitranges", "resourcequotas")),
        ("discovery.k8s.io", ("endpointslices",)),
        ("networking.k8s.io", ("networkpolicies",)),
        ("node.k8s.io", ("runtimeclasses",)),
        ("policy", ("poddisruptionbudgets",)),
        ("scheduling.k8s.io", ("priorityclasses",)),
    ),
    Source.CUSTOM: (
        ("batch.volcano.sh", ("jobs",)),
        ("jobset.x-k8s.io", ("jobsets",)),
        ("kubeflow.org", ("mpijobs", "pytorchjobs")),
        ("kueue.x-k8s.io", ("clusterqueues", "localqueues", "workloads")),
        ("leaderworkerset.x-k8s.io", ("leaderworkersets",)),
        ("nvidia.com", ("clusterpolicies", "nvidiadrivers")),
        ("ray.io", ("rayclusters", "rayjobs", "rayservices")),
        ("scheduling.k8s.io", ("podgroups", "workloads")),
        ("scheduling.volcano.sh", ("podgroups", "queues")),
        ("scheduling.x-k8s.io", ("podgroups",)),
        ("trainer.kubeflow.org", ("trainjobs",)),
    ),
    Source.CLAIMS: (
        (
            "resource.k8s.io",
            ("deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"),
        ),
    ),
    Source.LOGS: (("", ("pods/log",)),),
}
_ACCOUNT = "system:serviceaccount:gpuhealth:gpuhealth"
_PODS = "kubectl get pods --all-namespaces -o wide -l app=nvidia-dcgm-exporter"
_TARGETS = 'curl --silent "$PROMETHEUS/api/v1/query" --data-urlencode \'query=up{job=~".*dcgm.*"} == 0\''
_CADVISOR = (
    'curl --silent "$PROMETHEUS/api/v1/query" '
    "--data-urlencode 'query=count(container_memory_working_set_bytes{container!=\"\"})'"
)
_NO_CREDENTIALS = "does not accept these credentials"
_SCRAPE = """\
scrape_configs:
  - job_name: dcgm-exporter
    kubernetes_sd_configs: [{role: pod}]
    relabel_configs:
      - source_labels: [__meta_kubernetes_pod_label_app]
        regex: nvidia-dcgm-exporter
        action: keep
      - source_labels: [__meta_kubernetes_pod_container_port_number]
        regex: "9400"
        action: keep"""


@dataclass(frozen=True, kw_only=True)
class Cure:
    """What to do in words, and what to run or to write; the latter may be empty."""

    words: str
    text: str = ""
    kind: str = "command"
    """`command`, or `manifest` for what is written into a file."""
    key: str = ""
    """Tells it from every other one on a page."""


def manifest() -> str:
    """deploy/rbac.yaml as it is; empty where this installation came without it."""
    return _read(Path(settings.BASE_DIR) / "deploy" / "rbac.yaml")


@lru_cache(maxsize=2)
def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def cures(
    source: Source, state: SourceState, detail: str, slug: str, declared: DeclaredCluster | None
) -> tuple[Cure, ...]:
    """For one source's last answer; empty where nothing is missing. `declared` None: it is declared no more."""
    if state is SourceState.OK or declared is None:
        return ()
    if (measured := _MEASURED.get(source)) is not None:
        return measured(state, slug, declared)
    if _NO_CREDENTIALS in detail:
        words = "The API server does not know the account any more: make a new token, and put it into the kubeconfig."
        return (Cure(words=words, text="kubectl -n gpuhealth create token gpuhealth --duration=720h"),)
    if state is SourceState.FORBIDDEN or (state is SourceState.PARTIAL and "forbidden" in detail):
        return _of_rights(source)
    if state is SourceState.FAILED:
        words = (
            "See whether this machine reaches the API server with these credentials; it should answer `ok`."
        )
        return (Cure(words=words, text=_kubectl(declared, "get", "--raw", "/readyz")),)
    if state is SourceState.ABSENT:
        return (Cure(words="The cluster does not serve this, or was not asked: nothing has to be done."),)
    return ()


def rules_of(source: Source) -> str:
    """The rules of the ClusterRole in deploy/rbac.yaml that let a source be read, as YAML; empty where it has none."""
    wanted = _GRANTED.get(source, ())
    found = []
    for rule in _role_rules():
        names = [
            name
            for group, resources in wanted
            if group in rule["apiGroups"]
            for name in resources
            if name in rule["resources"]
        ]
        if names:
            found.append({"apiGroups": rule["apiGroups"], "resources": names, "verbs": rule["verbs"]})
    return yaml.safe_dump(found, default_flow_style=None, sort_keys=False).rstrip() if found else ""


def _role_rules() -> list[dict[str, Any]]:
    """Of the only ClusterRole; none where the manifest is missing."""
    for document in yaml.safe_load_all(manifest()):
        if document and document["kind"] == "ClusterRole":
            rules: list[dict[str, Any]] = document["rules"]
            return rules
    return []


def _of_rights(source: Source) -> tuple[Cure, ...]:
    first = _GRANTED[source][0]
    group = f".{first[0]}" if first[0] else ""
    verb = "get" if source is Source.LOGS else "list"
    asked = f"kubectl auth can-i {verb} {first[1][0]}{group} --all-namespaces --as={_ACCOUNT}"
    return (
        Cure(
            words="The account lacks these rules. They are in the ClusterRole above: apply it, or add them to its own.",
            text=rules_of(source),
            kind="manifest",
        ),
        Cure(words="Then this answers `yes`:", text=asked),
    )


def _of_metrics(state: SourceState, slug: str, declared: DeclaredCluster) -> tuple[Cure, ...]:
    if declared.prometheus is None and not declared.exporters:
        return _name_a_source(slug)
    if declared.prometheus is None:
        words = "See whether the exporters run, and whether this machine reaches their port 9400."
        return (Cure(words=words, text=_PODS),)
    if state is SourceState.ABSENT:
        return (
            Cure(
                words="Prometheus answers, but does not scrape dcgm-exporter. See whether it runs:",
                text=_PODS,
            ),
            Cure(words="and let Prometheus scrape it:", text=_SCRAPE, kind="manifest"),
        )
    if state is SourceState.FORBIDDEN:
        words = "Prometheus wants other credentials: name a file with a token, or a user and a file with a password."
        text = f'[clusters.{slug}.prometheus]\nbearer_token_file = "/run/secrets/prometheus-token"'
        return (Cure(words=words, text=text, kind="manifest"),)
    if state is SourceState.FAILED:
        words = (
            "See whether this machine reaches the declared address ($PROMETHEUS here); it should be ready."
        )
        return (Cure(words=words, text='curl --fail --silent --show-error "$PROMETHEUS/-/ready"'),)
    return (
        Cure(
            words="Some exporters are down or late. See which targets Prometheus cannot scrape:",
            text=_TARGETS,
        ),
    )


def _of_window(state: SourceState, slug: str, declared: DeclaredCluster) -> tuple[Cure, ...]:
    if declared.prometheus is not None:
        return () if state.is_usable else (Cure(words="It comes with the metrics: see there."),)
    if declared.exporters:
        minutes = round(settings.LIMITS.site.window.total_seconds() / 60)
        return (
            Cure(
                words=f"It fills by itself within {minutes} minutes of polls; with a Prometheus it is there at once."
            ),
        )
    return _name_a_source(slug)


def _of_usage(state: SourceState, slug: str, declared: DeclaredCluster) -> tuple[Cure, ...]:
    if declared.prometheus is None:
        return (
            Cure(
                words="Name a Prometheus that scrapes the kubelets; exporters of GPU metrics do not know host memory.",
                text=f'[clusters.{slug}.prometheus]\nurl = "http://prometheus.monitoring:9090"',
                kind="manifest",
            ),
        )
    if state is SourceState.ABSENT:
        return (
            Cure(
                words="Let Prometheus scrape each kubelet's /metrics/cadvisor, as the kube-prometheus-stack does. This "
                "should then be above 0:",
                text=_CADVISOR,
            ),
        )
    return () if state is SourceState.PARTIAL else (Cure(words="It comes with the metrics: see there."),)


_MEASURED: dict[Source, Callable[[SourceState, str, DeclaredCluster], tuple[Cure, ...]]] = {
    Source.METRICS: _of_metrics,
    Source.WINDOW: _of_window,
    Source.USAGE: _of_usage,
}


def _name_a_source(slug: str) -> tuple[Cure, ...]:
    return (
        Cure(
            words="Name the Prometheus that scrapes dcgm-exporter,",
            text=f'[clusters.{slug}.prometheus]\nurl = "http://prometheus.monitoring:9090"',
            kind="manifest",
        ),
        Cure(
            words="or, where there is none, the exporters themselves:",
            text=f'[clusters.{slug}]\nexporters = ["service:gpu-operator/nvidia-dcgm-exporter"]',
            kind="manifest",
        ),
    )


def _kubectl(declared: DeclaredCluster, *words: str) -> str:
    where = []
    if declared.kubeconfig:
        where.append(f"--kubeconfig={declared.kubeconfig}")
    if declared.context:
        where.append(f"--context={declared.context}")
    return kubectl(*where, *words)
