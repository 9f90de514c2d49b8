"""Plots in a real browser: drawn, coloured, read by keyboard, brought up to date, and refused nothing."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery import current_app
from django.core.cache import cache
from playwright.sync_api import Page, expect

from diagnostics.archive.live import Answer, Measured, keep
from diagnostics.clusters import DeclaredCluster, DeclaredPrometheus
from diagnostics.models import Cluster
from diagnostics.snapshot import State
from tests.browser.conftest import Tab
from tests.builders import gpu, node, snapshot
from tests.pages.history import DAY, device_row, hours, node_row, stay
from tests.pages.stored import polled

pytestmark = [pytest.mark.browser, pytest.mark.service, pytest.mark.django_db(transaction=True)]

HOSTILE = "<img src=x onerror=alert(1)>&lt;b&gt;%{y}"
NODE = "/c/lab/nodes/gpu-1/"
SLOTS = [gpu(i).slot for i in range(2)]
LINES = ".scatterlayer .trace"


@pytest.fixture
def lab() -> Cluster:
    """A node of two GPUs with a week of hours; the instance on the second one has a name to be afraid of."""
    now = datetime.now(UTC)
    of = polled(at=now, seen=snapshot(node(gpus=2), gpu(0), gpu(1, mig_profile=HOSTILE), taken_at=now))
    row = node_row(of)
    devices = [device_row(row, slot.partition("/")[2]) for slot in SLOTS]
    for days in range(8):
        hours(row, SLOTS, (now - days * DAY).date(), missing=range(3, 6))
    stay(devices[0], State.EFFECTIVE, now - 3 * DAY, now - 2 * DAY)
    return of


@pytest.fixture
def asked(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A Prometheus is declared, and a worker that never answers."""
    cache.clear()
    settings.CLUSTERS = {"lab": DeclaredCluster(prometheus=DeclaredPrometheus(url="http://prometheus:9090"))}
    found: list[str] = []
    monkeypatch.setattr(current_app, "send_task", lambda name, args, **_: found.append(args[0]))
    yield found
    cache.clear()


def plot(page: Page, name: str = "utilization") -> Any:
    return page.locator(f"#plot-{name}")


def wait_for_values(page: Page, number: int) -> None:
    """Until the first line has so many. Playwright's own waiting evaluates text, which the page forbids."""
    for _ in range(100):
        if page.evaluate("document.querySelector('#plot-utilization').data[0].y.length") == number:
            return
        page.wait_for_timeout(50)
    pytest.fail(f"the plot does not get {number} values")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_figures_are_drawn_within_the_page_and_in_its_colours(
    open_tab: Callable[..., Tab], signed_in: dict[str, str], lab: Cluster, width: int, theme: str
) -> None:
    tab = open_tab(width, cookies=signed_in, color_scheme=theme)

    def steps(page: Page) -> None:
        page.goto(f"{NODE}?period=7d#plots")
        plot(page, "temperature").scroll_into_view_if_needed()
        expect(plot(page, "temperature").locator(LINES)).to_have_count(3)
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        box = plot(page, "temperature").bounding_box()
        svg = plot(page, "temperature").locator("svg.main-svg").first.bounding_box()
        assert box is not None
        assert svg is not None
        assert svg["width"] <= box["width"] + 1
        colour = plot(page, "temperature").locator(".xtick text").first.evaluate("e => e.style.fill")
        assert colour == page.evaluate(
            "(() => { const e = document.createElement('i'); e.style.color = 'var(--text-muted)';"
            "document.body.append(e); return getComputedStyle(e).color; })()"
        )

    tab.do(steps)


def test_the_bundle_is_not_loaded_before_a_plot_is_near(
    open_tab: Callable[..., Tab], signed_in: dict[str, str], lab: Cluster
) -> None:
    tab = open_tab(cookies=signed_in)

    def steps(page: Page) -> None:
        loaded: list[str] = []
        page.on("request", lambda request: loaded.append(request.url) if "plotly" in request.url else None)
        page.set_viewport_size({"width": 1440, "height": 200})
        page.goto(NODE)
        page.wait_for_load_state("networkidle")
        assert loaded == []
        plot(page).scroll_into_view_if_needed()
        expect(plot(page).locator(LINES).first).to_be_visible()
        assert len([url for url in loaded if url.endswith("plotly.min.js")]) == 1

    tab.do(steps)


def test_a_hostile_name_is_text_in_the_legend(
    open_tab: Callable[..., Tab], signed_in: dict[str, str], lab: Cluster
) -> None:
    tab = open_tab(cookies=signed_in)

    def steps(page: Page) -> None:
        page.goto(f"{NODE}#plots")
        plot(page).scroll_into_view_if_needed()
        expect(plot(page).locator(".legendtext").nth(1)).to_have_text(f"GPU 1 {HOSTILE}".replace("%{", "% {"))
        assert page.locator("main img").count() == 0
        assert page.locator("main svg a[*|href*='javascript']").count() == 0

    tab.do(steps)


def test_nothing_lies_over_what_stands_below_a_plot(
    open_tab: Callable[..., Tab], signed_in: dict[str, str], lab: Cluster
) -> None:
    tab = open_tab(cookies=signed_in)

    def steps(page: Page) -> None:
        page.goto(f"{NODE}#plots")
        plot(page).scroll_into_view_if_needed()
        expect(plot(page).locator(LINES).first).to_be_visible()
        page.get_by_text("Utilisation as a table").click()
        expect(page.get_by_role("region", name="Utilisation by time")).to_be_visible()
        expect(page.get_by_role("cell", name="no data").first).to_be_visible()

    tab.do(steps)


