"""The exporters' text can be read by Prometheus, and shows what each GPU's holder does."""

import http.client
import json
import shutil
import subprocess
from datetime import timedelta
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from diagnostics.simulator.config import WorldConfig
from diagnostics.simulator.exporter import history, page
from diagnostics.simulator.server import SimulatedCluster
from diagnostics.simulator.world import World
from tests.simulator.simulated import NOW, ask_json, world


def _samples(built: World, node: str) -> list[Sample]:
    families = text_string_to_metric_families(page(built, built.nodes[node]))
    return [s for family in families for s in family.samples]


def _value(built: World, node: str, index: int, metric: str) -> float:
    return next(s.value for s in _samples(built, node) if s.name == metric and s.labels["gpu"] == str(index))


def test_each_node_has_a_page_with_all_its_gpus(cluster: SimulatedCluster) -> None:
    assert len(cluster.exporter_urls) == 12
    for url in cluster.exporter_urls:
        with urlopen(url, timeout=5) as answer:
            text = answer.read().decode()
        families = {f.name: f for f in text_string_to_metric_families(text)}
        assert len(families["DCGM_FI_DEV_GPU_UTIL"].samples) == 8
        assert len(families) == 39


def test_labels_name_the_board_the_node_and_the_holder() -> None:
    sample = next(s for s in _samples(world(), "gpu-01") if s.name == "DCGM_FI_DEV_FB_USED")
    assert sample.labels["Hostname"] == "gpu-01"
    assert sample.labels["namespace"] == "research"
    assert sample.labels["pod"].startswith("llm-pretrain-0-")
    assert sample.labels["container"] == "torch"
    assert sample.labels["UUID"].startswith("GPU-")
    assert sample.labels["pci_bus_id"] == "00000000:1B:00.0"
    unheld = [s for s in _samples(world(), "gpu-11") if s.name == "DCGM_FI_DEV_FB_USED"]
    assert not any("pod" in s.labels for s in unheld)


def test_memory_adds_up_to_the_boards() -> None:
    built = world()
    for index in range(8):
        parts = [_value(built, "gpu-09", index, f"DCGM_FI_DEV_FB_{p}") for p in ("USED", "FREE", "RESERVED")]
        assert abs(sum(parts) - 81559) <= 1


def test_the_optional_metrics_can_be_left_out() -> None:
    built = world(sm_active=False, power_limit=False, hostname_label="hostname")
    names = {s.name for s in _samples(built, "gpu-01")}
    assert "DCGM_FI_PROF_SM_ACTIVE" not in names
    assert "DCGM_FI_DEV_ENFORCED_POWER_LIMIT" not in names
    assert _samples(built, "gpu-01")[0].labels["hostname"] == "gpu-01"


def test_an_idle_server_holds_memory_and_never_works() -> None:
    for minutes in range(0, 40, 2):
        built = world("idle-loaded", now=NOW + timedelta(minutes=minutes), epoch=NOW)
        pod = next(p for p in built.pods if p.workload.name == "summarizer")
        index = pod.devices[0].index
        assert _value(built, pod.node, index, "DCGM_FI_PROF_GR_ENGINE_ACTIVE") == 0
        assert _value(built, pod.node, index, "DCGM_FI_DEV_FB_USED") > 30_000
        assert _value(built, pod.node, index, "DCGM_FI_DEV_POWER_USAGE") < 0.2 * 700


def test_a_notebook_has_worked_within_any_half_hour_and_rests_at_the_epoch() -> None:
    def activity(minutes: int) -> float:
        built = world(now=NOW + timedelta(minutes=minutes), epoch=NOW)
        return _value(built, "gpu-09", 0, "DCGM_FI_PROF_GR_ENGINE_ACTIVE")

    values = [activity(m) for m in range(-30, 31)]
    assert values[30] == 0
    assert max(values[15:31]) > 0.5
    assert all(max(values[i : i + 30]) > 0.5 for i in range(31))


def test_the_energy_counter_never_falls() -> None:
    seen = [
        _value(
            world(now=NOW + timedelta(minutes=m), epoch=NOW),
            "gpu-01",
            0,
            "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION_total",
        )
        for m in range(5)
    ]
    assert seen == sorted(seen)
    assert seen[-1] > seen[0]


def test_values_are_repeated_for_half_a_minute() -> None:
    def text(seconds: int) -> str:
        built = world(now=NOW + timedelta(seconds=seconds), epoch=NOW)
        return page(built, built.nodes["gpu-01"])

    assert text(0) == text(29) != text(30)


