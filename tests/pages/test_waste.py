"""Waste at a glance: who spent what, how much of it for nothing, and what the figures rest on."""

import csv
import io
import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from diagnostics.findings import Subject
from diagnostics.models import Backfill, LedgerState, Price, TeamRule, UsageHour, Workload
from diagnostics.snapshot import State
from diagnostics.usage.teams import By
from tests.builders import NOW
from tests.pages.conftest import HTMX
from tests.pages.stored import cluster, finding, polled
from tests.pages.test_findings import flat
from tests.pages.test_hostile_names import HIDDEN, HOSTILE, Read, hostile_name
from tests.usage.hours import HOUR, MODELS, MONDAY, Ledger

pytestmark = pytest.mark.django_db

URL = "/c/lab/waste/"
H = 3_600_000
START = -48
"""Hours from MONDAY, which NOW is a few hours after."""


@pytest.fixture
def ledger() -> Ledger:
    """Since two days: job-0 works on 2 GPUs, job-1 idles on 1, job-2 half works on 4, 3 are free and 1 is stranded."""
    ledger = Ledger(polled())
    for hour in range(START, 6):
        ledger.later(hour, 0, 0, State.EFFECTIVE, 2 * H, 0)
        ledger.later(hour, 1, 1, State.IDLE_HELD, H, H)
        ledger.later(hour, 2, 0, State.INEFFECTIVE, 4 * H, 2 * H)
        ledger.later(hour, 0, 0, State.FREE, 3 * H, 0)
        ledger.later(hour, 0, 1, State.STRANDED, H, 0)
    ledger.write()
    ledger.complete(6)
    ledger.roll_up()
    return ledger


@pytest.fixture(autouse=True)
def _asked_before(db: None) -> None:
    """Django asks SQLite once in each process whether it knows JSON."""
    assert connection.features.supports_json_field


@pytest.fixture(autouse=True)
def _monday_morning(_now: None) -> Any:
    with time_machine.travel(MONDAY + timedelta(hours=6, minutes=20), tick=False):
        yield


def page(browser: Client, query: str = "") -> str:
    response = browser.get(URL + query)
    assert response.status_code == 200
    return response.content.decode()


def text(browser: Client, query: str = "") -> str:
    return flat(page(browser, query))


def rows(browser: Client, query: str = "") -> list[list[str]]:
    """Words of each line of the table of groups, cell by cell."""
    body = page(browser, query).split('id="groups"')[1].split("<tbody>")[1].split("</tbody>")[0]
    return [
        [flat(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)]
        for row in re.findall(r"<tr[^>]*>(.*?)</tr>", body, re.DOTALL)
    ]


def figures(browser: Client, query: str = "") -> list[tuple[str, str, str]]:
    """Name, GPU-hours and wasted ones of each line."""
    return [(row[0], row[1], row[3]) for row in rows(browser, query)]


def test_teams_stand_with_their_hours_and_what_they_wasted(browser: Client, ledger: Ledger) -> None:
    assert figures(browser) == [("space-0", "324", "108 33 %"), ("space-1", "54", "54 100 %")]
    found = text(browser)
    assert "Held 378 GPU-hours" in found
    assert "Wasted 162 GPU-hours, 43 % of what was held" in found


def test_stranded_time_is_the_clusters_and_no_teams(browser: Client, ledger: Ledger) -> None:
    found = text(browser)
    assert "F 162 free S 54 stranded" in found
    assert "Stranded time is the cluster's waste, and in no team's figures." in found


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("namespace", ["space-0", "space-1"]),
        ("workload", ["job-2 Job in space-0", "job-0 Job in space-0", "job-1 Job in space-1"]),
        ("model", [MODELS[0], MODELS[1]]),
        ("state", ["L low activity", "F free", "E effective", "M idle, memory held", "S stranded"]),
        ("nonsense", ["space-0", "space-1"]),
    ],
)
def test_the_hours_are_divided_as_asked(browser: Client, ledger: Ledger, by: str, names: list[str]) -> None:
    assert sorted(name for name, *_ in figures(browser, f"?by={by}")) == sorted(names)


def test_a_team_leads_to_its_workloads(browser: Client, ledger: Ledger) -> None:
    TeamRule.objects.create(by=By.LABEL, key="team")
    found = page(browser)
    link = re.search(r'class="row-link"\s+href="([^"]*team=t2[^"]*)"', found)
    assert link
    query = link[1].replace(URL, "").replace("&amp;", "&")
    assert figures(browser, query) == [("job-2 Job in space-0", "216", "108 50 %")]
    narrowed = text(browser, query)
    assert "team: t2" in narrowed
    assert "Held by nobody" not in narrowed
    assert "job-1" not in narrowed


