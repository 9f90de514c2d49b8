"""The metrics that we read: each field of `Metrics`, and every name that exporters give it.

Names: dcgm-exporter's `etc/default-counters.csv` (first), the renames of DCGM 4.6 (`dcgm_fields.h`; the
exporter prints what its CSV file says, so both occur), and `etc/1.x-compatibility-metrics.csv` for
`--use-old-namespace`.
"""

import math

import msgspec

MIB = 2.0**20
PERCENT = 0.01
BLANK_FROM = 2.0**47
"""DCGM's markers for "no value": 2^47 as a float, about 2^63 as an integer (`dcgm_structs.h`, *_BLANK)."""
_INT32_BLANK = range(0x7FFFFFF0, 0x80000000)
_RATIO_MOST = 1.05
"""Counters are sampled: a ratio may overshoot by a little, and reads as 1 then."""


class Metric(msgspec.Struct, frozen=True):
    """One field of `Metrics`, and how it is read."""

    field: str
    names: tuple[str, ...]
    """Best first: where a device has several, the first one counts."""
    scale: float = 1.0
    """Sample times scale = our unit."""
    least: float | None = None
    most: float | None = None
    """Bounds in our unit; what lies outside is no measurement. Only ratios have an upper one."""


def _ratio(field: str, *names: str, scale: float = 1.0) -> Metric:
    return Metric(field, names, scale, 0.0, _RATIO_MOST)


def _amount(field: str, *names: str, scale: float = 1.0) -> Metric:
    return Metric(field, names, scale, 0.0)


