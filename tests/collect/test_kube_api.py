"""Whole passes over recorded clusters: what is read, what is refused, and that nothing but GET is asked."""

from collections.abc import Callable

import pytest

from diagnostics.collect.kube_api import read_cluster, unread_cluster
from diagnostics.collect.kube_client import connect
from diagnostics.collect.readings import ClusterObjects
from diagnostics.collect.refusal import failed
from diagnostics.collect.target import Target
from diagnostics.snapshot import Source, SourceState, SourceStatus
from tests.fakes.replay import Replay

Serve = Callable[[str], Replay]
MakeTarget = Callable[..., Target]


def read(target: Target) -> ClusterObjects:
    with connect(target) as connection:
        return read_cluster(connection, target)


def status(objects: ClusterObjects, source: Source) -> SourceStatus:
    return next(one for one in objects.statuses if one.name is source)


@pytest.mark.parametrize(
    ("scenario", "nodes", "pods", "events", "workloads"),
    [
        ("scattered", 8, 26, 129, 3),
        ("partial-gang", 4, 9, 46, 3),
        ("zombies", 4, 14, 78, 4),
        ("gpu-operator", 11, 78, 374, 10),
        ("oom-inference", 3, 4, 35, 6),
        ("pending", 8, 28, 100, 3),
        ("healthy", 8, 14, 80, 5),
    ],
)
def test_reads_every_object_of_a_recorded_cluster(
    scenario: str, nodes: int, pods: int, events: int, workloads: int, replay: Serve, target: MakeTarget
) -> None:
    served = replay(scenario)
    objects = read(target(served, page_size=7))
    assert {one.name: one.state for one in objects.statuses} == dict.fromkeys(
        (Source.NODES, Source.PODS, Source.EVENTS, Source.NAMESPACES, Source.SERVICES, Source.WORKLOADS),
        SourceState.OK,
    )
    assert (len(objects.nodes), len(objects.pods)) == (nodes, pods)
    assert (len(objects.events), len(objects.workloads)) == (events, workloads)
    assert len({pod.key for pod in objects.pods}) == pods, "no page is read twice"
    assert objects.server_version == "v1.36.2"
    assert len(objects.cluster_id) == 36
    assert {asked.method for asked in served.asked} == {"GET"}


def test_notes_items_time_and_duration_of_a_source(replay: Serve, target: MakeTarget) -> None:
    pods = status(read(target(replay("healthy"))), Source.PODS)
    assert pods.items == 14
    assert pods.seconds is not None
    assert pods.read_at is not None
    assert pods.detail == ""


def test_a_viewer_sees_all_but_nodes(replay: Serve, target: MakeTarget) -> None:
    objects = read(target(replay("healthy/as-viewer")))
    nodes = status(objects, Source.NODES)
    assert nodes.state is SourceState.FORBIDDEN
    assert 'User "lab-viewer" cannot list resource "nodes"' in nodes.detail
    assert nodes.items is None
    assert {one.state for one in objects.statuses if one.name is not Source.NODES} == {SourceState.OK}
    assert len(objects.pods) == 14


@pytest.mark.parametrize(
    ("user", "words"), [("as-tenant", "is forbidden"), ("as-badtoken", "does not accept these credentials")]
)
def test_a_user_without_rights_is_told_so_for_each_source(
    user: str, words: str, replay: Serve, target: MakeTarget
) -> None:
    objects = read(target(replay(f"healthy/{user}")))
    assert {one.state for one in objects.statuses} == {SourceState.FORBIDDEN}
    assert all(words in one.detail for one in objects.statuses)
    assert objects.cluster_id == ""
    assert objects.pods == objects.nodes == ()


def test_a_cluster_that_cannot_be_connected_to_has_a_status_for_each_source() -> None:
    objects = unread_cluster(failed("there is no kubeconfig at /x"))
    assert len(objects.statuses) == 6
    assert {one.detail for one in objects.statuses} == {"there is no kubeconfig at /x"}
