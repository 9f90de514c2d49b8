"""Prometheus read through the real client: what comes back, and what is said when it does not."""

import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote_plus

import pytest

from diagnostics.collect.prometheus import read_prometheus
from diagnostics.collect.promql import Questions
from diagnostics.collect.readings import DeviceReading, Readings
from diagnostics.collect.target import PrometheusTarget
from diagnostics.snapshot import Source, SourceState, SourceStatus, Stat, XidSeen
from tests.fakes.gpu_history import NOW, SPAN, XID_AT
from tests.fakes.prometheus import KINDS, as_json, kind_of, prometheus, recorded
from tests.fakes.web import Asked, Reply, web


def status(readings: Readings, source: Source = Source.METRICS) -> SourceStatus:
    return next(s for s in readings.statuses if s.name is source)


def read(url: str, now: datetime = NOW, **options: Any) -> Readings:
    target = options.pop("target", PrometheusTarget(url=url))
    return read_prometheus(target, SPAN, now, options.pop("timeout_s", 5.0), **options)


def device(readings: Readings, uuid: str) -> DeviceReading:
    return next(d for d in readings.devices if d.uuid == uuid)


def read_with(**replies: Any) -> Readings:
    """Replies by kind of question; the others are answered as recorded."""
    with prometheus(lambda kind, asked: replies.get(kind)) as fake:
        return read(fake.url)


def always(reply: Reply, **options: Any) -> Readings:
    with web(lambda asked: reply) as fake:
        return read(fake.url, **options)


def test_reads_devices_windows_and_holders() -> None:
    readings = read_with()
    assert [(d.uuid, d.pods) for d in readings.devices] == [
        ("GPU-a", ("team-a/train-0",)),
        ("GPU-b", ()),
        ("GPU-c", ("research/nb-2",)),
    ]
    held = device(readings, "GPU-a")
    assert held.node_hints == ("gpu-node-01", "10.0.0.1", "nvidia-dcgm-exporter-k7x2p")
    assert held.metrics.sampled_at == NOW
    assert held.metrics.memory_used_bytes == 71342 * 2**20
    assert held.window is not None
    assert held.window.coverage_ratio == 1.0
    assert held.window.power_w is not None
    assert (held.window.power_w.min, held.window.power_w.max) == (600, 606)
    assert held.window.power_w.mean == pytest.approx(602.9, abs=0.1)
    assert held.window.tensor_active_ratio is None, "not collected is not zero"
    assert held.window.xids == (XidSeen(code=79, last_at=XID_AT, count=2),)
    assert readings.exporters_down == ("10.0.0.2:9400",)
    assert readings.has_pod_labels is True
    assert (status(readings).state, status(readings).items) == (SourceState.PARTIAL, 3)
    assert status(readings).detail == "1 exporter down: 10.0.0.2:9400"
    assert status(readings, Source.WINDOW).state is SourceState.OK


def test_a_gauge_that_stands_is_no_event() -> None:
    window = device(read_with(), "GPU-b").window
    assert window is not None
    assert window.xids == (XidSeen(code=13, standing_since=NOW - SPAN),)


def test_the_window_is_the_present_holders_alone() -> None:
    window = device(read_with(), "GPU-c").window
    assert window is not None
    assert window.gr_engine_ratio == Stat(0, 0, 0), "the holder before was busy"
    assert window.coverage_ratio == pytest.approx(16 / 30)


def test_asks_a_fixed_number_of_questions_with_get_alone() -> None:
    with prometheus() as fake:
        read(fake.url)
    assert {a.method for a in fake.asked} == {"GET"}
    assert len(fake.asked) == 13
    assert {kind_of(a.query["query"]) for a in fake.asked} == set(KINDS)


def test_pins_every_question_to_one_instant() -> None:
    with prometheus() as fake:
        read(fake.url, now=NOW + timedelta(microseconds=123456))
    instants = {float(a.query.get("time") or a.query["end"]) for a in fake.asked}
    assert instants == {NOW.timestamp()}


