"""Plots on the pages that have them: stored at once, live when Prometheus has answered, and why not."""

import html
import json
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from celery import current_app
from django.core.cache import cache
from django.test import Client
from kombu.exceptions import OperationalError
from pytest_django import DjangoAssertNumQueries

from diagnostics.archive.live import Answer, Measured, keep
from diagnostics.clusters import DeclaredCluster, DeclaredPrometheus
from diagnostics.models import Cluster, MetricDay
from diagnostics.views import plots
from tests.builders import GIB, NOW, gpu, node, snapshot
from tests.pages.conftest import HTMX
from tests.pages.history import DAY, device_row, hours, node_row
from tests.pages.stored import polled
from tests.pages.test_findings import flat

pytestmark = pytest.mark.django_db

PAGE = "/c/lab/nodes/gpu-1/"
SLOTS = [gpu(i).slot for i in range(2)]


@pytest.fixture(autouse=True)
def _no_questions() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def lab() -> Cluster:
    """A node of two GPUs with a week of hours."""
    of = polled(seen=snapshot(node(gpus=2), gpu(0), gpu(1)))
    row = node_row(of)
    for slot in SLOTS:
        device_row(row, slot.partition("/")[2])
    for days in range(8):
        hours(row, SLOTS, NOW.date() - days * DAY)
    return of


@pytest.fixture
def sent(settings: Any, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str]]]:
    """A Prometheus is declared; the questions that were sent to the worker."""
    settings.CLUSTERS = {"lab": DeclaredCluster(prometheus=DeclaredPrometheus(url="http://prometheus:9090"))}
    found: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(current_app, "send_task", lambda name, args, **_: found.append(args))
    return found


def text_of(browser: Client, query: str = "") -> str:
    return browser.get(PAGE + query).content.decode()


def words(browser: Client, query: str = "") -> str:
    return flat(
        re.sub(r".*?<section id=\"plots\"", "<section", text_of(browser, query), count=1, flags=re.DOTALL)
    )


def figures(page: str) -> dict[str, Any]:
    found = re.findall(r'id="(plot-\w+)"[^>]*data-figure="([^"]*)"', page)
    return {name: json.loads(html.unescape(figure)) for name, figure in found}


def answered(of: Cluster, detail: str = "", at: timedelta = timedelta(seconds=-5), lines: Any = None) -> None:
    values = {"utilization_ratio": [0.5, None, 0.75], "memory_used_bytes": [GIB, None, 2.0 * GIB]}
    measured = Measured(int(NOW.timestamp()) - 60, 30, 3, lines or dict.fromkeys(SLOTS, values))
    keep(of, SLOTS, Answer(NOW + at, detail, measured))


def test_stored_hours_are_drawn_at_once(browser: Client, lab: Cluster) -> None:
    found = figures(text_of(browser))

    assert set(found) == {"plot-utilization", "plot-memory", "plot-power", "plot-temperature"}
    names = [trace["name"] for trace in found["plot-utilization"]["data"]]
    assert names == ["GPU 0", "GPU 1", "highest sample"]
    assert found["plot-utilization"]["data"][0]["x0"] == "2026-05-31 12:00:00"
    assert len(found["plot-utilization"]["data"][0]["y"]) == 24


@pytest.mark.parametrize(
    ("period", "values", "step_h"), [("24h", 24, 1), ("7d", 168, 1), ("30d", 120, 6), ("13mo", 396, 24)]
)
def test_a_period_has_its_steps(browser: Client, lab: Cluster, period: str, values: int, step_h: int) -> None:
    page = text_of(browser, f"?period={period}")

    line = figures(page)["plot-power"]["data"][0]
    assert (len(line["y"]), line["dx"]) == (values, step_h * 3_600_000)
    assert re.search(rf'href="\?period={period}#plots"[^>]*aria-current="true"', page)


def test_an_hour_without_samples_is_missing_in_line_and_table(browser: Client, lab: Cluster) -> None:
    MetricDay.objects.filter(day=NOW.date()).delete()
    hours(lab.nodes.get(), SLOTS, NOW.date(), missing=[3])

    page = text_of(browser)

    values = figures(page)["plot-power"]["data"][0]["y"]
    assert [place for place, value in enumerate(values) if value is None] == [15]
    row = re.search(r'<tr><th scope="row" class="nowrap">06-01 03:00</th>(.*?)</tr>', page)
    assert row
    assert flat(row[1]) == "no data no data no data"


