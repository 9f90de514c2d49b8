"""Where to begin."""

import pytest
from django.test import Client

from tests.pages.conftest import HTMX
from tests.pages.stored import cluster

pytestmark = pytest.mark.django_db


def test_leads_to_the_findings_of_the_first_cluster(browser: Client) -> None:
    cluster("b")
    cluster("a")

    response = browser.get("/")

    assert response.status_code == 302
    assert response["Location"] == "/c/a/findings/"


def test_says_what_to_do_while_there_is_no_cluster(browser: Client) -> None:
    text = browser.get("/").content.decode()

    assert "No cluster yet" in text
    assert "gpuhealth up --kubeconfig FILE" in text


def test_is_a_full_page_for_htmx_too(browser: Client) -> None:
    assert browser.get("/", headers=HTMX).content.lstrip().startswith(b"<!DOCTYPE html>")


def test_wants_a_signed_in_user(client: Client) -> None:
    assert client.get("/")["Location"].startswith("/login/")


def test_costs_three_queries(browser: Client, django_assert_num_queries: object) -> None:
    with django_assert_num_queries(3):  # type: ignore[operator]
        browser.get("/")