def test_a_namespace_is_a_filter_too(browser: Client, ledger: Ledger) -> None:
    found = figures(browser, "?by=workload&namespace=space-1")
    assert found == [("job-1 Job in space-1", "54", "54 100 %")]
    assert "Nothing of this was held in this period." in text(browser, "?by=workload&namespace=other")


def test_a_workload_leads_to_its_page(browser: Client, ledger: Ledger) -> None:
    assert 'href="/c/lab/workloads/Job/space-0/job-2/"' in page(browser, "?by=workload")


def test_the_largest_savings_say_how_and_which_finding_explains_them(browser: Client, ledger: Ledger) -> None:
    about = Subject(kind="Job", namespace="space-1", name="job-1")
    held = finding("GPU501", "idle-gpu", subject=about, title="Job job-1 holds 1 GPU without using it")
    polled(held, of=ledger.cluster, at=NOW + timedelta(minutes=1))
    found = text(browser).split("What could be saved")[1].split("GPU-hours by team")[0]
    assert found.index("job-2") < found.index("job-1")
    assert "L 108 low activity" in found
    assert "None is open: no rule reports &quot;low activity&quot;" in found
    assert "M 54 idle, memory held" in found
    assert "Job job-1 holds 1 GPU without using it" in found
    assert f'href="/c/lab/findings/{held.id}/"' in page(browser)


def test_money_is_given_as_far_as_prices_are_known(browser: Client, ledger: Ledger) -> None:
    found = text(browser)
    assert "no price is known for 594 GPU-hours of NVIDIA A100-SXM4-80GB , NVIDIA H100 80GB HBM3" in found
    Price.objects.create(pattern="*H100*", per_gpu_hour=Decimal("2.5"), currency="EUR")
    first, second = rows(browser)
    assert (first[4], first[5]) == ("no price", "no price")
    assert (second[4], second[5]) == ("135.00 EUR", "135.00 EUR")
    assert "at least 135.00 EUR" in text(browser)
    Price.objects.create(pattern="*A100*", per_gpu_hour=Decimal(1))
    assert rows(browser)[0][4:] == ["324.00 USD", "108.00 USD"]
    assert "Held 378 GPU-hours 135.00 EUR 324.00 USD" in text(browser)
    assert "no price" not in text(browser)


def test_what_was_not_observed_is_in_no_figure(browser: Client, ledger: Ledger) -> None:
    ledger.add(4, 0, 0, State.NO_DATA, 7 * H, 0, is_gap=True)
    ledger.add(5, 0, 0, State.EFFECTIVE, 5 * H, 0, is_backfilled=True)
    ledger.cluster.usage_rollups.all().delete()
    found = text(browser)
    assert "Not observed 7 GPU-hours of 606" in found
    assert "5 GPU-hours were back-filled from Prometheus" in found
    assert "Held 383 GPU-hours" in found


def test_it_says_how_far_it_is_complete(browser: Client, ledger: Ledger) -> None:
    assert "Complete through 2026-06-01 06:00:00 UTC ; what follows is not counted yet" in text(browser)
    assert "The ledger begins at 2026-05-30 00:00:00 UTC" in text(browser)
    found = text(browser, "?from=2026-05-30&to=2026-05-31")
    assert "2026-05-30 00:00:00 UTC to 2026-06-01 00:00:00 UTC . Complete." in found
    assert "The ledger begins" not in found


