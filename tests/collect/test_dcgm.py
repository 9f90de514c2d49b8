"""Samples become one reading per device, whatever names and labels the exporter or Prometheus gave them."""

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnostics.collect.dcgm import Sample, Skips, devices_from
from diagnostics.collect.dcgm_labels import is_exporter, model_name, owner_of
from diagnostics.collect.dcgm_metrics import METRIC_BY_NAME, METRICS, WINDOW_FIELDS
from diagnostics.snapshot import Metrics, Window
from diagnostics.snapshot.pci import pci_address

AT = datetime(2026, 11, 3, 12, 0, tzinfo=UTC)
BOARD = {
    "gpu": "0",
    "UUID": "GPU-1f0a7c52",
    "pci_bus_id": "00000000:0F:00.0",
    "device": "nvidia0",
    "modelName": "NVIDIA H100 80GB HBM3",
    "Hostname": "gpu-node-01",
    "DCGM_FI_DRIVER_VERSION": "580.126.20",
}
HELD = {"container": "trainer", "namespace": "team-a", "pod": "llm-worker-0"}
EXPORTER = {
    "container": "nvidia-dcgm-exporter",
    "namespace": "gpu-operator",
    "pod": "nvidia-dcgm-exporter-k7x2p",
    "instance": "10.2.3.4:9400",
    "job": "nvidia-dcgm-exporter",
}


def sample(name: str, value: float, at: datetime | None = AT, /, **labels: str) -> Sample:
    return Sample(name, {**BOARD, **labels}, value, at)


def test_reads_a_board_and_its_holder() -> None:
    (device,) = devices_from(
        [
            sample("DCGM_FI_DEV_GPU_UTIL", 98, **HELD),
            sample("DCGM_FI_DEV_FB_USED", 71342, **HELD),
            sample("DCGM_FI_DEV_ROW_REMAP_FAILURE", 0, **HELD),
            sample("DCGM_FI_DEV_XID_ERRORS", 94, err_code="94", err_msg="Contained ECC error", **HELD),
        ]
    )
    assert device.metrics == Metrics(
        sampled_at=AT,
        utilization_ratio=0.98,
        memory_used_bytes=71342 * 2**20,
        row_remap_failed=False,
        xid=94,
    )
    assert device.uuid == "GPU-1f0a7c52"
    assert device.pci == "00000000:0f:00.0"
    assert device.index == 0
    assert device.model == "NVIDIA-H100-80GB-HBM3"
    assert device.driver == "580.126.20"
    assert device.node_hints == ("gpu-node-01",)
    assert device.pods == ("team-a/llm-worker-0",)
    assert device.mig_instance is None


def test_every_field_of_the_table_exists_in_the_snapshot() -> None:
    assert {m.field for m in METRICS} == set(Metrics.__struct_fields__) - {"sampled_at"}
    assert set(WINDOW_FIELDS) <= set(Window.__struct_fields__)
    assert len(METRIC_BY_NAME) == sum(len(m.names) for m in METRICS), "a name stands for one field only"


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        ("DCGM_FI_DEV_GPU_UTIL_RATIO", 98, "utilization_ratio", 0.98),
        ("dcgm_gpu_utilization", 98, "utilization_ratio", 0.98),
        ("DCGM_FI_DEV_MEM_COPY_UTIL", 40, "memory_copy_ratio", 0.4),
        ("DCGM_FI_PROF_SM_UTIL_RATIO", 0.31, "sm_active_ratio", 0.31),
        ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 0.412381, "tensor_active_ratio", 0.412381),
        ("DCGM_FI_PROF_TENSOR_UTIL_RATIO", 0.4, "tensor_active_ratio", 0.4),
        ("DCGM_FI_PROF_DRAM_ACTIVE", 1.002, "dram_active_ratio", 1.0),
        ("DCGM_FI_DEV_BOARD_POWER_WATTS", 71.448, "power_w", 71.448),
        ("DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS", 700, "power_limit_w", 700),
        ("DCGM_FI_DEV_GPU_TEMP_CELSIUS", 61, "temperature_c", 61),
        ("dcgm_fb_free", 512, "memory_free_bytes", 512 * 2**20),
        ("DCGM_FI_DEV_XID_ERROR", 79, "xid", 79),
        ("DCGM_FI_DEV_PCIE_REPLAY_TOTAL", 3, "pcie_replays", 3),
        ("DCGM_FI_DEV_ROW_REMAP_FAILED", 1, "row_remap_failed", True),
        ("DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL", 2, "remapped_rows_uncorrectable", 2),
        ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", 0x48, "clock_event_reasons", 0x48),
        ("DCGM_FI_DEV_GPU_RECOVERY_ACTION", 2, "recovery_action", 2),
    ],
)
def test_reads_renamed_metrics_in_our_units(name: str, value: float, field: str, expected: float) -> None:
    (device,) = devices_from([sample(name, value)])
    assert getattr(device.metrics, field) == pytest.approx(expected)
    others = set(Metrics.__struct_fields__) - {field, "sampled_at"}
    assert all(getattr(device.metrics, other) is None for other in others), "not collected is not zero"


