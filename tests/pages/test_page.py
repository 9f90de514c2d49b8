"""What holds for every page: whole or in part, signed in or not, and nothing that the CSP would refuse."""

import re
from datetime import timedelta

import pytest
import time_machine
from django.test import Client
from django.urls import reverse

from tests.builders import NOW, gpu, node, pod, snapshot
from tests.pages import addresses
from tests.pages.addresses import PAGES, Example
from tests.pages.conftest import HTMX
from tests.pages.stored import cluster, finding, observation, polled

pytestmark = pytest.mark.django_db

FINDING = finding()
EXAMPLE = Example(
    node="gpu-1",
    place=gpu(0).slot.removeprefix("gpu-1/"),
    kind="Pod",
    namespace="research",
    workload="train-0",
    finding=FINDING.id,
    event=0,
)
APART = {"home", "finding_excerpt"}
"""Goes elsewhere, or never changes: tested by themselves."""
WITH_A_FORM = {"connect", "usage_settings", "rule_settings"}
"""Pages that their own form is sent to: tested by themselves."""
NAMES = [name for name in PAGES if name not in APART]
LIVE = [name for name in NAMES if "slug" in PAGES[name]]
OF_A_CLUSTER = [name for name in NAMES if PAGES[name] == ("slug",)]
ASKED = (
    *("q", "namespace", "rule", "severity", "status", "state", "sort", "period", "team", "by", "group", "at"),
    *("page", "cluster", "from", "to"),
)
"""What lists look for in their addresses."""

every_page = pytest.mark.parametrize("name", NAMES)
live_page = pytest.mark.parametrize("name", LIVE)


def address(name: str) -> str:
    return addresses.address(name, EXAMPLE)


@pytest.fixture(autouse=True)
def _polled() -> None:
    polled(FINDING, seen=snapshot(node(), pod(), gpu(0), gpu(1)))


@every_page
def test_a_plain_request_gets_the_full_page(browser: Client, name: str) -> None:
    response = browser.get(address(name))

    assert response.status_code == 200
    assert response.content.lstrip().startswith(b"<!DOCTYPE html>")
    assert "HX-Request" in response["Vary"]


@live_page
def test_htmx_gets_the_live_part_alone(browser: Client, name: str) -> None:
    response = browser.get(address(name), headers=HTMX)

    text = response.content.decode()
    assert response.status_code == 200
    assert "<html" not in text
    assert "data-live" in text
    assert 'id="freshness"' in text
    assert "HX-Request" in response["Vary"]


@every_page
def test_a_history_restore_gets_the_full_page(browser: Client, name: str) -> None:
    response = browser.get(address(name), headers=HTMX | {"HX-History-Restore-Request": "true"})

    assert response.content.lstrip().startswith(b"<!DOCTYPE html>")


@every_page
def test_a_boosted_link_gets_the_full_page(browser: Client, name: str) -> None:
    response = browser.get(address(name), headers=HTMX | {"HX-Boosted": "true"})

    assert response.content.lstrip().startswith(b"<!DOCTYPE html>")


@every_page
def test_a_page_is_kept_by_no_cache(browser: Client, name: str) -> None:
    assert "no-store" in browser.get(address(name))["Cache-Control"]


@every_page
def test_a_page_wants_a_signed_in_user(client: Client, name: str) -> None:
    response = client.get(address(name))

    assert response.status_code == 302
    assert response["Location"].startswith(reverse("login"))


@pytest.mark.parametrize("name", [name for name in NAMES if name not in WITH_A_FORM])
def test_a_page_changes_nothing(browser: Client, name: str) -> None:
    assert browser.post(address(name)).status_code == 405


@every_page
def test_nothing_on_a_page_is_inline(browser: Client, name: str) -> None:
    text = browser.get(address(name)).content.decode()

    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:|hx-on", text)
    assert not re.search(r"<script(?![^>]*\bsrc=)", text)
    assert not re.search(r'(?:src|href)="(?:https?:)?//', re.sub(r"<a [^>]*>", "", text))


