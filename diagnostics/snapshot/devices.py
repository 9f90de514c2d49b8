"""GPUs: their slots, what they measure now and over a window, and who holds them."""

from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from diagnostics.snapshot.kubernetes import Struct, Taint


class Origin(StrEnum):
    """How a device gets into pods."""

    PLUGIN = "device-plugin"
    MIG = "mig"
    SHARED = "shared"
    DRA = "dra"


class State(StrEnum):
    """Exactly one per device and instant; definitions in `states.py` and the glossary."""

    UNAVAILABLE = "unavailable"
    STRANDED = "stranded"
    FREE = "free"
    STUCK = "stuck"
    STARTING = "starting"
    BLOCKED = "blocked"
    NO_DATA = "no_data"
    HUNG = "hung"
    IDLE_EMPTY = "idle_empty"
    IDLE_HELD = "idle_held"
    INEFFECTIVE = "ineffective"
    EFFECTIVE = "effective"


class Metrics(Struct, frozen=True, kw_only=True):
    """One device's last sample. Ratios are 0 to 1; None means not collected, never zero."""

    sampled_at: datetime | None = None
    utilization_ratio: float | None = None
    """Share of time with at least one kernel resident: not the share of the GPU that works."""
    gr_engine_ratio: float | None = None
    sm_active_ratio: float | None = None
    sm_occupancy_ratio: float | None = None
    tensor_active_ratio: float | None = None
    dram_active_ratio: float | None = None
    memory_copy_ratio: float | None = None
    memory_used_bytes: float | None = None
    memory_free_bytes: float | None = None
    memory_reserved_bytes: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: float | None = None
    memory_temperature_c: float | None = None
    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    pcie_tx_bytes_per_s: float | None = None
    pcie_rx_bytes_per_s: float | None = None
    pcie_replays: float | None = None
    nvlink_tx_bytes_per_s: float | None = None
    nvlink_rx_bytes_per_s: float | None = None
    xid: int | None = None
    """The LAST Xid since DCGM started, 0 for none; says nothing about when."""
    row_remap_failed: bool | None = None
    row_remap_pending: bool | None = None
    remapped_rows_uncorrectable: float | None = None
    ecc_uncorrectable_volatile: float | None = None
    clock_event_reasons: int | None = None
    recovery_action: int | None = None
    sm_clock_max_mhz: float | None = None
    pcie_link_gen: int | None = None
    pcie_link_gen_max: int | None = None
    """The most that board and slot can do together."""
    pcie_link_width: int | None = None
    pcie_link_width_max: int | None = None
    nvlink_crc_flit_errors: float | None = None
    nvlink_crc_data_errors: float | None = None
    nvlink_replays: float | None = None
    nvlink_recoveries: float | None = None
    nvlink_recovery_failures: float | None = None
    """Counters over all links of the GPU, since the driver was loaded; the last one from NVLink 5 on."""
    thermal_violation_s: float | None = None
    power_violation_s: float | None = None
    """Seconds with lowered clocks since the driver was loaded."""
    temperature_slowdown_c: float | None = None
    temperature_shutdown_c: float | None = None
    memory_temperature_limit_c: float | None = None
    ecc_correctable_volatile: float | None = None
    ecc_correctable_aggregate: float | None = None
    ecc_uncorrectable_aggregate: float | None = None
    """Volatile: since the driver was loaded. Aggregate: in the board's life."""
    remapped_rows_correctable: float | None = None
    retired_pages_correctable: float | None = None
    retired_pages_uncorrectable: float | None = None
    page_retirement_pending: bool | None = None
    """Pages: up to Turing, in place of remapped rows."""

    @property
    def memory_total_bytes(self) -> float | None:
        """Used + free + reserved, as `nvidia-smi` counts the total; None unless used and free are known."""
        if self.memory_used_bytes is None or self.memory_free_bytes is None:
            return None
        return self.memory_used_bytes + self.memory_free_bytes + (self.memory_reserved_bytes or 0.0)


class Stat(msgspec.Struct, frozen=True):
    """A metric over the window, in the metric's own unit."""

    min: float
    mean: float
    max: float


class XidSeen(Struct, frozen=True, kw_only=True):
    """A Xid that was seen to happen, or a gauge that merely stands."""

    code: int
    last_at: datetime | None = None
    """When it was last seen to change or be counted; None where only the standing gauge is known."""
    standing_since: datetime | None = None
    """Earliest moment at which the gauge is known to have stood at this value."""
    count: int | None = None
    message: str = ""


class Window(Struct, frozen=True, kw_only=True):
    """What a device did over a stated span, while its present holder held it."""

    span: timedelta
    """The span that was asked for; it ends at the snapshot's `taken_at`."""
    coverage_ratio: float
    """Share of the span for which samples exist, 0 to 1."""
    utilization_ratio: Stat | None = None
    gr_engine_ratio: Stat | None = None
    sm_active_ratio: Stat | None = None
    tensor_active_ratio: Stat | None = None
    dram_active_ratio: Stat | None = None
    memory_used_bytes: Stat | None = None
    power_w: Stat | None = None
    xids: tuple[XidSeen, ...] = ()
    pcie_replays_grown: float | None = None
    nvlink_crc_flit_errors_grown: float | None = None
    nvlink_crc_data_errors_grown: float | None = None
    nvlink_replays_grown: float | None = None
    nvlink_recoveries_grown: float | None = None
    nvlink_recovery_failures_grown: float | None = None
    ecc_uncorrectable_volatile_grown: float | None = None
    thermal_violation_s_grown: float | None = None
    power_violation_s_grown: float | None = None
    """By how much counters of the device rose over the span, whoever held it; None where that is not known."""