def test_arrow_keys_read_the_values_out(
    open_tab: Callable[..., Tab], signed_in: dict[str, str], lab: Cluster
) -> None:
    tab = open_tab(cookies=signed_in)

    def steps(page: Page) -> None:
        page.goto(f"{NODE}#plots")
        plot(page).scroll_into_view_if_needed()
        expect(plot(page).locator(LINES).first).to_be_visible()
        plot(page).focus()
        page.keyboard.press("Home")
        line = page.locator("#plot-utilization + [data-reading]")
        expect(line).to_contain_text("GPU 0")
        expect(line).to_contain_text(" %")
        first = line.text_content()
        page.keyboard.press("ArrowRight")
        expect(line).not_to_have_text(first or "")
        expect(plot(page).locator(".hoverlayer .legend")).to_be_visible()
        page.keyboard.press("Escape")
        expect(plot(page).locator(".hoverlayer .legend")).to_have_count(0)

    tab.do(steps)


def test_a_theme_that_is_switched_paints_the_plots_anew(
    open_tab: Callable[..., Tab], signed_in: dict[str, str], lab: Cluster
) -> None:
    tab = open_tab(cookies=signed_in, color_scheme="light")

    def steps(page: Page) -> None:
        page.goto(f"{NODE}#plots")
        plot(page).scroll_into_view_if_needed()
        line = plot(page).locator(".js-line").first
        before = line.evaluate("e => e.style.stroke")
        for name in ("auto", "light"):
            page.get_by_role("button", name=f"Theme: {name}").click()
        expect(line).not_to_have_css("stroke", before)

    tab.do(steps)


def test_another_period_is_drawn_without_loading_the_page_again(
    open_tab: Callable[..., Tab], signed_in: dict[str, str], lab: Cluster
) -> None:
    tab = open_tab(cookies=signed_in)

    def steps(page: Page) -> None:
        page.goto(f"{NODE}#plots")
        plot(page).scroll_into_view_if_needed()
        expect(plot(page).locator(LINES).first).to_be_visible()
        page.evaluate("window.isSamePage = true")
        page.get_by_role("link", name="7 d", exact=True).click()
        expect(page.get_by_text("Stored means of the last 7 d")).to_be_visible()
        wait_for_values(page, 168)
        assert page.evaluate("window.isSamePage")
        assert page.url.endswith("?period=7d")
        page.go_back()
        expect(page.get_by_text("Stored means of the last 24 h")).to_be_visible()

    tab.do(steps)


def test_an_answer_of_prometheus_appears_by_itself_and_moves_nothing(
    open_tab: Callable[..., Tab], signed_in: dict[str, str], lab: Cluster, asked: list[str]
) -> None:
    tab = open_tab(cookies=signed_in)

    def before(page: Page) -> Any:
        page.goto(f"{NODE}#plots")
        expect(page.get_by_text("Asking Prometheus for the last 3 h")).to_be_visible()
        plot(page).scroll_into_view_if_needed()
        expect(plot(page).locator(LINES)).to_have_count(3)
        plot(page).focus()
        return plot(page).bounding_box()

    stood = tab.do(before)
    assert asked == ["lab"]
    now = datetime.now(UTC)
    values: dict[str, list[float | None]] = {
        field: [0.1 * n for n in range(9)] + [None]
        for field in ("utilization_ratio", "memory_used_bytes", "power_w", "temperature_c")
    }
    measured = Measured(int((now - timedelta(minutes=5)).timestamp()), 30, 10, dict.fromkeys(SLOTS, values))
    keep(lab, SLOTS, Answer(now, "", measured))

    def after(page: Page) -> None:
        expect(page.get_by_text("From Prometheus, as of")).to_be_visible()
        wait_for_values(page, 10)
        expect(plot(page).locator(LINES)).to_have_count(2)
        expect(plot(page)).to_be_focused()
        assert plot(page).bounding_box() == stood

    tab.do(after)


def test_without_scripts_the_tables_tell_it(
    open_tab: Callable[..., Tab], signed_in: dict[str, str], lab: Cluster
) -> None:
    tab = open_tab(cookies=signed_in, java_script_enabled=False)

    def steps(page: Page) -> None:
        page.goto(NODE)
        expect(plot(page)).to_be_hidden()
        page.get_by_text("Power as a table").click()
        expect(page.get_by_role("region", name="Power by time").get_by_role("row").nth(3)).to_be_visible()
        page.get_by_role("link", name="7 d", exact=True).click()
        expect(page.get_by_text("Stored means of the last 7 d")).to_be_visible()

    tab.do(steps)


@pytest.mark.parametrize("width", [1440, 390])
def test_the_page_of_a_gpu_fits(
    open_tab: Callable[..., Tab], signed_in: dict[str, str], lab: Cluster, width: int
) -> None:
    tab = open_tab(width, cookies=signed_in)

    def steps(page: Page) -> None:
        page.goto(NODE)
        page.get_by_role("link", name="GPU 0", exact=True).click()
        expect(page.get_by_role("heading", name="States of the last 7 days")).to_be_visible()
        expect(page.locator(".course text").first).to_have_text("E")
        plot(page, "power").scroll_into_view_if_needed()
        expect(plot(page, "power").locator(LINES)).to_have_count(2)
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")

    tab.do(steps)
