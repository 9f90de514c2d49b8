"""The latest snapshot in parts: the same when joined, and each node found in its own."""

import pytest
from pytest_django import DjangoAssertNumQueries

from diagnostics.archive import parts
from diagnostics.models import Cluster, StoredSnapshot
from diagnostics.snapshot import Snapshot, Source, stored
from tests.builders import gpu, node, pending_pod, pod, snapshot

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster() -> Cluster:
    return Cluster.objects.create(slug="prod", name="Production")


def seen(nodes: int = 40) -> Snapshot:
    names = [f"gpu-{number:03}" for number in range(nodes)]
    return snapshot(
        *(node(name) for name in names),
        *(gpu(index, node=name) for name in names for index in range(2)),
        *(pod(f"on-{name}", node=name) for name in names),
        pending_pod(),
    )


def kept(cluster: Cluster, what: Snapshot) -> None:
    parts.keep(cluster, what, parts.split(what, stored.encoded(what)))


def test_comes_back_as_it_was(cluster: Cluster) -> None:
    kept(cluster, seen())
    assert parts.latest(cluster) == seen()


def test_a_device_whose_node_is_not_listed_comes_back_too(cluster: Cluster) -> None:
    what = snapshot(gpu(0, node="gone"))
    kept(cluster, what)
    assert parts.latest(cluster) == what


def test_there_is_nothing_before_the_first(cluster: Cluster) -> None:
    assert parts.latest(cluster) is None
    assert parts.with_node(cluster, "gpu-001") is None


def test_a_node_is_found_with_its_devices_and_pods_and_few_others(
    cluster: Cluster, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    kept(cluster, seen())
    with django_assert_num_queries(1):
        found = parts.with_node(cluster, "gpu-017")
    assert found is not None
    assert len(found.gpus_by_node["gpu-017"]) == 2
    assert len(found.nodes) < 20
    assert [one.name for one in found.pods_by_node["gpu-017"]] == ["on-gpu-017"]
    assert len(found.pods) == len(found.nodes)


def test_each_part_knows_what_could_not_be_read(cluster: Cluster) -> None:
    what = snapshot(node("gpu-001"), without=[Source.PODS])
    kept(cluster, what)
    found = parts.with_node(cluster, "gpu-001")
    assert found is not None
    assert found.sources == what.sources


def test_parts_that_are_empty_now_are_gone(cluster: Cluster) -> None:
    kept(cluster, seen())
    kept(cluster, seen(nodes=1))
    assert StoredSnapshot.objects.count() == 2
    assert parts.latest(cluster) == seen(nodes=1)


def test_a_snapshot_stored_whole_by_an_earlier_version_is_read(cluster: Cluster) -> None:
    StoredSnapshot.objects.create(
        cluster=cluster, taken_at=seen().taken_at, format=1, data=stored.dumps(seen())
    )
    assert parts.latest(cluster) == seen()