def test_puts_the_extra_matchers_into_every_selector() -> None:
    with prometheus() as fake:
        target = PrometheusTarget(url=fake.url, extra_matchers='cluster="prod",')
        read(fake.url, target=target)
    for asked in fake.asked:
        query = asked.query["query"]
        assert query.count('cluster="prod"}') == query.count("}") > 0
        assert ",}" not in query


def test_questions_fit_into_the_address_line_of_common_proxies() -> None:
    questions = Questions('cluster="a-rather-long-name",prometheus="monitoring/main"', SPAN)
    texts = [
        *questions.current(),
        questions.times(),
        *questions.windows(),
        questions.xids(1),
        questions.down(),
    ]
    assert max(len(quote_plus(text)) for text in texts) < 7000


def test_measures_the_scrape_interval_and_takes_a_known_one() -> None:
    with prometheus() as fake:
        coarse = read(fake.url, scrape=timedelta(seconds=30))
        read(fake.url)
    window = device(coarse, "GPU-a").window
    assert window is not None
    assert window.coverage_ratio == pytest.approx(31 * 30 / 1800)
    kinds = [kind_of(a.query["query"]) for a in fake.asked]
    assert kinds.count("scrapes") == 1


@pytest.mark.parametrize(
    ("reply", "state", "words"),
    [
        (Reply(b"", status=401), SourceState.FORBIDDEN, "does not accept our credentials (401)"),
        (Reply(b"", status=403), SourceState.FORBIDDEN, "forbids what was asked (403)"),
        (Reply(b"", status=404), SourceState.FAILED, "has nothing at this address (404)"),
        (Reply(b"", status=429, headers={"Retry-After": "9999"}), SourceState.FAILED, "too often (429)"),
        (Reply(b"boom", status=500), SourceState.FAILED, "failed inside (500)"),
        (Reply(b"", status=503), SourceState.FAILED, "is not ready, or overloaded (503)"),
        (Reply(b"<html>Sign in</html>", content_type="text/html"), SourceState.FAILED, "sign-in page"),
        (Reply(status=302, headers={"Location": "https://u:pw@sso/?t=1"}), SourceState.FAILED, "https://sso/"),
        (Reply(b"{garbage"), SourceState.FAILED, "not JSON"),
        (Reply(b'{"status": "success"}'), SourceState.FAILED, "reports an error"),
        (Reply(b"[]"), SourceState.FAILED, "not JSON"),
        (Reply(b"\xff\xfe"), SourceState.FAILED, "not JSON"),
        (Reply(b'{"x":' + b"[" * 200_000), SourceState.FAILED, "not JSON"),
        (as_json({"status": "success", "data": {"resultType": "vector", "result": "x"}}),
         SourceState.FAILED, "not a list of series"),
        (as_json({"status": "error", "error": "query timed out"}), SourceState.FAILED, "query timed out"),
        (as_json({"status": "error", "error": "parse error"}, status=400), SourceState.FAILED, "parse error"),
        (as_json({"status": "success", "data": {"resultType": "scalar", "result": [1, "1"]}}),
         SourceState.FAILED, "scalar where series were expected"),
        (Reply(json.dumps(recorded("current")).encode(), cut_after=100), SourceState.FAILED, "broke off"),
    ],
)  # fmt: skip
def test_says_in_plain_words_what_failed(reply: Reply, state: SourceState, words: str) -> None:
    readings = always(reply)
    assert readings.devices == ()
    assert readings.has_pod_labels is None
    for source in (Source.METRICS, Source.WINDOW):
        assert status(readings, source).state is state
        assert words in status(readings, source).detail
        assert status(readings, source).detail.startswith("Prometheus at http://127.0.0.1")
    assert "pw" not in repr(readings)


def test_an_unreachable_prometheus_is_asked_once() -> None:
    with prometheus() as fake:
        url = fake.url
    readings = read(url)
    assert "refuses the connection" in status(readings).detail
    assert status(readings).state is SourceState.FAILED


@pytest.mark.parametrize(
    "url", ["", "prometheus:9090", "ftp://x", "http://", "http://[::1", "http://a:b:c", "http://x:99999"]
)
def test_survives_an_address_that_is_none(url: str) -> None:
    assert "address that cannot be used" in status(read(url)).detail


