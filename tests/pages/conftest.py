"""A signed-in browser, at the builders' NOW."""

from collections.abc import Iterator

import pytest
import time_machine
from django.test import Client

from diagnostics.models import User
from tests.builders import NOW

HTMX = {"HX-Request": "true"}


@pytest.fixture(autouse=True)
def _now() -> Iterator[None]:
    with time_machine.travel(NOW, tick=False):
        yield


@pytest.fixture
def user(db: None) -> User:
    return User.objects.create_user("sre", password="only for this test")


@pytest.fixture
def browser(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client
