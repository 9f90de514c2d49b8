"""Kubernetes events are kept once each, by the hour, for longer than the cluster keeps them."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from diagnostics import archive
from diagnostics.archive import event_hours
from diagnostics.models import Cluster, EventHour
from diagnostics.snapshot import Event
from tests.builders import NOW, event

pytestmark = pytest.mark.django_db

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster.objects.create(slug="prod", name="Production")


def seen(cluster: Cluster, now: datetime, *events: Event) -> int:
    """A poll that sees these events; the number of rows that it wrote."""
    hours = event_hours.changed_hours(cluster, events, now)
    event_hours.keep(cluster, hours)
    return len(hours)


def backoff(count: int = 1, first: datetime = NOW, last: datetime = NOW, **fields: Any) -> Event:
    defaults: dict[str, Any] = {
        "count": count,
        "first_at": first,
        "last_at": last,
        "component": "kubelet",
        "uid": "u",
    }
    return event("BackOff", "Back-off restarting failed container", **(defaults | fields))


def kept(cluster: Cluster, hours: int = 24, **about: str) -> list[Event]:
    return archive.events(cluster, NOW - hours * HOUR, NOW + hours * HOUR, **about)  # type: ignore[arg-type]


def test_an_event_comes_back_without_its_uid(cluster: Cluster) -> None:
    seen(cluster, NOW, backoff(host="gpu-1"))
    assert kept(cluster) == [backoff(host="gpu-1", uid="")]


def test_an_event_that_grows_is_one_with_the_highest_count(cluster: Cluster) -> None:
    for minutes in (1, 2, 3):
        seen(cluster, NOW + minutes * MINUTE, backoff(count=minutes, last=NOW + minutes * MINUTE))
    (found,) = kept(cluster)
    assert (found.count, found.first_at, found.last_at) == (3, NOW, NOW + 3 * MINUTE)
    assert EventHour.objects.get().count == 1


def test_one_that_goes_on_is_found_in_each_of_its_hours(cluster: Cluster) -> None:
    for hours in range(3):
        last = NOW + hours * HOUR
        seen(cluster, last, backoff(count=10 * hours + 1, last=last))
    assert [e.count for e in archive.events(cluster, NOW, NOW + HOUR)] == [1]
    assert [e.count for e in archive.events(cluster, NOW + HOUR, NOW + 2 * HOUR)] == [11]
    assert [e.count for e in kept(cluster)] == [21]


def test_what_is_known_is_not_written_again(cluster: Cluster) -> None:
    assert seen(cluster, NOW, backoff()) == 1
    assert seen(cluster, NOW + MINUTE, backoff()) == 0


def test_events_that_the_cluster_has_forgotten_stay(cluster: Cluster) -> None:
    seen(cluster, NOW, backoff(name="a"))
    seen(cluster, NOW + MINUTE, backoff(name="b"))
    assert {e.name for e in kept(cluster)} == {"a", "b"}


def test_two_containers_of_one_second_are_two_events(cluster: Cluster) -> None:
    created = [event("Created", f"Created container {c}", first_at=NOW, last_at=NOW) for c in "ab"]
    seen(cluster, NOW, *created)
    assert len(kept(cluster)) == 2


def test_they_are_found_by_what_they_are_about_and_when(cluster: Cluster) -> None:
    seen(
        cluster,
        NOW,
        backoff(name="a", last=NOW - 5 * MINUTE),
        backoff(name="b"),
        event("NodeNotReady", kind="Node", namespace="default", name="gpu-1", last_at=NOW - MINUTE),
    )
    assert [e.name for e in kept(cluster)] == ["a", "gpu-1", "b"], "oldest first"
    assert [e.name for e in kept(cluster, kind="Node")] == ["gpu-1"]
    assert [e.name for e in kept(cluster, kind="Pod", namespace="research", name="b")] == ["b"]
    assert [e.name for e in archive.events(cluster, NOW - MINUTE, NOW)] == ["gpu-1"]


def test_a_clock_that_runs_ahead_does_not_stop_the_rest(cluster: Cluster) -> None:
    seen(cluster, NOW, backoff(name="ahead", last=NOW + timedelta(days=3000)))
    seen(cluster, NOW + 3 * HOUR, backoff(name="later", last=NOW + 3 * HOUR))
    assert {e.name: e.last_at for e in kept(cluster)} == {"ahead": NOW, "later": NOW + 3 * HOUR}


def test_after_a_pause_what_happened_meanwhile_is_kept(cluster: Cluster) -> None:
    seen(cluster, NOW, backoff())
    seen(cluster, NOW + 6 * HOUR, backoff(name="meanwhile", last=NOW + 2 * HOUR))
    assert len(kept(cluster)) == 2


def test_a_damaged_hour_costs_itself_and_goes_on(cluster: Cluster) -> None:
    seen(cluster, NOW - HOUR, backoff(name="before", last=NOW - HOUR))
    seen(cluster, NOW, backoff(name="lost"))
    EventHour.objects.filter(hour=NOW).update(data=b"damaged")
    assert [e.name for e in kept(cluster)] == ["before"]
    seen(cluster, NOW + MINUTE, backoff(name="next", last=NOW + MINUTE))
    assert [e.name for e in kept(cluster)] == ["before", "next"]


def test_of_too_many_the_warnings_stay(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_hours, "MOST_EVENTS", 3)
    normal = [event("Pulled", name=f"n-{i}", type="Normal", last_at=NOW + i * MINUTE) for i in range(4)]
    seen(cluster, NOW + 5 * MINUTE, *normal, backoff(name="bad"))
    assert [e.name for e in kept(cluster)] == ["bad", "n-2", "n-3"]


def test_hostile_texts_come_back(cluster: Cluster) -> None:
    plain = backoff(name="x\x00\n<b>")
    odd = msgspec.structs.replace(plain, message="\x1b[31m" + "ä" * 5_000)
    seen(cluster, NOW, odd)
    (found,) = kept(cluster)
    assert found.name == "x\x00\n<b>"
    assert found.message == ("\x1b[31m" + "ä" * 5_000)[: event_hours.MOST_CHARACTERS]


def test_without_times_an_event_is_of_now(cluster: Cluster) -> None:
    seen(cluster, NOW, backoff(first_at=None, last_at=None))
    (found,) = kept(cluster)
    assert (found.first_at, found.last_at) == (None, NOW)
