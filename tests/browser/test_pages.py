"""What only a browser can tell: the way through the pages, and that they live, fit and complain of nothing."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Page, Request, expect

from diagnostics.findings import Severity, Subject
from diagnostics.fixes import Fix
from diagnostics.models import Cluster, User
from diagnostics.snapshot import State
from tests.browser.conftest import PASSWORD, Tab
from tests.builders import gpu, node, snapshot
from tests.pages.stored import finding, found, observation, polled, step

pytestmark = [pytest.mark.browser, pytest.mark.service, pytest.mark.django_db(transaction=True)]

LIST = "/c/lab/findings/"
LONG = "<img src=x onerror=alert(1)>\u202e" + "x" * 300
CRITICAL = finding(
    "GPU101",
    "fatal-xid",
    severity=Severity.CRITICAL,
    subject=Subject(kind="GPU", name="gpu-1/00000000:10:00.0"),
    title="GPU 0 on gpu-1: Xid 79",
    fix=Fix(
        "Reset it",
        (
            step(),
            step(command="kubectl get pods -l 'a in (b)'"),
            step(command="", manifest=f"spec:\n  name: {'y' * 200}\n"),
        ),
    ),
)
HOSTILE = finding("GPU401", subject=Subject(kind="Pod", namespace=LONG, name=LONG), title=LONG, nodes=(LONG,))

sizes = pytest.mark.parametrize("width", [1440, 390])
themes = pytest.mark.parametrize("theme", ["light", "dark"])


@pytest.fixture
def watched() -> Cluster:
    """A cluster that was polled a moment ago."""
    now = datetime.now(UTC)
    gpus = (gpu(i, state=state, holders=("research/train-0",)) for i, state in enumerate(State))
    return polled(
        CRITICAL, finding(), HOSTILE, at=now, seen=snapshot(node(), node(LONG), *gpus, taken_at=now)
    )


def fits(page: Page) -> bool:
    """Nothing makes the page scroll sideways."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"))


@sizes
@themes
def test_the_way_from_signing_in_to_a_copied_command(
    open_tab: Callable[..., Tab], user: User, watched: Cluster, width: int, theme: str
) -> None:
    tab = open_tab(width, color_scheme=theme, permissions=["clipboard-read", "clipboard-write"])

    def journey(page: Page) -> None:
        page.goto("/")
        page.get_by_label("Username").fill("sre")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("link", name="3 open findings").click()
        expect(page.get_by_role("heading", name="Findings", exact=True)).to_be_visible()
        assert fits(page)

        page.get_by_label("Critical").check()
        expect(page.get_by_text("1 critical of 3 open findings").first).to_be_visible()
        assert page.url.endswith(f"{LIST}?severity=critical")
        expect(page.get_by_role("status")).to_have_text("1 critical of 3 open findings")

        page.get_by_role("link", name="GPU 0 on gpu-1: Xid 79").click()
        expect(page.get_by_role("heading", name="GPU 0 on gpu-1: Xid 79")).to_be_visible()
        assert fits(page)
        page.get_by_role("button", name="command of step 2").click()
        expect(page.get_by_role("button", name="Copied command of step 2")).to_be_visible()
        assert page.evaluate("navigator.clipboard.readText()") == "kubectl get pods -l 'a in (b)'"

        page.get_by_role("link", name="Nodes", exact=True).click()
        expect(page.get_by_role("listitem").filter(has_text="M").first).to_be_visible()
        assert fits(page)
        page.get_by_role("link", name="gpu-1", exact=True).click()
        expect(page.get_by_role("heading", name="Node gpu-1")).to_be_visible()
        assert fits(page)

        page.get_by_role("link", name="Status", exact=True).click()
        expect(page.get_by_role("heading", name="Last polls")).to_be_visible()
        assert fits(page)

        page.get_by_role("link", name="Rules", exact=True).click()
        page.get_by_role("link", name="GPU201", exact=True).click()
        expect(page.get_by_role("heading", name="Not reported")).to_be_visible()
        assert fits(page)

        page.go_back()
        expect(page.get_by_role("heading", name="Rules", exact=True)).to_be_visible()

    tab.do(journey)


@sizes
def test_hostile_names_stay_text_and_within_the_page(
    open_tab: Callable[..., Tab], signed_in: dict[str, str], watched: Cluster, width: int
) -> None:
    tab = open_tab(width, cookies=signed_in)

    def look(page: Page) -> None:
        for address in (LIST, f"{LIST}{HOSTILE.id}/", "/c/lab/nodes/"):
            page.goto(address)
            assert fits(page), address
            assert page.locator("main img").count() == 0

    tab.do(look)


