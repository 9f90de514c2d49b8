"""The last hours of some GPUs, from a scripted server and from a real Prometheus."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from diagnostics.collect.bounded_http import Unreadable
from diagnostics.collect.ranges import MOST_BOARDS, Range, read_range
from diagnostics.collect.target import PrometheusTarget
from diagnostics.snapshot import SourceState
from tests.fakes import gpu_history
from tests.fakes.gpu_history import HANDOVER_AT, NOW, SPAN
from tests.fakes.web import Asked, Reply, Web, web
from tests.servers import prometheus

STEP = timedelta(minutes=1)
AT = int(NOW.timestamp())
POWER = "DCGM_FI_DEV_POWER_USAGE"


def series(
    name: str, uuid: str, *values: tuple[int, str], label: str = "UUID", **labels: str
) -> dict[str, Any]:
    return {"metric": {"__name__": name, label: uuid} | labels, "values": [list(value) for value in values]}


def answered(*found: dict[str, Any]) -> Reply:
    body = {"status": "success", "data": {"resultType": "matrix", "result": list(found)}}
    return Reply(json.dumps(body).encode(), content_type="application/json")


def read(url: str, *uuids: str, minutes: int = 3, **options: Any) -> Range:
    return read_range(
        PrometheusTarget(url=url, **options), uuids, timedelta(minutes=minutes), STEP, NOW, timeout_s=5.0
    )


def read_of(*found: dict[str, Any], uuids: tuple[str, ...] = ("GPU-a",)) -> Range:
    with web(lambda asked: answered(*found)) as fake:
        return read(fake.url, *uuids)


def test_values_stand_at_their_steps_and_missing_ones_are_none() -> None:
    found = read_of(series(POWER, "GPU-a", (AT - 120, "300.5"), (AT, "310")))

    assert (found.grid.start_s, found.grid.step_s, found.grid.count) == (AT - 120, 60, 3)
    assert found.values == {("GPU-a", ""): {"power_w": [300.5, None, 310.0]}}


def test_values_come_in_the_units_of_the_fields() -> None:
    found = read_of(
        series("DCGM_FI_DEV_GPU_UTIL", "GPU-a", (AT, "87")),
        series("DCGM_FI_DEV_FB_USED", "GPU-a", (AT, "1024")),
    )

    fields = found.values["GPU-a", ""]
    assert fields["utilization_ratio"][-1] == pytest.approx(0.87)
    assert fields["memory_used_bytes"][-1] == 2**30


def test_what_is_no_measurement_is_missing() -> None:
    blank = str(2.0**47)
    found = read_of(series(POWER, "GPU-a", (AT - 120, "NaN"), (AT - 60, blank), (AT, "oops")))

    assert found.values["GPU-a", ""]["power_w"] == [None, None, None]


def test_the_preferred_name_counts_and_the_other_fills_its_gaps() -> None:
    found = read_of(
        series("DCGM_FI_DEV_BOARD_POWER_WATTS", "GPU-a", (AT - 60, "1"), (AT, "2")),
        series(POWER, "GPU-a", (AT, "300")),
    )

    assert found.values["GPU-a", ""]["power_w"] == [None, 1.0, 300.0]


def test_instances_are_told_apart_and_either_label_names_the_board() -> None:
    found = read_of(
        series(POWER, "GPU-a", (AT, "1"), GPU_I_ID="7"),
        series("dcgm_power_usage", "GPU-a", (AT, "2"), label="uuid"),
    )

    assert set(found.values) == {("GPU-a", "7"), ("GPU-a", "")}


def test_everything_is_asked_in_one_question_with_the_matchers_of_the_site() -> None:
    with web(lambda asked: answered()) as fake:
        read(fake.url, "GPU-b", "GPU-a", "GPU-a", extra_matchers='cluster="prod"')

    (asked,) = fake.asked
    assert asked.method == "GET"
    assert 'UUID=~"GPU-a|GPU-b",cluster="prod"' in asked.query["query"]
    assert POWER in asked.query["query"]


def test_what_is_no_uuid_reaches_no_question() -> None:
    hostile = ['GPU-a"} or vector(1) or {x="', "a|b", ".*", "x" * 81, "ü", ""]
    with web(lambda asked: answered()) as fake:
        assert read(fake.url, *hostile).values == {}

    assert fake.asked == []


def test_the_address_stays_bounded() -> None:
    asked = _asked_for([f"GPU-{number:036}" for number in range(1000)])

    assert asked.query["query"].count("GPU-0") == 2 * MOST_BOARDS


def _asked_for(uuids: list[str]) -> Asked:
    fake: Web
    with web(lambda asked: answered()) as fake:
        read(fake.url, *uuids)
    return fake.asked[0]


def test_a_refusal_says_so() -> None:
    with web(lambda asked: Reply(b"{}", status=403)) as fake, pytest.raises(Unreadable) as refused:
        read(fake.url, "GPU-a")

    assert refused.value.state is SourceState.FORBIDDEN


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with prometheus(tmp_path_factory.mktemp("prometheus"), openmetrics=gpu_history.openmetrics()) as url:
        yield url


@pytest.mark.service
def test_a_real_prometheus_understands_it(real: str) -> None:
    found = read(real, "GPU-a", "GPU-b", "GPU-c", "GPU-nowhere", minutes=round(SPAN.total_seconds() / 60))

    devices = set(found.values)
    assert {uuid for uuid, _ in devices} == {"GPU-a", "GPU-b", "GPU-c"}
    assert ("GPU-c", "9") in devices
    power = found.values["GPU-a", ""]["power_w"]
    assert len(power) == 30
    assert all(value is not None and 600 <= value <= 606 for value in power)


@pytest.mark.service
def test_a_device_that_changed_hands_has_one_line(real: str) -> None:
    found = read(real, "GPU-c", minutes=30)

    handover = round((HANDOVER_AT - NOW) / STEP)
    used = found.values["GPU-c", "9"]["memory_used_bytes"]
    assert used[handover - 3] is not None
    assert used[-1] is not None


@pytest.mark.service
def test_a_matcher_that_fits_nothing_finds_nothing(real: str) -> None:
    assert read(real, "GPU-a", extra_matchers='cluster="other"').values == {}
