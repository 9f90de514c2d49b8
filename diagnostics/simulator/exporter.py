"""dcgm-exporter's text: one page a node, as exporter 3.3 prints it."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache

from diagnostics.simulator.activity import IDLE_W, reading, sampled_at
from diagnostics.simulator.board_metrics import BOARD_METRICS
from diagnostics.simulator.build import build
from diagnostics.simulator.config import WorldConfig
from diagnostics.simulator.devices import (
    DRIVER,
    MEMORY_MIB,
    MODEL,
    POWER_LIMIT_W,
    RESERVED_MIB,
    Board,
    Device,
    SimNode,
)
from diagnostics.simulator.identity import number_of
from diagnostics.simulator.measured import Metric, Sample
from diagnostics.simulator.workloads import SimPod
from diagnostics.simulator.world import World

Labels = tuple[tuple[str, str], ...]
XID_METRIC = "DCGM_FI_DEV_XID_ERRORS"
# From the table in dcgm-exporter (driver R550), only the codes that this world knows.
XID_TEXTS = {
    0: "No Error",
    13: "Graphics Engine Exception",
    31: "GPU memory page fault",
    43: "GPU stopped processing",
    48: "Double Bit ECC Error",
    69: "Graphics Engine class error",
    79: "GPU has fallen off the bus",
    94: "Contained ECC error",
    95: "Uncontained ECC error",
    119: "GSP RPC Timeout",
}


METRICS = (
    Metric(
        "DCGM_FI_DEV_SM_CLOCK",
        "SM clock frequency (in MHz).",
        lambda s: min(s.reading.sm_clock_mhz, s.board.sm_clock_most_mhz),
    ),
    Metric("DCGM_FI_DEV_MEM_CLOCK", "Memory clock frequency (in MHz).", lambda _: 2619),
    Metric("DCGM_FI_DEV_MEMORY_TEMP", "Memory temperature (in C).", lambda s: int(_temperature(s) + 9)),
    Metric("DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C).", lambda s: int(_temperature(s))),
    Metric("DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).", lambda s: s.reading.power_w),
    Metric(
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        "Total energy consumption since boot (in mJ).",
        lambda s: s.energy_mj,
        "counter",
    ),
    Metric(
        "DCGM_FI_DEV_GPU_UTIL",
        "GPU utilization (in %).",
        lambda s: round(s.reading.utilization * 100),
        is_whole_gpu=True,
    ),
    Metric(
        "DCGM_FI_DEV_MEM_COPY_UTIL",
        "Memory utilization (in %).",
        lambda s: round(s.reading.dram * 90),
        is_whole_gpu=True,
    ),
    Metric("DCGM_FI_DEV_ENC_UTIL", "Encoder utilization (in %).", lambda _: 0, is_whole_gpu=True),
    Metric("DCGM_FI_DEV_DEC_UTIL", "Decoder utilization (in %).", lambda _: 0, is_whole_gpu=True),
    Metric(XID_METRIC, "Value of the last XID error encountered.", lambda s: s.xid),
    Metric("DCGM_FI_DEV_FB_FREE", "Frame buffer memory free (in MB).", lambda s: int(_free_mib(s))),
    Metric("DCGM_FI_DEV_FB_USED", "Frame buffer memory used (in MB).", lambda s: int(_used_mib(s))),
    Metric("DCGM_FI_DEV_FB_RESERVED", "Frame buffer memory reserved (in MB).", lambda _: RESERVED_MIB),
    Metric(
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
        "Number of remapped rows for uncorrectable errors",
        lambda s: 1 if s.xid in (48, 94, 95) else 0,
        "counter",
    ),
    Metric(
        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
        "Number of remapped rows for correctable errors",
        lambda _: 0,
        "counter",
    ),
    Metric(
        "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
        "Total number of NVLink bandwidth counters for all lanes.",
        lambda s: int(s.reading.nvlink_mb),
        "counter",
        is_whole_gpu=True,
    ),
    Metric("DCGM_FI_DEV_VGPU_LICENSE_STATUS", "vGPU License status", lambda _: 0),
    Metric(
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        "Ratio of time the graphics engine is active.",
        lambda s: s.reading.graphics,
    ),
    Metric(
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
        "Ratio of cycles the tensor (HMMA) pipe is active.",
        lambda s: s.reading.tensor,
    ),
    Metric(
        "DCGM_FI_PROF_DRAM_ACTIVE",
        "Ratio of cycles the device memory interface is active sending or receiving data.",
        lambda s: s.reading.dram,
    ),
    Metric(
        "DCGM_FI_PROF_PCIE_TX_BYTES",
        "The rate of data transmitted over the PCIe bus (in bytes per second).",
        lambda s: int(s.reading.pcie_tx_bytes),
    ),
    Metric(
        "DCGM_FI_PROF_PCIE_RX_BYTES",
        "The rate of data received over the PCIe bus (in bytes per second).",
        lambda s: int(s.reading.pcie_rx_bytes),
    ),
)
SM_ACTIVE = Metric(
    "DCGM_FI_PROF_SM_ACTIVE",
    "The ratio of cycles an SM has at least 1 warp assigned.",
    lambda s: s.reading.sm,
)
_UP = Metric("up", "", lambda _: 1)
POWER_LIMIT = Metric(
    "DCGM_FI_DEV_ENFORCED_POWER_LIMIT", "Enforced power limit (in W).", lambda _: POWER_LIMIT_W
)
METRIC_NAMES = frozenset(metric.name for metric in (*METRICS, *BOARD_METRICS, POWER_LIMIT, SM_ACTIVE))


def page(world: World, node: SimNode) -> str:
    """One node's metrics. Empty where the exporter cannot answer."""
    if not node.has_exporter:
        return ""
    lines = []
    for metric, samples in families(world, node):
        lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.type}"]
        lines += [f"{metric.name}{{{_written(labels)}}} {_printed(value)}" for labels, value in samples]
    return "\n".join(lines) + "\n"