def test_going_back_from_a_filter_brings_the_full_page(
    open_tab: Callable[..., Tab], signed_in: dict[str, str], watched: Cluster
) -> None:
    tab = open_tab(cookies=signed_in)

    def steps(page: Page) -> None:
        page.goto(LIST)
        page.get_by_label("Critical").check()
        expect(page.get_by_text("1 critical of 3 open findings").first).to_be_visible()
        page.go_back()
        expect(page.get_by_text("3 open findings: 1 critical, 2 warning").first).to_be_visible()
        expect(page.get_by_role("heading", name="Findings")).to_be_visible()
        expect(page.get_by_label("All", exact=True)).to_be_checked()

    tab.do(steps)


def opened_at(page: Page, address: str) -> list[Request]:
    """Open a page on a clock that stands; returns the list in which its later requests appear."""
    page.clock.install(time=datetime.now(UTC))
    page.goto(address)
    page.wait_for_load_state("networkidle")
    requests: list[Request] = []
    page.on("request", lambda request: requests.append(request))  # noqa: PLW0108 - Playwright marks the function
    return requests


def test_a_caption_reads_across_a_narrow_page(
    open_tab: Callable[..., Tab], signed_in: dict[str, str], watched: Cluster
) -> None:
    """A caption of stacked rows once stood in a column one letter wide."""
    tab = open_tab(width=390, cookies=signed_in)

    def steps(page: Page) -> None:
        page.goto(LIST)
        box = page.locator("caption").bounding_box()
        assert box is not None
        assert box["width"] > 300
        assert box["height"] < 100

    tab.do(steps)


def test_a_new_finding_appears_without_loading_the_page_again(
    open_tab: Callable[..., Tab], signed_in: dict[str, str], watched: Cluster
) -> None:
    tab = open_tab(cookies=signed_in)
    tab.do(lambda page: opened_at(page, LIST))
    now = datetime.now(UTC)
    new = finding("GPU501", subject=Subject(kind="Job", name="j"), title="Job j holds 1 GPU without using it")
    found(watched, [CRITICAL, finding(), HOSTILE, new], now)
    observation(watched, now)

    def steps(page: Page) -> None:
        page.clock.run_for(20_000)
        expect(page.get_by_role("link", name="Job j holds 1 GPU without using it")).to_be_visible()
        expect(page.get_by_role("status")).to_have_text("4 open findings: 1 critical, 3 warning")

    tab.do(steps)


def test_what_did_not_change_is_answered_with_304(
    open_tab: Callable[..., Tab], signed_in: dict[str, str], watched: Cluster
) -> None:
    tab = open_tab(cookies=signed_in)

    def steps(page: Page) -> None:
        opened_at(page, LIST)
        statuses = []
        for _ in range(2):
            with page.expect_response(lambda response: LIST in response.url) as answer:
                page.clock.run_for(20_000)
            statuses.append(answer.value.status)
        assert statuses == [200, 304]
        expect(page.get_by_role("link", name="GPU 0 on gpu-1: Xid 79")).to_be_visible()

    tab.do(steps)


def test_a_hidden_tab_asks_for_nothing(
    open_tab: Callable[..., Tab], signed_in: dict[str, str], watched: Cluster
) -> None:
    tab = open_tab(cookies=signed_in)

    def steps(page: Page) -> None:
        page.add_init_script(
            "Object.defineProperty(document, 'hidden', {get: () => window.isHidden ?? true})"
        )
        requests = opened_at(page, LIST)
        page.clock.run_for(120_000)
        assert requests == []
        with page.expect_response(lambda response: LIST in response.url):
            page.evaluate("window.isHidden = false; document.dispatchEvent(new Event('visibilitychange'))")

    tab.do(steps)


def test_ages_grow_while_the_page_stands_open(
    open_tab: Callable[..., Tab], signed_in: dict[str, str], watched: Cluster
) -> None:
    tab = open_tab(cookies=signed_in)

    def steps(page: Page) -> None:
        page.add_init_script("Object.defineProperty(document, 'hidden', {get: () => true})")
        opened_at(page, LIST)
        page.clock.run_for(12 * 60_000)
        expect(page.locator("#freshness time[data-age]")).to_have_text("12 min")

    tab.do(steps)


