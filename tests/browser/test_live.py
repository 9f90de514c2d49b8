"""A page that stands open is brought up to date without disturbing whoever reads it."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from diagnostics.findings import Severity, Subject
from diagnostics.models import Cluster
from diagnostics.snapshot import State
from tests.browser.conftest import Tab
from tests.builders import gpu, node, snapshot
from tests.pages.stored import finding, found, keep, observation, polled

pytestmark = [pytest.mark.browser, pytest.mark.service, pytest.mark.django_db(transaction=True)]

LIST = "/c/lab/findings/"
NODES = "/c/lab/nodes/"
STATUS = "/c/lab/status/"
XID = finding(
    "GPU101",
    "fatal-xid",
    severity=Severity.CRITICAL,
    subject=Subject(kind="GPU", name="gpu-1/00000000:10:00.0"),
    title="GPU 0 on gpu-1: Xid 79",
)
NEW = finding(
    "GPU501", severity=Severity.CRITICAL, subject=Subject(kind="Job", name="j"), title="Job j idles"
)


@pytest.fixture
def watched() -> Cluster:
    now = datetime.now(UTC)
    return polled(XID, finding(), at=now, seen=snapshot(node(), gpu(0, state=State.FREE), taken_at=now))


@pytest.fixture
def tab(open_tab: Callable[..., Tab], signed_in: dict[str, str]) -> Tab:
    return open_tab(cookies=signed_in)


def opened(tab: Tab, address: str) -> None:
    """Open a page on a clock that stands."""

    def steps(page: Page) -> None:
        page.clock.install(time=datetime.now(UTC))
        page.goto(address)
        page.wait_for_load_state("networkidle")

    tab.do(steps)


def polled_again(of: Cluster, *findings: Any, state: State = State.FREE) -> None:
    now = datetime.now(UTC)
    found(of, findings or [XID, finding()], now)
    keep(of, snapshot(node(), gpu(0, state=state), taken_at=now))
    observation(of, now)


def updated(page: Page, address: str) -> None:
    with page.expect_response(lambda response: address in response.url):
        page.clock.run_for(20_000)
    page.clock.run_for(100)  # htmx settles


def test_focus_selection_and_nodes_survive_a_new_row(tab: Tab, watched: Cluster) -> None:
    opened(tab, LIST)

    def before(page: Page) -> None:
        page.evaluate(
            """() => {
              const link = document.querySelectorAll(".row-link")[0];
              link.closest("tr").isTheSame = true;
              link.focus();
              getSelection().selectAllChildren(document.querySelector("caption"));
            }"""
        )

    def after(page: Page) -> None:
        updated(page, LIST)
        expect(page.get_by_role("link", name="Job j idles")).to_be_visible()
        row = page.get_by_role("row", name="GPU 0 on gpu-1: Xid 79")
        expect(row.locator(".row-link")).to_be_focused()
        assert row.evaluate("row => row.isTheSame")
        assert page.evaluate("getSelection().toString()").startswith("Open findings")

    tab.do(before)
    polled_again(watched, XID, finding(), NEW)
    tab.do(after)


def test_open_details_stay_open(tab: Tab, watched: Cluster) -> None:
    opened(tab, NODES)
    tab.do(lambda page: page.get_by_text("What the letters mean").click())
    polled_again(watched, state=State.STUCK)

    def after(page: Page) -> None:
        updated(page, NODES)
        expect(page.locator("tbody .cell-stuck")).to_be_visible()
        expect(page.locator("main details")).to_have_attribute("open", "")

    tab.do(after)


def test_what_was_scrolled_stays_where_it_was(
    open_tab: Callable[..., Tab], signed_in: dict[str, str], watched: Cluster
) -> None:
    tab = open_tab(390, cookies=signed_in)
    opened(tab, STATUS)
    places = "[Math.round(scrollY), document.querySelector('.scroll').scrollLeft]"

    def before(page: Page) -> Any:
        page.evaluate("document.querySelector('.scroll').scrollLeft = 120")
        page.evaluate("scrollTo(0, 100)")
        return page.evaluate(places)

    def after(page: Page) -> Any:
        updated(page, STATUS)
        expect(page.locator(".scroll tbody tr")).to_have_count(2)
        return page.evaluate(places)

    assert tab.do(before) == [100, 120]
    polled_again(watched)
    assert tab.do(after) == [100, 120]


def test_an_update_moves_nothing(tab: Tab, watched: Cluster) -> None:
    opened(tab, LIST)
    tab.do(
        lambda page: page.evaluate(
            """() => {
              window.shifts = [];
              const told = (shift) => `${shift.value} ${[...shift.sources].map((source) => source.node?.outerHTML)}`;
              new PerformanceObserver((list) => window.shifts.push(...list.getEntries().map(told)))
                .observe({ type: "layout-shift" });
            }"""
        )
    )
    polled_again(watched, XID, finding(severity=Severity.CRITICAL))

    def after(page: Page) -> None:
        updated(page, LIST)
        expect(page.get_by_text("2 open findings: 2 critical").first).to_be_visible()
        page.clock.run_for(11 * 60_000)  # ages of one digit more
        expect(page.locator("#freshness time[data-age]")).to_contain_text("min")
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert page.evaluate("window.shifts") == []

    tab.do(after)


def test_an_update_is_read_out_only_when_the_counts_change(tab: Tab, watched: Cluster) -> None:
    opened(tab, LIST)
    tab.do(lambda page: updated(page, LIST))
    tab.do(
        lambda page: page.evaluate(
            """() => {
              window.said = 0;
              const line = document.getElementById("status-line");
              new MutationObserver(() => (window.said += 1))
                .observe(line, { childList: true, characterData: true, subtree: true });
            }"""
        )
    )
    polled_again(watched)

    def same(page: Page) -> None:
        updated(page, LIST)
        assert page.evaluate("window.said") == 0

    def more(page: Page) -> None:
        updated(page, LIST)
        expect(page.get_by_role("status")).to_have_text("3 open findings: 2 critical, 1 warning")
        assert page.evaluate("window.said") == 1

    tab.do(same)
    polled_again(watched, XID, finding(), NEW)
    tab.do(more)


def test_an_answer_to_what_nobody_asks_any_more_is_dropped(tab: Tab, watched: Cluster) -> None:
    opened(tab, LIST)

    def steps(page: Page) -> None:
        held: list[Route] = []
        page.route(f"**{LIST}", lambda route: held.append(route))  # noqa: PLW0108 - Playwright marks the function
        page.clock.run_for(20_000)
        page.wait_for_function("document.querySelector('#finding-table.htmx-request')")
        page.evaluate("document.getElementById('finding-table').setAttribute('hx-get', '/elsewhere')")
        page.evaluate("document.querySelector('#finding-table .row-link').textContent = 'filtered'")
        with page.expect_response(lambda response: LIST in response.url):
            held[0].continue_()
        page.wait_for_function("!document.querySelector('#finding-table.htmx-request')")
        expect(page.get_by_role("link", name="filtered")).to_be_visible()

    tab.do(steps)


def test_an_error_of_the_dashboard_is_named_until_it_is_over(tab: Tab, watched: Cluster) -> None:
    opened(tab, LIST)

    def steps(page: Page) -> None:
        page.route(f"**{LIST}", lambda route: route.fulfill(status=500, body="broken"))
        updated(page, LIST)
        expect(page.get_by_text("The dashboard does not answer.")).to_be_visible()
        expect(page.get_by_role("link", name="GPU 0 on gpu-1: Xid 79")).to_be_visible()
        page.unroute(f"**{LIST}")
        updated(page, LIST)
        expect(page.get_by_text("The dashboard does not answer.")).to_be_hidden()

    tab.do(steps)
    tab.complaints.clear()  # the browser itself tells of the 500


def test_ages_start_anew_with_each_answer(tab: Tab, watched: Cluster) -> None:
    opened(tab, LIST)
    tab.do(lambda page: page.clock.run_for(10_000))
    now = datetime.now(UTC) + timedelta(milliseconds=1)
    found(watched, [XID, finding()], now)
    keep(watched, snapshot(taken_at=now))
    observation(watched, now)

    def after(page: Page) -> None:
        updated(page, LIST)
        # Not the 30 s for which the page has stood open.
        expect(page.locator("#freshness time[data-age]")).to_have_text(re.compile(r"^(\d|1\d) s$"))

    tab.do(after)


PART = "<section id='part' {attributes}>{content}</section>"


@pytest.mark.parametrize(
    ("before", "act", "after", "holds"),
    [
        pytest.param(
            "<input id='f' value='a'>",
            "f.focus(); f.value = 'half ty'; f.dispatchEvent(new Event('input', {bubbles: true}));"
            "f.setSelectionRange(2, 4)",
            "<p>new</p><input id='f' value='b'>",
            "f.value === 'half ty' && document.activeElement === f && f.selectionStart === 2",
            id="a half-typed field",
        ),
        pytest.param(
            "<input id='f' value='a'>",
            "f.focus()",
            "<input id='f' value='b'>",
            "f.value === 'a'",
            id="a field that only has the focus",
        ),
        pytest.param(
            "<input id='f' value='a'>", "", "<input id='f' value='b'>", "f.value === 'b'", id="an idle field"
        ),
        pytest.param(
            "<input id='f' type='checkbox'>",
            "f.click()",
            "<input id='f' type='checkbox' class='x'>",
            "f.checked && f.className === 'x'",
            id="a box that was ticked here",
        ),
        pytest.param(
            "<input id='f' type='checkbox'>",
            "",
            "<input id='f' type='checkbox' checked>",
            "f.checked",
            id="a box that somebody else ticked",
        ),
        pytest.param(
            "<select id='f'><option selected>a</option><option>b</option></select>",
            "f.value = 'b'; f.dispatchEvent(new Event('input', {bubbles: true}))",
            "<select id='f'><option>b</option><option selected>c</option></select>",
            "f.value === 'b'",
            id="a choice that was made",
        ),
        pytest.param(
            "<textarea id='f'></textarea>",
            "f.value = 'half'; f.dispatchEvent(new Event('input', {bubbles: true}))",
            "<textarea id='f'>other</textarea>",
            "f.value === 'half'",
            id="a comment that is being written",
        ),
        pytest.param(
            "<details id='f'><summary>s</summary></details>",
            "f.open = true",
            "<details id='f'><summary>t</summary></details>",
            "f.open && f.textContent === 't'",
            id="opened details",
        ),
        pytest.param(
            "<details id='f' open><summary>s</summary></details>",
            "f.open = false",
            "<details id='f' open><summary>t</summary></details>",
            "!f.open",
            id="closed details",
        ),
        pytest.param(
            "<div id='f' data-kept data-figure='1'></div>",
            "f.innerHTML = '<svg></svg>'; f.className = 'drawn'",
            "<div id='f' data-kept data-figure='2'></div>",
            "f.querySelector('svg') && f.className === 'drawn' && f.dataset.figure === '2'",
            id="a chart that a script drew",
        ),
        pytest.param(
            "<ul><li><a id='a'>1</a></li><li><a id='b'>2</a></li><li><a id='c'>3</a></li></ul>",
            "c.closest('li').mark = 1; b.closest('li').mark = 2",
            "<ul><li><a id='c'>3</a></li><li><a id='d'>4</a></li><li><a id='b'>2</a></li></ul>",
            "c.closest('li').mark === 1 && b.closest('li').mark === 2 && !window.a"
            " && part.textContent === '342' && part.querySelectorAll('li').length === 3",
            id="rows that change places",
        ),
        pytest.param(
            "<p><a class='row-link' href='/1'>1</a></p><p><a class='row-link' href='/2'>2</a></p>",
            "part.lastChild.mark = 2; part.lastChild.firstChild.focus()",
            "<p><a class='row-link' href='/0'>0</a></p><p><a class='row-link' href='/2'>two</a></p>"
            "<p><a class='row-link' href='/1'>1</a></p>",
            "part.children[1].mark === 2 && document.activeElement.textContent === 'two'"
            " && part.textContent === '0two1'",
            id="rows that only their links tell apart",
        ),
        pytest.param(
            "<p>1 <a class='row-link' href='/1'>a</a></p><p>2 <a class='row-link' href='/1'>b</a></p>",
            "part.firstChild.mark = 1; part.lastChild.mark = 2",
            "<p>3 <a class='row-link' href='/1'>a</a></p><p>4 <a class='row-link' href='/1'>b</a></p>",
            "part.firstChild.mark === 1 && part.lastChild.mark === 2 && part.textContent === '3 a4 b'",
            id="rows about the same thing",
        ),
        pytest.param(
            "<h2>x</h2> <p>y</p>",
            "part.querySelector('h2').mark = 1; part.querySelector('p').mark = 2",
            "<div>banner</div> <h2>x</h2> <p>z</p> <p>last</p>",
            "part.querySelector('h2').mark === 1 && part.querySelector('p').mark === 2"
            " && part.textContent === 'banner x z last'",
            id="a banner that appears above",
        ),
        pytest.param(
            "<form id='g'><input name='id' value='1'></form>",
            "g.mark = 1",
            "<form id='g'><input name='id' value='2'></form>",
            "g.mark === 1 && g.elements[0].value === '2'",
            id="a form with a field called id",
        ),
        pytest.param(
            "<a id='f' href='/a' title='t'>x</a>",
            "f.mark = 1",
            "<a id='f' href='/b'>x &lt;b&gt;</a>",
            "f.mark === 1 && f.pathname === '/b' && !f.title && f.textContent === 'x <b>'",
            id="attributes",
        ),
    ],
)
def test_a_morph_keeps(tab: Tab, before: str, act: str, after: str, holds: str) -> None:
    def steps(page: Page) -> None:
        page.goto("/rules/")
        page.evaluate(
            "html => document.querySelector('main').insertAdjacentHTML('beforeend', html)",
            PART.format(attributes="", content=before),
        )
        page.evaluate(f"() => {{ {act} }}")
        page.evaluate(
            """html => {
              const part = document.getElementById("part");
              htmx.swap(part, html, { swapStyle: "morph", swapDelay: 0, settleDelay: 0 }, { contextElement: part });
            }""",
            PART.format(attributes="class='next'", content=after),
        )
        assert page.evaluate(f"() => Boolean({holds})")
        assert page.evaluate("part.className") == "next"

    tab.do(steps)


def test_a_morph_makes_new_parts_work(tab: Tab, watched: Cluster) -> None:
    """A row that came with an update asks the server as one that was there from the start."""

    def steps(page: Page) -> None:
        page.goto(LIST)
        page.evaluate(
            """() => {
              document.querySelector("main").insertAdjacentHTML("beforeend", "<section id='part'></section>");
              const html = `<section id='part'><a id='more' href='#' hx-get='/c/lab/status/'
                hx-target='#part' hx-swap='innerHTML'>more</a></section>`;
              const part = document.getElementById("part");
              htmx.swap(part, html, { swapStyle: "morph", swapDelay: 0, settleDelay: 0 }, { contextElement: part });
            }"""
        )
        page.get_by_role("link", name="more").click()
        expect(page.get_by_role("heading", name="Last polls")).to_be_visible()

    tab.do(steps)