def history(config: WorldConfig, start: datetime, end: datetime, step: timedelta) -> Iterator[str]:
    """Lines of OpenMetrics with times, for `promtool tsdb create-blocks-from openmetrics`: what a Prometheus
    that scraped every exporter since `start` would hold. `config.epoch` must be set, or faults would move
    along with the time; raises ValueError otherwise."""
    if config.epoch is None:
        raise ValueError("a history needs a config with an epoch")
    series: dict[Metric, list[str]] = {}
    moment = start
    while moment <= end:
        world = build(config, moment)
        for node in world.nodes.values():
            target = f',instance="{node.name}:9400",job="dcgm-exporter"'
            is_up = int(node.has_exporter)
            series.setdefault(_UP, []).append(f"up{{{target[1:]}}} {is_up} {moment.timestamp():.3f}")
            for metric, samples in families(world, node) if is_up else ():
                series.setdefault(metric, []).extend(
                    f"{metric.name}{{{_written(labels)}{target}}} {_printed(value)} {moment.timestamp():.3f}"
                    for labels, value in samples
                )
        moment += step
    for metric, lines in series.items():
        yield f"# TYPE {metric.name} unknown\n"
        yield "\n".join(lines) + "\n"
    yield "# EOF\n"


def families(world: World, node: SimNode) -> Iterator[tuple[Metric, list[tuple[Labels, float]]]]:
    """The samples of one node by metric, each with its labels in the exporter's order."""
    metrics = [*METRICS, *BOARD_METRICS]
    if world.config.power_limit:
        metrics.insert(5, POWER_LIMIT)
    if world.config.sm_active:
        metrics.append(SM_ACTIVE)
    holders = holders_of(world, node)
    samples = [sample(world, device, holders.get(device.resource_id)) for device in node.devices]
    usual = [_labels(world, s, holders.get(s.device.resource_id)) for s in samples]
    with_xid = [_labels(world, s, holders.get(s.device.resource_id), has_xid=True) for s in samples]
    for metric in metrics:
        is_xid = metric.name == XID_METRIC
        found = []
        for one, labels in zip(samples, with_xid if is_xid else usual, strict=True):
            uuid = one.device.uuid
            is_silent = uuid in node.vanished or (uuid in node.fallen and not is_xid)
            if not is_silent and not (metric.is_whole_gpu and one.device.mig_profile):
                found.append((labels, metric.value(one)))
        if found:
            yield metric, found


def _printed(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6f}"


def holders_of(world: World, node: SimNode) -> dict[str, SimPod]:
    """By device id, what the kubelet's pod-resources API says: pods that have ended are not among them."""
    return {
        d.resource_id: pod for pod in world.pods_on.get(node.name, ()) if pod.state.holds for d in pod.devices
    }


def sample(world: World, device: Device, holder: SimPod | None) -> Sample:
    moment = sampled_at(world.now)
    node = world.nodes[device.node]
    profile, started = "none", node.created
    if holder is not None:
        profile = holder.workload.activity if holder.state.is_working else "none"
        started = holder.state.started or holder.created
    now = reading(profile, device, moment, world.epoch, started)
    before = (max(started, node.created) - node.created).total_seconds()
    since = max(0.0, (moment - started).total_seconds())
    energy = IDLE_W * before + now.mean_power_w * since
    total = MEMORY_MIB
    if device.mig_profile:
        total = int(float(device.mig_profile.split(".")[1].removesuffix("gb")) * 998)
    board = node.boards.get(device.uuid, Board())
    xid = node.xids.get(device.uuid, 0)
    return Sample(device, now, xid, int(energy * 1000), total, board, moment)


def _labels(world: World, one: Sample, holder: SimPod | None, *, has_xid: bool = False) -> Labels:
    """In the exporter's order: its own labels, then the others by name."""
    device = one.device
    labels = {
        "gpu": str(device.index),
        "UUID": device.uuid,
        "pci_bus_id": device.pci_bus_id,
        "device": f"nvidia{device.index}",
        "modelName": MODEL,
    }
    if device.mig_profile:
        labels |= {"GPU_I_PROFILE": device.mig_profile, "GPU_I_ID": str(device.mig_id)}
    labels |= {world.config.hostname_label: device.node, "DCGM_FI_DRIVER_VERSION": DRIVER}
    if holder is not None:
        labels["container"] = holder.workload.template.app["name"]
    if has_xid:
        labels |= {"err_code": str(one.xid), "err_msg": XID_TEXTS[one.xid]}
    if holder is not None:
        labels |= {"namespace": holder.namespace, "pod": holder.name}
    return tuple(labels.items())


@lru_cache(maxsize=20_000)
def _written(labels: Labels) -> str:
    return ",".join(f'{name}="{value}"' for name, value in labels)


def _used_mib(s: Sample) -> float:
    return min(s.reading.memory_mib, s.memory_total_mib - RESERVED_MIB - 1.0)


def _free_mib(s: Sample) -> float:
    return s.memory_total_mib - RESERVED_MIB - _used_mib(s)


def _temperature(s: Sample) -> float:
    """Water and air do their part: about 28 C idle, 64 C at full power, each board a little different."""
    return 24 + 0.062 * s.reading.power_w + number_of(5, s.device.uuid, "temperature")
