"""The dashboard without a mouse: search, rows, sections, and switching it off."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Page, expect

from diagnostics.findings import Severity, Subject
from diagnostics.models import Cluster
from tests.browser.conftest import Tab
from tests.builders import gpu, node, snapshot
from tests.pages.stored import finding, found, observation, polled

pytestmark = [pytest.mark.browser, pytest.mark.service, pytest.mark.django_db(transaction=True)]

LIST = "/c/lab/findings/"
FIRST = finding(
    "GPU101",
    severity=Severity.CRITICAL,
    subject=Subject(kind="GPU", name="gpu-1/00000000:10:00.0"),
    title="First",
)
SECOND = finding(severity=Severity.WARNING, title="Second")
THIRD = finding("GPU501", severity=Severity.INFO, subject=Subject(kind="Job", name="j"), title="Third")


@pytest.fixture
def watched() -> Cluster:
    now = datetime.now(UTC)
    return polled(FIRST, SECOND, THIRD, at=now, seen=snapshot(node(), gpu(0), taken_at=now))


@pytest.fixture
def tab(open_tab: Callable[..., Tab], signed_in: dict[str, str], watched: Cluster) -> Tab:
    return open_tab(cookies=signed_in)


def test_a_slash_goes_to_the_search_field(tab: Tab) -> None:
    def steps(page: Page) -> None:
        page.goto(LIST)
        page.keyboard.press("/")
        expect(page.get_by_label("Text")).to_be_focused()
        page.keyboard.type("j/k?g")
        expect(page.get_by_label("Text")).to_have_value("j/k?g")
        expect(page.get_by_role("dialog")).to_be_hidden()

    tab.do(steps)


def test_j_and_k_walk_through_the_rows_and_enter_opens_one(tab: Tab) -> None:
    def steps(page: Page) -> None:
        page.goto(LIST)
        for key, title in (
            ("j", "First"),
            ("j", "Second"),
            ("j", "Third"),
            ("j", "Third"),
            ("k", "Second"),
            ("k", "First"),
            ("k", "First"),
        ):
            page.keyboard.press(key)
            expect(page.get_by_role("link", name=title)).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="First")).to_be_visible()

    tab.do(steps)


def test_a_row_that_goes_leaves_its_place_to_the_next(tab: Tab, watched: Cluster) -> None:
    def before(page: Page) -> None:
        page.clock.install(time=datetime.now(UTC))
        page.goto(LIST)
        page.keyboard.press("j")
        page.keyboard.press("j")
        expect(page.get_by_role("link", name="Second")).to_be_focused()

    def after(page: Page) -> None:
        page.clock.run_for(20_000)
        expect(page.get_by_role("link", name="Second")).to_have_count(0)
        page.keyboard.press("j")
        expect(page.get_by_role("link", name="Third")).to_be_focused()

    tab.do(before)
    for _ in range(2):
        now = datetime.now(UTC)
        found(watched, [FIRST, THIRD], now)
        observation(watched, now)
    tab.do(after)


def test_g_and_a_letter_go_to_a_section(tab: Tab) -> None:
    def steps(page: Page) -> None:
        page.goto(LIST)
        for letters, heading in (("gn", "Nodes"), ("gs", "Status"), ("gr", "Rules")):
            for letter in letters:
                page.keyboard.press(letter)
            expect(page.get_by_role("heading", name=heading, exact=True, level=1)).to_be_visible()
        page.keyboard.press("n")  # alone it is nothing
        page.keyboard.press("g")
        page.keyboard.press("Control+n")
        expect(page.get_by_role("heading", name="Rules", exact=True, level=1)).to_be_visible()

    tab.do(steps)


def test_a_question_mark_shows_the_keys_and_escape_closes_them(tab: Tab) -> None:
    def steps(page: Page) -> None:
        page.goto(LIST)
        page.keyboard.press("j")
        page.keyboard.press("?")
        expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
        page.keyboard.press("k")  # nothing moves behind it
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_be_hidden()
        expect(page.get_by_role("link", name="First")).to_be_focused()
        page.get_by_role("button", name="Keys").click()
        page.get_by_role("button", name="Close").click()
        expect(page.get_by_role("dialog")).to_be_hidden()

    tab.do(steps)


def test_keys_can_be_switched_off_for_good(tab: Tab) -> None:
    def steps(page: Page) -> None:
        page.goto(LIST)
        page.get_by_role("button", name="Keys").click()
        page.get_by_label("Use single-letter keys").uncheck()
        page.keyboard.press("Escape")
        page.goto("/c/lab/nodes/")
        for key in ("j", "?"):
            page.keyboard.press(key)
        expect(page.get_by_role("dialog")).to_be_hidden()
        assert page.evaluate("document.activeElement === document.body")
        page.get_by_role("button", name="Keys").click()
        expect(page.get_by_label("Use single-letter keys")).not_to_be_checked()
        page.get_by_label("Use single-letter keys").check()
        page.keyboard.press("Escape")
        page.keyboard.press("j")
        expect(page.get_by_role("link", name="gpu-1", exact=True)).to_be_focused()

    tab.do(steps)


def test_the_dialog_names_every_section_that_has_a_key(tab: Tab) -> None:
    def steps(page: Page) -> None:
        page.goto(LIST)
        links = page.locator("nav a[data-key]")
        keys = [(link.get_attribute("data-key"), link.inner_text()) for link in links.all()]
        assert len(keys) >= 5
        assert len({key for key, _ in keys}) == len(keys)
        page.keyboard.press("?")
        for key, label in keys:
            expect(page.get_by_role("dialog").get_by_text(f"{key} {label}", exact=True)).to_be_visible()

    tab.do(steps)
