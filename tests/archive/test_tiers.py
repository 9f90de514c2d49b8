"""The cluster at time T, and what is kept of it as time goes by."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from diagnostics import archive
from diagnostics.archive import tiers
from diagnostics.archive.deletion import delete_expired
from diagnostics.archive.patches import pack
from diagnostics.models import ArchivedSnapshot, ArchiveState, Cluster, Tier
from diagnostics.retention import Retention
from diagnostics.snapshot import Snapshot
from tests.builders import NOW, gpu, node, pod, snapshot

pytestmark = pytest.mark.django_db

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
MIDNIGHT = NOW.replace(hour=0)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster.objects.create(slug="prod", name="Production")


def polled(cluster: Cluster, at: datetime, *parts: Any) -> Snapshot:
    """A poll at `at`, kept as the pipeline does."""
    shot = snapshot(node(), *(parts or (pod(f"pod-{at:%d-%H-%M}"),)), gpu(), taken_at=at)
    archive.publish(cluster, archive.packed(cluster, shot, None))
    return shot


def names(found: Snapshot | None) -> list[str]:
    assert found is not None
    return [p.name for p in found.pods]


def rolled_up(cluster: Cluster, until: datetime) -> None:
    ArchiveState.objects.update_or_create(cluster=cluster, defaults={"rolled_up_to": until})


def test_the_nearest_snapshot_that_is_not_later_is_found(cluster: Cluster) -> None:
    for minutes in (0, 1, 2, 59, 60, 61):
        polled(cluster, NOW + minutes * MINUTE)
    assert archive.at(cluster, NOW - MINUTE) is None
    assert names(archive.at(cluster, NOW)) == ["pod-01-12-00"]
    assert names(archive.at(cluster, NOW + 50 * MINUTE)) == ["pod-01-12-02"]
    assert names(archive.at(cluster, NOW + 61 * MINUTE)) == ["pod-01-13-01"]
    assert names(archive.at(cluster, NOW + 3 * DAY)) == ["pod-01-13-01"]


def test_the_first_of_a_day_and_of_an_hour_are_whole_and_the_others_patches(cluster: Cluster) -> None:
    start = MIDNIGHT - 2 * MINUTE
    for minutes in (0, 1, 2, 3, 61, 62, 63):
        polled(cluster, start + minutes * MINUTE)
    kept = archive.moments(cluster, start, start + DAY)
    assert [m.tier for m in kept] == ["day", "poll", "day", "poll", "poll", "hour", "poll"]
    bases = dict(ArchivedSnapshot.objects.values_list("taken_at", "base__taken_at"))
    assert bases[start + 61 * MINUTE] == MIDNIGHT
    assert {m.taken_at for m in kept if bases[m.taken_at] is None} == {
        m.taken_at for m in kept if m.tier != Tier.POLL
    }


def test_moments_end_before_the_end(cluster: Cluster) -> None:
    for minutes in range(3):
        polled(cluster, NOW + minutes * MINUTE)
    assert [m.taken_at for m in archive.moments(cluster, NOW + MINUTE, NOW + 2 * MINUTE)] == [NOW + MINUTE]


def test_clusters_do_not_see_each_other(cluster: Cluster) -> None:
    other = Cluster.objects.create(slug="lab", name="Lab")
    polled(cluster, NOW)
    polled(other, NOW + MINUTE)
    assert names(archive.at(cluster, NOW + HOUR)) == ["pod-01-12-00"]
    assert not ArchivedSnapshot.objects.exclude(base=None).exists()


def test_a_poll_packed_for_another_cluster_is_packed_anew(cluster: Cluster) -> None:
    polled(cluster, NOW)
    shot = snapshot(node(), pod("moved"), taken_at=NOW + MINUTE)
    kept = archive.packed(cluster, shot, None)
    other = Cluster.objects.create(slug="lab", name="Lab")
    archive.publish(other, kept)
    assert names(archive.at(other, NOW + HOUR)) == ["moved"]
    assert names(archive.at(cluster, NOW + HOUR)) == ["pod-01-12-00"]


def test_a_damaged_patch_costs_itself_alone(cluster: Cluster) -> None:
    for minutes in range(4):
        polled(cluster, NOW + minutes * MINUTE)
    ArchivedSnapshot.objects.filter(taken_at=NOW + 2 * MINUTE).update(data=b"damaged")
    assert names(archive.at(cluster, NOW + 2 * MINUTE)) == ["pod-01-12-01"]
    assert names(archive.at(cluster, NOW + 3 * MINUTE)) == ["pod-01-12-03"]


def test_a_damaged_base_costs_its_patches_and_the_next_poll_is_whole(cluster: Cluster) -> None:
    polled(cluster, NOW - HOUR)
    for minutes in range(3):
        polled(cluster, NOW + minutes * MINUTE)
    ArchivedSnapshot.objects.filter(taken_at=NOW).update(data=b"damaged")
    for minutes in (3, 4):
        polled(cluster, NOW + minutes * MINUTE)
    assert names(archive.at(cluster, NOW + 2 * MINUTE)) == ["pod-01-11-00"]
    assert names(archive.at(cluster, NOW + 3 * MINUTE)) == ["pod-01-12-03"]
    assert names(archive.at(cluster, NOW + 4 * MINUTE)) == ["pod-01-12-04"]
    whole = ArchivedSnapshot.objects.get(taken_at=NOW + 3 * MINUTE)
    assert (whole.base, whole.tier) == (None, Tier.HOUR)


def test_a_second_snapshot_of_the_same_moment_changes_nothing(cluster: Cluster) -> None:
    polled(cluster, NOW)
    polled(cluster, NOW + MINUTE)
    whole = ArchivedSnapshot.objects.get(base=None)
    tiers.keep(cluster, NOW, tiers.Entry(Tier.DAY, None, pack(snapshot(pod("again")), None)))
    assert ArchivedSnapshot.objects.get(base=None).data == whole.data
    assert names(archive.at(cluster, NOW + MINUTE)) == ["pod-01-12-01"]


def test_nothing_is_archived_of_a_cluster_that_does_not_answer(cluster: Cluster) -> None:
    archive.publish(cluster, archive.packed(cluster, Snapshot(taken_at=NOW), None))
    assert not ArchivedSnapshot.objects.exists()


def test_forty_days_are_thinned_to_what_each_tier_keeps(cluster: Cluster) -> None:
    start = MIDNIGHT - 40 * DAY
    keep_for = Retention()
    at = start
    while at < MIDNIGHT:
        # Not on the hour, and with nothing in one of them.
        if at.hour != 5:
            for minutes in (7, 37):
                shot = snapshot(pod(f"pod-{at:%d-%H}"), taken_at=at + minutes * MINUTE)
                tiers.keep(cluster, shot.taken_at, tiers.entry(cluster, shot))
        at += HOUR
        if at.hour % 6 == 0:
            rolled_up(cluster, at - HOUR)
            delete_expired(cluster, keep_for, at)
    kept = {m.taken_at: m.tier for m in archive.moments(cluster, start, MIDNIGHT)}
    patches = [t for t, tier in kept.items() if tier == Tier.POLL]
    hours = [t for t, tier in kept.items() if tier == Tier.HOUR]
    days = [t for t, tier in kept.items() if tier == Tier.DAY]
    assert min(patches) == MIDNIGHT - DAY + 37 * MINUTE
    assert len(patches) == 23
    assert min(hours) == MIDNIGHT - 30 * DAY + HOUR + 7 * MINUTE
    assert len(hours) == 30 * 22
    assert days == [start + day * DAY + 7 * MINUTE for day in range(40)]
    for moment in kept:
        found = archive.at(cluster, moment)
        assert found is not None
        assert found.taken_at == moment


def test_polls_stay_until_they_are_rolled_up(cluster: Cluster) -> None:
    for minutes in range(3):
        polled(cluster, NOW + minutes * MINUTE)
    assert delete_expired(cluster, Retention(), NOW + 5 * DAY) == {}
    rolled_up(cluster, NOW + HOUR)
    assert delete_expired(cluster, Retention(), NOW + 5 * DAY) == {"snapshots": 2}


def test_a_base_stays_as_long_as_a_patch_needs_it(cluster: Cluster) -> None:
    for minutes in range(3):
        polled(cluster, NOW + minutes * MINUTE)
    rolled_up(cluster, NOW + DAY)
    far = NOW + 400 * DAY
    ArchivedSnapshot.objects.filter(taken_at=NOW + 2 * MINUTE).update(taken_at=far - HOUR)
    assert delete_expired(cluster, Retention(), far) == {"snapshots": 1}
    assert names(archive.at(cluster, far)) == ["pod-01-12-02"]