def test_a_dashboard_that_does_not_answer_is_named_until_it_does(
    open_tab: Callable[..., Tab], signed_in: dict[str, str], watched: Cluster
) -> None:
    tab = open_tab(cookies=signed_in)

    def steps(page: Page) -> None:
        opened_at(page, LIST)
        expect(page.get_by_text("The dashboard does not answer.")).to_be_hidden()
        page.route(f"**{LIST}", lambda route: route.abort())
        page.clock.run_for(20_000)
        expect(page.get_by_text("The dashboard does not answer.")).to_be_visible()
        expect(page.get_by_role("link", name="GPU 0 on gpu-1: Xid 79")).to_be_visible()
        page.unroute(f"**{LIST}")
        page.clock.run_for(20_000)
        expect(page.get_by_text("The dashboard does not answer.")).to_be_hidden()

    tab.do(steps)
    tab.complaints.clear()  # the browser itself tells of the request that was cut off


def test_a_session_that_ended_leads_to_signing_in(
    open_tab: Callable[..., Tab], signed_in: dict[str, str], watched: Cluster
) -> None:
    tab = open_tab(cookies=signed_in)

    def steps(page: Page) -> None:
        opened_at(page, LIST)
        page.context.clear_cookies()
        page.clock.run_for(20_000)
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()

    tab.do(steps)


def test_everything_can_be_read_and_filtered_without_scripts(
    open_tab: Callable[..., Tab], signed_in: dict[str, str], watched: Cluster
) -> None:
    tab = open_tab(cookies=signed_in, java_script_enabled=False)

    def steps(page: Page) -> None:
        page.goto(LIST)
        page.get_by_label("Text").fill("xid")
        page.get_by_role("button", name="Filter").click()
        expect(page.get_by_text("1 critical of 3 open findings").first).to_be_visible()
        page.get_by_role("link", name="GPU 0 on gpu-1: Xid 79").click()
        expect(page.get_by_text("kubectl get pods -l 'a in (b)'")).to_be_visible()

    tab.do(steps)


def test_a_chosen_theme_is_remembered(
    open_tab: Callable[..., Tab], signed_in: dict[str, str], watched: Cluster
) -> None:
    tab = open_tab(cookies=signed_in, color_scheme="light")

    def steps(page: Page) -> None:
        page.goto(LIST)
        background = "getComputedStyle(document.body).backgroundColor"
        light = page.evaluate(background)
        for name in ("auto", "light"):
            page.get_by_role("button", name=f"Theme: {name}").click()
        assert page.evaluate(background) != light
        page.goto("/rules/")
        expect(page.get_by_role("button", name="Theme: dark")).to_be_visible()
        assert page.evaluate(background) != light
        page.get_by_role("button", name="Theme: dark").click()
        assert page.evaluate(background) == light

    tab.do(steps)


def test_the_keyboard_reaches_the_content_first(
    open_tab: Callable[..., Tab], signed_in: dict[str, str], watched: Cluster
) -> None:
    tab = open_tab(cookies=signed_in)

    def steps(page: Page) -> None:
        page.goto(LIST)
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("main")).to_be_focused()
        page.keyboard.press("Tab")
        expect(page.get_by_label("All", exact=True)).to_be_focused()
        page.keyboard.press("ArrowRight")
        expect(page.get_by_text("1 critical of 3 open findings").first).to_be_visible()
        expect(page.get_by_label("Critical")).to_be_focused()

    tab.do(steps)


def test_what_is_typed_stays_while_the_list_changes(
    open_tab: Callable[..., Tab], signed_in: dict[str, str], watched: Cluster
) -> None:
    tab = open_tab(cookies=signed_in)

    def steps(page: Page) -> None:
        page.goto(LIST)
        page.get_by_label("Text").press_sequentially("xid")
        expect(page.get_by_text("1 critical of 3 open findings").first).to_be_visible()
        expect(page.get_by_label("Text")).to_have_value("xid")
        expect(page.get_by_label("Text")).to_be_focused()
        page.get_by_label("Text").press_sequentially(" 80")
        expect(page.get_by_text("None of the 3 open findings is left by the filter.")).to_be_visible()
        assert page.url.endswith(f"{LIST}?q=xid%2080")

    tab.do(steps)


def test_stale_data_says_so_on_a_page_that_stands_open(
    open_tab: Callable[..., Tab], signed_in: dict[str, str], watched: Cluster
) -> None:
    tab = open_tab(cookies=signed_in)
    tab.do(lambda page: opened_at(page, LIST))
    long_ago = datetime.now(UTC) - timedelta(minutes=30)
    watched.picture.taken_at = long_ago
    watched.picture.save()
    watched.observations.update(finished_at=long_ago)

    def steps(page: Page) -> None:
        page.clock.run_for(20_000)
        expect(page.get_by_role("alert").filter(has_text="Stale: this is 30 min old.")).to_be_visible()

    tab.do(steps)
