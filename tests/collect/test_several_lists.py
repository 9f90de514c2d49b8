"""Volumes and policies: what is kept of recorded answers, and what a refusal of one list leaves."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from diagnostics.collect import several_lists
from diagnostics.collect.kube_api import read_cluster
from diagnostics.collect.kube_client import connect
from diagnostics.collect.readings import ClusterObjects
from diagnostics.collect.refusal import Refused
from diagnostics.collect.several_lists import Lists, policy_of, policy_readers, storage_of, storage_readers
from diagnostics.collect.target import Target
from diagnostics.collect.wire.listing import Skips, opened
from diagnostics.snapshot import Pod, ServedApi, Source, SourceState, SourceStatus
from diagnostics.snapshot.policy import LimitRangeItem, ResourceQuota
from diagnostics.snapshot.storage import PersistentVolume, VolumeClaim
from tests.builders import pod
from tests.fakes.replay import Replay
from tests.fakes.web import Reply

Serve = Callable[[str], Replay]
MakeTarget = Callable[..., Target]
API = ServedApi("", "v1", "any", "Any")


def read(target: Target) -> ClusterObjects:
    with connect(target) as connection:
        return read_cluster(connection, target)


def status(objects: ClusterObjects, source: Source) -> SourceStatus:
    return next(one for one in objects.statuses if one.name is source)


def decoded(resource: str, *items: dict[str, Any]) -> list[Any]:
    """Objects of one kind as they come from the wire."""
    reader = (storage_readers() | policy_readers())[resource](API)
    return reader.read(opened(json.dumps({"items": items}).encode(), "/list"), Skips())


def meta(name: str = "one", namespace: str = "research", **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace, **more}}


def test_reads_claims_volumes_and_classes_of_a_recorded_cluster(replay: Serve, target: MakeTarget) -> None:
    storage = read(target(replay("pending"), page_size=2)).storage
    assert storage.claims is not None
    assert storage.classes is not None
    assert storage.claim_by_key["lab/dataset-zone-b"].volume == "dataset-zone-b"
    wffc = storage.claim_by_key["lab/wffc-csi"]
    assert (wffc.phase, wffc.storage_class, wffc.selected_node) == ("Pending", "csi-wffc", "t4-01")
    assert wffc.provisioner == "disk.csi.example.com"
    assert wffc.requested_bytes == 100 * 2**30
    assert storage.class_by_name["local-nvme"].is_static
    assert storage.class_by_name["csi-wffc"].binding_mode == "WaitForFirstConsumer"
    (term,) = storage.volume_by_name["dataset-zone-b"].node_terms
    assert term["matchExpressions"][0]["key"] == "topology.kubernetes.io/zone"


def test_reads_quotas_classes_and_budgets_of_recorded_clusters(replay: Serve, target: MakeTarget) -> None:
    pending = read(target(replay("pending"))).policy
    hard = {"pods": 20.0, "requests.nvidia.com/gpu": 4.0}
    used = hard | {"pods": 4.0}
    assert pending.quotas == (ResourceQuota(namespace="quota-team", name="gpus", hard=hard, used=used),)
    assert {one.name: one.value for one in pending.priority_classes or ()}["batch-low"] == -10
    (budget,) = read(target(replay("healthy"))).policy.budgets or ()
    assert (budget.allowed, budget.healthy, budget.wanted) == (2, 6, 4)
    assert budget.selector == {"matchLabels": {"app": "llama-8b"}}
    (runtime,) = read(target(replay("gpu-operator"))).policy.runtime_classes or ()
    assert (runtime.name, runtime.handler) == ("nvidia", "nvidia")


def test_a_list_that_is_forbidden_is_unknown_and_named(replay: Serve, target: MakeTarget) -> None:
    objects = read(target(replay("healthy/as-viewer")))
    assert objects.storage.claims is not None
    assert objects.storage.volumes is None
    assert objects.storage.classes is None
    assert objects.policy.quotas == ()
    assert objects.policy.runtime_classes is None
    storage, policy = status(objects, Source.STORAGE), status(objects, Source.POLICY)
    assert storage.state is policy.state is SourceState.PARTIAL
    assert storage.detail.startswith("without persistentvolumes and storageclasses: ")
    assert "is forbidden" in storage.detail
    assert "runtimeclasses" in policy.detail


def test_a_list_that_fails_leaves_the_others(replay: Serve, target: MakeTarget) -> None:
    served = replay("pending")
    served.fault("/api/v1/persistentvolumeclaims", Reply(b"oops", 500))
    objects = read(target(served))
    assert objects.storage.claims is None
    assert objects.storage.classes
    assert objects.policy.quotas


def test_an_api_that_is_not_served_is_named(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    served.edits["/apis"] = lambda answer: answer.update(
        groups=[group for group in answer["groups"] if group["name"] != "node.k8s.io"]
    )
    objects = read(target(served))
    assert objects.policy.runtime_classes is None
    assert "serves no runtimeclasses" in status(objects, Source.POLICY).detail


def test_keeps_what_is_near_gpu_pods_alone() -> None:
    claims = [VolumeClaim(namespace=n, name="data") for n in ("research", "web")]
    volumes = [PersistentVolume(name=n, claim=f"{n}/data") for n in ("research", "web")]
    lists: Lists = {"persistentvolumeclaims": claims, "persistentvolumes": volumes, "storageclasses": None}
    pods: list[Pod] = [pod(), pod("web", "web", gpus=0)]
    found = storage_of(lists, pods)
    assert found.claims == (claims[0],)
    assert found.volumes == (volumes[0],)
    assert found.classes is None


def test_unclaimed_volumes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(several_lists, "MOST_UNCLAIMED", 3)
    volumes = [PersistentVolume(name=f"free-{i}") for i in range(9)]
    lists: Lists = dict.fromkeys(storage_readers(), None) | {"persistentvolumes": volumes}
    assert len(storage_of(lists, [pod()]).volumes or ()) == 3


def test_traffic_rules_are_kept_near_gpu_pods() -> None:
    item = {"spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "ingress": [{}]}}
    found = decoded("networkpolicies", meta() | item, meta(namespace="web") | item)
    lists: Lists = dict.fromkeys(policy_readers(), None) | {"networkpolicies": found}
    (kept,) = policy_of(lists, [pod()]).network_policies or ()
    assert (kept.namespace, kept.types) == ("research", ("Ingress", "Egress"))
    assert (kept.ingress, kept.egress) == (({},), ())


def test_a_policy_without_types_is_about_ingress() -> None:
    (found,) = decoded("networkpolicies", meta() | {"spec": {"podSelector": {}}})
    assert (found.types, found.ingress, found.egress) == (("Ingress",), (), None)


def test_endpoints_are_told_by_pod_and_readiness() -> None:
    ends = [
        {"targetRef": {"kind": "Pod", "name": "a"}, "conditions": {"ready": True}},
        {"targetRef": {"kind": "Pod", "name": "b"}, "conditions": {"ready": False}},
        {"targetRef": {"kind": "Pod", "name": "c"}, "conditions": {}},
        {"addresses": ["10.0.0.1"]},
    ]
    labels = {"kubernetes.io/service-name": "ddp"}
    (found,) = decoded(
        "endpointslices",
        meta(labels=labels) | {"endpoints": ends, "ports": [{"name": "rdzv", "port": 29500}]},
    )
    assert (found.service, found.ready, found.not_ready) == ("ddp", ("a", "c"), ("b",))
    assert found.ports == (("rdzv", 29500),)


def test_limit_ranges_are_in_base_units() -> None:
    limit = {"type": "Container", "max": {"memory": "1Gi"}, "maxLimitRequestRatio": {"cpu": "4"}}
    (found,) = decoded("limitranges", meta() | {"spec": {"limits": [limit]}})
    expected = LimitRangeItem(type="Container", max={"memory": 2.0**30}, max_ratio={"cpu": 4.0})
    assert found.items == (expected,)


def test_a_claim_of_an_old_annotation_names_its_class() -> None:
    noted = {"volume.beta.kubernetes.io/storage-class": "gold"}
    (found,) = decoded("persistentvolumeclaims", meta(annotations=noted) | {"spec": {}})
    assert (found.storage_class, found.phase) == ("gold", "")
    (default,) = decoded("persistentvolumeclaims", meta() | {"spec": {}, "status": {"phase": "Pending"}})
    assert default.storage_class is None
    (none,) = decoded("persistentvolumeclaims", meta() | {"spec": {"storageClassName": ""}})
    assert none.storage_class == ""


@pytest.mark.parametrize("resource", [*storage_readers(), *policy_readers()])
def test_a_malformed_object_is_skipped_and_its_neighbour_read(resource: str) -> None:
    good = meta("good") | {"spec": {}, "status": {}}
    assert [one.name for one in decoded(resource, {"metadata": {"name": 7}, "spec": 1}, good)] == ["good"]
    with pytest.raises(Refused):
        opened(b"not json", "/list")