@every_page
def test_an_id_stands_once_on_a_page(browser: Client, name: str) -> None:
    ids = re.findall(r'\sid="([^"]*)"', browser.get(address(name)).content.decode())

    assert sorted(ids) == sorted(set(ids))


@live_page
def test_what_did_not_change_is_not_sent_again(browser: Client, name: str) -> None:
    first = browser.get(address(name), headers=HTMX)

    again = browser.get(address(name), headers=HTMX | {"If-None-Match": first["ETag"]})

    assert again.status_code == 304
    assert not again.content
    assert again["ETag"] == first["ETag"]


@live_page
def test_time_alone_is_no_change(browser: Client, name: str) -> None:
    # Not from the full hour on, with which another one begins.
    with time_machine.travel(NOW + timedelta(seconds=10), tick=False):
        first = browser.get(address(name), headers=HTMX)
    with time_machine.travel(NOW + timedelta(seconds=90), tick=False):
        again = browser.get(address(name), headers=HTMX | {"If-None-Match": first["ETag"]})

    assert again.status_code == 304


@live_page
def test_data_that_goes_stale_is_a_change(browser: Client, name: str) -> None:
    first = browser.get(address(name), headers=HTMX)
    with time_machine.travel(NOW + timedelta(minutes=10), tick=False):
        again = browser.get(address(name), headers=HTMX | {"If-None-Match": first["ETag"]})

    assert again.status_code == 200
    assert "Stale: this is" in again.content.decode()


@live_page
def test_the_age_of_the_data_stands_on_every_page(browser: Client, name: str) -> None:
    with time_machine.travel(NOW + timedelta(seconds=40), tick=False):
        text = browser.get(address(name)).content.decode()

    assert 'data-age="40"' in text
    assert "Stale" not in text


@pytest.mark.parametrize("name", [*OF_A_CLUSTER, "rule_list", "glossary"])
def test_odd_words_in_an_address_leave_the_page_standing(browser: Client, name: str) -> None:
    odd = "%00'\"<b>{{ 7|add:7 }}\u202e" + "x" * 400 + "\x00"

    response = browser.get(address(name), dict.fromkeys(ASKED, odd))

    assert response.status_code == 200
    assert "<b>{{" not in response.content.decode()


@pytest.mark.parametrize("name", OF_A_CLUSTER)
def test_a_cluster_without_a_poll_shows_that_nothing_is_known(browser: Client, name: str) -> None:
    cluster("new")

    text = browser.get(reverse(name, args=["new"])).content.decode()

    assert "No data yet." in text
    assert "banner-good" not in text
    assert "badge-ok" not in text


@pytest.mark.parametrize("name", OF_A_CLUSTER)
def test_a_failed_poll_says_why(browser: Client, name: str) -> None:
    of = cluster("down")
    observation(of, status="failed", error="the API server refused the connection", sources=[])

    text = browser.get(reverse(name, args=["down"])).content.decode()

    assert "the API server refused the connection" in text
    assert "banner-good" not in text


def test_a_failed_poll_is_the_last_one_though_the_servers_clock_is_ahead(browser: Client) -> None:
    of = cluster("ahead")
    observation(of, NOW + timedelta(hours=1), started_at=NOW, finished_at=NOW)
    observation(of, NOW + timedelta(minutes=1), status="failed", error="refused the connection", sources=[])

    assert "refused the connection" in browser.get(reverse("finding_list", args=["ahead"])).content.decode()


@pytest.mark.parametrize("name", OF_A_CLUSTER)
def test_there_is_no_page_of_an_unknown_cluster(browser: Client, name: str) -> None:
    assert browser.get(reverse(name, args=["elsewhere"])).status_code == 404


def test_the_navigation_marks_cluster_and_section(browser: Client) -> None:
    cluster("prod")

    text = browser.get(address("node_list")).content.decode()

    assert re.search(r'href="/c/lab/"\s+aria-current="true"', text)
    assert re.search(r'href="/c/lab/nodes/"[^>]*aria-current="page"', text)
    assert text.count("aria-current") == 2
