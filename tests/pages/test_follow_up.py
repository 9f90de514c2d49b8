"""What a signed-in user does about a finding: with htmx and without, once, and only as themselves."""

import re
from datetime import timedelta
from typing import Any

import msgspec
import pytest
import time_machine
from django.http import HttpResponse
from django.test import Client

from diagnostics.fixes import Fix, StepKind
from diagnostics.models import Cluster, Incident, IncidentEvent, User
from tests.builders import NOW, ago
from tests.pages.conftest import HTMX
from tests.pages.stored import finding, found, polled, step
from tests.pages.test_findings import LIST, ROOT, detail, flat
from tests.pages.test_hostile_names import HIDDEN, HOSTILE, Read

pytestmark = pytest.mark.django_db

LOOK = step(title="Look")
MEND = step(kind=StepKind.FIX, title="Mend", command="kubectl uncordon gpu-1")
FINDING = finding(fix=Fix("Mend it", (LOOK, MEND)))
PAGE = f"{LIST}{FINDING.id}/"
URL = f"{PAGE}follow-up/"


@pytest.fixture(autouse=True)
def of(db: None) -> Cluster:
    return polled(FINDING, at=ago(minutes=10))


def send(browser: Client, action: str, *, htmx: bool = True, url: str = URL, **fields: Any) -> Any:
    data = {"action": action, "incident": Incident.objects.get(fingerprint=FINDING.id).pk} | fields
    return browser.post(url, data, headers=HTMX if htmx else {})


def tokens(browser: Client, page: str = PAGE) -> list[str]:
    return re.findall(r'name="step" value="([^"]*)"', browser.get(page).content.decode())


def kinds() -> list[str]:
    return list(IncidentEvent.objects.order_by("pk").values_list("kind", flat=True))


def text_of(response: HttpResponse) -> str:
    assert response.status_code == 200
    return flat(response.content.decode())


def test_htmx_gets_the_parts_that_changed(browser: Client) -> None:
    response = send(browser, "acknowledge")

    text = response.content.decode()
    assert "<html" not in text
    assert 'id="finding-state"' in text
    assert re.search(r'id="finding-aside"[^>]*hx-swap-oob="true"', text)
    assert re.search(r'id="fix-progress"[^>]*hx-swap-oob="true"', text)
    assert text.count('class="step-check"') == 2
    assert "Acknowledged for" in flat(text)
    assert f'hx-get="{PAGE}?fix=' in text


def test_a_plain_form_leads_back_to_the_page(browser: Client) -> None:
    response = send(browser, "acknowledge", htmx=False)

    assert response.status_code == 302
    assert response["Location"] == PAGE
    assert Incident.objects.get().status == "acknowledged"


@pytest.mark.parametrize("htmx", [True, False])
def test_each_act_is_an_event_of_whoever_did_it(browser: Client, user: User, htmx: bool) -> None:
    look, mend = tokens(browser)
    acts: list[tuple[str, dict[str, Any]]] = [
        ("acknowledge", {}),
        ("assign", {"assignee": "sre"}),
        ("comment", {"text": "on it", "after": "0"}),
        ("check", {"step": look}),
        ("check", {"step": mend}),
        ("uncheck", {"step": look}),
        ("assign", {"assignee": ""}),
        ("unacknowledge", {}),
    ]
    for action, fields in acts * 2:
        send(browser, action, htmx=htmx, **fields)
        send(browser, action, htmx=htmx, **fields)

    once = [
        *("acknowledged", "assigned", "commented", "step checked", "step checked"),
        *("step taken back", "assigned", "unacknowledged"),
    ]
    again = ["acknowledged", "assigned", "step checked", "step taken back", "assigned", "unacknowledged"]
    assert kinds() == ["opened", *once, *again]
    assert set(IncidentEvent.objects.exclude(kind="opened").values_list("actor", flat=True)) == {user.pk}


def test_a_checked_step_says_who_when_and_what_the_polls_see(browser: Client, of: Cluster) -> None:
    text = text_of(send(browser, "check", step=tokens(browser)[1]))

    assert "1 of 2 steps checked off Seen by the last poll" in text
    assert "Done , checked off by sre at 2026-06-01 12:00:00 UTC" in text
    said = []
    for minutes in (9, 8, 7):
        found(of, [], ago(minutes=minutes))
        said.append(flat(detail(browser, FINDING)))
    assert "checked off Not seen by 1 of 3 polls yet" in said[0]
    assert "checked off Not seen by 2 of 3 polls yet" in said[1]
    assert "checked off Verified: the last 3 polls no longer see it" in said[2]
    assert "Fix verified" in said[2]


def test_a_check_off_stays_with_its_step_when_the_fix_changes(browser: Client, of: Cluster) -> None:
    send(browser, "check", step=tokens(browser)[0])
    another = step(title="Look elsewhere", command="kubectl describe node gpu-2")
    found(of, [msgspec.structs.replace(FINDING, fix=Fix("Mend it", (another, MEND)))], ago(minutes=5))

    text = detail(browser, FINDING)

    assert "0 of 2 steps checked off" in flat(text)
    assert "no longer a step of this fix: Look (sre, 2026-06-01 12:00:00 UTC )" in flat(text).replace(
        "( sre", "(sre"
    ).replace("sre ,", "sre,")
    send(browser, "uncheck", step=tokens(browser)[0])
    assert "no longer a step" not in detail(browser, FINDING)


