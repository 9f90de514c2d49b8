"""The ways that people take: from one look at the cluster to a fix that the polls verify, to what waits, to waste.

And what a page that stands open does when the next poll comes in: nothing that disturbs whoever reads it.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from diagnostics.models import User
from tests.browser.conftest import Tab
from tests.pages.addresses import addresses
from tests.pages.everything import FINDINGS, IDLE, XID, Everything, everything, poll

pytestmark = [pytest.mark.browser, pytest.mark.service, pytest.mark.django_db(transaction=True)]

GONE = tuple(one for one in FINDINGS if one not in {XID, IDLE})


@pytest.fixture
def there(user: User) -> Everything:
    return everything(datetime.now(UTC) - timedelta(minutes=1), user)


@pytest.fixture
def tab(open_tab: Callable[..., Tab], signed_in: dict[str, str], there: Everything) -> Tab:
    return open_tab(cookies=signed_in)


def opened(page: Page, address: str) -> None:
    """On a clock that only `updated` moves."""
    page.clock.install(time=datetime.now(UTC))
    page.goto(address)
    page.wait_for_load_state("networkidle")


def updated(page: Page) -> None:
    """Let the live part ask anew and settle."""
    address = page.locator("[data-live]").first.get_attribute("hx-get") or "?"
    with page.expect_response(lambda response: response.url.endswith(address)):
        page.clock.run_for(20_000)
    expect(page.locator(".htmx-request")).to_have_count(0)
    page.clock.run_for(200)


def heading(page: Page, name: str | re.Pattern[str]) -> None:
    expect(page.get_by_role("heading", name=name).first).to_be_visible()


def test_from_one_look_to_a_verified_fix(tab: Tab, there: Everything) -> None:
    def to_the_finding(page: Page) -> None:
        page.clock.install(time=datetime.now(UTC))
        page.goto("/")
        heading(page, "lab")
        expect(page.get_by_text(re.compile(r"\d+ open findings")).first).to_be_visible()
        page.get_by_role("link", name="Map", exact=True).click()
        heading(page, "Map")
        page.locator("#map").get_by_role("link", name="gpu-1", exact=True).click()
        heading(page, "Node gpu-1")
        page.get_by_role("link", name=XID.title).first.click()
        heading(page, XID.title)

    def check_off(page: Page) -> None:
        expect(page.get_by_text("Seen by the last poll")).to_be_visible()
        for step in (1, 2):
            page.get_by_role("button", name=f"Check off step {step}").click()
            expect(page.get_by_role("button", name=f"Take back step {step}")).to_be_visible()
        expect(page.locator("#fix-progress")).to_contain_text("2 of 5 steps checked off")

    def shows(page: Page, words: str) -> None:
        updated(page)
        expect(page.locator("#fix-progress")).to_contain_text(words)

    tab.do(to_the_finding)
    tab.do(check_off)
    begun = datetime.now(UTC)
    for number, words in (
        (1, "Not seen by 1 of 3 polls yet"),
        (2, "Not seen by 2 of 3 polls yet"),
        (3, "Verified: the last 3 polls no longer see it"),
    ):
        poll(there.lab, begun + timedelta(seconds=number), GONE)
        tab.do(partial(shows, words=words))

    def it_is_over(page: Page) -> None:
        expect(page.get_by_text(re.compile("^Resolved")).first).to_be_visible()
        expect(page.locator("#finding-aside")).to_contain_text(re.compile("fix verified", re.IGNORECASE))
        page.get_by_role("link", name="Findings", exact=True).first.click()
        expect(page.get_by_role("link", name=XID.title)).to_have_count(0)
        page.get_by_role("link", name="Incidents", exact=True).click()
        page.get_by_role("link", name=XID.title).first.click()
        heading(page, XID.title)

    tab.do(it_is_over)


def test_from_one_look_to_why_a_job_waits(tab: Tab) -> None:
    def steps(page: Page) -> None:
        page.goto("/c/lab/")
        page.get_by_role("link", name="Pending", exact=True).click()
        heading(page, "Waiting for GPUs")
        row = page.get_by_role("row", name="waits Job in research")
        expect(row).to_contain_text("24")  # 3 pods that ask for 8 GPUs each
        expect(row).to_contain_text(re.compile(r"2\d min"))
        row.get_by_role("link", name="waits").first.click()
        heading(page, re.compile("waits"))
        expect(page.locator("main")).to_contain_text("Insufficient nvidia.com/gpu")
        page.get_by_role("link", name=re.compile("1 pod waits: no node has 8 free GPUs")).first.click()
        expect(page.get_by_role("heading", name=re.compile("^Guided fix"))).to_be_visible()

    tab.do(steps)


def test_from_one_look_to_who_wastes_most(tab: Tab) -> None:
    def steps(page: Page) -> None:
        page.goto("/c/lab/")
        page.get_by_role("link", name="Waste", exact=True).click()
        heading(page, re.compile("Waste|GPU-hours"))
        expect(page.locator("main")).to_contain_text("nlp")
        page.locator("main").get_by_role("link", name=re.compile("train")).first.click()
        heading(page, re.compile("train"))

    tab.do(steps)


WATCH = """() => {
  const place = ({ x, y, width, height }) => [x, y, width, height].map(Math.round).join(" ");
  const told = (s) =>
    `${s.node?.outerHTML?.replace(/\\s+/g, " ").slice(0, 90)} from ${place(s.previousRect)} to ${place(s.currentRect)}`;
  window.shifts = [];
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.shifts.push([...entry.sources].map(told).join("; "));
  }).observe({ type: "layout-shift" });
  for (const closed of document.querySelectorAll("[data-live] details:not([open])")) closed.open = true;
}"""
SETTLED = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
READER = """() => ({
  focus: document.activeElement.outerHTML.slice(0, 200),
  scroll: Math.round(scrollY),
  open: document.querySelectorAll("[data-live] details[open]").length,
})"""


def test_the_next_poll_disturbs_nobody_on_any_page(tab: Tab, there: Everything) -> None:
    """Numbers and states change everywhere: nothing moves, and focus, place and opened details stay."""
    live: list[str] = []
    wrong: list[str] = []
    for number, (name, address) in enumerate(addresses(there.plain).items()):

        def before(page: Page, address: str = address) -> dict[str, Any] | None:
            opened(page, address)
            if not page.locator("[data-live]").count():
                return None
            page.evaluate(WATCH)
            page.evaluate("() => document.querySelector('[data-live] :is(a[href], button)')?.focus()")
            page.evaluate("scrollTo(0, Math.min(150, document.scrollingElement.scrollHeight - innerHeight))")
            page.evaluate(SETTLED)
            page.evaluate("() => { window.shifts.length = 0; }")
            found: dict[str, Any] = page.evaluate(READER)
            return found

        def after(page: Page) -> tuple[dict[str, Any], list[str]]:
            updated(page)
            page.evaluate(SETTLED)
            return page.evaluate(READER), page.evaluate("window.shifts")

        was = tab.do(before)
        if was is None:
            continue
        live.append(name)
        poll(there.lab, datetime.now(UTC), number=number + 1)
        is_now, shifts = tab.do(after)
        wrong += [f"{name}: {shift} moves" for shift in shifts]
        wrong += [f"{name}: {key} was {was[key]}, is {is_now[key]}" for key in was if was[key] != is_now[key]]
    assert not wrong, "\n".join(wrong)
    assert {"overview", "cluster_map", "node_list", "node_detail", "finding_list", "finding_detail"} <= set(
        live
    )