def test_the_table_holds_the_numbers_of_the_lines_newest_first(browser: Client, lab: Cluster) -> None:
    page = text_of(browser)

    table = re.search(r"Power as a table.*?<tbody>(.*?)</tbody>", page, re.DOTALL)
    assert table
    rows = [flat(row).split() for row in re.findall(r"<tr>(.*?)</tr>", table[1], re.DOTALL)]
    first = figures(page)["plot-power"]["data"][0]["y"]
    assert [row[1] for row in rows[:2]] == ["11:00", "10:00"]
    assert rows[0][2] == f"{first[-1]:.0f}"


def test_shares_are_per_cent_and_memory_is_gib(browser: Client, lab: Cluster) -> None:
    found = figures(text_of(browser))

    assert 20 <= found["plot-utilization"]["data"][0]["y"][0] <= 80
    assert 20 <= found["plot-memory"]["data"][0]["y"][0] <= 60


def test_many_devices_are_drawn_as_highest_mean_and_lowest(browser: Client) -> None:
    slots = [gpu(i).slot for i in range(9)]
    of = polled(seen=snapshot(node(gpus=9), *(gpu(i) for i in range(9))))
    hours(node_row(of), slots, NOW.date())

    found = figures(text_of(browser))

    names = [trace["name"] for trace in found["plot-power"]["data"]]
    assert names == ["highest", "mean of 9 GPUs", "lowest"]
    top, mean, low = (trace["y"][-1] for trace in found["plot-power"]["data"])
    assert top > mean > low


def test_a_device_of_which_nothing_is_stored_is_counted(browser: Client) -> None:
    of = polled(seen=snapshot(node(gpus=2), gpu(0), gpu(1)))
    hours(node_row(of), SLOTS[:1], NOW.date())

    assert "Nothing is known of 1 of 2 GPUs in this time." in words(browser)


def test_nothing_stored_is_said_and_not_drawn_as_zero(browser: Client) -> None:
    polled(seen=snapshot(node(gpus=1), gpu(0)))

    page = text_of(browser)

    assert "Nothing is stored of this time." in page
    assert figures(page) == {}


def test_times_are_those_of_the_site(browser: Client, lab: Cluster, settings: Any) -> None:
    settings.TIME_ZONE = "Asia/Kolkata"

    page = text_of(browser)

    assert "Times are UTC+05:30." in flat(page)
    assert figures(page)["plot-power"]["data"][0]["x0"] == "2026-05-31 17:30:00"


