"""The glossary, its Markdown twin, and the links that lead to it."""

import re
from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import call_command
from django.template import Context, Template
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings

from diagnostics.glossary import GROUPS, TERMS, Term, anchor, facts, filled, markdown
from diagnostics.limits import Limits, Thresholds
from diagnostics.snapshot import State
from tests.pages.conftest import HTMX
from tests.pages.test_findings import flat

PAGE = "/glossary/"


def text(browser: Client, query: str = "") -> str:
    return browser.get(PAGE + query).content.decode()


@pytest.mark.django_db
def test_every_term_has_its_anchor(browser: Client) -> None:
    page = text(browser)

    for slug, term in TERMS.items():
        assert f'id="{slug}"' in page
        assert term.name in page


@pytest.mark.django_db
def test_a_term_shows_formula_unit_and_source(browser: Client) -> None:
    words = flat(text(browser))

    assert "Formula max(SM activity, min(1, DRAM activity / 0.8))" in words
    assert "Source DCGM_FI_DEV_FB_USED" in words
    assert "See utilisation , activity" in words


@pytest.mark.django_db
def test_limits_are_the_sites(browser: Client, settings: Settings) -> None:
    settings.LIMITS = Limits(site=Thresholds(starting_for=timedelta(minutes=47)))

    words = flat(text(browser))
    assert "younger than 47 min and not Ready yet" in words
    assert "Setting starting_for = 47 min" in words


@pytest.mark.django_db
def test_it_can_be_searched(browser: Client) -> None:
    page = text(browser, "?q=memory+HELD")

    assert 'id="idle_held"' in page
    assert 'id="team"' not in page
    assert "No term matches." in text(browser, "?q=xyzzy")


@pytest.mark.django_db
def test_htmx_gets_the_terms_alone(browser: Client) -> None:
    page = browser.get(f"{PAGE}?q=scatter", headers=HTMX).content.decode()

    assert page.lstrip().startswith('<div id="glossary-terms"')
    assert 'id="scatter"' in page


@pytest.mark.django_db
def test_it_leads_to_how_pages_look(browser: Client) -> None:
    assert '<a href="/style/">How this looks</a>' in text(browser)


def test_what_is_searched_for_is_shown_as_text(browser: Client) -> None:
    page = text(browser, "?q=%3Cscript%3Ealert(1)%3C/script%3E%00")

    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


@pytest.mark.django_db
def test_it_costs_three_queries(browser: Client, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    with django_assert_num_queries(3):
        text(browser)


def test_slugs_are_anchors_and_stand_once() -> None:
    slugs = [term.slug for _, _, terms in GROUPS for term in terms]

    assert len(slugs) == len(set(slugs))
    assert all(re.fullmatch(r"[a-z][a-z_]*", slug) for slug in slugs)


def test_every_state_is_explained_in_the_order_in_which_it_is_decided() -> None:
    _, _, states = GROUPS[0]

    assert [term.slug for term in states] == [*State, "unjudged"]
    assert all(term.gist for term in states)


@pytest.mark.parametrize("term", TERMS.values(), ids=TERMS)
def test_a_term_names_only_limits_and_terms_that_there_are(term: Term) -> None:
    assert set(term.limits) <= set(Thresholds.__struct_fields__)
    assert set(term.see) <= set(TERMS)
    assert term.slug not in term.see
    assert term.meaning.endswith(".")


def test_no_default_is_typed_again() -> None:
    """A number that stands in limits.py comes from there."""
    meanings = " ".join(f"{term.meaning} {term.formula}" for term in TERMS.values())

    assert not re.search(r"\b(0\.95|0\.05|0\.02|30 min|5 min|10 min|1\.5 GiB|16 GiB)\b", meanings)


def test_a_limit_is_filled_in_and_its_name_stands_at_the_end() -> None:
    term = Term(slug="x", name="x", meaning="After {idle_after}.", formula="{idle_after} + 1", source="ours")

    assert filled(term.meaning, Thresholds()) == "After 30 min."
    assert list(facts(term, Thresholds()))[-1] == ("Setting", "`idle_after` = 30 min")


def test_several_limits_stand_in_the_order_in_which_they_are_named() -> None:
    term = Term(slug="x", name="x", meaning="{restarts_min} in {recovered_after}, {restarts_min} in all.")

    assert list(facts(term, Thresholds())) == [("Settings", "`restarts_min` = 3, `recovered_after` = 10 min")]


@pytest.mark.parametrize("term", TERMS.values(), ids=TERMS)
def test_no_name_of_a_limit_interrupts_a_definition(term: Term) -> None:
    limits = Thresholds()

    assert not [name for name in term.limits if f"(`{name}`)" in filled(term.meaning + term.formula, limits)]
    assert ("Setting" in dict(facts(term, limits))) == (len(term.limits) == 1)


def test_an_unknown_limit_raises() -> None:
    with pytest.raises(AttributeError):
        filled("{no_such_limit}", Thresholds())


def test_docs_are_current() -> None:
    path = Path(settings.BASE_DIR) / "docs" / "glossary.md"

    assert path.read_text() == markdown(), "run: python manage.py glossary --markdown"


def test_links_of_the_docs_lead_somewhere() -> None:
    text = markdown()
    anchors = {anchor(heading) for heading in re.findall(r"(?m)^#+ (.*)$", text)}

    assert set(re.findall(r"\(#([^)]*)\)", text)) <= anchors


def test_the_command_lists_every_term(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("glossary")

    assert len(capsys.readouterr().out.splitlines()) == len(TERMS)


def rendered(source: str, **values: object) -> str:
    return Template("{% load gpuhealth %}" + source).render(Context(values))


def test_the_tag_links_a_term() -> None:
    assert rendered("{% term 'held' %}") == (
        '<a class="term" href="/glossary/#held"'
        ' title="given to a pod that is bound to the node and not finished">held</a>'
    )
    assert ">GPUs in use<" in rendered("{% term 'held' 'GPUs in use' %}")
    assert ">idle, memory held<" in rendered("{% term state %}", state=State.IDLE_HELD)
    assert "&lt;b&gt;" in rendered("{% term 'held' words %}", words="<b>")


def test_the_tag_refuses_an_unknown_term() -> None:
    with pytest.raises(KeyError):
        rendered("{% term 'no_such_term' %}")
