"""The simulated Prometheus answers what a real one answers over the same samples."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from diagnostics.collect.history.questions import FIELDS, HistoryQuestions
from diagnostics.collect.promql import Questions
from diagnostics.simulator.build import build
from diagnostics.simulator.config import WORKING_WEEK, WorldConfig
from diagnostics.simulator.prometheus.api import PrometheusApi
from diagnostics.simulator.prometheus.scrapes import JOBS, OFFSET_S, SCRAPE_S, Scrapes, frame
from diagnostics.simulator.prometheus.series import LOOKBACK_S, Stored, labels_of
from diagnostics.simulator.prometheus.syntax import Matcher, parsed
from diagnostics.simulator.server import SimulatedCluster
from diagnostics.simulator.world import World
from tests.servers import prometheus
from tests.simulator.simulated import ask, ask_json

START = datetime(2026, 6, 3, 16, 0, OFFSET_S, tzinfo=UTC)
"""On a Wednesday afternoon: jobs end, a sweep begins, faults come."""
SPAN = timedelta(minutes=40)
END = START + SPAN - timedelta(seconds=30)
CONFIG = replace(WORKING_WEEK, epoch=START - timedelta(days=20))
SCRAPES = [START + number * timedelta(seconds=SCRAPE_S) for number in range(20)]
EVERY = [("", timedelta(minutes=30)), ('job!="nothing"', timedelta(minutes=11))]

INSTANT = [
    *(query for matchers, span in EVERY for query in Questions(matchers, span).current()),
    *(query for matchers, span in EVERY for query in Questions(matchers, span).windows()),
    *(Questions(matchers, span).times() for matchers, span in EVERY),
    *(Questions(matchers, span).down() for matchers, span in EVERY),
    *HistoryQuestions("", SPAN).fixed("pod").values(),
    *HistoryQuestions("", SPAN).fixed("exported_pod").values(),
    "sum by (Hostname) (DCGM_FI_DEV_POWER_USAGE) / count by (Hostname) (DCGM_FI_DEV_POWER_USAGE)",
    "avg without (UUID, gpu, device, pci_bus_id) (DCGM_FI_DEV_GPU_TEMP) > 40",
    "rate(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION[10m]) / 1000",
    "increase(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION[7m])",
    "delta(DCGM_FI_DEV_GPU_TEMP[13m])",
    "changes(kube_pod_container_status_restarts_total[30m]) > 0",
    "resets(DCGM_FI_DEV_GPU_TEMP[20m])",
    'label_replace(up, "short", "$1-${2}", "instance", "(gpu)-([0-9]+):.*")',
    'count(up{job=~"dcgm.*"} == bool 1)',
    "sum(DCGM_FI_PROF_SM_ACTIVE offset 5m)",
    "-sum(DCGM_FI_PROF_SM_ACTIVE) ^ 2 + 3 * 2 - 7 % 4",
    "kube_pod_info * on (namespace, pod) group_left (resource) "
    '(kube_pod_container_resource_requests{resource="nvidia_com_gpu"})',
    'kube_pod_status_phase{phase="Running"} unless on (namespace, pod) kube_pod_container_resource_requests',
    "group by (job) (up)",
    "vector(3) > 2",
    "min_over_time(DCGM_FI_DEV_GPU_UTIL[9m]) == 0 and max_over_time(DCGM_FI_DEV_FB_USED[9m]) > 1000",
    "sum_over_time(up[10m]) + ignoring (nothing) count_over_time(up[10m])",
]
RANGE = [
    Questions("", timedelta(minutes=30)).xids(round(END.timestamp())),
    Questions("", timedelta(minutes=30)).xid_counts(),
    *(HistoryQuestions("", SPAN).values(field) for field in FIELDS),
    *HistoryQuestions("", SPAN).times("power_w"),
    HistoryQuestions("", SPAN).devices(),
    HistoryQuestions("", SPAN).requests(),
    HistoryQuestions("", SPAN).request_times(),
    *HistoryQuestions("", SPAN).pods("pod").values(),
    *HistoryQuestions("", SPAN).nodes("pod").values(),
    "avg_over_time(DCGM_FI_PROF_DRAM_ACTIVE[6m])",
    "1 + 2",
]
RAW = [
    Questions("", timedelta(minutes=30)).scrapes(
        "DCGM_FI_DEV_GPU_TEMP", "gpu", ["1", "3"], timedelta(minutes=10)
    )
]


class Kept:
    """The samples of the span without stale markers, as blocks that are loaded have none."""

    lookback_s = LOOKBACK_S

    def __init__(self) -> None:
        self.series: dict[tuple[str, Any], Stored] = {}
        for moment in SCRAPES:
            for name, labels, value in frame(build(CONFIG, moment)):
                whole = labels_of({"__name__": name, **dict(labels)})
                stored = self.series.setdefault((name, labels), Stored(whole))
                stored.times.append(moment.timestamp())
                stored.values.append(value)

    def select(self, matchers: Sequence[Matcher], start: float, end: float) -> Iterator[Stored]:
        for stored in self.series.values():
            labels = dict(stored.labels)
            if all(matcher.matches(labels.get(matcher.label, "")) for matcher in matchers):
                yield stored

    def openmetrics(self) -> str:
        by_name: dict[str, list[str]] = {}
        for (name, labels), stored in self.series.items():
            written = ",".join(f'{key}="{value}"' for key, value in labels)
            by_name.setdefault(name, []).extend(
                f"{name}{{{written}}} {value!r} {time:.3f}"
                for time, value in zip(stored.times, stored.values, strict=True)
            )
        return (
            "".join(f"# TYPE {name} unknown\n" + "\n".join(lines) + "\n" for name, lines in by_name.items())
            + "# EOF\n"
        )


@pytest.fixture(scope="module")
def kept() -> Kept:
    return Kept()


@pytest.fixture(scope="module")
def real(kept: Kept, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with prometheus(tmp_path_factory.mktemp("prometheus"), openmetrics=kept.openmetrics()) as url:
        yield url


def answers(real: str, kept: Kept, path: str, **asked: object) -> tuple[Any, Any]:
    """Theirs and ours, with numbers read."""
    query = urlencode(asked)
    with urlopen(f"{real}{path}?{query}", timeout=30) as answer:
        theirs = json.load(answer)
    ours = PrometheusApi(kept).get(path, query, END)
    assert ours.status == 200, ours.body
    return read(theirs["data"]), read(json.loads(ours.body)["data"])


def read(data: Any) -> Any:
    if data["resultType"] == "scalar":
        return data["result"][0], pytest.approx(float(data["result"][1]))
    found = {}
    for series in data["result"]:
        points = series["values"] if "values" in series else [series["value"]]
        found[labels_of(series["metric"])] = {float(at): float(value) for at, value in points}
    return data["resultType"], found


def same(theirs: Any, ours: Any) -> None:
    kind, expected = theirs
    if kind not in {"vector", "matrix"}:
        assert theirs == ours
        return
    assert ours[0] == kind
    assert ours[1].keys() == expected.keys()
    for labels, points in expected.items():
        assert ours[1][labels] == pytest.approx(points, rel=1e-9, nan_ok=True), labels


@pytest.mark.parametrize("query", [*INSTANT, *RAW])
def test_instant_answers_are_those_of_a_real_one(real: str, kept: Kept, query: str) -> None:
    same(*answers(real, kept, "/api/v1/query", query=query, time=END.timestamp()))


@pytest.mark.parametrize("query", RANGE)
def test_range_answers_are_those_of_a_real_one(real: str, kept: Kept, query: str) -> None:
    asked = {"query": query, "start": START.timestamp() + 55, "end": END.timestamp(), "step": 60}
    same(*answers(real, kept, "/api/v1/query_range", **asked))


def test_the_queries_are_not_all_about_nothing(kept: Kept) -> None:
    full = 0
    for query in INSTANT:
        asked = urlencode({"query": query, "time": END.timestamp()})
        full += bool(json.loads(PrometheusApi(kept).get("/api/v1/query", asked, END).body)["data"]["result"])
    assert full > 0.8 * len(INSTANT)


@pytest.mark.parametrize(
    "query",
    [
        "up{",
        "sum(up",
        'up{job="x}',
        "{}",
        '{job=~".*"}',
        "up[5m]",
        "no_such_function(up)",
        "rate(up)",
        "1 == 1",
        "up and 1",
        "kube_pod_info * on (namespace) kube_pod_owner",
        'up{job=~"("}',
        "up up",
    ],
)
def test_what_a_real_one_refuses_is_refused(real: str, kept: Kept, query: str) -> None:
    asked = urlencode({"query": query, "start": START.timestamp(), "end": END.timestamp(), "step": 60})
    status, _, _ = ask(f"{real}/api/v1/query_range?{asked}")
    ours = PrometheusApi(kept).get("/api/v1/query_range", asked, END)
    assert status in {400, 422}
    assert ours.status == 400
    assert json.loads(ours.body)["error"]


def test_labels_and_series_are_those_of_a_real_one(real: str, kept: Kept) -> None:
    asked = urlencode({"match[]": "up", "start": START.timestamp(), "end": END.timestamp()})
    for path in ("/api/v1/labels", "/api/v1/label/job/values"):
        theirs = ask_json(f"{real}{path}?{asked}")["data"]
        assert json.loads(PrometheusApi(kept).get(path, asked, END).body)["data"] == theirs
    theirs = {labels_of(one) for one in ask_json(f"{real}/api/v1/series?{asked}")["data"]}
    ours = json.loads(PrometheusApi(kept).get("/api/v1/series", asked, END).body)["data"]
    assert {labels_of(one) for one in ours} == theirs


@pytest.mark.parametrize("query", ["DCGM_FI_DEV_GPU_UTIL", "count(up)", "timestamp(up)"])
def test_steps_far_apart_give_what_close_ones_give(real: str, kept: Kept, query: str) -> None:
    """Which is worked out in another way."""
    asked = {"query": query, "start": START.timestamp() + 55, "end": END.timestamp(), "step": 1260}
    same(*answers(real, kept, "/api/v1/query_range", **asked))
    database = PrometheusApi(scrapes())
    whole, sparse = (
        json.loads(database.get("/api/v1/query_range", urlencode(asked | {"step": step}), END).body)["data"][
            "result"
        ]
        for step in (420, 1260)
    )
    points = {labels_of(one["metric"]): dict(map(tuple, one["values"])) for one in whole}
    for one in sparse:
        for at, value in one["values"]:
            assert points[labels_of(one["metric"])][at] == value


def test_only_what_is_asked_for_is_worked_out(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[datetime] = []

    def noted(config: WorldConfig, at: datetime) -> World:
        made.append(at)
        return build(config, at)

    monkeypatch.setattr("diagnostics.simulator.prometheus.scrapes.build", noted)
    asked = urlencode(
        {
            "query": "count(up)",
            "start": START.timestamp() - 13 * 86_400,
            "end": END.timestamp(),
            "step": 86_400,
        }
    )
    answer = PrometheusApi(scrapes()).get("/api/v1/query_range", asked, END)
    assert len(json.loads(answer.body)["data"]["result"][0]["values"]) == 14
    # One of each old look-back, two of each newer one.
    assert len(made) <= 2 * 14


def scrapes(now: datetime = END) -> Scrapes:
    return Scrapes(CONFIG, lambda: now)


def points(
    database: Scrapes, query: str, start: float, end: float
) -> dict[Any, list[tuple[float, float | None]]]:
    selector = parsed(query)
    return {
        stored.labels: [
            pair for pair in zip(stored.times, stored.values, strict=True) if start < pair[0] <= end
        ]
        for stored in database.select(selector.matchers, start, end)  # type: ignore[union-attr]
    }


def test_samples_do_not_depend_on_how_they_are_asked_for() -> None:
    start, end = START.timestamp() - 4000, END.timestamp()
    whole = points(scrapes(), "DCGM_FI_DEV_POWER_USAGE", start, end)
    in_pieces = scrapes()
    for at in (end - 100, start + 2000, start + 70, end):
        points(in_pieces, "DCGM_FI_DEV_POWER_USAGE", start, at)
    assert points(in_pieces, "DCGM_FI_DEV_POWER_USAGE", start, end) == whole
    assert len(whole) >= 112


def test_there_are_no_samples_of_the_future() -> None:
    found = points(scrapes(START + timedelta(minutes=9)), "up", START.timestamp(), END.timestamp())
    assert max(time for series in found.values() for time, _ in series) <= START.timestamp() + 540


def test_a_series_that_ends_is_seen_to_end_at_the_next_scrape() -> None:
    """A job of the working week ends, and its GPU's series goes on without it."""
    at = START.timestamp() - 4 * 3600
    found = points(scrapes(), 'DCGM_FI_DEV_FB_USED{pod!=""}', at, END.timestamp())
    ended = {labels: series for labels, series in found.items() if series[-1][1] is None}
    assert ended
    for series in ended.values():
        earlier, last = series[-2:]
        assert last[0] - earlier[0] == SCRAPE_S
        assert earlier[1] is not None