def test_without_prometheus_nothing_is_asked_and_live_says_why(
    browser: Client, lab: Cluster, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.CLUSTERS = {"lab": DeclaredCluster()}
    monkeypatch.setattr(current_app, "send_task", lambda *_, **__: pytest.fail("asked"))

    assert "No Prometheus is declared for this cluster" not in words(browser)
    assert "No Prometheus is declared for this cluster" in words(browser, "?period=3h")
    assert figures(text_of(browser, "?period=3h"))


def test_with_prometheus_a_worker_is_asked_and_stored_hours_stand_meanwhile(
    browser: Client, lab: Cluster, sent: list[Any]
) -> None:
    page = text_of(browser)

    assert sent == [("lab", SLOTS)]
    assert "Asking Prometheus for the last 3 h" in page
    assert re.search(r"<section id=\"plots\"[^>]*data-asking", page)
    assert len(figures(page)["plot-power"]["data"][0]["y"]) == 24


def test_the_same_gpus_are_asked_for_once_a_minute(browser: Client, lab: Cluster, sent: list[Any]) -> None:
    for seconds in (0, 2, 4, 50):
        with time_machine.travel(NOW + timedelta(seconds=seconds), tick=False):
            text_of(browser, "?only=plots")
    assert len(sent) == 1

    with time_machine.travel(NOW + timedelta(seconds=61), tick=False):
        text_of(browser)
    assert len(sent) == 2


def test_an_answer_is_drawn_in_its_steps(browser: Client, lab: Cluster, sent: list[Any]) -> None:
    answered(lab)

    page = text_of(browser)

    assert sent == []
    assert re.search(r"From Prometheus, as of 2026-06-01 11:59:55 UTC ?, a value every 30 s\.", flat(page))
    assert "data-asking" not in page
    found = figures(page)
    assert set(found) == {"plot-utilization", "plot-memory"}
    assert found["plot-utilization"]["data"][0]["y"] == [50, None, 75]
    assert found["plot-memory"]["data"][0]["y"] == [1, None, 2]


def test_an_older_answer_stays_while_the_next_is_asked_for(
    browser: Client, lab: Cluster, sent: list[Any]
) -> None:
    answered(lab, at=timedelta(minutes=-2))

    page = text_of(browser)

    assert len(sent) == 1
    assert "From Prometheus, as of" in page


def test_an_outdated_answer_is_not_shown(browser: Client, lab: Cluster, sent: list[Any]) -> None:
    answered(lab, at=timedelta(minutes=-11))

    assert "Asking Prometheus" in text_of(browser)


def test_why_there_is_no_answer_is_told_beside_the_stored_hours(
    browser: Client, lab: Cluster, sent: list[Any]
) -> None:
    keep(lab, SLOTS, Answer(NOW, "Prometheus at http://p forbids what was asked (403).", None))

    page = text_of(browser)

    assert "forbids what was asked (403)" in page
    assert "data-asking" not in page
    assert len(figures(page)["plot-power"]["data"][0]["y"]) == 24


def test_an_answer_about_some_says_what_is_missing(browser: Client, lab: Cluster, sent: list[Any]) -> None:
    answered(
        lab, "1 GPU without a known UUID cannot be asked for.", lines={SLOTS[0]: {"power_w": [1.0, 2.0, 3.0]}}
    )

    found = words(browser)

    assert "1 GPU without a known UUID cannot be asked for." in found
    assert "Nothing is known of 1 of 2 GPUs in this time." in found


def test_a_worker_that_is_slow_is_suspected(browser: Client, lab: Cluster, sent: list[Any]) -> None:
    text_of(browser)
    with time_machine.travel(NOW + timedelta(seconds=40), tick=False):
        assert "the worker is busy, or does not run" in words(browser)


def test_a_dead_broker_is_named_at_once_and_not_tried_for_each_reader(
    browser: Client, lab: Cluster, sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def refused(name: str, args: tuple[str, list[str]], **_: Any) -> None:
        tried.append(args[0])
        raise OperationalError("nobody listens")

    monkeypatch.setattr(current_app, "send_task", refused)

    pages = [text_of(browser) for _ in range(3)]

    page = pages[-1]
    assert "Prometheus was not asked: the broker does not answer (OperationalError)." in flat(page)
    assert "nobody listens" not in page
    assert figures(page)
    assert tried == ["lab"]


def test_the_live_part_of_a_page_is_sent_without_plots(browser: Client, lab: Cluster) -> None:
    page = browser.get(PAGE, headers=HTMX).content.decode()

    assert 'id="node-state"' in page
    assert "data-figure" not in page


def test_the_plots_are_sent_alone_and_told_when_nothing_changed(browser: Client, lab: Cluster) -> None:
    first = browser.get(f"{PAGE}?period=7d&only=plots", headers=HTMX)

    page = first.content.decode()
    assert 'id="plots"' in page
    assert 'id="node-state"' not in page
    with time_machine.travel(NOW + timedelta(seconds=90), tick=False):
        again = browser.get(f"{PAGE}?period=7d&only=plots", headers=HTMX | {"If-None-Match": first["ETag"]})
    assert again.status_code == 304


def test_an_address_for_the_plots_alone_shows_a_reader_the_whole_page(browser: Client, lab: Cluster) -> None:
    page = text_of(browser, "?only=plots")

    assert page.lstrip().startswith("<!DOCTYPE html>")
    assert "data-figure" in page


@pytest.mark.parametrize("period", ["", "nonsense", "<script>", "\x00", "24H"])
def test_a_period_that_there_is_not_is_the_default(browser: Client, lab: Cluster, period: str) -> None:
    response = browser.get(PAGE, {"period": period})

    assert len(figures(response.content.decode())["plot-power"]["data"][0]["y"]) == 24


def test_devices_of_the_same_name_are_two_lines(lab: Cluster) -> None:
    found = plots.plots_of(lab, dict.fromkeys(SLOTS, "GPU 0"), "24h", NOW)

    names = [trace["name"] for trace in json.loads(found.plots[0].figure)["data"]]
    assert names == ["GPU 0", "GPU 0", "highest sample"]


def test_no_devices_make_no_plots(lab: Cluster, sent: list[Any]) -> None:
    found = plots.plots_of(lab, {}, "3h", NOW)

    assert (found.plots, found.notes) == ((), ("There is no GPU to ask about.",))
    assert sent == []


@pytest.mark.parametrize("period", ["3h", "13mo"])
def test_plots_cost_two_queries_at_most(
    lab: Cluster, sent: list[Any], period: str, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_max_num_queries(2):
        plots.plots_of(lab, dict.fromkeys(SLOTS, "x"), period, NOW)


@pytest.mark.parametrize("number", [1, 8])
def test_a_page_that_asks_prometheus_stays_within_twelve_queries(
    browser: Client, sent: list[Any], number: int, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    of = polled(seen=snapshot(node(gpus=number), *(gpu(i) for i in range(number))))
    hours(node_row(of), SLOTS, NOW.date())

    with django_assert_max_num_queries(12):
        text_of(browser)
