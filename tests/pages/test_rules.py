"""The catalogue, and the page of one rule."""

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from diagnostics.rules import RETIRED, catalogue
from diagnostics.rules.base import SECTIONS, Rule
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


def test_the_catalogue_costs_three_queries(
    browser: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(3):
        browser.get("/rules/")


def test_a_rule_costs_three_queries(
    browser: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(3):
        browser.get(f"/rules/{catalogue()[0].code}/")


@every_rule
def test_a_rule_names_all_that_may_explain_it(browser: Client, rule: Rule) -> None:
    text = browser.get(f"/rules/{rule.code}/").content.decode()

    known = {r.slug: r.code for r in catalogue()}
    for slug in (*rule.caused_by, *rule.starved_by):
        assert f">{known[slug]} {slug}</a>" in text


def test_a_rule_shows_the_values_of_the_limits_that_it_names(browser: Client) -> None:
    assert "Limits by default pending_after 5 min" in flat(browser.get("/rules/GPU303/").content.decode())
