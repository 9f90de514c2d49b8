"""The evidence on the page of one finding."""

import pytest
from django.test import Client

from diagnostics.findings import Evidence
from tests.builders import ago
from tests.pages.stored import finding, polled
from tests.pages.test_findings import detail, flat

pytestmark = pytest.mark.django_db


def test_a_finding_shows_evidence_with_unit_and_source(browser: Client) -> None:
    of = finding(evidence=(Evidence("Temperature", "91", "°C", "DCGM_FI_DEV_GPU_TEMP"),))
    polled(of)

    assert "Temperature 91 °C DCGM_FI_DEV_GPU_TEMP" in flat(detail(browser, of))


def test_a_moment_in_the_evidence_looks_like_every_other(browser: Client) -> None:
    of = finding(evidence=(Evidence.of_moment("waits since", ago(minutes=40), "the pod"),))
    polled(of)

    shown = flat(detail(browser, of))

    assert "Waits since 2026-06-01 11:20:00 UTC the pod" in shown
    assert "2026-06-01T11:20:00Z" not in shown
