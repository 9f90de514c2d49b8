"""The timeline on the page of one finding."""

from datetime import timedelta

import pytest
from django.test import Client

from diagnostics.findings import Diagnosis
from diagnostics.incidents import record
from diagnostics.models import Incident, IncidentEvent
from diagnostics.rules import catalogue
from tests.builders import NOW, ago, snapshot
from tests.pages.stored import finding, polled
from tests.pages.test_findings import ROOT, detail, flat

pytestmark = pytest.mark.django_db


def changes(number: int) -> None:
    """Of severity, the last of them to critical."""
    sides = [("critical", "warning"), ("warning", "critical")]
    incident = Incident.objects.get()
    IncidentEvent.objects.bulk_create(
        IncidentEvent(
            incident=incident,
            at=NOW + timedelta(minutes=i),
            kind="severity changed",
            data=dict(zip(("from", "to"), sides[(number - i) % 2], strict=True)),
        )
        for i in range(1, number + 1)
    )


def test_many_changes_of_severity_are_told_by_the_first_the_last_and_their_number(browser: Client) -> None:
    polled(ROOT)
    changes(101)
    IncidentEvent.objects.create(
        incident=Incident.objects.get(), at=NOW, kind="commented", data={"text": "why?"}
    )
    changes(2)

    text = flat(detail(browser, ROOT)).split("Timeline")[1]

    assert text.count("Severity changed") == 5
    assert "Severity changed 99 times more, between critical and warning" in text
    assert "2026-06-01 13:41:00" in text
    assert "2026-06-01 13:40:00" not in text


def test_a_few_changes_of_severity_are_told_one_by_one(browser: Client) -> None:
    polled(ROOT)
    changes(3)

    text = detail(browser, ROOT)

    assert text.count("Severity changed") == 3
    assert "times more" not in text


def test_says_why_it_was_seen_before_it_opened(browser: Client) -> None:
    of = polled(at=ago(hours=1))
    rule = next(rule for rule in catalogue() if rule.hold > 1)
    held_back = finding(rule.code, rule.slug)
    for minutes in range(rule.hold, 0, -1):
        record(of, snapshot(taken_at=ago(minutes=minutes)), Diagnosis(findings=(held_back,)))

    text = flat(detail(browser, held_back))

    assert f"Its rule opens it once {rule.hold} polls have seen it" in text


def test_what_opened_at_once_needs_no_explanation(browser: Client) -> None:
    polled(ROOT)

    assert "Its rule opens it" not in detail(browser, ROOT)


def test_a_long_timeline_shows_the_newest_and_how_it_began(browser: Client) -> None:
    polled(ROOT)
    incident = Incident.objects.get()
    IncidentEvent.objects.bulk_create(
        IncidentEvent(incident=incident, at=NOW, kind="commented", data={"text": f"word {i};"})
        for i in range(300)
    )

    text = flat(detail(browser, ROOT))

    assert "word 299;" in text
    assert "word 100;" in text
    assert "word 99;" not in text
    assert "Opened as warning" in text
