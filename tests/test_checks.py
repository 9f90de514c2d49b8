"""`manage.py check` says what is wrong with the declaration."""

from typing import Any

import pytest
from django.core.checks import run_checks

from diagnostics.clusters import DeclaredCluster
from diagnostics.limits import Limits, Override
from diagnostics.rules import catalogue

pytestmark = pytest.mark.django_db


def messages() -> list[str]:
    return [message.msg for message in run_checks() if str(message.id).startswith("gpuhealth.")]


def test_nothing_is_wrong_with_the_defaults() -> None:
    assert messages() == []


def test_an_override_of_an_unknown_rule_is_named(settings: Any) -> None:
    known = catalogue()[0].slug
    settings.LIMITS = Limits(
        overrides=(Override(rule=known, exempt=True), Override(rule="idle-gpus", exempt=True))
    )

    assert messages() == ["override: there is no rule 'idle-gpus'"]


def test_a_request_may_not_outlast_its_poll(settings: Any) -> None:
    settings.CLUSTERS = {"prod": DeclaredCluster(request_timeout_s=60, poll_timeout_s=30)}

    (message,) = messages()
    assert "cluster 'prod': one request may take longer" in message
