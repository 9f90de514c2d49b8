"""From a finding to its fix, checked off and verified, as somebody with a browser does it."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.conf import settings
from playwright.sync_api import Page, expect

from diagnostics.fixes import Fix, StepKind
from diagnostics.models import Cluster, Incident, IncidentEvent
from tests.browser.conftest import Tab
from tests.builders import node, snapshot
from tests.pages.stored import finding, found, observation, polled, step

pytestmark = [pytest.mark.browser, pytest.mark.service, pytest.mark.django_db(transaction=True)]

FINDING = finding(
    fix=Fix(
        "Mend it",
        (step(title="Look"), step(kind=StepKind.FIX, title="Mend", command="kubectl uncordon gpu-1")),
    )
)
PAGE = f"/c/lab/findings/{FINDING.id}/"


@pytest.fixture
def watched() -> Cluster:
    now = datetime.now(UTC)
    return polled(FINDING, at=now - timedelta(minutes=5), seen=snapshot(node(), taken_at=now))


@pytest.mark.parametrize("width", [1440, 390])
def test_a_fix_is_checked_off_and_verified_by_the_polls(
    open_tab: Callable[..., Tab], signed_in: dict[str, str], watched: Cluster, width: int
) -> None:
    tab = open_tab(width, cookies=signed_in)

    def mend(page: Page) -> None:
        page.goto("/c/lab/findings/")
        page.get_by_role("link", name="Node gpu-1 offers 7 of 8").click()
        expect(page.get_by_text("0 of 2 steps checked off")).to_be_visible()
        page.get_by_role("button", name="Acknowledge").click()
        expect(page.get_by_text("Acknowledged for")).to_be_visible()
        page.get_by_role("button", name="Assign to me").click()
        expect(page.get_by_label("Assigned to")).to_have_value("sre")
        page.get_by_label("Comment").fill("on it: <b>now</b>")
        page.get_by_role("button", name="Comment", exact=True).click()
        expect(page.get_by_text("on it: <b>now</b>")).to_be_visible()
        expect(page.get_by_label("Comment")).to_have_value("")

        page.get_by_role("button", name="Check off step 2").click()
        expect(page.get_by_text("1 of 2 steps checked off")).to_be_visible()
        expect(page.get_by_text("Done, checked off by sre")).to_be_visible()
        # The button that takes it back stands where the finger is.
        expect(page.get_by_role("button", name="Take back step 2")).to_be_focused()
        expect(page.get_by_role("link", name="Seen by the last poll")).to_be_visible()
        page.get_by_label("Comment").fill("half a sen")

    tab.do(mend)
    now = datetime.now(UTC)
    for minutes in (3, 2, 1):
        found(watched, [], now - timedelta(minutes=minutes))
    observation(watched, now)

    def look(page: Page) -> None:
        page.evaluate("document.querySelector('[data-live]').dispatchEvent(new Event('live'))")
        expect(page.get_by_role("link", name="Verified: the last 3 polls no longer see it")).to_be_visible()
        expect(page.get_by_text("Fix verified")).to_be_visible()
        # What is being written survives the page's coming up to date.
        expect(page.get_by_label("Comment")).to_have_value("half a sen")
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        page.get_by_role("link", name="Incidents").first.click()
        expect(page.get_by_text("fix verified")).to_be_visible()

    tab.do(look)
    assert Incident.objects.get().fix_status == "verified"
    kinds = set(IncidentEvent.objects.values_list("kind", flat=True))
    assert kinds == {
        "opened",
        "acknowledged",
        "assigned",
        "commented",
        "step checked",
        "resolved",
        "fix verified",
    }


def test_without_scripts_it_works_as_well(
    open_tab: Callable[..., Tab], signed_in: dict[str, str], watched: Cluster
) -> None:
    tab = open_tab(1440, cookies=signed_in, java_script_enabled=False)

    def mend(page: Page) -> None:
        page.goto(PAGE)
        page.get_by_role("button", name="Check off step 1").click()
        expect(page.get_by_text("1 of 2 steps checked off")).to_be_visible()
        assert page.url.endswith(PAGE)
        page.get_by_role("button", name="Take back step 1").click()
        expect(page.get_by_text("0 of 2 steps checked off")).to_be_visible()

    tab.do(mend)


def commented(page: Page) -> None:
    page.get_by_label("Comment").fill("half an hour of thought")
    page.get_by_role("button", name="Comment", exact=True).click()


def asked_again(page: Page) -> None:
    with page.expect_response(lambda response: response.request.method == "GET"):
        page.evaluate("document.querySelector('[data-live]').dispatchEvent(new Event('live'))")


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("cookie", [settings.SESSION_COOKIE_NAME, settings.CSRF_COOKIE_NAME])
def test_an_expired_sign_in_is_said_and_no_word_is_lost(
    open_tab: Callable[..., Tab], signed_in: dict[str, str], watched: Cluster, cookie: str, width: int
) -> None:
    tab = open_tab(width, cookies=signed_in)

    def send(page: Page) -> None:
        page.goto(PAGE)
        page.context.clear_cookies(name=cookie)
        commented(page)
        said = page.get_by_role("alert").filter(has_text="Your sign-in has expired: nothing was saved.")
        expect(said).to_be_in_viewport()
        asked_again(page)
        expect(said).to_be_visible()
        expect(page.get_by_label("Comment")).to_have_value("half an hour of thought")
        said.get_by_role("button", name="Reload the page").click()
        if cookie == settings.SESSION_COOKIE_NAME:
            expect(page.get_by_role("button", name="Sign in")).to_be_visible()
        else:
            expect(said).to_be_hidden()
            commented(page)
            expect(page.get_by_text("half an hour of thought")).to_be_visible()

    tab.do(send)
    tab.complaints[:] = [complaint for complaint in tab.complaints if "403" not in complaint]


def test_a_server_that_does_not_answer_is_said_until_it_does(
    open_tab: Callable[..., Tab], signed_in: dict[str, str], watched: Cluster
) -> None:
    tab = open_tab(cookies=signed_in)

    def send(page: Page) -> None:
        page.goto(PAGE)
        page.context.set_offline(True)
        commented(page)
        said = page.get_by_role("alert").filter(has_text="The server did not answer")
        expect(said).to_be_in_viewport()
        expect(said.get_by_role("button")).to_be_hidden()
        page.context.set_offline(False)
        page.get_by_role("button", name="Comment", exact=True).click()
        expect(said).to_be_hidden()
        expect(page.get_by_label("Comment")).to_have_value("")

    tab.do(send)
    assert IncidentEvent.objects.filter(kind="commented").count() == 1
    known = ("ERR_INTERNET_DISCONNECTED", "htmx:afterRequest", "htmx:sendError")
    tab.complaints[:] = [said for said in tab.complaints if not any(one in said for one in known)]
