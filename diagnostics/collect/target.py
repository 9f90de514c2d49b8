"""Where one cluster is reached, and within which bounds it may be asked."""

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class PrometheusTarget:
    """A Prometheus, Thanos, Mimir or VictoriaMetrics query endpoint. Secrets are paths, read at each poll."""

    url: str = field(repr=False)
    """May hold basic-auth credentials: never shown, logged or stored; `shown_url` drops them."""
    bearer_token_file: Path | None = None
    username: str = ""
    password_file: Path | None = None
    ca_file: Path | None = None
    extra_matchers: str = ""
    """PromQL label matchers that pick this cluster in a shared store, for example `cluster="prod"`."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """One cluster: how to reach it, and bounds on time and size of what is read."""

    name: str
    kubeconfig: Path | None = None
    """None: the client's default chain (KUBECONFIG, ~/.kube/config), or in-cluster with `in_cluster`."""
    context: str = ""
    in_cluster: bool = False
    prometheus: PrometheusTarget | None = None
    exporters: tuple[str, ...] = ()
    """dcgm-exporter addresses where there is no Prometheus: `http://host:9400/metrics`, or
    `service:<namespace>/<name>[:port]` for the pods behind a Service."""
    rack_label: str = ""
    """Node label that names the rack; empty: the known cloud and topology labels are tried in order."""
    request_timeout_s: float = 20.0
    poll_timeout_s: float = 120.0
    page_size: int = 500
    """Objects per list page."""
    max_page_bytes: int = 64 * 2**20
    """A larger answer is given up and reported, before it fills the memory."""
    log_lines: int = 400
    log_bytes: int = 256 * 1024
    log_pods: int = 50
    """Failing GPU pods whose logs are read per poll, at most."""