def test_gives_up_on_a_slow_prometheus_after_three_questions() -> None:
    with prometheus(lambda kind, asked: Reply(b"", wait_s=0.3)) as fake:
        readings = read(fake.url, timeout_s=0.1)
    assert "did not answer within 0.1 s" in status(readings).detail
    assert len(fake.asked) == 3


def test_stops_at_the_end_of_its_budget() -> None:
    with prometheus() as fake:
        readings = read(fake.url, budget_s=0.0)
    assert fake.asked == []
    assert "0 s were over" in status(readings).detail


def test_gives_up_on_an_answer_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diagnostics.collect.prometheus_connection.MOST_BYTES", 2**20)
    assert "more than 1 MiB" in status(always(Reply(b" " * 2**21, is_zipped=True))).detail


def test_a_failed_question_costs_only_what_it_was_about() -> None:
    readings = read_with(xids=Reply(b"boom", status=500))
    assert len(readings.devices) == 3
    assert status(readings, Source.WINDOW).state is SourceState.PARTIAL
    window = device(readings, "GPU-a").window
    assert window is not None
    assert window.utilization_ratio is not None
    assert window.xids == ()


def test_without_windows_the_present_is_still_there() -> None:
    refused = as_json({"status": "error", "error": "too many samples"}, status=422)
    readings = read_with(windows=refused, xids=refused)
    assert device(readings, "GPU-a").metrics.utilization_ratio == 0.9
    assert status(readings, Source.WINDOW).state is SourceState.FAILED
    assert "too many samples" in status(readings, Source.WINDOW).detail


def test_without_times_the_age_is_unknown_and_said_to_be() -> None:
    readings = read_with(times=Reply(b"boom", status=500))
    assert device(readings, "GPU-a").metrics.sampled_at is None
    assert status(readings).state is SourceState.PARTIAL


def test_says_when_samples_are_old() -> None:
    old = recorded("times")
    for series in old["data"]["result"]:
        series["value"][1] = str(NOW.timestamp() - 200)
    readings = read_with(times=old)
    assert status(readings).state is SourceState.STALE
    assert status(readings).detail.startswith("the newest sample is 200 s old")


def test_says_when_some_samples_are_old() -> None:
    old = recorded("times")
    old["data"]["result"][0]["value"][1] = str(NOW.timestamp() - 200)
    readings = read_with(times=old)
    assert status(readings).state is SourceState.PARTIAL
    assert "1 device without a fresh sample" in status(readings).detail


EMPTY = {"status": "success", "data": {"resultType": "vector", "result": []}}


def test_says_when_there_are_no_gpu_metrics() -> None:
    readings = always(as_json(EMPTY))
    assert status(readings).state is SourceState.ABSENT
    assert "no series of dcgm-exporter" in status(readings).detail


def test_says_when_clocks_differ() -> None:
    with web(lambda asked: as_json(EMPTY)) as fake:
        assert "away from ours" in status(read(fake.url, now=datetime.now(UTC) + timedelta(hours=1))).detail
        assert "away from ours" not in status(read(fake.url, now=datetime.now(UTC))).detail


def test_says_when_every_exporter_is_down() -> None:
    readings = read_with(**{kind: EMPTY for kind in KINDS if kind != "down"})
    assert status(readings).state is SourceState.FAILED
    assert status(readings).detail == "every exporter is down: 10.0.0.2:9400"


def test_passes_on_that_an_answer_is_partial() -> None:
    warned = {**recorded("times"), "warnings": ["store 10.1.1.1 did not answer\x1b[31m"]}
    readings = read_with(times=warned)
    assert status(readings).state is SourceState.PARTIAL
    assert "warns: store 10.1.1.1 did not answer" in status(readings).detail
    assert "\x1b" not in status(readings).detail


