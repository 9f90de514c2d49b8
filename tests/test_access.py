"""What answers without having signed in, and how one gets in."""

from datetime import timedelta
from io import StringIO

import pytest
import time_machine
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection
from django.test import Client
from django.utils import timezone

from diagnostics.models import User

pytestmark = pytest.mark.django_db


def link(*arguments: str) -> str:
    """Path and query of a fresh sign-in link."""
    out = StringIO()
    call_command("signin_link", *arguments, stdout=out)
    return out.getvalue().strip().removeprefix("http://127.0.0.1:8000")


def test_health_says_ok_and_no_more(client: Client) -> None:
    response = client.get("/healthz")

    assert (response.status_code, response.json()) == (200, {"status": "ok"})
    assert "no-store" in response["Cache-Control"]


def test_health_fails_without_the_database_and_says_no_more(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise DatabaseError("password authentication failed for user gpuhealth")

    monkeypatch.setattr(connection, "cursor", broken)
    response = client.get("/healthz")

    assert (response.status_code, response.json()) == (503, {"status": "unavailable"})


@pytest.mark.parametrize("path", ["/", "/rules/", "/c/prod/findings/", "/nowhere/else"])
def test_everything_else_wants_a_sign_in(client: Client, path: str) -> None:
    response = client.get(path)

    assert response.status_code in (302, 404)
    assert response.status_code == 404 or response["Location"].startswith("/login/")


def test_the_strict_policy_stands_on_every_answer(client: Client) -> None:
    policy = client.get("/login/")["Content-Security-Policy"]

    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


def test_a_link_signs_in_once(client: Client) -> None:
    address = link()
    assert client.get(address)["Location"] == "/"
    assert client.session["_auth_user_id"] == str(User.objects.get(username="admin").pk)

    again = Client()
    assert again.get(address)["Location"] == "/login/"
    assert "_auth_user_id" not in again.session


def test_a_link_is_not_used_up_by_a_probe(client: Client) -> None:
    address = link()
    assert [client.head(address).status_code, client.options(address).status_code] == [405, 405]
    assert client.get(address)["Location"] == "/"


def test_a_link_is_soon_too_old(client: Client) -> None:
    address = link()
    with time_machine.travel(timezone.now() + timedelta(minutes=16)):
        assert client.get(address)["Location"] == "/login/"
    assert "_auth_user_id" not in client.session


def test_a_link_without_a_token_signs_nobody_in(client: Client) -> None:
    assert client.get("/login/link/")["Location"] == "/login/"
    assert client.get("/login/link/?token=x&next=https://evil.example/")["Location"] == "/login/"


def test_a_link_leads_to_no_other_site(client: Client) -> None:
    assert client.get(f"{link()}&next=https://evil.example/")["Location"] == "/"


def test_the_first_link_makes_an_admin_without_a_password() -> None:
    link()

    admin = User.objects.get()
    assert admin.username == "admin"
    assert not admin.has_usable_password()


def test_a_link_for_a_named_user() -> None:
    User.objects.create_user("sre")

    assert link("sre").startswith("/login/link/?token=")


def test_no_account_is_made_where_people_have_theirs() -> None:
    User.objects.create_user("sre")

    with pytest.raises(CommandError, match="no active user 'admin'; there are: sre"):
        link()
    assert User.objects.count() == 1


def test_a_user_who_left_gets_no_link() -> None:
    User.objects.create_user("gone", is_active=False)

    with pytest.raises(CommandError, match="no active user 'gone'; there are: none"):
        link("gone")
