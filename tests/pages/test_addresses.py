"""The one list of pages is complete, and every page on it is there."""

from importlib import reload

import pytest
from django.test import Client

from diagnostics import urls
from diagnostics.models import User
from tests.builders import NOW
from tests.pages.addresses import ACTIONS, FRAGMENTS, PAGES, address, addresses
from tests.pages.everything import everything

pytestmark = pytest.mark.django_db
NAMES = [str(pattern.name) for pattern in urls.urlpatterns]


def test_no_address_is_forgotten() -> None:
    assert sorted(NAMES) == sorted([*PAGES, *FRAGMENTS, *ACTIONS])


def test_addresses_can_be_read_twice() -> None:
    """What kept them from being read the first time would be hidden by what is there already."""
    assert [str(pattern.name) for pattern in reload(urls).urlpatterns] == NAMES


@pytest.mark.parametrize("which", ["plain", "odd"])
def test_every_page_is_there(browser: Client, user: User, which: str) -> None:
    example = getattr(everything(NOW, user), which)
    answers = {name: browser.get(url).status_code for name, url in addresses(example).items()}
    assert answers == dict.fromkeys(answers, 200) | {"home": 302}


def test_what_changes_something_takes_no_get(browser: Client, user: User) -> None:
    example = everything(NOW, user).plain
    for name in ACTIONS:
        assert browser.get(address(name, example)).status_code == 405, name
