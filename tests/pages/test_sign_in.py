"""The page that asks who is there, and the pages of errors."""

import pytest
from django.contrib.auth.views import LoginView
from django.test import Client, RequestFactory
from django.views.defaults import server_error

from diagnostics.models import User
from tests.pages.stored import polled

pytestmark = pytest.mark.django_db


def test_a_password_signs_in(client: Client, user: User) -> None:
    response = client.post(
        "/login/?next=/rules/", {"username": "sre", "password": "only for this test", "next": "/rules/"}
    )

    assert response.status_code == 302
    assert response["Location"] == "/rules/"


def test_a_wrong_password_is_told_without_saying_which_part(client: Client, user: User) -> None:
    response = client.post("/login/", {"username": "sre", "password": "wrong"})

    assert response.status_code == 200
    assert "Please enter a correct username and password" in response.content.decode()


def test_the_page_shows_nothing_of_the_clusters(client: Client) -> None:
    polled()

    text = client.get("/login/").content.decode()

    assert "lab" not in text.replace("label", "").replace("available", "")
    assert LoginView.template_name == "registration/login.html"


def test_a_used_link_is_explained_on_the_page(client: Client) -> None:
    text = client.get("/login/link/?token=nonsense", follow=True).content.decode()

    assert "This sign-in link was used before or is too old." in text


def test_signing_out_leads_to_the_sign_in_page(browser: Client) -> None:
    assert browser.post("/logout/")["Location"] == "/login/"


def test_a_page_that_is_not_there_says_so(browser: Client) -> None:
    response = browser.get("/nowhere/")

    assert response.status_code == 404
    assert "Nothing stands at this address" in response.content.decode()


def test_a_form_without_its_token_is_refused_with_a_page(user: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(user)

    assert client.post("/logout/").status_code == 403


def test_a_failure_has_a_page_that_needs_nothing(rf: RequestFactory) -> None:
    response = server_error(rf.get("/"))

    assert response.status_code == 500
    assert b"Something failed" in response.content
