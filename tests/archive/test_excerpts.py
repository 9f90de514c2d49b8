"""What an incident was about stays with it, small, whatever the cluster put into its objects."""

from datetime import timedelta
from typing import Any

import pytest

from diagnostics import archive
from diagnostics.archive import excerpts
from diagnostics.archive.excerpts import MOST_BYTES, excerpt_of
from diagnostics.findings import Diagnosis
from diagnostics.incidents import record
from diagnostics.models import Cluster, Excerpt, Incident
from diagnostics.snapshot import LogSignal, Snapshot, Workload, stored
from tests.builders import NOW, container, event, gang, gpu, node, owner, pod, snapshot
from tests.incidents.timeline import CODE, finding

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)


def about(kind: str, name: str, namespace: str = "") -> Incident:
    return Incident(subject_kind=kind, subject_namespace=namespace, subject_name=name)


def a_cluster(**fields: Any) -> Snapshot:
    """Two jobs of two pods, on nodes of their own, and a bystander."""
    jobs = [
        pod(f"{j}-{i}", root=owner(name=j), node=f"{j}-node-{i}") for j in ("one", "two") for i in range(2)
    ]
    nodes = [node(str(job.node)) for job in jobs]
    gpus = [gpu(0, str(job.node), holders=(job.key,)) for job in jobs]
    events = (
        event("Failed", name="one-0"),
        event("Failed", name="two-0"),
        event("NotReady", kind="Node", namespace="", name="one-node-0"),
    )
    defaults: dict[str, Any] = {
        "workloads": tuple(
            Workload(kind="Job", namespace="research", name=j, spec={"a": 1}) for j in ("one", "two")
        ),
        "gangs": tuple(gang(j, members=(f"research/{j}-0", f"research/{j}-1")) for j in ("one", "two")),
        "events": events,
        "signals": (LogSignal(namespace="research", pod="one-1", container="main", signal="nccl"),),
    }
    return snapshot(*nodes, *jobs, *gpus, **(defaults | fields))


def read(data: bytes) -> Snapshot:
    return stored.loads(data)


def test_a_job_comes_with_its_pods_nodes_gpus_gang_workload_events_and_signals() -> None:
    data, is_cut = excerpt_of(a_cluster(), about("Job", "one", "research"))
    part = read(data)
    assert not is_cut
    assert {p.name for p in part.pods} == {"one-0", "one-1"}
    assert {n.name for n in part.nodes} == {g.node for g in part.gpus} == {"one-node-0", "one-node-1"}
    assert [g.name for g in part.gangs] == [w.name for w in part.workloads] == ["one"]
    assert {e.name for e in part.events} == {"one-0", "one-node-0"}
    assert [s.pod for s in part.signals] == ["one-1"]
    assert part.gpus[0].window == a_cluster().gpus[0].window, "nothing is rounded"


def test_a_node_comes_with_what_ran_on_it() -> None:
    part = read(excerpt_of(a_cluster(), about("Node", "two-node-1"))[0])
    assert [n.name for n in part.nodes] == ["two-node-1"]
    assert [p.name for p in part.pods] == ["two-1"]


def test_a_gpu_comes_with_its_node_and_its_holder_first() -> None:
    slot = a_cluster().gpus[2].slot
    part = read(excerpt_of(a_cluster(), about("GPU", slot))[0])
    assert [g.slot for g in part.gpus] == [slot]
    assert [p.name for p in part.pods] == ["two-0"]


def test_a_bare_pod_and_one_that_is_gone() -> None:
    bare = snapshot(node(), pod("alone"), gpu(holders=("research/alone",)))
    assert [p.name for p in read(excerpt_of(bare, about("Pod", "alone", "research"))[0]).pods] == ["alone"]
    gone = read(excerpt_of(bare, about("Job", "gone", "research"))[0])
    assert (gone.pods, gone.taken_at) == ((), NOW)


def noise(size: int, seed: int = 1) -> str:
    """Text that does not compress."""
    words, state = [], seed
    for _ in range(size // 8):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        words.append(f"{state >> 32:08x}")
    return "".join(words)


@pytest.mark.parametrize(
    "fields",
    [
        {"annotations": {"note": noise(1_000_000)}},
        {"annotations": {noise(300, i): noise(200, i) for i in range(2_000)}},
        {"message": noise(500_000)},
        {"containers": tuple(container(noise(64, i), env={noise(32, i): "x"}) for i in range(3_000))},
        {"affinity": {"nodeAffinity": [{"values": [noise(40, i) for i in range(10_000)]}]}},
    ],
    ids=["annotation", "annotations", "message", "containers", "affinity"],
)
def test_hostile_sizes_are_cut_to_fifty_kilobytes(fields: dict[str, Any]) -> None:
    big = a_cluster(pods=(pod("one-0", root=owner(name="one"), node="one-node-0", **fields),))
    data, is_cut = excerpt_of(big, about("Job", "one", "research"))
    assert is_cut
    assert len(data) <= MOST_BYTES
    assert [n.name for n in read(data).nodes] == ["one-node-0"]


def test_a_gang_of_thousands_is_cut_and_said_so() -> None:
    pods = tuple(
        pod(f"one-{i}", root=owner(name="one"), node=f"node-{i}", uid=noise(36, i)) for i in range(2_000)
    )
    many = snapshot(
        *(node(f"node-{i}") for i in range(2_000)),
        *pods,
        events=tuple(event(noise(16, i), name=f"one-{i}") for i in range(2_000)),
    )
    data, is_cut = excerpt_of(many, about("Job", "one", "research"))
    assert is_cut
    assert len(data) <= MOST_BYTES
    assert read(data).pods


def test_deep_nesting_ends() -> None:
    nested: Any = noise(20)
    for depth in range(200):
        nested = {noise(600, depth): nested, "b": [noise(600, depth + 1)]}
    big = a_cluster(pods=(pod("one-0", root=owner(name="one"), affinity=nested),))
    data, is_cut = excerpt_of(big, about("Job", "one", "research"))
    assert is_cut
    assert read(data).taken_at == NOW


def polled(cluster: Cluster, minutes: int, *names: str) -> None:
    """A poll that finds these Jobs to be in trouble."""
    shot = a_cluster(taken_at=NOW + minutes * MINUTE)
    kept = archive.packed(cluster, shot, None)
    record(cluster, shot, Diagnosis(findings=tuple(finding(name) for name in names)), {CODE: 1})
    archive.publish(cluster, kept)


def test_incidents_keep_the_moments_when_they_opened_came_back_and_were_resolved() -> None:
    cluster = Cluster.objects.create(slug="prod", name="Production")
    polled(cluster, 0, "one")
    polled(cluster, 1, "one", "two")
    for minutes in (2, 3):
        polled(cluster, minutes, "two")
    polled(cluster, 4, "one", "two")
    told = [
        (e.incident.subject_name, e.moment, e.at)
        for e in Excerpt.objects.order_by("at", "incident__subject_name")
    ]
    assert told == [
        ("one", "opened", NOW),
        ("two", "opened", NOW + MINUTE),
        ("one", "resolved", NOW + 3 * MINUTE),
        ("one", "reopened", NOW + 4 * MINUTE),
    ]
    last = excerpts.read(Excerpt.objects.order_by("-at")[0])
    assert last is not None
    assert {p.name for p in last.pods} == {"one-0", "one-1"}


def test_a_damaged_excerpt_is_none() -> None:
    assert excerpts.read(Excerpt(data=b"damaged")) is None
