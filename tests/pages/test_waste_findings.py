"""What the waste page says of a workload that wastes: its finding, or why none is open."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from diagnostics.findings import Diagnosis, Finding, Subject
from diagnostics.incidents import record
from diagnostics.models import Cluster, Incident
from diagnostics.rules import catalogue
from diagnostics.snapshot import State
from diagnostics.usage.weights import WASTED
from diagnostics.views.waste_findings import REPORTED_BY
from tests.builders import NOW, snapshot
from tests.pages.stored import finding, found, observation, polled
from tests.pages.test_findings import flat
from tests.pages.test_hostile_names import HIDDEN, Read, hostile_name
from tests.usage.hours import MONDAY, Ledger

pytestmark = pytest.mark.django_db

URL = "/c/lab/waste/"
H = 3_600_000
JOB = {"kind": "Job", "namespace": "space-1", "name": "job-1"}
IDLE = finding("GPU501", "idle-gpu", subject=Subject(**JOB), title="Job job-1 holds 1 GPU without using it")


@pytest.fixture(autouse=True)
def _then(_now: None) -> Iterator[None]:
    assert connection.features.supports_json_field
    with time_machine.travel(NOW + timedelta(hours=1), tick=False):
        yield


def wasting(*states: State, number: int = 1) -> Cluster:
    """The last poll of a cluster in which `number` jobs waste, most in the first of `states`."""
    ledger = Ledger(polled())
    for rank, state in enumerate(states):
        for who in range(number):
            ledger.add(5, 1 - who, 0, state, H // (rank + 1), H // (rank + 1))
    ledger.complete(6)
    return ledger.cluster


def said(browser: Client) -> str:
    """The row of job-1, from its waste on."""
    page = browser.get(URL).content.decode()
    return flat(page.split('id="savings"')[1].split("<tbody>")[1].split("</tbody>")[0])


def at(minutes: int) -> Any:
    return NOW + timedelta(minutes=minutes)


def over(of: Cluster, one: Finding) -> None:
    found(of, [one], at(1))
    for minute in (2, 3):
        found(of, [], at(minute))


def test_what_is_open_comes_first(browser: Client) -> None:
    of = wasting(State.IDLE_HELD)
    over(of, IDLE)
    found(of, [IDLE], at(4))

    assert said(browser).endswith(f"warning {IDLE.title}")


def test_what_is_over_says_when_and_why(browser: Client) -> None:
    over(wasting(State.IDLE_HELD), IDLE)

    assert said(browser).endswith(
        f"Resolved, was: {IDLE.title} 2026-06-01 12:03:00 UTC : not found by 2 polls in a row"
    )
    incident = Incident.objects.get()
    link = f'href="/c/lab/findings/{IDLE.id}/?incident={incident.pk}"'
    assert link in browser.get(URL).content.decode()


def test_what_was_over_before_the_period_is_no_reason(browser: Client) -> None:
    over(wasting(State.IDLE_HELD), IDLE)
    Incident.objects.update(resolved_at=MONDAY - timedelta(days=8))

    assert "less than GPU501 reports" in said(browser)


def test_a_finding_of_another_kind_that_is_over_is_no_reason(browser: Client) -> None:
    over(wasting(State.IDLE_HELD), finding("GPU402", "oom-killed", subject=Subject(**JOB), title="Killed"))

    assert "Killed" not in said(browser)


def exempt(code: str, subject: dict[str, str] | None = None, count: int = 1) -> list[dict[str, Any]]:
    kept = [{**subject, "reason": "warm standby until July"}] if subject else []
    return [{"code": code, "count": count, "kept": kept}]


def test_what_is_exempt_says_by_which_reason(browser: Client) -> None:
    of = wasting(State.IDLE_HELD)
    over(of, IDLE)
    observation(of, at(4), exempted=exempt("GPU501", JOB))

    assert said(browser).endswith("None is open: exempt: warm standby until July")


@pytest.mark.parametrize("other", [{"name": "job-2"}, {"namespace": "space-0"}, {"kind": "Pod"}])
def test_what_somebody_else_is_exempt_from_is_no_reason(browser: Client, other: dict[str, str]) -> None:
    observation(wasting(State.IDLE_HELD), at(4), exempted=exempt("GPU501", JOB | other))

    assert "exempt" not in said(browser)


def test_what_may_be_among_those_exempt_that_are_not_kept_is_not_called_too_little(browser: Client) -> None:
    observation(wasting(State.IDLE_HELD), at(4), exempted=exempt("GPU501", count=300))

    assert said(browser).endswith("None is open: exempt, or less than GPU501 reports")


def test_what_polls_have_seen_too_seldom_is_not_open_yet(browser: Client) -> None:
    of = wasting(State.STUCK)
    one = finding("GPU304", "stuck-holder", subject=Subject(**JOB))
    record(of, snapshot(taken_at=at(1)), Diagnosis(findings=(one,)), holds={"GPU304": 2})

    assert said(browser).endswith("None is open: not yet: GPU304 opens it once 2 polls in a row have seen it")


@pytest.mark.parametrize(
    ("state", "words"), [(State.INEFFECTIVE, "low activity"), (State.HUNG, "hung")], ids=str
)
def test_a_kind_of_waste_that_no_rule_reports_says_so(browser: Client, state: State, words: str) -> None:
    wasting(state, State.IDLE_HELD)

    assert said(browser).endswith(f"None is open: no rule reports &quot;{words}&quot;")


def test_a_rule_that_could_not_look_says_why(browser: Client) -> None:
    observation(
        wasting(State.IDLE_EMPTY), at(4), rules_skipped=[{"code": "GPU501", "reason": "no window of metrics"}]
    )

    assert said(browser).endswith("None is open: not evaluated: GPU501 could not look, no window of metrics")


def test_a_poll_that_failed_says_nothing_of_that(browser: Client) -> None:
    of = wasting(State.IDLE_HELD)
    observation(of, at(4), exempted=exempt("GPU501", JOB))
    observation(of, at(5), status="failed", error="refused")

    assert "exempt: warm standby until July" in said(browser)


@pytest.mark.parametrize(
    ("state", "code"),
    [(State.IDLE_EMPTY, "GPU501"), (State.BLOCKED, "GPU302"), (State.STUCK, "GPU304")],
    ids=str,
)
def test_what_no_rule_found_lies_below_the_limits_of_one(browser: Client, state: State, code: str) -> None:
    wasting(state)

    assert said(browser).endswith(f"None is open: less than {code} reports, or at a time that no poll judged")
    assert f'<a href="/rules/{code}/">' in browser.get(URL).content.decode()


def test_rules_that_report_waste_are_in_the_catalogue_and_none_of_the_family_is_forgotten() -> None:
    slugs = {rule.slug for rule in catalogue()}
    of_waste = {rule.slug for rule in catalogue() if rule.family in {"waste", "speed"}}

    assert of_waste <= set(REPORTED_BY.values()) <= slugs
    assert set(REPORTED_BY) <= WASTED | {State.INEFFECTIVE}


@pytest.mark.parametrize("number", [1, 2])
def test_reasons_cost_the_same_however_many_there_are(
    browser: Client, django_assert_num_queries: DjangoAssertNumQueries, number: int
) -> None:
    of = wasting(State.IDLE_HELD, number=number)
    over(of, IDLE)
    found(of, [finding("GPU501", "idle-gpu", subject=Subject("Job", "job-0", "space-0"))], at(4))
    observation(of, at(5), exempted=exempt("GPU501", JOB))

    with django_assert_num_queries(12):
        browser.get(URL)


@hostile_name
def test_hostile_titles_and_reasons_are_text(browser: Client, name: str) -> None:
    of = wasting(State.IDLE_HELD, State.STUCK)
    over(of, finding("GPU501", "idle-gpu", subject=Subject(**JOB), title=name))
    Incident.objects.update(resolution=name.replace("\x00", ""))
    pages = [browser.get(URL).content.decode()]
    group = exempt("GPU501", JOB)
    group[0]["kept"][0]["reason"] = name
    observation(of, at(5), exempted=group)
    pages.append(browser.get(URL).content.decode())
    Incident.objects.all().delete()
    observation(of, at(6), rules_skipped=[{"code": "GPU501", "reason": name}])
    pages.append(browser.get(URL).content.decode())

    for page in pages:
        read = Read(page)
        assert not HIDDEN.search("".join(read.seen))
        for tag, attributes in read.elements:
            assert tag not in {"img", "b", "iframe", "style"}
            assert not [attribute for attribute in attributes if attribute.startswith("on")]


def test_groups_without_any_waste_need_no_reasons(browser: Client) -> None:
    ledger = Ledger(polled())
    ledger.add(5, 1, 0, State.EFFECTIVE, H, 0)
    ledger.complete(6)

    page = flat(browser.get(f"{URL}?by=workload").content.decode())

    assert "job-1 Job in space-1" in page
    assert "No workload wasted GPU time in this period" in page