def test_prefers_the_enforced_power_limit_over_the_one_asked_for() -> None:
    (device,) = devices_from(
        [sample("DCGM_FI_DEV_POWER_MGMT_LIMIT", 700), sample("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", 400)]
    )
    assert device.metrics.power_limit_w == 400


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (math.nan, "value is not a finite number"),
        (math.inf, "value is not a finite number"),
        (-math.inf, "value is not a finite number"),
        (9223372036854775794, "value is DCGM's marker for no value"),
        (140737488355328.0, "value is DCGM's marker for no value"),
        (2147483632, "value is DCGM's marker for no value"),
        (250, "value is outside the metric's range"),
        (-1, "value is outside the metric's range"),
    ],
)
def test_drops_and_counts_what_is_no_measurement(value: float, reason: str) -> None:
    skips = Skips()
    devices = devices_from(
        [sample("DCGM_FI_DEV_GPU_UTIL", value), sample("DCGM_FI_DEV_GPU_TEMP", 40)], skips=skips
    )
    assert devices[0].metrics == Metrics(sampled_at=AT, temperature_c=40)
    assert [(s.reason, s.count) for s in skips.listed()] == [(reason, 1)]


def test_leaves_odd_power_and_temperature_alone() -> None:
    (device,) = devices_from([sample("DCGM_FI_DEV_GPU_TEMP", -3), sample("DCGM_FI_DEV_POWER_USAGE", 5000)])
    assert (device.metrics.temperature_c, device.metrics.power_w) == (-3, 5000)


def test_keeps_a_device_whose_samples_are_all_unusable() -> None:
    (device,) = devices_from([sample("DCGM_FI_DEV_GPU_UTIL", math.nan)])
    assert device.metrics == Metrics()


def test_counts_series_without_a_device_and_series_that_occur_twice() -> None:
    skips = Skips()
    devices = devices_from(
        [
            Sample("DCGM_FI_DEV_GPU_UTIL", {}, 3, AT),
            Sample("DCGM_FI_DEV_GPU_UTIL", {"Hostname": "gpu-node-01"}, 3, AT),
            sample("DCGM_FI_DEV_GPU_UTIL", 3),
            sample("DCGM_FI_DEV_GPU_UTIL", 5),
        ],
        skips=skips,
    )
    assert [d.metrics.utilization_ratio for d in devices] == [0.05]
    assert {s.reason: s.count for s in skips.listed()} == {
        "series names no device": 2,
        "series occurs twice": 1,
    }


