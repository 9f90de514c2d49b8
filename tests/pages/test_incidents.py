"""The history of incidents."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from diagnostics.findings import Diagnosis, Exempted, Severity, Subject
from diagnostics.incidents import record
from diagnostics.models import Cluster, Incident, User
from tests.builders import NOW, ago, snapshot
from tests.pages.conftest import HTMX
from tests.pages.stored import cluster, finding, found, polled
from tests.pages.test_findings import OTHER, ROOT, SYMPTOM, detail, flat
from tests.pages.test_findings import titles as open_titles

pytestmark = pytest.mark.django_db

LIST = "/c/lab/incidents/"
WAS = f"Resolved, was: {ROOT.title}"


def titles(browser: Client, query: str = "") -> list[str]:
    text = browser.get(LIST + query).content.decode()
    return re.findall(r'class="row-link"[^>]*>\s*([^<]*?)\s*</a>', text)


def history() -> Cluster:
    """ROOT came and went two days ago; SYMPTOM has been open since this morning, OTHER for an hour."""
    of = polled(ROOT, at=ago(days=2))
    for minutes in (1, 2):
        found(of, [], ago(days=2) + timedelta(minutes=minutes))
    found(of, [SYMPTOM], ago(hours=5))
    found(of, [SYMPTOM, OTHER], ago(hours=1))
    return of


def test_the_latest_stands_first_with_how_long_it_lasted_and_how_it_ended(browser: Client) -> None:
    history()

    assert titles(browser) == [OTHER.title, SYMPTOM.title, WAS]
    text = flat(browser.get(LIST).content.decode())
    assert (
        "2026-05-30 12:00:00 UTC 2 min never Resolved, not found by 2 polls in a row 2026-05-30 12:02:00 UTC"
        in text
    )
    assert "3 incidents, opened in the last 30 days" in text


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("?status=open", [OTHER.title, SYMPTOM.title]),
        ("?status=resolved", [WAS]),
        ("?severity=critical", [SYMPTOM.title]),
        ("?namespace=notebooks", [OTHER.title]),
        ("?rule=fatal-xid", [WAS]),
        ("?period=day", [OTHER.title, SYMPTOM.title]),
        ("?q=xid+gpu-5", [WAS]),
        ("?q=xid+research", []),
        ("?status=odd&severity=odd&period=odd", [OTHER.title, SYMPTOM.title, WAS]),
        ("?q=%00", [OTHER.title, SYMPTOM.title, WAS]),
    ],
)
def test_the_address_filters(browser: Client, query: str, shown: list[str]) -> None:
    history()

    assert titles(browser, query) == shown


def test_what_was_exempted_can_be_told_from_what_was_mended(browser: Client) -> None:
    of = history()
    diagnosis = Diagnosis(exempted=(Exempted(OTHER.code, OTHER.subject, "warm standby until July"),))
    record(of, snapshot(taken_at=NOW), diagnosis)

    assert titles(browser, "?status=exempted") == [f"Resolved, was: {OTHER.title}"]
    assert "Resolved, exempt: warm standby until July" in flat(browser.get(LIST).content.decode())


def test_what_is_older_than_the_usual_period_is_shown_when_asked_for(browser: Client) -> None:
    of = polled(ROOT, at=ago(days=60))
    found(of, [], ago(days=59))
    found(of, [], ago(days=58))

    assert titles(browser) == []
    assert "Show all that are kept" in browser.get(LIST).content.decode()
    assert titles(browser, "?period=all") == [WAS]


def test_a_row_leads_to_that_very_incident(browser: Client) -> None:
    """The same trouble, again after more than a day: two incidents of one fingerprint."""
    of = polled(ROOT, at=ago(days=5))
    found(of, [], ago(days=5) + timedelta(minutes=1))
    found(of, [], ago(days=5) + timedelta(minutes=2))
    found(of, [ROOT], ago(hours=1))
    links = re.findall(r'class="row-link"[^>]*href="([^"]*)"', browser.get(LIST).content.decode())

    new, old = (browser.get(link).content.decode() for link in links)

    assert "Open for" in flat(new)
    assert "Resolved 2026-05-27 12:02:00 UTC" in flat(old)
    assert f'hx-get="{links[1]}&amp;fix=' in old


def test_what_has_not_opened_yet_is_no_incident(browser: Client) -> None:
    of = history()
    Incident.objects.create(
        cluster=of, fingerprint="f" * 16, severity="info", severity_rank=2, first_seen=NOW, last_seen=NOW,
        title="Not yet", finding={},
    )  # fmt: skip

    assert "Not yet" not in titles(browser, "?period=all")


def test_says_how_often_it_came_back_and_who_looks_after_it(browser: Client, user: User) -> None:
    of = polled(ROOT, at=ago(minutes=30))
    for minutes, findings in ((29, []), (28, []), (7, [ROOT])):
        found(of, findings, ago(minutes=minutes))
    Incident.objects.update(assignee=user, status="acknowledged")

    text = flat(browser.get(LIST).content.decode())

    assert "assigned to sre" in text
    assert "9 min within 30 min 1 × acknowledged" in text


def test_what_came_back_lasted_only_while_it_was_open(browser: Client) -> None:
    of = polled(ROOT, at=ago(hours=9))
    for minutes, findings in ((480, []), (479, []), (120, [ROOT]), (90, []), (89, [])):
        found(of, findings, ago(minutes=minutes))

    # 540 to 479, and 120 to 89 minutes ago.
    assert "1 h 32 min within 7 h 31 min 1 × Resolved" in flat(browser.get(LIST).content.decode())


def test_the_history_of_another_cluster_is_not_shown(browser: Client) -> None:
    history()
    cluster("prod")

    assert "Xid 79" not in browser.get("/c/prod/incidents/?period=all").content.decode()


def many(of: Cluster, number: int) -> None:
    one: dict[str, Any] = {
        "cluster": of,
        "code": "GPU101",
        "slug": "fatal-xid",
        "status": "resolved",
        "severity": Severity.WARNING.value,
        "severity_rank": 1,
        "confidence": "high",
        "subject_kind": "Node",
        "finding": {},
    }
    Incident.objects.bulk_create(
        Incident(
            **one,
            fingerprint=f"{i:016}",
            subject_name=f"n{i}",
            title=f"n{i}",
            first_seen=ago(minutes=i),
            last_seen=ago(minutes=i),
            opened_at=ago(minutes=i),
            resolved_at=ago(minutes=i - 1),
        )
        for i in range(1, number + 1)
    )


@pytest.mark.parametrize("number", [1, 250])
def test_the_history_costs_seven_queries_however_long_it_is(
    browser: Client, django_assert_num_queries: DjangoAssertNumQueries, number: int
) -> None:
    many(polled(finding(subject=Subject(kind="Node", name="other"))), number)

    with django_assert_num_queries(7):
        browser.get(LIST)
    Incident.objects.update(reopened_count=1)
    with django_assert_num_queries(8):
        browser.get(LIST)


def test_a_long_history_is_cut_into_pages(browser: Client) -> None:
    many(cluster(), 250)

    assert len(titles(browser)) == 100
    assert titles(browser, "?page=3")[-1] == "Resolved, was: n250"
    assert "201 to 250 of 250 incidents" in flat(browser.get(f"{LIST}?page=3").content.decode())


def test_a_page_that_stands_open_learns_from_its_heading_that_it_is_over(browser: Client) -> None:
    of = polled(ROOT, at=ago(minutes=3))
    address = f"/c/lab/findings/{ROOT.id}/"
    assert f">{ROOT.title}</h1>" in browser.get(address, headers=HTMX).content.decode()

    for minutes in (2, 1):
        found(of, [], ago(minutes=minutes))

    part = browser.get(address, headers=HTMX).content.decode()
    heading = part[part.index('<h1 id="finding-title"') : part.index("</h1>")]
    assert 'hx-swap-oob="true"' in heading
    assert heading.endswith(f">Resolved, was: {ROOT.title}")


def test_a_resolved_finding_says_when_and_why(browser: Client) -> None:
    of = polled(ROOT, at=ago(minutes=3))
    found(of, [], ago(minutes=2))
    found(of, [], ago(minutes=1))

    text = flat(detail(browser, ROOT))

    assert "Resolved 2026-06-01 11:59:00 UTC : not found by 2 polls in a row." in text
    assert "how it looked last, at 2026-06-01 11:57:00 UTC" in text
    assert text.startswith(f"Resolved, was: {ROOT.title} ·")
    assert f">Resolved, was: {ROOT.title}</h1>" in detail(browser, ROOT)
    assert open_titles(browser) == []


def test_a_resolved_finding_keeps_the_tree_that_was_last(browser: Client) -> None:
    of = polled(ROOT, SYMPTOM, at=ago(minutes=5))
    for minutes in (4, 3):
        found(of, [], ago(minutes=minutes))

    assert f"Resolved, was: {ROOT.title}" in flat(detail(browser, SYMPTOM))
