"""Queues, pod groups and the jobs of operators are read in the version that is served, and told when they are not."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from diagnostics.collect import Target, take_snapshot
from diagnostics.collect.wire.custom_workloads import CustomWorkloadConverter, CustomWorkloadWire
from diagnostics.collect.wire.kueue import (
    KueueQueueConverter,
    KueueQueueWire,
    QueuedWorkloadConverter,
    QueuedWorkloadWire,
)
from diagnostics.collect.wire.listing import ItemReader, Skips, opened
from diagnostics.collect.wire.pod_groups import (
    GangWorkloadConverter,
    GangWorkloadWire,
    PodGroupConverter,
    PodGroupWire,
)
from diagnostics.masking import MASKED
from diagnostics.rules import diagnose
from diagnostics.snapshot import Snapshot, Source, SourceState
from tests.builders import NOW
from tests.fakes.replay import Replay, replaying
from tests.fakes.web import Reply

FORBIDDEN = Reply(
    json.dumps(
        {
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403,
            "message": 'workloads.kueue.x-k8s.io is forbidden: User "viewer" cannot list resource "workloads"',
        }
    ).encode(),
    403,
)  # fmt: skip


def taken(served: Replay, folder: Path) -> Snapshot:
    target = Target(name="lab", kubeconfig=served.kubeconfig(folder / "config"))
    return take_snapshot(target, clock=lambda: NOW, correct_skew=False).snapshot


@pytest.fixture(scope="module")
def operators(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    with replaying("operators") as served:
        return taken(served, tmp_path_factory.mktemp("kube"))


def read(wire: type[Any], convert: Any, *items: Any) -> tuple[list[Any], Skips]:
    skips = Skips()
    page = opened(json.dumps({"items": items}).encode(), "/list")
    return ItemReader(wire, convert).read(page, skips), skips


def item(spec: Any, status: Any = None, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a", "namespace": "ns"} | metadata, "spec": spec, "status": status}


def test_jobs_of_operators_are_workloads_with_the_pods_that_they_want(operators: Snapshot) -> None:
    wanted = {(w.kind, w.name): w.replicas for w in operators.workloads if "." in w.api_version}

    assert wanted == {
        ("Job", "moe-train"): 8,
        ("PyTorchJob", "bert-pretrain"): 4,
        ("JobSet", "dlrm"): 4,
        ("LeaderWorkerSet", "deepseek"): 4,
        ("RayCluster", "llm-serve"): 3,
        ("RayJob", "ray-tune"): 5,
    }


def test_a_spec_is_kept_where_its_pods_ask_for_gpus(operators: Snapshot) -> None:
    kept = {w.name for w in operators.workloads if "." in w.api_version and w.spec}

    assert kept == {"moe-train", "bert-pretrain", "deepseek", "llm-serve"}


def test_owner_chains_end_at_the_operators_job(operators: Snapshot) -> None:
    roots = {pod.name: pod.root.kind for pod in operators.pods if pod.root is not None}

    assert roots["bert-pretrain-worker-0"] == "PyTorchJob"
    assert roots["dlrm-workers-0-0-r2qjk"] == "JobSet"
    assert {roots[name] for name in ("deepseek-0", "deepseek-0-1", "deepseek-1-1")} == {"LeaderWorkerSet"}
    assert roots["moe-train-worker-3"] == "Job"
    assert roots["llm-serve-head"] == "RayCluster"


def test_gangs_have_the_sizes_that_their_objects_say(operators: Snapshot) -> None:
    sizes = [(g.kind, g.name, g.size, g.min_available) for g in operators.gangs]

    assert sizes == [
        ("PyTorchJob", "bert-pretrain", 4, None),
        ("JobSet", "dlrm", 4, None),
        ("Job", "moe-train", 8, 8),
        ("LeaderWorkerSet", "deepseek", 2, None),
        ("LeaderWorkerSet", "deepseek", 2, None),
    ]


def test_kueue_and_volcano_queues_are_read_with_their_quota(operators: Snapshot) -> None:
    queues = {(q.system, q.kind, q.name): q for q in operators.queues}

    vision = queues["kueue", "ClusterQueue", "vision"]
    assert (vision.nominal["nvidia.com/gpu"], vision.used["nvidia.com/gpu"]) == (4, 4)
    assert vision.flavors[0].borrowing == {"nvidia.com/gpu": 0}
    assert queues["kueue", "LocalQueue", "vision"].parent == "vision"
    default = queues["volcano", "Queue", "default"]
    assert (default.state, default.capability) == ("Open", {"nvidia.com/gpu": 32})


def test_kueue_workloads_tell_whose_they_are_and_what_they_ask_for(operators: Snapshot) -> None:
    by_owner = {w.owners[0].name: w for w in operators.queued}

    assert by_owner["detr-a"].is_true("Admitted")
    assert by_owner["detr-a"].cluster_queue == "vision"
    assert not by_owner["detr-b"].is_true("QuotaReserved")
    assert by_owner["detr-b"].gpu_count == 8


def test_native_pod_groups_are_read_in_the_version_that_is_served(tmp_path: Path) -> None:
    with replaying("native-gang") as served:
        snapshot = taken(served, tmp_path)

    assert {(g.system, g.name, g.min_member) for g in snapshot.pod_groups} == {
        ("native", "bert", 2),
        ("native", "vit-huge", 8),
    }
    assert "scheduling.k8s.io/v1alpha2" in {api.api_version for api in snapshot.apis}


def in_1_35(served: Replay) -> None:
    """The recorded cluster as Kubernetes 1.35 shows it: no PodGroup objects, but Workloads that hold the groups."""

    def versions(groups: Any) -> None:
        group = next(one for one in groups["groups"] if one["name"] == "scheduling.k8s.io")
        group["versions"] = [
            {"groupVersion": f"scheduling.k8s.io/{v}", "version": v} for v in ("v1", "v1alpha1")
        ]

    def references(pods: Any) -> None:
        for one in pods["items"]:
            name = (one["spec"].pop("schedulingGroup", None) or {}).get("podGroupName")
            if name:
                one["spec"]["workloadRef"] = {"name": name, "podGroup": "workers"}

    served.edits["/apis"] = versions
    served.edits["/api/v1/pods"] = references
    kinds = {"resources": [{"name": "workloads", "kind": "Workload", "namespaced": True, "verbs": ["list"]}]}
    groups = [
        item({"podGroups": [{"name": "workers", "policy": {"gang": {"minCount": count}}}]}, name=name)
        for name, count in (("bert", 2), ("vit-huge", 8))
    ]
    for one in groups:
        one["metadata"]["namespace"] = "research"
    base = "/apis/scheduling.k8s.io/v1alpha1"
    served.fault(base, Reply(json.dumps(kinds | {"groupVersion": "scheduling.k8s.io/v1alpha1"}).encode()))
    served.fault(f"{base}/workloads", Reply(json.dumps({"metadata": {}, "items": groups}).encode()))


def test_the_groups_in_workloads_of_1_35_are_read_and_their_pods_are_gangs(tmp_path: Path) -> None:
    with replaying("native-gang") as served:
        in_1_35(served)
        snapshot = taken(served, tmp_path)

    assert {(g.system, g.name, g.min_member) for g in snapshot.pod_groups} == {
        ("native", "bert/workers", 2),
        ("native", "vit-huge/workers", 8),
    }
    least = {gang.name.partition("/")[0]: gang.min_available for gang in snapshot.gangs}
    assert least["bert"] == 2
    assert least["vit-huge"] == 8
    assert {gang.gang_scheduler for gang in snapshot.gangs} == {"native"}


def test_the_gang_of_1_35_that_does_not_fit_waits_as_a_whole_and_the_stray_for_its_group(
    tmp_path: Path,
) -> None:
    with replaying("native-gang") as served:
        in_1_35(served)
        target = Target(name="lab", kubeconfig=served.kubeconfig(tmp_path / "config"))
        later = datetime.fromisoformat(
            json.loads((served.folder / "index.json").read_text())["recordedAt"]
        ) + timedelta(minutes=30)
        seen = take_snapshot(target, clock=lambda: later, correct_skew=False).snapshot

    causes = {f.cause for f in diagnose(seen).findings if f.slug == "pending-gpu-pod"}
    assert causes == {"gang-does-not-fit", "pod-group-missing"}


def test_a_group_in_a_workload_has_its_policy_and_owner_and_a_broken_one_is_skipped() -> None:
    ref = {"apiGroup": "batch", "kind": "Job", "name": "train"}
    spec = {"controllerRef": ref, "podGroups": [{"name": "g", "policy": {"basic": {}}}, {"name": "h"}]}
    broken = item({"podGroups": [{"name": "g", "policy": {"gang": {"minCount": -1}}}]}, name="bad")
    [found], skips = read(GangWorkloadWire, GangWorkloadConverter("v"), item(spec), broken)
    assert [(g.name, g.min_member) for g in found.pod_groups] == [("a/g", None), ("a/h", None)]
    assert found.pod_groups[0].owners[0].name == "train"
    assert skips.total == 1


def test_a_cluster_without_these_kinds_is_not_asked_for_them(tmp_path: Path) -> None:
    with replaying("pending") as served:
        snapshot = taken(served, tmp_path)
        asked = {request.path for request in served.asked}

    status = snapshot.source(Source.CUSTOM)
    assert status.state is SourceState.ABSENT
    assert "serves no queues" in status.detail
    assert not [path for path in asked if "kueue" in path or "volcano" in path or "ray.io" in path]


def test_a_kind_that_may_not_be_read_is_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    with replaying("operators") as served:
        served.fault("/apis/kueue.x-k8s.io/v1beta1/workloads", FORBIDDEN)
        snapshot = taken(served, tmp_path)

    status = snapshot.source(Source.CUSTOM)
    assert status.state is SourceState.PARTIAL
    assert "without workloads.kueue.x-k8s.io" in status.detail
    assert 'User "viewer"' in status.detail
    assert snapshot.queues
    assert not snapshot.queued


def test_a_newer_version_of_kueue_is_preferred(tmp_path: Path) -> None:
    group = "/apis/kueue.x-k8s.io"
    with replaying("operators") as served:

        def newer(apis: Any) -> None:
            kueue = next(g for g in apis["groups"] if g["name"] == "kueue.x-k8s.io")
            kueue["versions"].append({"groupVersion": "kueue.x-k8s.io/v1beta2", "version": "v1beta2"})

        served.edits["/apis"] = newer
        resources = {"resources": [{"name": "workloads", "verbs": ["list"]}]}
        served.fault(f"{group}/v1beta2", Reply(json.dumps(resources).encode()))
        listed = {"items": [item({"queueName": "q", "podSets": []})]}
        served.fault(f"{group}/v1beta2/workloads", Reply(json.dumps(listed).encode()))
        snapshot = taken(served, tmp_path)

    assert {w.api_version for w in snapshot.queued} == {"kueue.x-k8s.io/v1beta2"}
    assert {q.api_version for q in snapshot.queues if q.system == "kueue"} == {"kueue.x-k8s.io/v1beta1"}


def test_malformed_objects_are_skipped_and_counted() -> None:
    good = item({"queueName": "q", "podSets": [{"count": 2}]})
    found, skips = read(
        QueuedWorkloadWire,
        QueuedWorkloadConverter("kueue.x-k8s.io/v1beta1"),
        good,
        item({"podSets": [{"count": "many"}]}),
        item({"podSets": [{"count": -1}]}),
        {"metadata": {"name": "b"}},
        5,
    )
    assert [w.queue for w in found] == ["q"]
    assert skips.total == 4


@pytest.mark.parametrize("spec", [None, [], 7, "x", {"suspend": "yes"}])
def test_a_job_whose_spec_makes_no_sense_is_skipped(spec: Any) -> None:
    found, skips = read(
        CustomWorkloadWire, CustomWorkloadConverter("PyTorchJob", "kubeflow.org/v1"), item(spec)
    )
    assert (found, skips.total) == ([], 1)


def test_secrets_in_a_custom_spec_are_masked() -> None:
    box = {
        "name": "pytorch",
        "env": [{"name": "WANDB_API_KEY", "value": "0123456789abcdef0123"}],
        "args": ["--token=hf_abcdefghijklmnop"],
        "resources": {"limits": {"nvidia.com/gpu": 1}},
    }
    spec = {"pytorchReplicaSpecs": {"Worker": {"template": {"spec": {"containers": [box]}}}}}
    [job], _ = read(CustomWorkloadWire, CustomWorkloadConverter("PyTorchJob", "kubeflow.org/v1"), item(spec))
    text = json.dumps(job.spec)
    assert MASKED in text
    assert "0123456789abcdef" not in text
    assert "hf_abc" not in text


def test_a_limit_alone_counts_as_a_request_and_topology_requests_are_seen() -> None:
    template = {
        "metadata": {"annotations": {"kueue.x-k8s.io/podset-required-topology": "kubernetes.io/hostname"}},
        "spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 8}}}]},
    }
    spec = {"podSets": [{"name": "w", "count": 2, "template": template}]}
    [workload], _ = read(QueuedWorkloadWire, QueuedWorkloadConverter("v"), item(spec))
    assert (workload.gpu_count, workload.pod_sets[0].topology) == (16, "required")
    assert workload.requests == {"nvidia.com/gpu": 16}


def test_quota_of_several_flavours_adds_up_and_missing_numbers_stay_missing() -> None:
    def flavor(name: str, **quota: Any) -> dict[str, Any]:
        return {"name": name, "resources": [{"name": "nvidia.com/gpu", **quota}]}

    spec = {
        "cohortName": "all",
        "resourceGroups": [{"flavors": [flavor("a", nominalQuota=8), flavor("b", nominalQuota="4")]}],
        "stopPolicy": "Hold",
    }
    [queue], _ = read(KueueQueueWire, KueueQueueConverter("ClusterQueue", "v"), item(spec))
    assert queue.nominal == {"nvidia.com/gpu": 12}
    assert (queue.parent, queue.state, queue.used, queue.pending) == ("all", "Hold", {}, None)


@pytest.mark.parametrize(
    ("spec", "least"),
    [
        ({"minMember": 4}, 4),
        ({"schedulingPolicy": {"gang": {"minCount": 3}}}, 3),
        ({"schedulingPolicy": {"basic": {}}}, None),
        ({}, None),
    ],
)
def test_pod_groups_say_how_many_start_together(spec: Any, least: int | None) -> None:
    [group], _ = read(PodGroupWire, PodGroupConverter("native", "v"), item(spec))
    assert group.min_member == least