def test_what_is_old_is_thinned() -> None:
    assert CONFIG.epoch is not None
    for start, apart in ((CONFIG.epoch + timedelta(days=14), 240), (CONFIG.epoch + timedelta(days=16), 120)):
        at = start.timestamp()
        (series,) = points(scrapes(), 'up{instance="gpu-01:9400"}', at, at + 7200).values()
        assert {later[0] - earlier[0] for earlier, later in pairwise(series)} == {apart}


def test_a_job_has_only_metrics_that_it_is_known_to_have() -> None:
    world = build(CONFIG, END)
    for job in JOBS:
        assert {name for name, _, _ in job.frame(world)} <= job.metrics


def test_a_past_needs_an_epoch() -> None:
    with pytest.raises(ValueError, match="epoch"):
        Scrapes(WORKING_WEEK, lambda: END)


def test_it_is_served_beside_the_cluster_and_of_any_moment() -> None:
    with SimulatedCluster(CONFIG, lambda: END) as cluster:
        found = ask_json(f"{cluster.prometheus_url}/api/v1/query?query=count(up)")
        past = ask_json(f"{cluster.at(START - timedelta(days=1))}/prometheus/api/v1/query?query=count(up)")
        assert found["data"]["result"][0]["value"] == [END.timestamp(), "17"]
        assert past["data"]["result"][0]["value"][0] == (START - timedelta(days=1)).timestamp()
        assert ask(f"{cluster.prometheus_url}/api/v1/nothing")[0] == 404
        assert ask_json(f"{cluster.prometheus_url}/api/v1/status/buildinfo")["status"] == "success"
        headers = ask(f"{cluster.at(START)}/api/v1/nodes")[1]
        assert headers["Date"] == "Wed, 03 Jun 2026 16:00:07 GMT"
        assert ask(f"{cluster.url}/at/never/api/v1/nodes")[0] == 404


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"query": "up", "start": "x", "end": 1, "step": 1}, "cannot parse"),
        ({"query": "up", "start": 0, "end": 11_000, "step": 1}, "11,000 points"),
        ({"query": "up", "start": 10, "end": 1, "step": 1}, "before start"),
        ({"query": "up", "start": 0, "end": 1, "step": 0}, "zero or negative"),
        ({"start": 0, "end": 1, "step": "1m"}, "missing"),
        ({"query": "(" * 500 + "up" + ")" * 500, "start": 0, "end": 1, "step": 1}, "nested"),
    ],
)
def test_what_cannot_be_asked_is_said(kept: Kept, asked: dict[str, object], words: str) -> None:
    answer = PrometheusApi(kept).get("/api/v1/query_range", urlencode(asked), END)
    assert answer.status == 400
    assert words in json.loads(answer.body)["error"]


def test_numbers_are_written_as_go_writes_them() -> None:
    from diagnostics.simulator.prometheus.api import written

    assert [written(v) for v in (1.0, 0.25, math.nan, math.inf, -math.inf, 1e300)] == [
        "1", "0.25", "NaN", "+Inf", "-Inf", "1e+300",
    ]  # fmt: skip