METRICS = (
    # 0 to 100 also under the name GPU_UTIL_RATIO: an INT64 in DCGM 4.6 despite the suffix.
    _ratio("utilization_ratio", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO", "dcgm_gpu_utilization",
           scale=PERCENT),
    _ratio("gr_engine_ratio", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO",
           "dcgm_fi_prof_gr_engine_active"),
    _ratio("sm_active_ratio", "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_SM_UTIL_RATIO",
           "dcgm_fi_prof_sm_active"),
    _ratio("sm_occupancy_ratio", "DCGM_FI_PROF_SM_OCCUPANCY", "DCGM_FI_PROF_SM_OCCUPANCY_RATIO",
           "dcgm_fi_prof_sm_occupancy"),
    _ratio("tensor_active_ratio", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_TENSOR_UTIL_RATIO",
           "dcgm_fi_prof_pipe_tensor_active"),
    _ratio("dram_active_ratio", "DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_PROF_DRAM_UTIL_RATIO",
           "dcgm_fi_prof_dram_active"),
    _ratio("memory_copy_ratio", "DCGM_FI_DEV_MEM_COPY_UTIL", "dcgm_mem_copy_utilization", scale=PERCENT),
    _amount("memory_used_bytes", "DCGM_FI_DEV_FB_USED", "dcgm_fb_used", scale=MIB),
    _amount("memory_free_bytes", "DCGM_FI_DEV_FB_FREE", "dcgm_fb_free", scale=MIB),
    _amount("memory_reserved_bytes", "DCGM_FI_DEV_FB_RESERVED", scale=MIB),
    Metric("power_w", ("DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_BOARD_POWER_WATTS", "dcgm_power_usage")),
    # What the driver enforces after all limiters, else what was asked for.
    Metric("power_limit_w",
           ("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", "DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS",
            "DCGM_FI_DEV_POWER_MGMT_LIMIT", "DCGM_FI_DEV_BOARD_POWER_LIMIT_REQUESTED_WATTS")),
    Metric("temperature_c", ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS", "dcgm_gpu_temp")),
    Metric("memory_temperature_c", ("DCGM_FI_DEV_MEMORY_TEMP", "DCGM_FI_DEV_MEMORY_TEMP_CELSIUS",
                                    "dcgm_memory_temp")),
    _amount("sm_clock_mhz", "DCGM_FI_DEV_SM_CLOCK", "dcgm_sm_clock"),
    _amount("memory_clock_mhz", "DCGM_FI_DEV_MEM_CLOCK", "dcgm_memory_clock"),
    _amount("pcie_tx_bytes_per_s", "DCGM_FI_PROF_PCIE_TX_BYTES", "dcgm_fi_prof_pcie_tx_bytes"),
    _amount("pcie_rx_bytes_per_s", "DCGM_FI_PROF_PCIE_RX_BYTES", "dcgm_fi_prof_pcie_rx_bytes"),
    _amount("pcie_replays", "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "DCGM_FI_DEV_PCIE_REPLAY_TOTAL",
            "dcgm_pcie_replay_counter"),
    _amount("nvlink_tx_bytes_per_s", "DCGM_FI_PROF_NVLINK_TX_BYTES"),
    _amount("nvlink_rx_bytes_per_s", "DCGM_FI_PROF_NVLINK_RX_BYTES"),
    _amount("xid", "DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_XID_ERROR", "dcgm_xid_errors"),
    _amount("row_remap_failed", "DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_ROW_REMAP_FAILED"),
    _amount("row_remap_pending", "DCGM_FI_DEV_ROW_REMAP_PENDING"),
    _amount("remapped_rows_uncorrectable", "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
            "DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL"),
    _amount("ecc_uncorrectable_volatile", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "dcgm_ecc_dbe_volatile_total"),
    _amount("clock_event_reasons", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"),
    _amount("recovery_action", "DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION", "DCGM_FI_DEV_GPU_RECOVERY_ACTION"),
    _amount("sm_clock_max_mhz", "DCGM_FI_DEV_MAX_SM_CLOCK"),
    _amount("pcie_link_gen", "DCGM_FI_DEV_PCIE_LINK_GEN"),
    _amount("pcie_link_gen_max", "DCGM_FI_DEV_PCIE_MAX_LINK_GEN"),
    _amount("pcie_link_width", "DCGM_FI_DEV_PCIE_LINK_WIDTH"),
    _amount("pcie_link_width_max", "DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH"),
    _amount("nvlink_crc_flit_errors", "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
            "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_TOTAL", "dcgm_nvlink_flit_crc_error_count_total"),
    _amount("nvlink_crc_data_errors", "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL",
            "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_TOTAL", "dcgm_nvlink_data_crc_error_count_total"),
    _amount("nvlink_replays", "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL",
            "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_TOTAL", "dcgm_nvlink_replay_error_count_total"),
    _amount("nvlink_recoveries", "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
            "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_TOTAL", "dcgm_nvlink_recovery_error_count_total",
            "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS", "DCGM_FI_DEV_NVLINK_RECOVERY_EVENT_TOTAL"),
    _amount("nvlink_recovery_failures", "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS",
            "DCGM_FI_DEV_NVLINK_RECOVERY_FAILED_TOTAL"),
    # DCGM's header says microseconds; NVML, whose value it hands on, and the exporter say nanoseconds.
    _amount("thermal_violation_s", "DCGM_FI_DEV_THERMAL_VIOLATION", "dcgm_thermal_violation", scale=1e-9),
    _amount("power_violation_s", "DCGM_FI_DEV_POWER_VIOLATION", "dcgm_power_violation", scale=1e-9),
    Metric("temperature_slowdown_c", ("DCGM_FI_DEV_SLOWDOWN_TEMP", "DCGM_FI_DEV_GPU_TEMP_SLOWDOWN_CELSIUS")),
    Metric("temperature_shutdown_c", ("DCGM_FI_DEV_SHUTDOWN_TEMP", "DCGM_FI_DEV_GPU_TEMP_SHUTDOWN_CELSIUS")),
    Metric("memory_temperature_limit_c",
           ("DCGM_FI_DEV_MEM_MAX_OP_TEMP", "DCGM_FI_DEV_MEMORY_MAX_OP_TEMP_CELSIUS")),
    _amount("ecc_correctable_volatile", "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "dcgm_ecc_sbe_volatile_total"),
    _amount("ecc_correctable_aggregate", "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", "dcgm_ecc_sbe_aggregate_total"),
    _amount("ecc_uncorrectable_aggregate", "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", "dcgm_ecc_dbe_aggregate_total"),
    _amount("remapped_rows_correctable", "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
            "DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL"),
    _amount("retired_pages_correctable", "DCGM_FI_DEV_RETIRED_SBE", "DCGM_FI_DEV_PAGE_RETIRED_SBE_TOTAL",
            "dcgm_retired_pages_sbe"),
    _amount("retired_pages_uncorrectable", "DCGM_FI_DEV_RETIRED_DBE", "DCGM_FI_DEV_PAGE_RETIRED_DBE_TOTAL",
            "dcgm_retired_pages_dbe"),
    _amount("page_retirement_pending", "DCGM_FI_DEV_RETIRED_PENDING", "DCGM_FI_DEV_PAGE_RETIRED_PENDING",
            "dcgm_retired_pages_pending"),
)  # fmt: skip

METRIC_BY_FIELD = {metric.field: metric for metric in METRICS}
METRIC_BY_NAME = {name: (metric, rank) for metric in METRICS for rank, name in enumerate(metric.names)}
"""Prometheus metric name -> the field's metric, and how much this name is preferred (0 is best)."""

WINDOW_FIELDS = (
    "utilization_ratio",
    "gr_engine_ratio",
    "sm_active_ratio",
    "tensor_active_ratio",
    "dram_active_ratio",
    "memory_used_bytes",
    "power_w",
)
"""Fields of `Window` that are a `Stat` over time."""

ACTIVITY_FIELDS = WINDOW_FIELDS[:5]
"""Engine activity: the larger of these is how busy a device was."""

COUNTERS = (
    "pcie_replays",
    "nvlink_crc_flit_errors",
    "nvlink_crc_data_errors",
    "nvlink_replays",
    "nvlink_recoveries",
    "nvlink_recovery_failures",
    "ecc_uncorrectable_volatile",
    "thermal_violation_s",
    "power_violation_s",
)
"""Fields of `Metrics` that only rise until the driver is loaded anew; `Window` has by how much, as `<field>_grown`."""

XID_COUNT = "DCGM_EXP_XID_ERRORS_COUNT"
"""Computed by the exporter, off by default: Xids per code (label `xid`) in a sliding window, mostly 5 min."""

NOT_FINITE = "value is not a finite number"
BLANK = "value is DCGM's marker for no value"
OUT_OF_RANGE = "value is outside the metric's range"


def measured(metric: Metric, sample: float) -> float:
    """The sample in our unit. Raises ValueError with one of the reasons above where it is no measurement."""
    if not math.isfinite(sample):
        raise ValueError(NOT_FINITE)
    if abs(sample) >= BLANK_FROM or (sample.is_integer() and int(sample) in _INT32_BLANK):
        raise ValueError(BLANK)
    value = sample * metric.scale
    least, most = metric.least, metric.most
    if (least is not None and value < least) or (most is not None and value > most):
        raise ValueError(OUT_OF_RANGE)
    return min(value, 1.0) if most is not None else value
