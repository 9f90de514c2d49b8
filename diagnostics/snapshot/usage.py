"""What containers use of CPU and host memory over a span, how GPU memory went over hours, and how nodes wait for disks.

Everything is of GPU pods and of nodes with GPUs. A window ends at the snapshot's `taken_at`.
"""

from datetime import datetime, timedelta

import msgspec

from diagnostics.snapshot.devices import Stat
from diagnostics.snapshot.kubernetes import Struct


class Low(msgspec.Struct, frozen=True):
    """The least that was in use over one window."""

    at: datetime
    """End of the window."""
    used_bytes: float


class ContainerUsage(Struct, frozen=True, kw_only=True):
    """One container, from the kubelet's cAdvisor; None where the metric is not collected, never zero."""

    pod: str
    """`namespace/name`."""
    container: str
    span: timedelta
    samples_count: int = 0
    """Of the working set, within the span."""
    working_set_bytes: Stat | None = None
    """What the kubelet judges by: all memory but inactive file cache. Cache in it can still be given back."""
    rss_bytes: Stat | None = None
    """Anonymous memory, which cannot be given back (`container_memory_rss`); volumes in memory are not in it."""
    rss_lows: tuple[Low, ...] = ()
    """Of windows of the same length, oldest first; the last one ends now. Gaps where nothing was sampled."""
    throttled_ratio: float | None = None
    """Share of the CPU quota's periods in which it was held back."""
    cpu_cores: float | None = None
    """Mean over the span."""
    oom_kills: float | None = None
    """Processes that the kernel killed in it within the span (`container_oom_events_total`)."""

    @property
    def key(self) -> tuple[str, str]:
        """Pod and container."""
        return self.pod, self.container


class DeviceCourse(Struct, frozen=True, kw_only=True):
    """Memory in use on one device over hours, while the metrics name the same pod for it."""

    slot: str
    pod: str | None = None
    """`namespace/name` from the series' labels; None where they name none."""
    lows: tuple[Low, ...] = ()
    """As in `ContainerUsage.rss_lows`."""


class NodeUsage(Struct, frozen=True, kw_only=True):
    """One node, from node_exporter."""

    node: str
    io_wait_ratio: float | None = None
    """Mean share of CPU time over the span in which a CPU was idle with disk input or output outstanding."""
