"""Recorded cases of GPU hardware and its metrics get their cause, also with boards, codes and loggers changed."""

from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnostics.collect.dcgm import Sample, Skips, devices_from
from diagnostics.collect.devices import joined
from diagnostics.collect.windows import RecentSamples, activity, extended, windows_of
from diagnostics.limits import Limits
from diagnostics.rules import engine
from diagnostics.snapshot import Past
from tests.builders import NOW, node, snapshot
from tests.corpus.boards import noisy, other_logger, other_numbers, picture, readings, renumbered
from tests.rules.hardware.boards import RULES

CASES: dict[str, dict[str, Any]] = {
    path.stem: yaml.safe_load(path.read_text())
    for path in sorted((Path(__file__).parents[2] / "corpus" / "hardware").glob("*.yaml"))
}
SAID = [name for name, case in CASES.items() if case["kind"] != "metrics"]
MUTATIONS = (renumbered, other_numbers, other_logger, noisy)


def causes(text: str, *, in_pod: bool) -> list[str]:
    outcome = engine.run(RULES, picture(text, in_pod=in_pod), Limits())
    assert outcome.failed == ()
    return [f.cause for f in outcome.findings]


def expected(name: str) -> list[str]:
    return [] if CASES[name]["cause"] == "none" else [CASES[name]["cause"]]


@pytest.mark.parametrize("name", SAID)
@pytest.mark.parametrize("in_pod", [True, False])
def test_a_recorded_case_gets_its_cause(name: str, in_pod: bool) -> None:
    assert causes(CASES[name]["input"], in_pod=in_pod) == expected(name)


@pytest.mark.parametrize("name", SAID)
@given(seed=st.integers(min_value=0, max_value=2**32))
@settings(max_examples=60, deadline=None)
def test_a_changed_case_keeps_its_cause(name: str, seed: int) -> None:
    random, text = Random(seed), CASES[name]["input"]
    for mutation in MUTATIONS:
        if random.random() < 0.7:
            text = mutation(text, random)
    assert causes(text, in_pod=random.random() < 0.5) == expected(name), text


@pytest.mark.parametrize("name", SAID)
def test_mutations_do_change_the_cases(name: str) -> None:
    text = CASES[name]["input"]
    for mutation in MUTATIONS:
        text = mutation(text, Random(3))
    assert text != CASES[name]["input"]


def decisive(name: str, old: str, new: str) -> list[str]:
    text = CASES[name]["input"]
    assert old in text
    return causes(text.replace(old, new), in_pod=True)


def test_one_decisive_fact_changes_the_answer() -> None:
    """The twins of the cases."""
    assert decisive("row_remap_pending", "Yes", "No") == []
    assert decisive("row_remap_pending", "Occurred        : No", "Occurred        : Yes") == [
        "row-remap-failed"
    ]
    assert decisive("xid43_one_process", "): 43,", "): 79,") == ["gpu-fallen-off-bus"]
    assert decisive("xid43_one_process", "): 43,", "): 45,") == []
    assert decisive("left_unhealthy_after_xid94", "             7", "             8") == []
    assert decisive("fallen_without_xid", "fallen off", "been found on") == []


def series(name: str) -> str:
    text: str = CASES[name]["input"]
    return text


@given(shares=st.integers(1, 12), value=st.integers(0, 100), honored=st.booleans())
def test_a_shared_gpu_is_counted_once(shares: int, value: int, honored: bool) -> None:
    line, *_ = series("shared_gpu_series_per_pod").splitlines()
    line = line.replace("} 96", f"}} {value}")
    if honored:
        line = line.replace('namespace="monitoring",pod="dcgm-exporter-78z52"', "").replace("exported_", "")
    text = "\n".join(line.replace('pod="pod1"', f'pod="w-{i}"') for i in range(shares))
    (device,) = readings(text)
    assert device.metrics.utilization_ratio == pytest.approx(value / 100)
    assert device.pods == tuple(sorted(f"default/w-{i}" for i in range(shares)))


@pytest.mark.parametrize("with_zero", [True, False])
@given(busy=st.floats(0.01, 1.0))
def test_a_mig_instance_is_judged_by_its_engine(with_zero: bool, busy: float) -> None:
    text = series("mig_without_gpu_util").replace("0.934000", f"{busy:.6f}")
    if with_zero:
        zeros = text.replace("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_GPU_UTIL")
        text += "\n".join(line.rpartition(" ")[0] + " 0" for line in zeros.splitlines())
    by_instance = {d.mig_instance: d.metrics for d in readings(text)}
    assert set(by_instance) == {"1", "2"}
    assert activity(by_instance["2"]) == pytest.approx(busy, abs=1e-6)
    assert activity(by_instance["1"]) == 0.0


@given(
    code=st.sampled_from([13, 31, 43, 45, 48, 63, 64, 74, 79, 92, 94, 95, 109, 119]), polls=st.integers(2, 30)
)
@settings(deadline=None)
def test_an_xid_gauge_that_stands_is_no_event(code: int, polls: int) -> None:
    text = (
        series("xid_gauge_stands")
        .replace('err_code="31"', f'err_code="{code}"')
        .replace("} 31", f"}} {code}")
    )
    host, recent = node("node-a"), RecentSamples()
    gpus = joined((host,), (), readings(text), Past())
    for number in range(polls, -1, -1):
        recent = extended(recent, gpus, NOW - timedelta(minutes=number))
    windows = windows_of(recent, NOW, timedelta(minutes=30))
    (standing,) = next(iter(windows.values())).xids
    assert (standing.last_at, standing.standing_since) == (None, NOW - timedelta(minutes=polls))
    watched = tuple(msgspec.structs.replace(gpu, window=windows.get(gpu.slot)) for gpu in gpus)
    assert engine.run(RULES, snapshot(host, *watched), Limits()).findings == ()


@given(
    value=st.one_of(
        st.sampled_from([2.0**32 - 1, 2.0**31 - 8, 2.0**63 - 14, -1.0, 255.0]), st.floats(106, 1e300)
    )
)
def test_an_impossible_sample_is_dropped_and_counted(value: float) -> None:
    lines = series("impossible_sample").splitlines()
    skips = Skips()
    samples = [
        Sample("DCGM_FI_DEV_GPU_UTIL", {"gpu": "1", "namespace": "a", "pod": f"train-{i}"}, v, NOW)
        for i, v in enumerate((0.0, value, 0.0)[: len(lines)])
    ]
    (device,) = devices_from(samples, skips=skips)
    assert device.metrics.utilization_ratio == 0.0
    assert sum(s.count for s in skips.listed()) == 1


def test_a_device_with_nothing_but_impossible_samples_is_unknown() -> None:
    (device,) = devices_from([Sample("DCGM_FI_DEV_GPU_UTIL", {"gpu": "1"}, 2.0**32 - 1, NOW)])
    assert device.metrics.utilization_ratio is None
