"""Where to begin."""

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from tests.pages.stored import cluster

pytestmark = pytest.mark.django_db


def test_leads_to_the_overview_of_the_first_cluster(browser: Client) -> None:
    cluster("b")
    cluster("a")

    response = browser.get("/")

    assert response.status_code == 302
    assert response["Location"] == "/c/a/"


def test_leads_to_the_first_steps_while_there_is_no_cluster(browser: Client) -> None:
    response = browser.get("/")

    assert response.status_code == 302
    assert response["Location"] == "/connect/"


def test_wants_a_signed_in_user(client: Client) -> None:
    assert client.get("/")["Location"].startswith("/login/")


def test_costs_three_queries(browser: Client, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    with django_assert_num_queries(3):
        browser.get("/")
