"""The join: roots, racks, gangs and states; any subset of sources may be missing."""

from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from diagnostics.collect.assemble import assemble, with_roots
from diagnostics.collect.racks import placed
from diagnostics.collect.readings import ClusterObjects, LogReadings, Readings
from diagnostics.collect.windows import RecentSamples
from diagnostics.snapshot import (
    OwnerKey,
    Past,
    Pod,
    Snapshot,
    Source,
    SourceState,
    SourceStatus,
    State,
    Workload,
)
from tests.builders import NOW, ago, node, pod, window
from tests.collect.test_devices import reading

NO_LOGS = LogReadings(status=SourceStatus(name=Source.LOGS, state=SourceState.OK))


def workload(kind: str, name: str, *owners: OwnerKey, **fields: Any) -> Workload:
    return Workload(kind=kind, namespace="research", name=name, owners=owners, **fields)


def owned(*owners: OwnerKey) -> Pod:
    return pod(owners=owners, root=None)


def test_the_root_is_the_top_of_the_owner_chain() -> None:
    replica_set = OwnerKey("ReplicaSet", "", "web-5d9", "apps/v1")
    deployment = OwnerKey("Deployment", "", "web", "apps/v1")
    (found,) = with_roots((owned(replica_set),), (workload("ReplicaSet", "web-5d9", deployment),))
    assert found.root == OwnerKey("Deployment", "research", "web", "apps/v1")


def test_an_owner_that_was_not_read_is_still_the_root() -> None:
    (found,) = with_roots((owned(OwnerKey("PyTorchJob", "", "gpt", "kubeflow.org/v1")),), ())
    assert found.root == OwnerKey("PyTorchJob", "research", "gpt", "kubeflow.org/v1")


def test_a_bare_pod_and_a_static_pod_are_their_own_root() -> None:
    for one in (owned(), owned(OwnerKey("Node", "", "gpu-1", "v1"))):
        (found,) = with_roots((one,), ())
        assert found.root == OwnerKey("Pod", "research", "train-0", "v1", "uid-train-0")


def test_a_deployment_is_known_by_the_template_hash_when_its_replica_set_was_not_read() -> None:
    replica_set = OwnerKey("ReplicaSet", "", "web-5d9", "apps/v1")
    labelled = pod(owners=(replica_set,), root=None, labels={"pod-template-hash": "5d9"})
    (found,) = with_roots((labelled,), ())
    assert found.root == OwnerKey("Deployment", "research", "web", "apps/v1")


def test_a_loop_of_owners_ends() -> None:
    one, two = OwnerKey("Job", "", "one", "batch/v1"), OwnerKey("Job", "", "two", "batch/v1")
    (found,) = with_roots((owned(one),), (workload("Job", "one", two), workload("Job", "two", one)))
    assert found.root is not None


def test_the_sites_rack_label_wins_over_the_known_ones() -> None:
    labels = {"example.com/row": "r7", "network.topology.nvidia.com/leaf": "leaf-1"}
    assert placed((node(labels=labels),), "example.com/row")[0].rack == "r7"
    assert placed((node(labels=labels),))[0].rack == "leaf-1"


def test_any_label_called_rack_serves_where_nothing_better_is_known() -> None:
    assert placed((node(labels={"topology.example.com/rack": "rack-a"}),))[0].rack == "rack-a"
    assert placed((node(),))[0].rack is None


OBJECTS = ClusterObjects(
    cluster_id="uid-of-kube-system",
    nodes=(node(gpus=2),),
    pods=(pod(gpus=2),),
    statuses=(SourceStatus(name=Source.NODES, state=SourceState.OK),),
)
READINGS = Readings(devices=(reading(0, pods=("research/train-0",)), reading(1, pods=("research/train-0",))))


def test_everything_meets_in_one_snapshot() -> None:
    found = assemble(OBJECTS, READINGS, snapshot=Snapshot(taken_at=NOW, cluster="lab"), logs=NO_LOGS).snapshot
    assert found.cluster_id == "uid-of-kube-system"
    assert [(gpu.holders, gpu.state) for gpu in found.gpus] == [(("research/train-0",), State.NO_DATA)] * 2
    assert {s.name for s in found.sources} == {Source.NODES, Source.LOGS}


@given(
    st.sets(st.sampled_from(["nodes", "pods", "workloads", "events", "namespaces", "services"])),
    st.booleans(),
)
def test_any_source_may_be_missing(missing: set[str], metrics: bool) -> None:
    import msgspec

    objects = msgspec.structs.replace(OBJECTS, **dict.fromkeys(missing, ()))
    found = assemble(
        objects,
        READINGS if metrics else Readings(),
        snapshot=Snapshot(taken_at=NOW, cluster="lab"),
        logs=NO_LOGS,
    ).snapshot
    assert len(found.pods) == (0 if "pods" in missing else 1)
    assert len(found.gpus) == (0 if "nodes" in missing else 2)
    for gpu in found.gpus:
        assert gpu.state in ({State.FREE} if "pods" in missing else {State.NO_DATA})


def test_own_samples_make_a_window_that_ends_with_this_poll() -> None:
    recent: RecentSamples | None = RecentSamples()
    states = []
    assembled = None
    for minute in range(0, 36, 5):
        at = NOW + timedelta(minutes=minute)
        assembled = assemble(
            OBJECTS, READINGS, snapshot=Snapshot(taken_at=at, cluster="lab"), logs=NO_LOGS, recent=recent
        )
        recent = assembled.recent
        states.append(assembled.snapshot.source(Source.WINDOW).state)
    assert states[0] is SourceState.ABSENT
    assert states[1] is SourceState.PARTIAL
    assert states[-1] is SourceState.OK
    assert assembled is not None
    found = assembled.snapshot.gpus[0].window
    assert found is not None
    assert found.coverage_ratio == 1.0
    assert found.utilization_ratio is not None
    assert found.utilization_ratio.mean == 0.5


def test_without_pod_labels_a_window_that_reaches_before_the_holder_is_dropped() -> None:
    import msgspec

    for age, labels, kept in ((10, False, False), (10, True, True), (90, False, True)):
        young = pod(gpus=2, started_at=ago(minutes=age))
        objects = msgspec.structs.replace(OBJECTS, pods=(young,))
        readings = Readings(
            devices=(reading(0, window=window()), reading(1, window=window())), has_pod_labels=labels
        )
        found = assemble(
            objects, readings, snapshot=Snapshot(taken_at=NOW, cluster="lab"), logs=NO_LOGS
        ).snapshot
        assert [gpu.window is not None for gpu in found.gpus] == [kept, kept]


def test_the_history_of_another_cluster_is_not_used() -> None:
    other = Past(cluster_id="another", fitted={"gpu-1": 8})
    own = Past(cluster_id="uid-of-kube-system", fitted={"gpu-1": 8})
    for past, fitted in ((other, 2), (own, 8)):
        found = assemble(
            OBJECTS, READINGS, snapshot=Snapshot(taken_at=NOW, cluster="lab"), logs=NO_LOGS, past=past
        ).snapshot
        assert len(found.gpus) == fitted
