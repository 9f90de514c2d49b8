"""What was asked of a cluster, and how each answer came back."""

from datetime import datetime
from enum import StrEnum

import msgspec


class Source(StrEnum):
    """The kinds of data that a rule may need; one `SourceStatus` each."""

    NODES = "nodes"
    PODS = "pods"
    EVENTS = "events"
    NAMESPACES = "namespaces"
    WORKLOADS = "workloads"
    SERVICES = "services"
    STORAGE = "storage"
    """Volume claims, volumes and storage classes."""
    POLICY = "policy"
    """Quotas, limit ranges, network policies, endpoints, classes of runtime and priority, disruption budgets."""
    CUSTOM = "custom-resources"
    """Queues, pod groups and the jobs of operators: read where the cluster serves their kinds."""
    CLAIMS = "claims"
    """Dynamic resource allocation: slices, claims, templates and classes."""
    LOGS = "logs"
    METRICS = "metrics"
    WINDOW = "window"
    """GPU metrics over a span of time: from Prometheus, or from earlier polls."""
    USAGE = "usage"
    """CPU and host memory of GPU pods' containers over a span of time: cAdvisor's, from Prometheus."""


class SourceState(StrEnum):
    """How an answer came back. Only `OK` is the whole truth; `PARTIAL` and `STALE` are usable with care."""

    OK = "ok"
    PARTIAL = "partial"
    STALE = "stale"
    FORBIDDEN = "forbidden"
    ABSENT = "absent"
    FAILED = "failed"

    @property
    def is_usable(self) -> bool:
        """Rules may look at what came back."""
        return self in {SourceState.OK, SourceState.PARTIAL, SourceState.STALE}


class Skipped(msgspec.Struct, frozen=True):
    """Objects of one source that could not be read, counted by reason."""

    reason: str
    count: int
    example: str = ""
    """Name of one of them, to look at."""


class SourceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One source's answer: its state, why, and what it cost."""

    name: Source
    state: SourceState
    detail: str = ""
    """In plain words, without secrets; empty when all is well."""
    items: int | None = None
    """Objects, series or log tails read; None when nothing was."""
    seconds: float | None = None
    read_at: datetime | None = None
    skipped: tuple[Skipped, ...] = ()


class ServedApi(msgspec.Struct, frozen=True):
    """A resource that this cluster serves, in the version that was read."""

    group: str
    """Empty for the core group."""
    version: str
    resource: str
    """Plural, as in the path: `deployments`."""
    kind: str

    @property
    def api_version(self) -> str:
        """As in a manifest: `apps/v1`, or `v1` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version
