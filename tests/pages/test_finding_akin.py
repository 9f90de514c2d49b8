"""What the page of a finding tells of other incidents of its subject."""

import re
from datetime import timedelta

import msgspec
import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from diagnostics import archive
from diagnostics.findings import Finding, Subject
from diagnostics.models import Cluster, Incident, IncidentEvent
from diagnostics.views.finding_akin import MOST_READ, OCCASIONS_SHOWN, SHOWN
from tests.builders import NOW, ago
from tests.pages.stored import finding, found, polled
from tests.pages.test_findings import LIST, ROOT, detail, flat

pytestmark = pytest.mark.django_db

LEMON = finding("GPU108", "lemon-node", subject=Subject(kind="Node", name="gpu-5"), title="gpu-5 fails again")
HEALTH = finding("GPU109", subject=Subject(kind="Node", name="gpu-5"), title="gpu-5 is reported unhealthy")
FITTED = finding(subject=Subject(kind="Node", name="gpu-5"), title="gpu-5 offers 7 of 8")


def earlier(of: Cluster, one: Finding, days: int) -> int:
    """An incident that opened so many days ago and was over two minutes later: its primary key."""
    for minutes, findings in ((0, [one]), (1, []), (2, [])):
        found(of, findings, ago(days=days) + timedelta(minutes=minutes))
    return Incident.objects.latest("opened_at").pk


def before(text: str) -> str:
    text = flat(text)
    return text[text.index("Earlier incidents") : text.index("Guided fix")]


def test_a_finding_says_how_often_and_when_the_same_was_found_before(browser: Client) -> None:
    lab = polled(at=ago(days=20))
    first, last = earlier(lab, ROOT, 12), earlier(lab, ROOT, 5)
    polled(ROOT, of=lab)

    page = detail(browser, ROOT)

    assert "The same was found 2 times before." in before(page)
    assert "opened 2026-05-27 12:00:00 UTC , resolved 2026-05-27 12:02:00 UTC" in before(page)
    assert page.index(f"{ROOT.id}/?incident={last}") < page.index(f"{ROOT.id}/?incident={first}")


def test_what_another_rule_found_of_the_subject_stands_there_too(browser: Client) -> None:
    other = finding("GPU102", subject=ROOT.subject, title="GPU 2 lost its link")
    lab = polled(at=ago(days=20))
    earlier(lab, other, 5)
    polled(ROOT, of=lab)

    text = before(detail(browser, ROOT))

    assert "What was found of this subject before: warning GPU 2 lost its link" in text
    assert "The same was found" not in text


def test_later_incidents_and_those_of_others_are_not_listed(browser: Client) -> None:
    lab = polled(at=ago(days=20))
    pk = earlier(lab, ROOT, 12)
    elsewhere = finding("GPU101", subject=Subject(kind="GPU", name="gpu-5/00000000:13:00.0"))
    earlier(lab, elsewhere, 15)
    polled(ROOT, of=lab)

    assert "Earlier incidents" not in browser.get(f"{LIST}{ROOT.id}/?incident={pk}").content.decode()


def test_a_node_that_fails_again_and_again_is_told_with_what_fails_on_it(browser: Client) -> None:
    polled(ROOT, LEMON, FITTED)

    for one in (ROOT, FITTED):
        assert f"Its node fails again and again: warning {LEMON.title}" in before(detail(browser, one))
    assert "Its node fails again" not in detail(browser, LEMON)


def test_what_a_failing_node_counts_is_listed(browser: Client) -> None:
    software = finding("GPU202", "operator", subject=FITTED.subject, title="No driver pod")
    elsewhere = finding("GPU101", subject=Subject(kind="GPU", name="gpu-50/00000000:12:00.0"), title="Afar")
    lab = polled(at=ago(days=50))
    for one, days in ((ROOT, 40), (ROOT, 12), (elsewhere, 9), (software, 8), (ROOT, 5)):
        earlier(lab, one, days)
    polled(LEMON, of=lab)

    text = before(detail(browser, LEMON))
    counted, _, others = text.partition("What was found of this subject before")

    assert counted.count(ROOT.title) == 2
    assert "opened 2026-05-20" in counted
    assert "Afar" not in text
    assert "No driver pod" in others


@pytest.mark.parametrize("number", [0, 3, MOST_READ + 5])
def test_however_many_there_are_they_cost_no_query_of_their_own(
    browser: Client, django_assert_max_num_queries: DjangoAssertNumQueries, number: int
) -> None:
    of = msgspec.structs.replace(ROOT, nodes=("gpu-5",), pods=("research/train-0",))
    polled(of, LEMON)
    incident = Incident.objects.get(fingerprint=of.id)
    for i in range(number):
        opened = NOW - timedelta(days=i + 2)
        same = {field.attname: getattr(incident, field.attname) for field in Incident._meta.concrete_fields}
        same |= {"id": None, "status": "resolved", "resolved_at": opened + timedelta(hours=1)}
        Incident.objects.create(**same | {"opened_at": opened, "first_seen": opened})

    with django_assert_max_num_queries(12):
        text = flat(detail(browser, of))

    assert ("at least" in text) == (number > MOST_READ)
    assert text.count("opened 2026") + text.count("opened 2025") == min(number, SHOWN)


def lines(text: str) -> list[str]:
    """When the occasions opened that are listed as counted, as the page says it."""
    counted = before(text).partition("What was found of this subject before")[0]
    return re.findall(r"opened (?:again )?2026[-0-9]+ [:0-9]+", counted)


def test_each_occasion_that_is_counted_stands_on_a_line_of_its_own(browser: Client) -> None:
    lab = polled(ROOT, HEALTH, at=ago(days=20))
    root, health = Incident.objects.get(fingerprint=ROOT.id), Incident.objects.get(fingerprint=HEALTH.id)
    for incident, *times in (
        (root, timedelta(days=9), timedelta(days=4)),
        (health, timedelta(days=9) - timedelta(hours=5), timedelta(days=4) - timedelta(hours=7)),
    ):
        for before_now in times:
            IncidentEvent.objects.create(incident=incident, at=NOW - before_now, kind="reopened")
    polled(LEMON, ROOT, HEALTH, of=lab)

    page = detail(browser, LEMON)

    assert lines(page) == [
        "opened again 2026-05-28 19:00:00",
        "opened again 2026-05-28 12:00:00",
        "opened again 2026-05-23 12:00:00",
        "opened 2026-05-12 12:00:00",
    ]
    assert (
        page.count(f"{ROOT.id}/?incident={root.pk}") + page.count(f"{HEALTH.id}/?incident={health.pk}") == 4
    )
    assert archive.earlier(lab, timedelta(days=1))[0].incidents == {"gpu-5": 4}


@pytest.mark.parametrize("number", [1, OCCASIONS_SHOWN + 5])
def test_however_many_occasions_there_are_they_cost_one_query(
    browser: Client, django_assert_num_queries: DjangoAssertNumQueries, number: int
) -> None:
    lab = polled(ROOT, at=ago(days=29))
    incident = Incident.objects.get()
    for i in range(1, number):
        IncidentEvent.objects.create(incident=incident, at=ago(days=29 - i), kind="reopened")
    polled(LEMON, ROOT, of=lab)

    with django_assert_num_queries(12):
        page = detail(browser, LEMON)

    assert len(lines(page)) == min(number, OCCASIONS_SHOWN)
    assert ("and 5 earlier" in flat(page)) == (number > OCCASIONS_SHOWN)
