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


def kept(cluster: Cluster, hours: int = 24, **about: Any) -> list[Event]:
    return archive.events(cluster, NOW - hours * HOUR, NOW + hours * HOUR, **about)


def test_an_event_comes_back_without_its_uid(cluster: Cluster) -> None:
    seen(cluster, NOW, backoff(host="gpu-1"))
    assert kept(cluster) == [backoff(host="gpu-1", uid="")]


def test_an_event_that_grows_is_one_with_the_highest_count(cluster: Cluster) -> None:
    for minutes in (1, 2, 3):
        seen(cluster, NOW + minutes * MINUTE, backoff(count=minutes, last=NOW + minutes * MINUTE))
    (found,) = kept(cluster)
    assert (found.count, found.first_at, found.last_at) == (3, NOW, NOW + 3 * MINUTE)


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
    assert [e.name for e in kept(cluster, kind="Pod", about=lambda *its: its[2] in {"a", "gpu-1"})] == ["a"]
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


def test_of_too_many_only_warnings_are_added(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_hours, "MOST_EVENTS", 2)
    for minutes in range(5):
        at = NOW + minutes * MINUTE
        both = (
            event("Pulled", name=f"n-{minutes}", type="Normal", last_at=at),
            backoff(name=f"w-{minutes}", last=at),
        )
        seen(cluster, at, *both)
    assert [e.name for e in kept(cluster)] == ["n-0", "w-0", "w-1", "w-2"]


def test_an_hour_that_is_over_is_packed_as_one_piece(cluster: Cluster) -> None:
    for minutes in range(30):
        at = NOW + minutes * MINUTE
        seen(cluster, at, backoff(count=minutes + 1, last=at), backoff(name=f"pod-{minutes}", last=at))
    before, row = kept(cluster), EventHour.objects.get()
    assert row.count == 60
    assert event_hours.compact(cluster, NOW + 30 * MINUTE) == 0
    assert event_hours.compact(cluster, NOW + 2 * HOUR) == 1
    assert event_hours.compact(cluster, NOW + 2 * HOUR) == 0
    after = EventHour.objects.get()
    assert kept(cluster) == before
    assert after.count == 31
    assert len(after.data) < len(row.data) / 2


def test_a_late_event_of_an_hour_that_was_packed_is_added(cluster: Cluster) -> None:
    for minutes in (57, 58):
        seen(cluster, NOW + minutes * MINUTE, backoff(name=f"pod-{minutes}", last=NOW + minutes * MINUTE))
    event_hours.compact(cluster, NOW + 3 * HOUR)
    seen(
        cluster,
        NOW + 3 * HOUR,
        backoff(name="late", last=NOW + 59 * MINUTE),
        backoff(name="pod-58", last=NOW + 58 * MINUTE),
    )
    assert [e.name for e in kept(cluster)] == ["pod-57", "pod-58", "late"]


def test_a_damaged_piece_costs_itself(cluster: Cluster) -> None:
    for minutes in range(3):
        seen(cluster, NOW + minutes * MINUTE, backoff(name=f"pod-{minutes}", last=NOW + minutes * MINUTE))
    row = EventHour.objects.get()
    pieces = msgspec.msgpack.decode(row.data)
    pieces[1][2] = b"damaged"
    EventHour.objects.update(data=msgspec.msgpack.encode(pieces))
    assert [e.name for e in kept(cluster)] == ["pod-0", "pod-2"]


def test_events_long_known_are_not_read_again(cluster: Cluster) -> None:
    old = [backoff(name=f"pod-{i}", last=NOW) for i in range(20)]
    seen(cluster, NOW, *old)
    seen(cluster, NOW + 20 * MINUTE, *old, backoff(name="new", last=NOW + 20 * MINUTE))
    assert seen(cluster, NOW + 40 * MINUTE, *old) == 0
    assert EventHour.objects.get().count == 21


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
