"""The hardware: nodes, and the GPUs in them."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from diagnostics.simulator.config import WorldConfig
from diagnostics.simulator.identity import uuid_of

if TYPE_CHECKING:
    from diagnostics.simulator.workloads import PodState

GPU = "nvidia.com/gpu"
MODEL = "NVIDIA H100 80GB HBM3"
MEMORY_MIB = 81559
RESERVED_MIB = 551
POWER_LIMIT_W = 700.0
DRIVER = "550.90.07"
PLUGIN_GRACE = timedelta(minutes=5)
"""For so long a kubelet keeps the capacity of a plugin that is gone, with 0 allocatable; then it sets 0 as well
(`endpointStopGracePeriod`, kubernetes/kubernetes pkg/kubelet/cm/devicemanager)."""
CPU_CORES = 224
MEMORY_GIB = 2015

# Bus numbers of the eight GPUs of an HGX H100 board, and made-up ones for a larger box.
BUSES = ("1b", "43", "52", "61", "9d", "c3", "d1", "df", "07", "0a", "46", "4a", "85", "88", "b7", "bd")
POOLS = (
    "train",
    "train",
    "train",
    "train",
    "serve",
    "serve",
    "serve",
    "batch",
    "dev",
    "batch",
    "batch",
    "robotics",
)


@dataclass(frozen=True, slots=True)
class Device:
    """What one pod can be given: a whole GPU, or a MIG instance of one."""

    node: str
    index: int
    uuid: str
    """Of the board; a MIG instance has `mig_uuid` besides."""
    pci_bus_id: str
    resource: str = GPU
    mig_profile: str = ""
    mig_id: int = 0
    mig_uuid: str = ""

    @property
    def resource_id(self) -> str:
        """As the device plugin names it."""
        return self.mig_uuid or self.uuid


@dataclass(frozen=True, slots=True)
class Board:
    """The health of one board, and what of it changes since `since`; the defaults are a healthy one."""

    since: datetime | None = None
    row_remap_pending: bool = False
    row_remap_failed: bool = False
    ecc_uncorrectable_per_h: float = 0.0
    pcie_gen: int = 5
    pcie_width: int = 16
    pcie_replays_per_min: float = 0.0
    nvlink_recoveries_per_h: float = 0.0
    nvlink_crc_errors_per_min: float = 0.0
    clock_event_reasons: int | None = None
    """Bits of NVML; None: those of what it does."""
    sm_clock_most_mhz: int = 1980
    thermal_violation_ratio: float = 0.0
    """Share of the time in which heat lowers its clocks."""

    def counted(self, per_hour: float, at: datetime) -> int:
        """A counter that rises at this rate since `since`."""
        if self.since is None or at <= self.since:
            return 0
        return int(per_hour * (at - self.since).total_seconds() / 3600)


@dataclass
class SimNode:
    name: str
    position: int
    rack: str
    pool: str
    created: datetime
    devices: list[Device]
    free: list[Device] = field(default_factory=list)
    unhealthy: set[str] = field(default_factory=set)
    """UUIDs of the GPUs that the device plugin has marked unhealthy."""
    fallen: set[str] = field(default_factory=set)
    """UUIDs of the GPUs that are off the bus: they answer nobody."""
    vanished: set[str] = field(default_factory=set)
    """UUIDs of the GPUs that the exporter, started since, does not find any more."""
    boards: dict[str, Board] = field(default_factory=dict)
    """By UUID, where a board is not as it should be."""
    conditions: tuple[tuple[str, str, str, str], ...] = ()
    """Type, status, reason and message of what others than the kubelet say of the node."""
    xids: dict[str, int] = field(default_factory=dict)
    """By UUID: the last Xid since the exporter started."""
    lost_since: datetime | None = None
    """The kubelet is silent since then."""
    driver_gone_since: datetime | None = None
    plugin_gone_since: datetime | None = None
    is_plugin_forgotten: bool = False
    """The kubelet has waited for the plugin for `PLUGIN_GRACE` and dropped its resources."""
    exporter_gone_since: datetime | None = None
    stack: dict[str, "PodState"] = field(default_factory=dict)
    """By DaemonSet: how this node's GPU Operator pod is, where it is not well."""
    stack_created: dict[str, datetime] = field(default_factory=dict)
    boots: int = 0
    """How often it was booted anew."""
    ready_since: datetime | None = None
    """The kubelet speaks again since then; None: since the node is there."""
    is_cordoned: bool = False
    is_claimed: bool = False
    """A DRA driver gives out its GPUs: the kubelet lists none."""
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[tuple[str, str, str], ...] = ()
    """Key, value, effect."""

    @property
    def ip(self) -> str:
        return f"10.40.{self.position // 250}.{4 + self.position % 250}"

    @property
    def has_exporter(self) -> bool:
        return not (self.lost_since or self.driver_gone_since or self.exporter_gone_since)

    def fitted(self, resource: str) -> int:
        return sum(d.resource == resource for d in self.devices)

    def lose_plugin(self, since: datetime, now: datetime) -> None:
        """The device plugin's endpoint has been stopped since then."""
        self.plugin_gone_since = since
        self.is_plugin_forgotten = now - since > PLUGIN_GRACE

    def capacity(self) -> dict[str, int]:
        """Extended resources that the kubelet lists: 0 without a driver, and without a plugin after a while."""
        if self.is_claimed:
            return {}
        gone = self.driver_gone_since is not None or self.is_plugin_forgotten
        return {r: 0 if gone else self.fitted(r) for r in sorted({GPU, *(d.resource for d in self.devices)})}

    def allocatable(self) -> dict[str, int]:
        if self.driver_gone_since or self.plugin_gone_since:
            return dict.fromkeys(self.capacity(), 0)
        sick = [d.resource for d in self.devices if d.uuid in self.unhealthy]
        return {r: n - sick.count(r) for r, n in self.capacity().items()}


def make_node(config: WorldConfig, position: int, created: datetime) -> SimNode:
    """The node at a position: four neighbours share a rack, and the racks come round again."""
    name = f"gpu-{position + 1:02d}"
    devices = [
        Device(name, i, "GPU-" + uuid_of(config.seed, "gpu", name, i), f"00000000:{BUSES[i].upper()}:00.0")
        for i in range(config.gpus_per_node)
    ]
    node = SimNode(
        name=name,
        position=position,
        rack=f"rack-{position // 4 % config.racks + 1}",
        pool=POOLS[position] if position < len(POOLS) else "batch",
        created=created,
        devices=devices,
    )
    node.free = list(devices)
    if node.pool == "robotics":
        node.taints = (("dedicated", "robotics", "NoSchedule"),)
    return node


def replaced(seed: int, device: Device) -> Device:
    """The board that is put in the place of a broken one."""
    return replace(device, uuid="GPU-" + uuid_of(seed, "gpu", device.node, device.index, "replaced"))


def split(seed: int, device: Device, profile: str, count: int) -> list[Device]:
    """The MIG instances of a GPU; their ids are those that nvidia-smi counts from 7 on for the small ones."""
    return [
        Device(
            device.node,
            device.index,
            device.uuid,
            device.pci_bus_id,
            resource=f"nvidia.com/mig-{profile}",
            mig_profile=profile,
            mig_id=7 + i,
            mig_uuid="MIG-" + uuid_of(seed, device.uuid, profile, i),
        )
        for i in range(count)
    ]