def test_drops_values_that_are_none_and_series_that_are_broken() -> None:
    current = recorded("current")
    for series in current["data"]["result"]:
        name, uuid = series["metric"]["__name__"], series["metric"]["UUID"]
        if uuid == "GPU-a":
            odd = {
                "DCGM_FI_DEV_GPU_UTIL": "NaN",
                "DCGM_FI_DEV_POWER_USAGE": "+Inf",
                "DCGM_FI_DEV_FB_FREE": "x",
            }
            series["value"][1] = odd.get(name, series["value"][1])
    current["data"]["result"] += [
        {},
        {"metric": None, "value": [1, "2"]},
        {"metric": {"a": "b"}, "value": 3},
        7,
    ]
    readings = read_with(current=current)
    metrics = device(readings, "GPU-a").metrics
    assert (metrics.utilization_ratio, metrics.power_w, metrics.memory_free_bytes) == (None, None, None)
    assert metrics.memory_used_bytes is not None
    assert len(readings.devices) == 3
    skipped = {s.reason: s.count for s in status(readings).skipped}
    assert skipped["series is not as the query API describes it"] >= 3
    assert "value is not a finite number" in skipped


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", ["NaN", "-Inf", "1e300", "-1", "", "0x10", "9" * 400])
def test_survives_absurd_numbers(kind: str, number: str) -> None:
    body = recorded(kind)
    for series in body["data"]["result"]:
        if "value" in series:
            series["value"][1] = number
        for point in series.get("values", ()):
            point[0], point[1] = 1e300 if number == "1e300" else point[0], number
    readings = read_with(**{kind: body})
    assert len(readings.devices) == 3


def test_a_marker_for_no_value_is_no_statistic() -> None:
    windows = recorded("windows")
    for series in windows["data"]["result"]:
        if series["metric"]["measure"] == "max power_w":
            series["value"][1] = "140737488355328"
    window = device(read_with(windows=windows), "GPU-a").window
    assert window is not None
    assert window.power_w is None
    assert window.utilization_ratio is not None


def test_pieces_of_one_job_add_up_and_two_jobs_do_not() -> None:
    windows = recorded("windows")
    extra = []
    for series in windows["data"]["result"]:
        labels, value = series["metric"], series["value"]
        if labels["UUID"] == "GPU-c" and labels["exported_pod"] == "nb-2":
            twice = {**labels, "job": "second", "instance": "10.9.9.9:9400"}
            before = {**labels, "instance": "10.0.0.7:9400", "pod": "nvidia-dcgm-exporter-before"}
            few = [value[0], "10"] if labels["measure"].startswith("count") else value
            extra += [{"metric": twice, "value": value}, {"metric": before, "value": few}]
    windows["data"]["result"] += extra
    window = device(read_with(windows=windows), "GPU-c").window
    assert window is not None
    assert window.coverage_ratio == pytest.approx(26 / 30)


def test_keeps_the_path_of_a_prefixed_address() -> None:
    def answer(kind: str, asked: Asked) -> Reply | None:
        return None if asked.path.startswith("/prometheus/api/v1/query") else Reply(b"", status=404)

    with prometheus(answer) as fake:
        assert len(read(f"{fake.url}/prometheus/").devices) == 3


def test_recorded_counts_are_numbers() -> None:
    counts = [s for s in recorded("windows")["data"]["result"] if s["metric"]["measure"].startswith("count")]
    assert counts
    assert all(math.isfinite(float(s["value"][1])) for s in counts)


def test_growth_of_counters_goes_into_the_window() -> None:
    labels = {"UUID": "GPU-a", "Hostname": "gpu-node-01", "instance": "10.0.0.1:9400"}

    def answer(kind: str, asked: Asked) -> Any:
        if kind != "windows" or "increase(" not in asked.query["query"]:
            return None
        told = (("pcie_replays", "31.5"), ("thermal_violation_s", "9e10"), ("no_such_field", "1"))
        rows = [{"metric": labels | {"measure": f}, "value": [NOW.timestamp(), v]} for f, v in told]
        return {"status": "success", "data": {"resultType": "vector", "result": rows}}

    with prometheus(answer) as fake:
        grown = device(read(fake.url), "GPU-a").window
    assert grown is not None
    assert grown.pcie_replays_grown == 31.5
    assert grown.thermal_violation_s_grown == pytest.approx(90)
    assert grown.nvlink_recoveries_grown is None
