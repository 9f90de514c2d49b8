"""What rules found and did not raise, on the list of findings and on the page of a rule."""

from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from diagnostics.text import printable
from tests.builders import ago
from tests.pages.conftest import HTMX
from tests.pages.stored import cluster, finding, observation, polled
from tests.pages.test_findings import LIST, flat
from tests.pages.test_hostile_names import HIDDEN, Read, hostile_name

pytestmark = pytest.mark.django_db

RULE = "/rules/GPU501/"


def subject(name: str = "standby", **fields: str) -> dict[str, str]:
    return {"kind": "Job", "namespace": "ml", "name": name, "reason": "override: warm standby"} | fields


def of_rule(code: str, *kept: dict[str, str], count: int = 0) -> dict[str, Any]:
    return {"code": code, "count": count or len(kept), "kept": list(kept)}


NODE = subject("gpu-7", kind="Node", namespace="", reason="annotation gpuhealth.io/exempt: being built in")
EXEMPTED = [of_rule("GPU501", subject()), of_rule("GPU201", NODE)]


def text(browser: Client, address: str = LIST) -> str:
    return browser.get(address).content.decode()


def test_they_stand_folded_with_their_reasons_and_links(browser: Client) -> None:
    polled(finding(), exempted=EXEMPTED)

    page = text(browser)

    assert "<summary>2 exempted: not raised, and why</summary>" in page
    assert "<details open" not in page
    assert '<a href="/c/lab/workloads/Job/ml/standby/"><bdi>Job ml/standby</bdi></a>' in page
    assert '<a href="/c/lab/nodes/gpu-7/"><bdi>Node gpu-7</bdi></a>' in page
    assert '<a href="/rules/GPU501/">GPU501</a>' in page
    assert "override: warm standby" in flat(page)
    assert "annotation gpuhealth.io/exempt: being built in" in flat(page)


def test_nothing_is_said_where_there_are_none(browser: Client) -> None:
    polled(finding())

    assert "exempted: not raised" not in text(browser)
    assert "exempted: not raised" not in text(browser, RULE)


def test_a_list_without_findings_does_not_say_that_there_was_nothing(browser: Client) -> None:
    polled(exempted=EXEMPTED)

    assert "All rules looked, and what they found is exempted." in flat(text(browser))


def test_a_rule_shows_its_own_and_how_many_it_does_not_name(browser: Client) -> None:
    polled(exempted=[of_rule("GPU501", subject(), count=30), of_rule("GPU201", NODE)])

    page = flat(text(browser, RULE))

    assert "30 exempted: not raised, and why" in page
    assert "and 29 more" in page
    assert "being built in" not in page


def test_of_several_clusters_a_rule_names_which(browser: Client) -> None:
    polled(exempted=[of_rule("GPU501", subject())])
    polled(of=cluster("other"), exempted=[of_rule("GPU501", subject("idle"))])

    page = text(browser, RULE)

    assert "2 exempted: not raised" in page
    assert '<td data-label="Cluster">other</td>' in page
    assert 'href="/c/other/workloads/Job/ml/idle/"' in page


def test_the_last_poll_that_judged_counts(browser: Client) -> None:
    of = polled(at=ago(minutes=2), exempted=[of_rule("GPU501", subject("old"))])
    observation(of, ago(minutes=1), exempted=[of_rule("GPU501", subject("new"))])
    observation(of, status="failed", error="connection refused")

    for address in (LIST, RULE):
        page = text(browser, address)
        assert "Job ml/new" in page
        assert "Job ml/old" not in page


def test_a_rule_that_is_gone_has_no_link(browser: Client) -> None:
    polled(exempted=[of_rule("GPU000", subject())])

    page = text(browser)

    assert "/rules/GPU000/" not in page
    assert "GPU000" in page


@hostile_name
@pytest.mark.parametrize("address", [LIST, RULE])
def test_whatever_they_are_called_they_are_shown_as_text(browser: Client, address: str, name: str) -> None:
    polled(exempted=[of_rule("GPU501", {"kind": name, "namespace": name, "name": name, "reason": name})])

    read = Read(text(browser, address).partition("<summary>1 exempted")[2].partition("</details>")[0])

    assert printable(name, 60)[:40] in "".join(read.seen)
    assert not HIDDEN.search("".join(read.seen))
    assert {tag for tag, _ in read.elements} <= {
        *["table", "caption", "thead", "tbody", "tr", "th", "td", "bdi", "a"]
    }
    assert all(of.get("href", "/").startswith("/") and not {*of} & {"onmouseover"} for _, of in read.elements)


def test_an_open_page_is_told_of_a_change_and_of_none(browser: Client) -> None:
    of = polled(at=ago(minutes=1), exempted=EXEMPTED)
    first = browser.get(LIST, headers=HTMX)
    assert "2 exempted: not raised" in first.content.decode()

    asked = HTMX | {"If-None-Match": first["ETag"]}
    assert browser.get(LIST, headers=asked).status_code == 304

    observation(of, exempted=[of_rule("GPU501", subject(reason="override: until July"))])
    again = browser.get(LIST, headers=asked)
    assert again.status_code == 200
    assert "until July" in again.content.decode()


@pytest.mark.parametrize(("address", "queries"), [(LIST, 8), (RULE, 6)])
@pytest.mark.parametrize("number", [1, 400])
def test_many_cost_no_more_queries_and_are_not_all_shown(
    browser: Client,
    django_assert_max_num_queries: DjangoAssertNumQueries,
    address: str,
    queries: int,
    number: int,
) -> None:
    rules = [of_rule("GPU501", *(subject(f"j{i}") for i in range(number)))]
    polled(finding(), exempted=rules)

    with django_assert_max_num_queries(queries):
        page = text(browser, address)

    assert page.count("<bdi>Job ml/j") == min(number, 100)
    assert f"{number} exempted" in page