@pytest.mark.parametrize(
    ("query", "first", "last", "hours"),
    [
        ("?period=today", "2026-06-01", "2026-06-01", "42"),
        ("", "2026-05-26", "2026-06-01", "378"),
        ("?period=nonsense", "2026-05-26", "2026-06-01", "378"),
        ("?period=30d", "2026-05-03", "2026-06-01", "378"),
        ("?period=month", "2026-06-01", "2026-06-01", "42"),
        ("?period=last-month", "2026-05-01", "2026-05-31", "336"),
        ("?from=2026-05-31&to=2026-05-31", "2026-05-31", "2026-05-31", "168"),
        ("?from=2026-05-31", "2026-05-31", "2026-06-01", "210"),
        ("?from=2026-05-31&to=2030-01-01", "2026-05-31", "2026-06-01", "210"),
    ],
)
def test_periods_are_whole_days(
    browser: Client, ledger: Ledger, query: str, first: str, last: str, hours: str
) -> None:
    found = page(browser, query)
    assert re.search(rf'name="from"\s+value="{first}"', found)
    assert re.search(rf'name="to"\s+value="{last}"', found)
    assert f"Held {hours} GPU-hours" in flat(found)


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("?from=yesterday", "A day is written like 2026-06-01."),
        ("?from=2026-05-31&to=2026-05-30", "The first day comes after the last."),
        ("?from=2027-01-01&to=2027-01-02", "The first day lies in the future."),
        ("?from=0001-01-01&to=2026-05-31", "That is too long ago."),
        ("?to=0001-01-01", "A day is written like 2026-06-01."),
        ("?from=2020-01-01&to=9999-12-31", "That is more than 400 days."),
        ("?from=1999-12-31&to=9999-12-31", "That is too long ago."),
        ("?from=2024-01-01&to=2026-05-31", "That is more than 400 days."),
    ],
)
def test_a_period_that_there_is_not_is_refused_in_words(
    browser: Client, ledger: Ledger, query: str, why: str
) -> None:
    found = text(browser, query)
    assert why in found
    assert "Shown are the last seven days." in found
    assert "Held 378 GPU-hours" in found


def test_days_begin_at_midnight_where_the_site_is(browser: Client, ledger: Ledger, settings: Any) -> None:
    settings.TIME_ZONE = "Asia/Kolkata"
    found = text(browser, "?from=2026-05-31&to=2026-05-31")
    assert "2026-05-30 23:30:00 IST to 2026-06-01 00:30:00 IST , widened to the full hours" in found
    assert "Held 175 GPU-hours" in found


def test_the_table_can_be_downloaded(browser: Client, ledger: Ledger) -> None:
    Price.objects.create(pattern="*H100*", per_gpu_hour=Decimal("2.5"))
    link = re.search(r'href="([^"]*format=csv[^"]*)"', page(browser, "?period=today"))
    assert link
    response = browser.get(link[1].replace("&amp;", "&"))
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    assert 'filename="lab-usage-by-team-2026-06-01-2026-06-01.csv"' in response["Content-Disposition"]
    found = list(csv.DictReader(io.StringIO(response.content.decode())))
    assert [(row["team"], row["gpu_hours"], row["wasted_gpu_hours"], row["cost_USD"]) for row in found] == [
        ("space-0", "36.000", "12.000", ""),
        ("(held by nobody)", "24.000", "0.000", "15.00"),
        ("space-1", "6.000", "6.000", "15.00"),
        ("(not observed)", "0.000", "", ""),
    ]
    assert found[2]["idle_held_gpu_hours"] == "6.000"


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", "\r@"])
def test_no_name_in_the_download_becomes_a_formula(browser: Client, ledger: Ledger, start: str) -> None:
    Workload.objects.filter(name="job-0").update(namespace=f"{start}SUM(1)", name=f"{start}cmd|' /C calc'!A0")
    ledger.cluster.usage_rollups.all().delete()
    for by in ("namespace", "workload"):
        response = browser.get(f"{URL}?by={by}&format=csv")
        for row in csv.reader(io.StringIO(response.content.decode())):
            assert not [cell for cell in row if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]