def test_a_step_is_checked_off_as_it_was_shown_though_the_fix_has_changed_meanwhile(
    browser: Client, of: Cluster
) -> None:
    shown = browser.get(PAGE).content.decode()
    fix = re.search(r'name="fix" value="(\w+)"', shown)
    assert fix
    token = tokens(browser)[1]
    found(of, [msgspec.structs.replace(FINDING, fix=Fix("Another", (LOOK,)))], ago(minutes=5))

    response = send(browser, "check", step=token, fix=fix[1])

    text = text_of(response)
    assert "no longer a step of this fix: Mend" in text
    assert "The guided fix has changed since you opened this page." in text
    assert 'class="step-check' not in response.content.decode()
    assert IncidentEvent.objects.get(kind="step checked").data["title"] == "Mend"


@pytest.mark.parametrize("htmx", [True, False])
@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"action": "comment", "text": " "}, "A comment needs words."),
        ({"action": "comment", "text": "x" * 4001}, "this one has 4,001"),
        ({"action": "assign", "assignee": "nobody-here"}, "There is no user of that name."),
        ({"action": "check", "step": "made:up"}, "not one of this finding"),
        ({"action": "explode"}, "does not know what you asked for"),
        ({"action": ""}, "does not know what you asked for"),
    ],
)
def test_what_cannot_be_done_is_said_and_changes_nothing(
    browser: Client, fields: dict[str, str], why: str, htmx: bool
) -> None:
    response = send(browser, htmx=htmx, **fields)

    assert why in text_of(response)
    assert kinds() == ["opened"]
    if fields["action"] == "comment" and fields["text"].strip():
        assert fields["text"] in response.content.decode(), "the words are not lost"


def test_a_step_of_another_finding_is_refused(browser: Client, of: Cluster) -> None:
    found(of, [FINDING, ROOT], ago(minutes=5))
    token = tokens(browser, f"{LIST}{ROOT.id}/")[0]

    assert "not one of this finding" in text_of(send(browser, "check", step=token))


def test_what_was_resolved_meanwhile_is_said(browser: Client, of: Cluster) -> None:
    for minutes in (9, 8):
        found(of, [], ago(minutes=minutes))

    assert "It is resolved: there is nothing left to acknowledge." in text_of(send(browser, "acknowledge"))


def test_an_act_is_about_the_incident_that_was_shown(browser: Client, of: Cluster) -> None:
    """The same trouble has opened again as a new incident since the page was loaded."""
    old = Incident.objects.get()
    for minutes in (9, 8):
        found(of, [], ago(minutes=minutes))
    found(of, [FINDING], NOW + timedelta(days=2))
    data = {"action": "comment", "text": "late", "incident": old.pk}

    with time_machine.travel(NOW + timedelta(days=2), tick=False):
        browser.post(URL, data)

    assert IncidentEvent.objects.get(kind="commented").incident == old


@pytest.mark.parametrize("pk", ["", "0", "x", "9" * 30, "٣"])
def test_an_unknown_incident_is_not_found(browser: Client, pk: str) -> None:
    response = browser.post(URL, {"action": "acknowledge", "incident": pk})

    assert response.status_code == (302 if pk == "" else 404)


def test_an_incident_of_another_cluster_or_finding_is_out_of_reach(browser: Client, of: Cluster) -> None:
    found(of, [FINDING, ROOT], ago(minutes=5))
    other = Incident.objects.get(fingerprint=ROOT.id)

    assert send(browser, "acknowledge", incident=other.pk).status_code == 404
    assert send(browser, "acknowledge", url=f"/c/prod/findings/{FINDING.id}/follow-up/").status_code == 404
    assert set(Incident.objects.values_list("status", flat=True)) == {"open"}


def test_nobody_follows_up_without_signing_in(client: Client) -> None:
    response = send(client, "acknowledge", htmx=False)

    assert response["Location"].startswith("/login/")
    assert kinds() == ["opened"]


def test_a_form_of_another_site_is_refused(user: User) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(user)

    assert send(browser, "acknowledge").status_code == 403
    assert kinds() == ["opened"]


def test_looking_changes_nothing(browser: Client) -> None:
    assert browser.get(URL).status_code == 405


@pytest.mark.parametrize("words", HOSTILE.values(), ids=HOSTILE)
def test_a_comment_is_shown_as_text(browser: Client, words: str) -> None:
    send(browser, "comment", text=words[:4000])

    text = detail(browser, FINDING)

    read = Read(text)
    assert not HIDDEN.search("".join(read.seen))
    assert not {tag for tag, _ in read.elements} & {"img", "b", "iframe", "style"}
    assert kinds() == ["opened", "commented"]


def test_a_comment_keeps_its_lines(browser: Client) -> None:
    send(browser, "comment", text="one\r\n  two")

    assert "<bdi>one\n  two</bdi>" in detail(browser, FINDING)


def test_hostile_names_of_users_are_text(browser: Client) -> None:
    User.objects.create_user('"><img src=x>')

    page = detail(browser, FINDING)
    assert "<img" not in page
    send(browser, "assign", assignee='"><img src=x>')
    assert "<img" not in detail(browser, FINDING)
    assert "<img" not in browser.get(LIST).content.decode()


def test_an_act_costs_a_fixed_number_of_queries(browser: Client, django_assert_max_num_queries: Any) -> None:
    with django_assert_max_num_queries(20):
        send(browser, "acknowledge")
