"""The catalogue, and the page of one rule."""

import re
from collections.abc import Callable

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from diagnostics.findings import Subject
from diagnostics.rules import RETIRED, catalogue
from diagnostics.rules.base import SECTIONS, Rule
from tests.pages.conftest import HTMX
from tests.pages.stored import cluster, finding, found, observation, polled
from tests.pages.test_findings import flat

pytestmark = pytest.mark.django_db

every_rule = pytest.mark.parametrize("rule", catalogue(), ids=lambda rule: rule.code)


def test_every_rule_is_listed(browser: Client) -> None:
    text = browser.get("/rules/").content.decode()

    for rule in catalogue():
        assert f'href="/rules/{rule.code}/"' in text
        assert rule.slug in text


@every_rule
def test_a_rule_shows_its_own_documentation(browser: Client, rule: Rule) -> None:
    text = browser.get(f"/rules/{rule.code}/").content.decode()

    assert [section for section in SECTIONS if f"<h2>{section}</h2>" in text] == list(SECTIONS)
    assert rule.title.rstrip(".").split("`")[0] in flat(text).replace("&#x27;", "'")
    assert "## " not in text


def test_a_slug_leads_to_its_rule(browser: Client) -> None:
    rule = catalogue()[0]

    assert browser.get(f"/rules/{rule.slug}/")["Location"] == f"/rules/{rule.code}/"


@pytest.mark.parametrize("code", ["GPU000", "no-such-rule"])
def test_there_is_no_page_of_an_unknown_rule(browser: Client, code: str) -> None:
    assert browser.get(f"/rules/{code}/").status_code == 404


def test_a_retired_rule_has_no_page_but_no_failure(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RETIRED, "GPU100", "fatal-xid covers it")

    assert browser.get("/rules/GPU100/").status_code == 404


def test_the_catalogue_costs_five_queries_at_most(
    browser: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(5):
        browser.get("/rules/")


def test_a_rule_costs_six_queries_at_most(
    browser: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(6):
        browser.get(f"/rules/{catalogue()[0].code}/")


@every_rule
def test_a_rule_names_all_that_may_explain_it(browser: Client, rule: Rule) -> None:
    text = browser.get(f"/rules/{rule.code}/").content.decode()

    known = {r.slug: r.code for r in catalogue()}
    for slug in (*rule.caused_by, *rule.starved_by):
        assert f">{known[slug]} {slug}</a>" in text


def test_a_rule_shows_the_values_of_the_limits_that_it_names(browser: Client) -> None:
    assert "Limits by default pending_after 5 min" in flat(browser.get("/rules/GPU303/").content.decode())


def codes(browser: Client, query: str) -> list[str]:
    text = browser.get(f"/rules/{query}").content.decode()
    return re.findall(r'class="row-link" href="/rules/(\w+)/"', text)


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("?family=memory", lambda rule: rule.family == "memory"),
        ("?severity=critical", lambda rule: rule.severity == "critical"),
        ("?q=GPU303", lambda rule: "gpu303" in f"{rule.code} {' '.join(rule.sections.values())}".casefold()),
        ("?q=OOM+cuda-out", lambda rule: rule.slug == "cuda-out-of-memory"),
        ("?family=no-such&severity=no-such", lambda rule: False),
    ],
)
def test_rules_can_be_filtered(browser: Client, query: str, kept: Callable[[Rule], bool]) -> None:
    assert codes(browser, query) == [rule.code for rule in catalogue() if kept(rule)]


def test_a_filter_that_leaves_nothing_says_so(browser: Client) -> None:
    text = browser.get("/rules/?q=%3Cb%3Exyzzy%00").content.decode()

    assert "No rule matches." in text
    assert f"0 of {len(catalogue())} rules." in flat(text)
    assert "<b>xyzzy" not in text


def test_htmx_gets_the_catalogue_alone(browser: Client) -> None:
    text = browser.get("/rules/?family=memory", headers=HTMX).content.decode()

    assert text.lstrip().startswith('<div id="rule-catalogue"')


def test_open_findings_are_counted_and_lead_to_their_list(browser: Client) -> None:
    polled(finding(), finding(subject=Subject(kind="Node", name="gpu-2")))

    rows = flat(browser.get("/rules/").content.decode())

    assert "fewer-gpus-than-fitted 2 open findings" in rows
    assert 'href="/c/lab/findings/?rule=fewer-gpus-than-fitted">2' in browser.get("/rules/").content.decode()
    assert "Open 2 findings" in flat(browser.get("/rules/GPU201/").content.decode())


def test_findings_are_counted_in_the_cluster_that_was_chosen(browser: Client) -> None:
    polled(finding())
    found(cluster("prod"), [finding(subject=Subject(kind="Node", name="gpu-9"))])

    everywhere, chosen = (
        browser.get(f"/rules/{query}").content.decode() for query in ("", "?cluster=prod&family=stack")
    )

    assert "fewer-gpus-than-fitted 2" in flat(everywhere)
    assert "?rule=" not in everywhere
    assert 'href="/c/prod/findings/?rule=fewer-gpus-than-fitted">1' in chosen


def test_a_blind_spot_has_no_findings_to_count(browser: Client) -> None:
    polled()

    page = browser.get("/rules/").content.decode()

    assert "no-gpu-metrics no findings" in flat(page)
    assert "What they report is no finding, so none can be open" in flat(page)
    assert 'href="/c/lab/status/#blind"' in page
    assert "what it reports is a blind spot , no finding" in flat(
        browser.get("/rules/GPU901/").content.decode()
    )


def test_why_a_finding_may_have_another_severity_than_its_rule_is_said(browser: Client) -> None:
    polled()

    words = "one may be milder or worse, by what the rule sees there"
    for address in ("/rules/", "/rules/GPU401/"):
        assert words in flat(browser.get(address).content.decode())


def test_before_the_first_poll_no_number_stands_for_findings(browser: Client) -> None:
    observation(cluster(), status="failed", error="refused", sources=[])

    assert "fewer-gpus-than-fitted not evaluated" in flat(browser.get("/rules/").content.decode())
    assert "Open not evaluated" in flat(browser.get("/rules/GPU201/").content.decode())


def test_after_a_poll_without_findings_there_are_none(browser: Client) -> None:
    polled()

    assert "fewer-gpus-than-fitted 0" in flat(browser.get("/rules/").content.decode())
    assert "Open 0 findings" in flat(browser.get("/rules/GPU201/").content.decode())