def test_long_lists_come_in_pages(browser: Client, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diagnostics.views.waste.GROUPS_PER_PAGE", 2)
    assert len(rows(browser, "?by=workload")) == 2
    found = page(browser, "?by=workload&page=2")
    assert "job-1" in rows(browser, "?by=workload&page=2")[0][0]
    assert "3 to 3 of 3 workloads" in flat(found)
    assert "This list has 2 pages." in text(browser, "?by=workload&page=77")
    assert len(rows(browser, "?by=workload&page=0x1")) == 2


def test_nothing_recorded_is_not_nothing_wasted(browser: Client) -> None:
    cluster()
    found = text(browser)
    assert "nothing recorded yet" in found
    assert "The ledger begins with the first poll of this cluster." in found
    assert "Wasted" not in found.split("What the figures rest on")[0]


def test_a_period_before_the_ledger_is_not_idle(browser: Client, ledger: Ledger) -> None:
    assert "Nothing was observed in this period." in text(browser, "?from=2026-03-01&to=2026-03-02")


def test_the_live_part_carries_the_figures_and_is_not_sent_twice(browser: Client, ledger: Ledger) -> None:
    first = browser.get(f"{URL}?by=workload", headers=HTMX)
    assert b"<html" not in first.content
    assert 'hx-get="/c/lab/waste/?by=workload"' in first.content.decode()
    again = browser.get(f"{URL}?by=workload", headers=HTMX | {"If-None-Match": first["ETag"]})
    assert again.status_code == 304
    LedgerState.objects.update(complete_through=MONDAY + 6 * HOUR + timedelta(minutes=1))
    later = browser.get(f"{URL}?by=workload", headers=HTMX | {"If-None-Match": first["ETag"]})
    assert later.status_code == 200
    restored = browser.get(URL, headers=HTMX | {"HX-History-Restore-Request": "true"})
    assert b"<html" in restored.content


@pytest.mark.parametrize("number", [1, 40])
@pytest.mark.parametrize("query", ["", "?by=workload&team=t1", "?by=namespace", "?by=model", "?by=workload"])
def test_a_page_costs_at_most_eleven_queries(
    browser: Client, ledger: Ledger, django_assert_max_num_queries: Any, number: int, query: str
) -> None:
    TeamRule.objects.create(by=By.LABEL, key="team")
    ledger.roll_up()
    ever = {"cluster": ledger.cluster, "first_seen": MONDAY, "last_seen": MONDAY}
    model = ledger.models[0]
    for i in range(number):
        labels = {"team": f"team-{i}"}
        who = Workload.objects.create(kind="Job", namespace=f"n{i}", name=f"x{i}", labels=labels, **ever)
        UsageHour.objects.create(
            cluster=ledger.cluster,
            hour=MONDAY + 6 * HOUR,
            workload=who,
            model=model,
            state=9,
            gpu_ms=H,
            waste_ms=H,
        )
    with django_assert_max_num_queries(12):
        page(browser, query)


def test_a_new_rule_costs_no_query_more_until_it_is_rolled_up(
    browser: Client, ledger: Ledger, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    ledger.add(6, 0, 0, State.EFFECTIVE, 7, 0)
    TeamRule.objects.create(by=By.ANNOTATION, key="owner")
    with django_assert_num_queries(12):
        page(browser)
    ledger.roll_up()
    with django_assert_num_queries(12):
        page(browser)


@hostile_name
@pytest.mark.parametrize("by", ["team", "namespace", "workload", "model"])
def test_hostile_names_are_text(browser: Client, ledger: Ledger, name: str, by: str) -> None:
    name = name.replace("\x00", "")
    Workload.objects.filter(name="job-1").update(kind=name[:80], namespace=name[:253], name=name[:253])
    ledger.models[1].name = name[:120]
    ledger.models[1].save()
    ledger.cluster.usage_rollups.all().delete()
    for query in (f"?by={by}", f"?by={by}&team=%3Cscript%3E%22&namespace=%1b%00{{{{7}}}}"):
        read = Read(page(browser, query))
        assert not HIDDEN.search("".join(read.seen))
        for tag, attributes in read.elements:
            assert tag not in {"img", "b", "iframe", "style"}
            assert tag != "script" or attributes["src"].startswith("/static/")
            assert not [attribute for attribute in attributes if attribute.startswith("on")]
            assert attributes.get("href", "/").startswith(("/", "#", "?"))


def test_names_lead_where_they_say_whatever_they_are(browser: Client, ledger: Ledger) -> None:
    Workload.objects.filter(name="job-1").update(namespace=HOSTILE["address"])
    ledger.cluster.usage_rollups.all().delete()
    link = re.search(r'class="row-link"\s+href="([^"]*a%3Db%23c[^"]*)"', page(browser, "?by=namespace"))
    assert link
    query = link[1].replace(URL, "").replace("&amp;", "&")
    assert [name for name, *_ in figures(browser, query)] == ["job-1 Job in ../../admin/?a=b#c"]


def test_says_from_when_on_the_figures_are_whole_while_the_past_is_filled(
    browser: Client, ledger: Ledger
) -> None:
    until = MONDAY - timedelta(days=2)
    row = Backfill.objects.create(
        cluster=ledger.cluster,
        start=MONDAY - timedelta(days=30),
        end=until,
        done_from=MONDAY - timedelta(days=5),
        status="running",
    )
    found = text(browser)
    assert "Still being back-filled" in found
    assert f"whole from {row.done_from:%Y-%m-%d %H:%M}" in found
    assert "Still being" not in text(browser, "?period=today")
    early = MONDAY - timedelta(days=9)
    days = f"?from={early:%Y-%m-%d}&to={early:%Y-%m-%d}"
    assert "no part of this period is whole yet" in text(browser, days)
    row.status = Backfill.Status.IMPOSSIBLE
    row.save()
    assert "Still being" not in text(browser)
