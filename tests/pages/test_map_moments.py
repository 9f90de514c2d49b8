"""The cluster map at other moments."""

import re
from datetime import timedelta
from urllib.parse import quote

import pytest
from django.test import Client

from diagnostics.models import ArchivedSnapshot, Incident, StoredPicture
from diagnostics.snapshot import State
from tests.builders import NOW, ago, gpu
from tests.pages.mapped import MAP, cells, flat, held, letters, of_one, read
from tests.pages.stored import finding, polled

pytestmark = pytest.mark.django_db


@pytest.fixture
def watched() -> None:
    """One GPU that was idle two hours ago, and is free now."""
    of = polled(at=ago(hours=2), seen=of_one(*held(0, state=State.IDLE_EMPTY), taken_at=ago(hours=2)))
    polled(of=of, seen=of_one(gpu(0, state=State.FREE)))


@pytest.mark.usefixtures("watched")
def test_the_map_shows_the_cluster_as_it_was(browser: Client) -> None:
    text = read(browser, "?at=2026-06-01T10:30:00Z")
    assert cells(text) == [("cell-idle_empty", "I")]
    assert "As it was at 2026-06-01 10:00:00 UTC" in flat(text)
    assert "data-live" not in text
    assert "age" not in re.findall(r'id="freshness"[^>]*>(.*?)</div>', text, re.DOTALL)[0]
    assert f"{MAP}?at=2026-06-01T09%3A30%3A00Z" in text


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize("at", ["2026-06-01T12:30:00+02:00", "2026-06-01T10:30"])
def test_a_moment_may_carry_its_zone_and_is_of_the_sites_without(browser: Client, at: str) -> None:
    assert letters(browser, f"?at={quote(at)}") == "I"
    assert letters(browser, f"?at={at}") == "I"


@pytest.mark.usefixtures("watched")
def test_a_selection_and_findings_of_another_moment_are_of_that_moment(browser: Client) -> None:
    Incident.objects.all().delete()
    of = StoredPicture.objects.get().cluster
    polled(finding(), of=of, at=NOW + timedelta(minutes=1), seen=of_one(gpu(0, state=State.FREE)))
    assert letters(browser, "?by=finding&at=2026-06-01T10:30:00Z") == "–"
    assert letters(browser, "?by=finding") == "W"
    text = flat(read(browser, "?workload=Job/research/train&at=2026-06-01T10:30:00Z"))
    assert "1 GPU on 1 node" in text
    assert "No finding about it was open." in text


@pytest.mark.usefixtures("watched")
def test_a_time_of_which_nothing_is_kept_shows_no_map(browser: Client) -> None:
    text = flat(read(browser, "?at=2020-01-01T00:00:00Z"))
    assert "Nothing is kept of that time or before." in text
    assert "Not now: asked for is 2020-01-01 00:00:00 UTC" in text
    assert not cells(text)


@pytest.mark.usefixtures("watched")
def test_a_damaged_archive_shows_no_map(browser: Client) -> None:
    ArchivedSnapshot.objects.update(data=b"nonsense")
    assert "Nothing is kept of that time or before." in flat(read(browser, "?at=2026-06-01T10:30:00Z"))


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize(
    "at", ["yesterday", "2026-13-01T00:00:00Z", "9999-12-31T23:59:59-12:00", "0001-01-01T00:00"]
)
def test_what_is_no_moment_is_said_to_be_none(browser: Client, at: str) -> None:
    response = browser.get(MAP, {"at": at})
    assert response.status_code == 200
    text = flat(response.content.decode())
    assert "No such moment:" in text or "Nothing is kept of that time or before." in text
