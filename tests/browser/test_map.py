"""The map in a browser: reached by keys, read by pointing, filtered in place, kept up to date without a jolt."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Page, expect

from diagnostics.findings import Severity, Subject
from diagnostics.models import Cluster
from diagnostics.snapshot import Metrics, Snapshot, State
from tests.browser.conftest import Tab
from tests.builders import GIB, gpu, node, owner, pod, snapshot
from tests.pages.stored import finding, keep, observation, polled

pytestmark = [pytest.mark.browser, pytest.mark.service, pytest.mark.django_db(transaction=True)]

MAP = "/c/lab/map/"
COLOURS = ("state", "utilization", "activity", "memory", "temperature", "owner", "finding")
LONG = "<img src=x onerror=alert(1)>\u202e" + "x" * 250


def seen(first: State = State.EFFECTIVE) -> Snapshot:
    """Three nodes in two racks; a job on two of them, every state, every step, and a hostile name."""
    now = datetime.now(UTC)
    parts: list[Any] = [
        node("gpu-1", rack="rack-a"),
        node("gpu-2", rack="rack-b"),
        node(LONG, rack=f"z{LONG}"),
    ]
    for at, state in enumerate(State):
        name = ("gpu-1", "gpu-2")[at // 8]
        holder = pod(f"train-{at}", root=owner(), node=name)
        sample = Metrics(
            sampled_at=now,
            utilization_ratio=at / 12,
            sm_active_ratio=at / 12,
            memory_used_bytes=at * 6.0 * GIB,
            memory_free_bytes=(12 - at) * 6.0 * GIB,
            temperature_c=40.0 + 4 * at,
        )
        is_held = at in {0, 1, 8}
        shown = first if at == 0 else state
        parts.append(
            gpu(
                at % 8,
                name,
                state=shown,
                holders=(holder.key,) if is_held else (),
                metrics=sample if at % 5 else None,
            )
        )
        parts += [holder] if is_held else []
    parts.append(gpu(0, LONG, state=None))
    return snapshot(*parts, taken_at=now)


@pytest.fixture
def watched() -> Cluster:
    job = Subject(kind="Job", namespace="research", name="train")
    device = Subject(kind="GPU", name="gpu-1/00000000:13:00.0")
    return polled(
        finding("GPU101", subject=device, severity=Severity.CRITICAL, title="GPU 3: Xid 79"),
        finding("GPU302", subject=job, title="Job train is spread"),
        finding("GPU203", subject=Subject(kind="Node", name="gpu-2"), severity=Severity.INFO),
        at=datetime.now(UTC),
        seen=seen(),
    )


@pytest.fixture
def tab(open_tab: Callable[..., Tab], signed_in: dict[str, str], watched: Cluster) -> Tab:
    return open_tab(cookies=signed_in)


def letter_of(page: Page) -> str:
    """Of the GPU that has the focus; empty where none has."""
    return str(
        page.evaluate(
            "document.activeElement.matches('.map-cells > a') ? document.activeElement.textContent : ''"
        )
    )


def test_the_keyboard_walks_over_the_gpus_and_selects_a_job(
    open_tab: Callable[..., Tab], signed_in: dict[str, str], watched: Cluster
) -> None:
    tab = open_tab(390, cookies=signed_in)  # where the nodes stand below each other

    def steps(page: Page) -> None:
        page.goto(MAP)
        expect(page.locator(".map-cells > a[tabindex='0']")).to_have_count(1)
        page.locator(".map-cells > a[tabindex='0']").focus()
        facts = page.locator("#map-details")
        expect(facts).to_contain_text("gpu-1 GPU 0: effective")
        expect(facts).to_contain_text("utilization no data")
        expect(facts).to_contain_text("Job research/train")
        first = letter_of(page)
        page.keyboard.press("ArrowRight")
        expect(facts).to_contain_text("gpu-1 GPU 1:")
        page.keyboard.press("ArrowLeft")
        assert letter_of(page) == first
        page.keyboard.press("ArrowDown")
        expect(facts).to_contain_text("gpu-2 GPU 0:")
        page.keyboard.press("ArrowUp")
        page.keyboard.press("s")
        page.wait_for_url("**workload=*")
        assert parse_qs(urlsplit(page.url).query)["workload"] == ["Job/research/train"]
        expect(page.get_by_role("heading", name="Job research/train")).to_be_visible()
        expect(page.get_by_text("3 GPUs on 2 nodes")).to_be_visible()
        expect(page.get_by_text("network between racks rack-a and rack-b")).to_be_visible()
        expect(page.get_by_role("link", name="Job train is spread")).to_be_visible()
        assert page.locator(".map-cells > a:not(.map-dim)").count() == 3
        page.get_by_role("link", name="Select nothing").click()
        assert page.locator(".map-cells > a.map-dim").count() == 0
        page.locator(".map-cells > a").first.click()
        page.wait_for_url("**/c/lab/gpus/gpu-1/00000000:10:00.0/")
        page.go_back()
        page.get_by_role("link", name="gpu-2", exact=True).click()
        expect(page.get_by_role("heading", name="Node gpu-2")).to_be_visible()

    tab.do(steps)


def test_pointing_at_a_gpu_shows_its_facts_without_moving_anything(tab: Tab) -> None:
    def steps(page: Page) -> None:
        page.goto(MAP)
        before = page.evaluate("document.documentElement.scrollHeight")
        page.locator(".map-cells > a").nth(1).hover()
        expect(page.locator("#map-details strong")).to_contain_text("gpu-1 GPU 1")
        page.locator("#map-details").get_by_role("link", name="Job research/train").click()
        expect(page.get_by_text("3 GPUs on 2 nodes")).to_be_visible()
        page.go_back()
        assert page.evaluate("document.documentElement.scrollHeight") == before

    tab.do(steps)


def test_colours_and_filters_change_the_map_in_place(tab: Tab) -> None:
    def steps(page: Page) -> None:
        page.goto(MAP)
        page.get_by_label("Colour by").select_option("temperature")
        expect(page.get_by_text("80 °C and more: 1")).to_be_visible()
        page.get_by_label("State").select_option("free")
        expect(page.get_by_role("status")).to_contain_text("1 of 13 GPUs match, on 1 of 3 nodes")
        assert parse_qs(urlsplit(page.url).query)["by"] == ["temperature"]
        expect(page.locator(".map-cells > a[tabindex='0']")).to_have_count(1)
        page.go_back()
        expect(page.get_by_text("13 GPUs on 3 nodes").first).to_be_visible()
        expect(page.get_by_label("Colour by")).to_have_value("temperature")
        page.go_back()
        expect(page.get_by_label("Colour by")).to_have_value("state")

    tab.do(steps)


def test_a_poll_changes_colours_and_leaves_focus_and_places(tab: Tab, watched: Cluster) -> None:
    def opened(page: Page) -> None:
        page.clock.install(time=datetime.now(UTC))
        page.goto(MAP)
        page.wait_for_load_state("networkidle")
        page.evaluate(
            "window.shifts = []; new PerformanceObserver((list) => window.shifts.push(...list.getEntries()))"
            ".observe({type: 'layout-shift'})"
        )
        page.locator(".map-cells > a").first.focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowLeft")

    tab.do(opened)
    keep(watched, seen(first=State.HUNG))
    observation(watched, datetime.now(UTC))

    def steps(page: Page) -> None:
        page.clock.run_for(20_000)
        expect(page.locator(".map-cells > a").first).to_have_text("H")
        expect(page.locator(".map-cells > a").first).to_be_focused()
        expect(page.locator("#map-details")).to_contain_text("GPU 0: hung")
        expect(page.locator(".map-cells > a[tabindex='0']")).to_have_count(1)
        assert page.evaluate("window.shifts.length") == 0

    tab.do(steps)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_every_colour_fits_and_can_be_read(
    open_tab: Callable[..., Tab], signed_in: dict[str, str], watched: Cluster, width: int, theme: str
) -> None:
    tab = open_tab(width, cookies=signed_in, color_scheme=theme)

    def steps(page: Page) -> None:
        for query in (*(f"by={by}" for by in COLOURS), "workload=Job/research/train", "at=2020-01-01T00:00"):
            page.goto(f"{MAP}?{query}")
            assert page.evaluate(
                "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
            ), query
            assert page.locator("main img").count() == 0
            found = Axe().run(page)
            assert found.violations_count == 0, f"{query}: {found.generate_report()}"
            sizes = page.locator(".map-cells > a").evaluate_all(
                "all => all.map(a => a.getBoundingClientRect().width)"
            )
            assert min(sizes, default=12) >= 12

    tab.do(steps)


def test_a_large_cluster_has_small_cells_that_a_finger_reaches_by_their_node(
    open_tab: Callable[..., Tab], signed_in: dict[str, str]
) -> None:
    now = datetime.now(UTC)
    names = [f"ip-10-0-0-{i}.eu-north-1.compute.internal" for i in range(200)]
    parts = [
        part for name in names for part in (node(name), *(gpu(g, name, state=State.FREE) for g in range(8)))
    ]
    polled(at=now, seen=snapshot(*parts, taken_at=now))
    tab = open_tab(390, cookies=signed_in, has_touch=True, is_mobile=True)

    def steps(page: Page) -> None:
        page.goto(MAP)
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        box = page.locator(".map-cells > a").first.bounding_box()
        link = page.get_by_role("link", name="ip-10-0-0-7", exact=True)
        reach = link.bounding_box()
        assert box is not None
        assert reach is not None
        assert 12 <= box["width"] <= 16
        assert reach["height"] >= 24
        assert page.locator("#map-details").is_hidden()
        link.tap()
        expect(page.get_by_role("heading", name=f"Node {names[7]}")).to_be_visible()

    tab.do(steps)


def test_the_map_can_be_read_and_filtered_without_scripts(
    open_tab: Callable[..., Tab], signed_in: dict[str, str], watched: Cluster
) -> None:
    tab = open_tab(cookies=signed_in, java_script_enabled=False)

    def steps(page: Page) -> None:
        page.goto(MAP)
        expect(page.locator("#map-details")).to_be_hidden()
        assert "effective" in (page.locator(".map-cells > a").first.get_attribute("title") or "")
        page.get_by_label("Colour by").select_option("owner")
        page.get_by_role("button", name="Show").click()
        page.get_by_role("link", name="Job research/train").click()
        expect(page.get_by_text("3 GPUs on 2 nodes")).to_be_visible()
        page.get_by_text("The cluster at another time").click()
        page.get_by_role("link", name="15 min ago").click()
        expect(page.get_by_text("Nothing is kept of that time or before.")).to_be_visible()
        page.get_by_role("link", name="Now", exact=True).click()
        expect(page.get_by_text("3 GPUs on 2 nodes")).to_be_visible()

    tab.do(steps)
