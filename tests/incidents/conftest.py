"""A cluster without a poll yet, and who follows up."""

import pytest

from diagnostics.models import User
from tests.incidents.timeline import Timeline


@pytest.fixture
def timeline(db: None) -> Timeline:
    return Timeline()


@pytest.fixture
def user(db: None) -> User:
    return User.objects.create_user("sre")