class Gpu(Struct, frozen=True, kw_only=True):
    """One schedulable device: a whole GPU, a MIG instance, a shared GPU, or an unnamed slot.

    Named by node and PCI address, since a board's UUID changes with the board. Where the API gives only
    counts, slots are unnamed (`node/nvidia.com/gpu#3`) and carry no metrics.
    """

    slot: str
    """`node/00000000:0f:00.0`, with `/mig-<id>` for an instance."""
    node: str
    index: int | None = None
    pci: str | None = None
    uuid: str | None = None
    model: str | None = None
    resource: str = "nvidia.com/gpu"
    origin: Origin = Origin.PLUGIN
    mig_profile: str | None = None
    mig_instance: str | None = None
    replicas: int = 1
    """Shares handed out of this device; 1 without sharing."""
    device: str = ""
    """`driver/pool/device` in the driver's slices (DRA); empty for a device plugin's."""
    taints: tuple[Taint, ...] = ()
    """Of the device itself (DRA): keep claims off it, or evict its pods."""
    claims: tuple[str, ...] = ()
    """Keys of the claims that hold it (DRA); an allocated claim keeps it without any pod."""
    is_healthy: bool | None = None
    """What the device plugin said in pod status or allocatable, or a device taint; None where nothing says."""
    holders: tuple[str, ...] = ()
    """Keys (`namespace/name`) of the pods that hold it."""
    holder_source: str = ""
    """How the holders are known: `pod status`, `claim`, `metric label`, `whole node`; empty when held by nobody."""
    metrics: Metrics | None = None
    window: Window | None = None
    state: State | None = None
    is_unjudged: bool = False
    """State `effective` only because neither SM_ACTIVE nor DRAM_ACTIVE is collected."""

    @property
    def is_named(self) -> bool:
        return self.pci is not None or self.uuid is not None


class Gang(Struct, frozen=True, kw_only=True):
    """Pods that work only together: members, expected size, and why it is taken for a collective job."""

    kind: str
    namespace: str
    name: str
    uid: str = ""
    api_version: str = ""
    system: str = ""
    """What groups them: Job, JobSet, PyTorchJob, LeaderWorkerSet, Volcano, PodGroup, StatefulSet, …"""
    collective: str = ""
    """The evidence that they talk to each other, in words; empty for independent servers."""
    only_starts_together: bool = False
    """Bare pods that a scheduler's group ties, and nothing says that they talk to each other once they run."""
    members: tuple[str, ...] = ()
    """Keys of the GPU pods, finished ones excluded."""
    size: int | None = None
    """Pods that the owner wants at once; None where nothing says."""
    min_available: int | None = None
    """Pods that a gang scheduler waits for; None without one."""
    gang_scheduler: str = ""
    """volcano, kueue, coscheduling, native, yunikorn, kai; empty when pods are placed one by one."""


class MemoryPeak(Struct, frozen=True, kw_only=True):
    """The most GPU memory that one workload was seen to use."""

    gpu_bytes: float
    """On one device (a whole GPU or a MIG instance) that no other pod held."""
    seen_at: datetime
    """When the workload was last seen with such a device."""


class HostPeak(Struct, frozen=True, kw_only=True):
    """The most host memory that one container of a workload was seen to use."""

    rss_bytes: float
    """Anonymous memory, which cannot be given back."""
    at: datetime
    """End of the window in which it was seen."""


class Past(Struct, frozen=True, kw_only=True):
    """Bounded summary of history, handed into `take_snapshot`; absent on a one-shot run."""

    taken_at: datetime | None = None
    cluster_id: str = ""
    """Whose history it is: of no use to a cluster with another identity."""
    last_active: dict[str, datetime] = {}
    """Slot -> last moment with engine activity, over earlier polls."""
    xids: dict[str, tuple[XidSeen, ...]] = {}
    """Slot -> Xids seen by earlier polls."""
    fitted: dict[str, int] = {}
    """Node -> most GPUs that it ever had."""
    mig_pending: dict[str, datetime] = {}
    """Node -> since when polls have seen its MIG configuration pending."""
    incidents: dict[str, int] = {}
    """Node -> on how many occasions of the last 30 days an incident of its hardware opened."""
    host_peaks: dict[str, HostPeak] = {}
    """`Kind/namespace/name/container` of a root owner -> its peak of the last seven days; at most 2,000."""
    memory_peaks: dict[str, MemoryPeak] = {}
    """`Kind/namespace/name` of a root owner -> its peak; the 2,000 workloads seen last."""