def test_never_sums_over_the_pods_that_share_a_board() -> None:
    shared = [
        sample("DCGM_FI_DEV_FB_USED", 9120),
        sample("DCGM_FI_DEV_FB_USED", 5210, namespace="serving", pod="emb-0", pod_uid="0d5c", vgpu="1"),
        sample("DCGM_FI_DEV_FB_USED", 3890, namespace="serving", pod="emb-1", pod_uid="8f41", vgpu="3"),
        sample("DCGM_FI_DEV_POWER_USAGE", 54.12, namespace="serving", pod="emb-0", vgpu="1"),
        sample("DCGM_FI_DEV_POWER_USAGE", 54.12, namespace="serving", pod="emb-1", vgpu="3"),
    ]
    skips = Skips()
    (device,) = devices_from(shared, skips=skips)
    assert device.pods == ("serving/emb-0", "serving/emb-1")
    assert device.metrics.memory_used_bytes == 9120 * 2**20
    assert device.metrics.power_w == 54.12
    assert skips.listed() == ()


def test_keeps_instances_of_one_board_apart() -> None:
    devices = devices_from(
        [
            sample("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.18, GPU_I_PROFILE="1g.10gb", GPU_I_ID="9"),
            sample("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.0, GPU_I_PROFILE="2g.20gb", GPU_I_ID="3"),
        ]
    )
    assert [(d.mig_instance, d.mig_profile, d.metrics.gr_engine_ratio) for d in devices] == [
        ("3", "2g.20gb", 0.0),
        ("9", "1g.10gb", 0.18),
    ]
    assert {d.uuid for d in devices} == {"GPU-1f0a7c52"}


def test_keeps_boards_of_two_nodes_apart_that_lack_a_uuid() -> None:
    def nameless(node: str) -> Sample:
        return Sample("DCGM_FI_DEV_GPU_TEMP", {"gpu": "0", "hostname": node}, 40, AT)

    devices = devices_from([nameless("a"), nameless("b"), nameless("a")])
    assert [(d.node_hints, d.index) for d in devices] == [(("a",), 0), (("b",), 0)]


@pytest.mark.parametrize(
    ("labels", "owner"),
    [
        ({}, None),
        ({"pod": "", "namespace": "", "container": ""}, None),
        (HELD, "team-a/llm-worker-0"),
        (EXPORTER, None),
        ({"pod": "dcgm-exporter-abcde", "namespace": "monitoring", "container": "exporter"}, None),
        ({"pod": "metrics-1", "namespace": "gke-managed-system"}, None),
        ({**EXPORTER, "exported_pod": "w-0", "exported_namespace": "team-a"}, "team-a/w-0"),
        ({**EXPORTER, "exported_pod": "", "exported_namespace": ""}, None),
        ({**EXPORTER, "pod_name": "w-0", "pod_namespace": "team-a"}, "team-a/w-0"),
        # Only the names that the target has too are moved aside.
        ({"namespace": "gpu-operator", "exported_namespace": "team-a", "pod": "w-0"}, "team-a/w-0"),
        ({"exported_pod": "w-0", "pod": "nvidia-dcgm-exporter-x", "namespace": "team-a"}, "team-a/w-0"),
        ({"pod": "w-0"}, None),
    ],
)
def test_finds_the_holder_and_never_takes_the_exporter_for_it(
    labels: dict[str, str], owner: str | None
) -> None:
    assert owner_of(labels) == owner


def test_names_the_scraped_node_first_and_the_exporters_pod_last() -> None:
    (device,) = devices_from(
        [Sample("DCGM_FI_DEV_GPU_TEMP", {**BOARD, **EXPORTER, "node": "n7"}, 40, AT)], node="told"
    )
    assert device.node_hints == ("told", "gpu-node-01", "n7", "10.2.3.4", "nvidia-dcgm-exporter-k7x2p")


def test_takes_lower_case_labels_and_an_old_uuid_label() -> None:
    labels = {"gpu": "3", "uuid": "GPU-9", "hostname": "n1", "model_name": "Tesla T4"}
    (device,) = devices_from([Sample("dcgm_gpu_temp", labels, 40, AT)])
    assert (device.uuid, device.index, device.node_hints, device.model) == ("GPU-9", 3, ("n1",), "Tesla-T4")


def test_drops_what_a_former_exporter_pod_left_behind() -> None:
    old = AT - timedelta(minutes=4)
    skips = Skips()
    (device,) = devices_from(
        [
            sample("DCGM_FI_DEV_GPU_UTIL", 97, old, instance="10.0.0.1:9400", **HELD),
            sample("DCGM_FI_DEV_GPU_UTIL", 0, instance="10.0.0.2:9400"),
        ],
        skips=skips,
    )
    assert device.metrics.utilization_ratio == 0
    assert device.pods == ()
    assert [s.count for s in skips.listed()] == [1]


def test_keeps_old_samples_where_there_are_no_newer_ones() -> None:
    old = AT - timedelta(hours=1)
    (device,) = devices_from([sample("DCGM_FI_DEV_GPU_UTIL", 97, old)])
    assert device.metrics.sampled_at == old
    assert device.metrics.utilization_ratio == 0.97


@pytest.mark.parametrize(
    "text", ["00000000:0F:00.0", "0000:0f:00.0", "0F:00.0", "PCI:0000:0f:00", "0:0F:00", " 0000:0F:00.0 "]
)
def test_spells_a_pci_address_in_one_way(text: str) -> None:
    assert pci_address(text) == "00000000:0f:00.0"


@pytest.mark.parametrize("text", ["", "nvidia0", "0F", "0000:0F:00.9", "0000:0F:00.0; rm"])
def test_takes_nothing_else_for_a_pci_address(text: str) -> None:
    assert pci_address(text) is None


def test_spells_a_model_as_the_node_label_does() -> None:
    assert model_name("NVIDIA A100-SXM4-80GB") == "NVIDIA-A100-SXM4-80GB"
    assert model_name("NVIDIA  H100 80GB HBM3 ") == model_name("NVIDIA-H100-80GB-HBM3")


def test_tells_a_workload_from_the_exporter() -> None:
    assert not is_exporter("team-a", "trainer-0", "main")
    assert is_exporter("team-a", "my-dcgm-exporter-x", "")


@given(
    st.lists(
        st.builds(
            Sample,
            st.sampled_from([*METRIC_BY_NAME, "up"]),
            st.dictionaries(
                st.sampled_from([*BOARD, "pod", "namespace", "exported_pod", "GPU_I_ID", "instance"]),
                st.text(max_size=8),
            ),
            st.floats(),
            st.none() | st.just(AT),
        ),
        max_size=8,
    )
)
def test_survives_any_labels_and_values(samples: list[Sample]) -> None:
    for device in devices_from(samples):
        assert all(pod.count("/") >= 1 for pod in device.pods)
        ratios = [getattr(device.metrics, f) for f in Metrics.__struct_fields__ if f.endswith("_ratio")]
        assert all(ratio is None or 0 <= ratio <= 1 for ratio in ratios)


@pytest.mark.parametrize(
    ("names", "field", "value", "read"),
    [
        (("DCGM_FI_DEV_PCIE_LINK_WIDTH",), "pcie_link_width", 8, 8),
        (("DCGM_FI_DEV_PCIE_MAX_LINK_GEN",), "pcie_link_gen_max", 5, 5),
        (
            (
                "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
                "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_TOTAL",
                "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS",
            ),
            "nvlink_recoveries",
            4,
            4,
        ),
        (("DCGM_FI_DEV_THERMAL_VIOLATION", "dcgm_thermal_violation"), "thermal_violation_s", 5e9, 5),
        (
            ("DCGM_FI_DEV_RETIRED_PENDING", "DCGM_FI_DEV_PAGE_RETIRED_PENDING"),
            "page_retirement_pending",
            2,
            True,
        ),
        (
            ("DCGM_FI_DEV_SLOWDOWN_TEMP", "DCGM_FI_DEV_GPU_TEMP_SLOWDOWN_CELSIUS"),
            "temperature_slowdown_c",
            87,
            87,
        ),
    ],
)
def test_reads_health_under_old_and_new_names(
    names: tuple[str, ...], field: str, value: float, read: float
) -> None:
    for name in names:
        (device,) = devices_from([sample(name, value)])
        assert getattr(device.metrics, field) == pytest.approx(read), name
