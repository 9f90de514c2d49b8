"""The health counters that operators add to dcgm-exporter's default list: links, ECC, clocks."""

from diagnostics.simulator.devices import POWER_LIMIT_W
from diagnostics.simulator.measured import Metric, Sample

IDLE, POWER_CAP = 0x1, 0x4
"""Of the clock event reasons: nothing to do, and as much power as it may draw."""
_NS_PER_H = 3600 * 10**9


def _link_gen(s: Sample) -> int:
    """An idle GPU lowers its link to save power."""
    return min(s.board.pcie_gen, 5 if s.reading.utilization else 1)


def _reasons(s: Sample) -> int:
    if s.board.clock_event_reasons is not None:
        return s.board.clock_event_reasons if s.reading.utilization else IDLE
    if not s.reading.utilization:
        return IDLE
    return POWER_CAP if s.reading.power_w > 0.88 * POWER_LIMIT_W else 0


BOARD_METRICS = (
    Metric(
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
        "Total number of PCIe retries.",
        lambda s: s.board.counted(60 * s.board.pcie_replays_per_min, s.at),
        "counter",
    ),
    Metric("DCGM_FI_DEV_PCIE_LINK_GEN", "PCIe current link generation.", _link_gen),
    Metric("DCGM_FI_DEV_PCIE_MAX_LINK_GEN", "PCIe max link generation.", lambda _: 5),
    Metric("DCGM_FI_DEV_PCIE_LINK_WIDTH", "PCIe current link width.", lambda s: s.board.pcie_width),
    Metric("DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH", "PCIe max link width.", lambda _: 16),
    Metric(
        "DCGM_FI_DEV_ROW_REMAP_FAILURE",
        "Whether remapping of rows has failed",
        lambda s: int(s.board.row_remap_failed),
    ),
    Metric(
        "DCGM_FI_DEV_ROW_REMAP_PENDING",
        "Whether remapping of rows is pending",
        lambda s: int(s.board.row_remap_pending),
    ),
    Metric(
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
        "Total number of double-bit volatile ECC errors.",
        lambda s: s.board.counted(s.board.ecc_uncorrectable_per_h, s.at),
        "counter",
    ),
    Metric(
        "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
        "Total number of NVLink flow-control CRC errors.",
        lambda s: s.board.counted(60 * s.board.nvlink_crc_errors_per_min, s.at),
        "counter",
    ),
    Metric(
        "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
        "Total number of NVLink recovery errors.",
        lambda s: s.board.counted(s.board.nvlink_recoveries_per_h, s.at),
        "counter",
    ),
    Metric("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "Current clock event reasons (bitmask).", _reasons),
    Metric("DCGM_FI_DEV_MAX_SM_CLOCK", "Maximum supported SM clock (in MHz).", lambda _: 1980),
    Metric(
        "DCGM_FI_DEV_THERMAL_VIOLATION",
        "Throttling duration due to thermal constraints (in ns).",
        lambda s: s.board.counted(_NS_PER_H * s.board.thermal_violation_ratio, s.at),
        "counter",
    ),
    Metric("DCGM_FI_DEV_SLOWDOWN_TEMP", "Slowdown temperature (in C).", lambda _: 87),
)