def test_a_gpu_off_the_bus_keeps_only_its_xid() -> None:
    built = world("xid-79")
    left = {s.name for s in _samples(built, "gpu-08") if s.labels["gpu"] == "3"}
    assert left == {"DCGM_FI_DEV_XID_ERRORS"}
    assert _value(built, "gpu-08", 3, "DCGM_FI_DEV_XID_ERRORS") == 79


def test_a_mig_gpu_shows_instances_without_utilisation() -> None:
    samples = [s for s in _samples(world("cuda-oom-mig-slice"), "gpu-10") if s.labels["gpu"] == "7"]
    assert {s.labels["GPU_I_PROFILE"] for s in samples} == {"1g.10gb"}
    assert "DCGM_FI_DEV_GPU_UTIL" not in {s.name for s in samples}
    assert len([s for s in samples if s.name == "DCGM_FI_DEV_FB_USED"]) == 7


@pytest.mark.parametrize("slug", ["driver-pull-failing", "stuck-unknown", "toolkit-crash-loop"])
def test_an_exporter_that_does_not_run_does_not_answer(slug: str) -> None:
    with SimulatedCluster(WorldConfig(faults=(slug,)), lambda: NOW) as cluster:
        with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
            urlopen(f"{cluster.url}/nodes/gpu-11/metrics", timeout=5)
        with urlopen(f"{cluster.url}/nodes/gpu-01/metrics", timeout=5) as answer:
            assert answer.status == 200


def test_prometheus_finds_one_target_a_node(cluster: SimulatedCluster) -> None:
    targets = ask_json(cluster.url + "/sd")
    assert len(targets) == 12
    assert targets[0]["labels"]["__metrics_path__"] == "/nodes/gpu-01/metrics"
    assert json.dumps(targets)


def test_a_history_has_the_samples_before_and_after_a_fault() -> None:
    config = WorldConfig(faults=("xid-119",), epoch=NOW)
    lines = "".join(history(config, NOW - timedelta(minutes=14), NOW, timedelta(minutes=7))).splitlines()
    assert lines[-1] == "# EOF"
    xids = [line for line in lines if 'XID_ERRORS{gpu="2"' in line and 'Hostname="gpu-07"' in line]
    assert [line.rsplit(" ", 2)[1] for line in sorted(xids, key=lambda x: x.rsplit(" ", 1)[1])] == [
        "0",
        "119",
        "119",
    ]
    assert sum(line.startswith("up{") for line in lines) == 3 * 12


def test_a_history_needs_an_epoch() -> None:
    with pytest.raises(ValueError, match="epoch"):
        list(history(WorldConfig(), NOW, NOW, timedelta(seconds=30)))


@pytest.mark.service
def test_promtool_takes_the_history(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is missing: install prometheus")
    file = tmp_path / "history.om"
    config = WorldConfig(faults=("xid-95",), epoch=NOW)
    with file.open("w") as out:
        out.writelines(history(config, NOW - timedelta(minutes=3), NOW, timedelta(seconds=30)))
    command = [promtool, "tsdb", "create-blocks-from", "openmetrics", str(file), str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "error" not in (done.stdout + done.stderr).lower()


def test_a_board_that_is_not_well_shows_it_in_its_own_series_alone() -> None:
    hot, cool = world("gpu-too-hot"), world("at-power-cap")
    reasons, clock = "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_SM_CLOCK"
    assert (_value(hot, "gpu-01", 5, reasons), _value(hot, "gpu-01", 5, clock)) == (0x40, 1140)
    assert _value(cool, "gpu-01", 5, reasons) == 0x4
    assert _value(hot, "gpu-01", 6, reasons) in (0, 0x4)
    assert _value(hot, "gpu-01", 5, "DCGM_FI_DEV_THERMAL_VIOLATION_total") > 0
    assert _value(hot, "gpu-01", 6, "DCGM_FI_DEV_THERMAL_VIOLATION_total") == 0


def test_a_gpu_that_vanished_has_no_series_and_is_not_offered() -> None:
    gone = world("gpu-vanished")
    assert {s.labels["gpu"] for s in _samples(gone, "gpu-12")} == {str(i) for i in range(8) if i != 5}
    assert gone.nodes["gpu-12"].allocatable()["nvidia.com/gpu"] == 7
