"""History belongs to the cluster that answered, whatever slug it is declared under."""

import pytest

from diagnostics.identity import SameCluster, named, settled
from diagnostics.models import Cluster, Incident
from diagnostics.snapshot import Snapshot
from tests.builders import NOW
from tests.incidents.timeline import IDENTITY, Timeline, finding

pytestmark = pytest.mark.django_db

OTHER = "9d2b7c11-0000-4000-8000-000000000002"


def slugs() -> dict[str, str]:
    return dict(Cluster.objects.values_list("identity", "slug"))


def test_an_unreadable_identity_is_made_up_and_stays() -> None:
    cluster = Cluster.objects.create(slug="prod")
    again = Cluster.objects.get(pk=cluster.pk)

    assert cluster.identity.startswith("generated:")
    assert named(Snapshot(taken_at=NOW), again).cluster_id == cluster.identity
    assert settled(again, cluster.identity, {"prod"}) == cluster


def test_a_known_identity_stands_in_while_it_cannot_be_read() -> None:
    cluster = Cluster.objects.create(slug="prod", identity=IDENTITY)

    for unread in ("", "generated:123"):
        assert named(Snapshot(taken_at=NOW, cluster_id=unread), cluster).cluster_id == IDENTITY
    assert settled(cluster, "", {"prod"}) == cluster


def test_the_real_identity_replaces_the_one_that_was_made_up() -> None:
    cluster = Cluster.objects.create(slug="prod")

    assert settled(cluster, IDENTITY, {"prod"}).pk == cluster.pk
    assert slugs() == {IDENTITY: "prod"}


def test_incidents_go_on_when_the_real_identity_becomes_readable() -> None:
    timeline = Timeline(identity="generated:123")
    Incident.objects.all().delete()
    timeline.open()
    Incident.objects.update(fingerprint="of the other id")

    settled(timeline.cluster, IDENTITY, {"prod"})
    timeline.poll([finding()])

    assert timeline.incident().fingerprint == finding().id
    assert timeline.events() == ["opened"]


def test_another_cluster_under_the_same_slug_gets_a_history_of_its_own() -> None:
    timeline = Timeline()
    timeline.open()

    new = settled(timeline.cluster, OTHER, {"prod"})

    assert slugs() == {IDENTITY: "prod-3f1c0a52", OTHER: "prod"}
    assert new.identity == OTHER
    assert new.name == "Production"
    assert not new.incidents.exists()
    assert timeline.cluster.incidents.count() == 1


def test_the_old_cluster_takes_up_its_history_when_it_returns() -> None:
    old = Cluster.objects.create(slug="prod", identity=IDENTITY)
    new = settled(old, OTHER, {"prod"})

    back = settled(Cluster.objects.get(pk=new.pk), IDENTITY, {"prod"})

    assert back.pk == old.pk
    assert slugs() == {IDENTITY: "prod", OTHER: "prod-9d2b7c11"}


def test_a_cluster_that_is_declared_anew_under_another_slug_keeps_its_history() -> None:
    old = Cluster.objects.create(slug="prod", identity=IDENTITY)
    fresh = Cluster.objects.create(slug="production")

    assert settled(fresh, IDENTITY, {"production"}).pk == old.pk
    assert slugs() == {IDENTITY: "production"}


def test_a_made_up_cluster_with_history_is_set_aside_not_lost() -> None:
    Cluster.objects.create(slug="prod", identity=IDENTITY)
    fresh = Cluster.objects.create(slug="production", identity="generated:abcdef0123456789")
    fresh.observations.create(taken_at=NOW, started_at=NOW, finished_at=NOW, status="partial")

    settled(fresh, IDENTITY, {"production"})

    assert slugs() == {IDENTITY: "production", "generated:abcdef0123456789": "production-abcdef01"}


def test_one_cluster_under_two_slugs_is_refused() -> None:
    Cluster.objects.create(slug="prod", identity=IDENTITY)
    second = Cluster.objects.create(slug="prod-again")

    with pytest.raises(SameCluster, match="same cluster as 'prod'"):
        settled(second, IDENTITY, {"prod", "prod-again"})
    assert slugs()[second.identity] == "prod-again"
