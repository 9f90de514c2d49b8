"""The simulated past is observed once, in order, as real polls would have."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.utils import timezone

from diagnostics.management import past
from diagnostics.management.past import CLOSE, CLOSE_STEP, FAR_HOURS, REACH, is_wanted, looks, observe_past
from diagnostics.models import Backfill, Cluster, Observation
from diagnostics.simulator.config import WORKING_WEEK
from diagnostics.simulator.server import SimulatedCluster
from tests.builders import NOW
from tests.pages.stored import cluster, observation


def test_it_looks_at_two_weeks_from_afar_and_closely_at_the_last_day() -> None:
    found = list(looks(NOW))
    far = [look.at for look in found if not look.is_close]
    close = [look.at for look in found if look.is_close]

    assert [look.at for look in found] == sorted({look.at for look in found})
    assert {at.hour for at in far} == set(FAR_HOURS)
    assert far[0] - (NOW - REACH) < timedelta(hours=9)
    assert len(far) == (REACH - CLOSE).days * len(FAR_HOURS)
    assert (close[0], close[-1]) == (NOW - CLOSE, NOW)
    assert {later - earlier for earlier, later in pairwise(close)} == {CLOSE_STEP}


def test_an_interrupted_one_goes_on_where_it_was() -> None:
    whole = list(looks(NOW))
    assert list(looks(NOW, whole[40].at)) == whole[41:]
    assert list(looks(NOW, NOW)) == []


@pytest.mark.django_db
def test_it_is_wanted_until_the_present_has_been_seen() -> None:
    assert is_wanted("simulated")
    of = cluster("simulated")
    with time_machine.travel(NOW, tick=False):
        observation(of, NOW - timedelta(days=2), finished_at=NOW)
        assert is_wanted("simulated")
        observation(of, NOW - timedelta(minutes=4), finished_at=NOW)
        assert not is_wanted("simulated")
    # A cluster that was watched, then stopped for days, has its past.
    assert not is_wanted("simulated")


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A past of half a day, the last quarter of an hour of it closely."""
    monkeypatch.setattr(past, "REACH", timedelta(hours=13))
    monkeypatch.setattr(past, "CLOSE", timedelta(minutes=15))


@pytest.fixture
def url() -> Iterator[str]:
    config = replace(WORKING_WEEK, epoch=timezone.now() - timedelta(days=16))
    with SimulatedCluster(config, timezone.now) as simulated:
        yield simulated.url


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("short")
def test_real_polls_see_the_past_and_leave_the_rest_to_be_filled(
    url: str, tmp_path: Path, settings: Any
) -> None:
    settings.POLL_INTERVAL = timedelta(minutes=1)
    settings.CLUSTERS = {}
    started = timezone.now()

    polls = list(observe_past("simulated", url, tmp_path))

    moments = [poll.taken_at for poll in polls]
    assert moments == sorted(moments)
    assert started - moments[-1] < timedelta(minutes=5)
    assert {poll.status for poll in polls} <= {"ok", "partial"}
    assert all(poll.critical + poll.warning > 10 for poll in polls)
    # One from afar, at the least, at whatever hour this runs, and four closely.
    assert Observation.objects.count() == len(polls) == len(list(looks(started))) >= 5
    assert Cluster.objects.get().name == past.BUSY_NAME
    assert not Backfill.objects.exists()
    # Only the close polls count as time that was observed.
    from diagnostics import usage

    (gap,) = usage.gaps(Cluster.objects.get(), moments[0], moments[-1])
    assert gap[0] == moments[0]
    assert timedelta(minutes=14) <= moments[-1] - gap[1] <= timedelta(minutes=15)

    again = [poll.taken_at for poll in observe_past("simulated", url, tmp_path)]
    assert set(again).isdisjoint(moments), "nothing is observed twice"
    assert len(again) <= 2, "but what has passed meanwhile"


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("short")
def test_one_that_was_ended_in_the_middle_of_a_poll_leaves_no_moment_out(
    url: str, tmp_path: Path, settings: Any
) -> None:
    settings.CLUSTERS = {}
    Cluster.objects.create(
        slug="simulated", lease_token="of a dead one", lease_expires_at=timezone.now() + timedelta(minutes=3)
    )
    first = next(observe_past("simulated", url, tmp_path))
    assert first.taken_at == next(looks(timezone.now())).at
