"""Every page in both themes, wide and narrow: axe finds nothing, nothing scrolls sideways, nothing is complained of.

Pages keep their strict Content Security Policy meanwhile: axe is evaluated through the browser's protocol, and what a
page violates is told on the console, where `open_tab` listens. All rules run at both widths; in the dark theme those
about colours alone, since nothing else differs.
"""

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Page

from diagnostics.models import User
from tests.browser.conftest import Tab
from tests.pages.addresses import PAGES, Example, addresses
from tests.pages.everything import HOSTILE, everything
from tests.pages.stored import cluster

pytestmark = [
    pytest.mark.browser,
    pytest.mark.service,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        os.environ["GPUHEALTH_DATABASE_URL"].startswith("postgres"),
        reason="looks the same on every database: looked at on SQLite",
    ),
]

WIDE, NARROW = 1440, 390
ALL: dict[str, Any] = {"resultTypes": ["violations"]}
NOTHING = Example("", "", "", "", "", "", 0)
COLOURS = ALL | {"runOnly": ["color-contrast"]}
OVERFLOWING = """() => {
  const width = document.scrollingElement.clientWidth;
  if (document.scrollingElement.scrollWidth <= width) return [];
  const wide = [...document.body.querySelectorAll("*")].filter((e) => e.getBoundingClientRect().right > width + 1);
  return ["scrolls sideways: " + wide.slice(-3).map((e) => e.outerHTML.slice(0, 120)).join(" | ")];
}"""


def found(page: Page, options: dict[str, Any]) -> list[str]:
    """What axe finds: the rule and the first elements."""
    violations = Axe().run(page, options=options).response["violations"]
    return [
        f"{one['id']}: {len(one['nodes'])} x, as {[node['html'][:160] for node in one['nodes'][:2]]}"
        for one in violations
    ]


def looked_at(page: Page, places: Mapping[str, str]) -> str:
    """Everything that is wrong with these pages, a line each."""
    wrong = []
    for name, address in places.items():
        page.set_viewport_size({"width": WIDE, "height": 900})
        page.emulate_media(color_scheme="light", reduced_motion="reduce")
        answer = page.goto(address)
        page.wait_for_load_state("networkidle")
        page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
        here = [] if answer is not None and answer.ok else [f"answers {answer and answer.status}"]
        for width in (WIDE, NARROW):
            page.set_viewport_size({"width": width, "height": 900})
            here += [f"{width} px, {one}" for one in page.evaluate(OVERFLOWING)]
            for theme, options in (("light", ALL), ("dark", COLOURS)):
                page.emulate_media(color_scheme=theme, reduced_motion="reduce")  # type: ignore[arg-type]
                here += [f"{width} px, {theme}: {one}" for one in found(page, options)]
        wrong += [f"{name}: {one}" for one in here]
    return "\n".join(wrong)


@pytest.fixture
def tab(open_tab: Callable[..., Tab], signed_in: dict[str, str]) -> Tab:
    return open_tab(cookies=signed_in)


def test_pages_of_a_cluster_with_something_of_everything(tab: Tab, user: User) -> None:
    places = addresses(everything(datetime.now(UTC), user).plain)
    assert tab.do(lambda page: looked_at(page, places)) == ""


def test_pages_of_what_has_hostile_names(tab: Tab, user: User) -> None:
    there = everything(datetime.now(UTC), user)
    plain = addresses(there.plain)
    odd = {name: url for name, url in addresses(there.odd).items() if url != plain[name]}
    assert {"node_detail", "gpu_detail", "workload_detail", "finding_detail"} <= set(odd)
    assert tab.do(lambda page: looked_at(page, odd)) == ""
    assert tab.do(lambda page: page.locator("main img").count()) == 0


def test_pages_of_a_cluster_that_was_never_polled(tab: Tab) -> None:
    cluster(name=HOSTILE[:150].replace("\x1b", ""))
    empty = [name for name, parts in PAGES.items() if set(parts) <= {"slug"}]
    assert tab.do(lambda page: looked_at(page, addresses(NOTHING, empty))) == ""


def test_the_page_for_signing_in(open_tab: Callable[..., Tab], user: User) -> None:
    assert open_tab().do(lambda page: looked_at(page, {"login": "/login/"})) == ""


def test_what_these_tests_look_for_is_found(tab: Tab) -> None:
    def steps(page: Page) -> None:
        page.goto("/rules/")
        assert found(page, ALL) == page.evaluate(OVERFLOWING) == []
        page.evaluate(
            """() => {
              const button = document.createElement("button");
              const pale = Object.assign(document.createElement("p"), { textContent: "pale" });
              pale.style.color = "rgb(200 200 200)";
              pale.style.width = "3000px";
              document.querySelector("main").append(button, pale);
            }"""
        )
        assert sorted(one.partition(":")[0] for one in found(page, ALL)) == ["button-name", "color-contrast"]
        assert len(found(page, COLOURS)) == len(page.evaluate(OVERFLOWING)) == 1

    tab.do(steps)


def test_a_script_that_the_policy_forbids_is_complained_of(tab: Tab) -> None:
    """What the tests above rest on: a violation reaches the list of complaints."""

    def steps(page: Page) -> None:
        page.goto("/rules/")
        page.evaluate(
            """() => {
              const script = document.createElement("script");
              script.textContent = "window.ran = true";
              document.body.append(script);
            }"""
        )
        assert page.evaluate("window.ran") is None

    tab.do(steps)
    assert any("Content Security Policy" in complaint for complaint in tab.complaints)
    tab.complaints.clear()
