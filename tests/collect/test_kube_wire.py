"""Objects of the wire become the snapshot's objects: nothing lost, nothing guessed, nothing secret."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnostics.collect.wire.events import EventConverter, EventWire
from diagnostics.collect.wire.listing import ItemReader, Page, Skips, opened
from diagnostics.collect.wire.nodes import NodeConverter, NodeWire, ServiceConverter, ServiceWire
from diagnostics.collect.wire.pods import PodConverter, PodWire
from diagnostics.collect.wire.workloads import WorkloadConverter, WorkloadWire
from diagnostics.masking import MASKED
from diagnostics.snapshot import Event, Node, OwnerKey, Pod, Service, Workload
from tests.fakes.replay import RECORDINGS

METADATA = {"name": "a", "namespace": "ns"}


def read[T](wire: type[Any], convert: Callable[[Any], T], *items: Any) -> tuple[list[T], Skips]:
    skips = Skips()
    page = opened(json.dumps({"items": items}).encode(), "/list")
    return ItemReader(wire, convert).read(page, skips), skips


def pod(spec: Any = None, status: Any = None, **metadata: Any) -> Pod:
    item = {
        "metadata": METADATA | metadata,
        "spec": {"containers": []} | (spec or {}),
        "status": status or {},
    }
    [found], skips = read(PodWire, PodConverter(), item)
    assert skips.total == 0
    return found


def node(**status: Any) -> Node:
    [found], _ = read(NodeWire, NodeConverter(), {"metadata": {"name": "n"}, "spec": {}, "status": status})
    return found


def workload(kind: str, spec: Any, status: Any = None, **metadata: Any) -> Workload:
    item = {"metadata": METADATA | metadata, "spec": spec, "status": status or {}}
    [found], _ = read(WorkloadWire, WorkloadConverter(kind, "apps/v1"), item)
    return found


def event(**fields: Any) -> Event:
    item = {"metadata": METADATA, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "ns"}} | fields
    [found], _ = read(EventWire, EventConverter(), item)
    return found


@cache
def recorded(scenario: str) -> dict[str, Pod]:
    body = (RECORDINGS / scenario / "api_v1_pods.json").read_bytes()
    pods = ItemReader(PodWire, PodConverter()).read(opened(body, "/pods"), Skips())
    return {one.name: one for one in pods}


class TestPods:
    def test_joins_spec_and_status_of_a_restarting_container(self) -> None:
        whisper = next(one for name, one in recorded("oom-inference").items() if name.startswith("whisper"))
        [container] = whisper.containers
        assert container.state == "waiting"
        assert container.waiting_reason == "CrashLoopBackOff"
        assert container.last_terminated is not None
        assert container.last_terminated.reason == "OOMKilled"
        assert container.last_terminated.exit_code == 137
        assert container.restarts > 0
        assert not container.is_ready
        assert container.limits["memory"] > 2**30

    def test_reads_who_holds_which_devices(self) -> None:
        devices = [device for one in recorded("gpu-operator").values() for device in one.devices]
        assert {device.resource for device in devices} == {"nvidia.com/gpu"}
        assert [device.health for device in devices].count("Unhealthy") == 1

    def test_reads_phase_reason_and_deletion(self) -> None:
        zombies = recorded("zombies")
        assert zombies["notebook-kim"].deletion_at is not None
        assert zombies["notebook-kim"].deletion_grace_s is not None
        assert {one.phase for one in zombies.values()} >= {"Unknown", "Failed", "Succeeded", "Pending"}
        assert zombies["pressed"].reason == "Evicted"
        assert zombies["eval-old"].finalizers

    def test_reads_why_a_pod_waits(self) -> None:
        waiting = [one for one in recorded("pending").values() if one.phase == "Pending"]
        messages = [c.message for one in waiting for c in one.conditions if c.type == "PodScheduled"]
        assert any("Insufficient nvidia.com/gpu" in message for message in messages)
        assert any(one.scheduling_gates for one in waiting)
        assert any(one.node_selector for one in waiting)
        assert any(one.affinity for one in waiting)

    def test_counts_init_containers_first_and_knows_sidecars(self) -> None:
        found = pod(
            {
                "initContainers": [{"name": "wait"}, {"name": "proxy", "restartPolicy": "Always"}],
                "containers": [{"name": "main", "restartPolicy": "Always"}],
            }
        )
        assert [(one.name, one.is_init, one.is_sidecar) for one in found.containers] == [
            ("wait", True, False),
            ("proxy", True, True),
            ("main", False, False),
        ]

    def test_puts_the_controller_first_among_owners(self) -> None:
        owners = [
            {"kind": "ConfigMap", "name": "x", "apiVersion": "v1", "uid": "1"},
            {"kind": "Job", "name": "j", "apiVersion": "batch/v1", "uid": "2", "controller": True},
        ]
        assert pod(ownerReferences=owners).owners[0] == OwnerKey("Job", "ns", "j", "batch/v1", "2")

    def test_leaves_unknown_things_unknown(self) -> None:
        found = pod({"containers": [{"name": "main"}]})
        assert found.node is None
        assert found.started_at is None
        assert found.phase == ""
        assert found.containers[0].state == ""
        assert found.containers[0].terminated is None

    def test_takes_nulls_for_absent(self) -> None:
        found = pod(
            {"nodeName": None, "tolerations": None, "volumes": None, "priority": None},
            {"conditions": None, "containerStatuses": None, "startTime": None},
            labels=None,
            annotations=None,
            ownerReferences=None,
        )
        assert found == pod()

    def test_reads_volumes_by_the_kind_of_their_source(self) -> None:
        found = pod(
            {
                "volumes": [
                    {"name": "data", "persistentVolumeClaim": {"claimName": "imagenet"}},
                    {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}},
                    {"name": "tmp", "emptyDir": {}},
                    {"name": "key", "secret": {"secretName": "hf"}},
                ]
            }
        )
        assert [(one.kind, one.claim, one.medium, one.size_limit_bytes) for one in found.volumes] == [
            ("persistentVolumeClaim", "imagenet", "", None),
            ("emptyDir", "", "Memory", 8 * 2**30),
            ("emptyDir", "", "", None),
            ("secret", "", "", None),
        ]

    def test_names_the_claims_that_were_made_from_a_template(self) -> None:
        claims = [
            {"name": "gpu", "resourceClaimTemplateName": "t"},
            {"name": "nic", "resourceClaimName": "shared"},
        ]
        made = [{"name": "gpu", "resourceClaimName": "a-gpu-x7f2"}]
        found = pod({"resourceClaims": claims}, {"resourceClaimStatuses": made})
        assert found.resource_claims == ("a-gpu-x7f2", "shared")

    def test_reads_the_native_pod_group_of_either_form(self) -> None:
        assert pod({"schedulingGroup": {"podGroupName": "bert"}}).pod_group == "bert"
        assert pod({"workloadRef": {"name": "w", "podGroup": "g"}}).pod_group == "w/g"

    def test_masks_values_and_keeps_names(self) -> None:
        env = [
            {"name": "HF_TOKEN", "value": "hf_abcdefghijklm"},
            {"name": "NCCL_DEBUG", "value": "INFO"},
            {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "EMPTY"},
        ]
        found = pod(
            {"containers": [{"name": "main", "env": env, "args": ["--api-key", "abcdef", "--port=80"]}]},
            {
                "containerStatuses": [
                    {"name": "main", "state": {"waiting": {"message": "token=abcdefgh1 bad"}}}
                ]
            },
            annotations={
                "note": "password: hunter22",
                "kubectl.kubernetes.io/last-applied-configuration": "{}",
            },
        )
        [container] = found.containers
        assert container.env == {
            "HF_TOKEN": MASKED,
            "NCCL_DEBUG": "INFO",
            "SECRET": "from secret hf",
            "IP": "from field status.podIP",
            "EMPTY": "",
        }
        assert container.args == ("--api-key", MASKED, "--port=80")
        assert container.waiting_message == f"token={MASKED} bad"
        assert found.annotations == {"note": f"password: {MASKED}"}

    def test_cuts_a_long_annotation_and_a_long_message(self) -> None:
        found = pod(None, {"message": "x" * 100_000}, annotations={"big": "y" * 100_000})
        assert len(found.annotations["big"]) == 1024
        assert len(found.message) == 4096

    def test_leaves_out_an_amount_that_is_no_quantity(self) -> None:
        amounts = {"requests": {"cpu": "500m", "memory": "lots", "nvidia.com/gpu": 2}}
        found = pod({"containers": [{"name": "main", "resources": amounts}]})
        assert found.containers[0].requests == {"cpu": 0.5, "nvidia.com/gpu": 2.0}


class TestNodes:
    def test_reads_capacity_taints_and_conditions(self) -> None:
        body = (RECORDINGS / "gpu-operator" / "api_v1_nodes.json").read_bytes()
        nodes = ItemReader(NodeWire, NodeConverter()).read(opened(body, "/nodes"), Skips())
        by_name = {one.name: one for one in nodes}
        assert by_name["dgx-04"].capacity["nvidia.com/gpu"] == 8
        assert by_name["dgx-04"].allocatable["nvidia.com/gpu"] == 7
        assert by_name["dgx-01"].is_ready is True
        assert by_name["dgx-01"].kernel
        assert by_name["dgx-01"].boot_id
        assert by_name["dgx-01"].driver_version

    def test_says_nothing_of_a_node_without_conditions(self) -> None:
        assert node().is_ready is None

    def test_reads_when_a_taint_was_added(self) -> None:
        taints = [{"key": "k", "effect": "NoExecute", "timeAdded": "2026-11-30T09:00:00Z"}]
        item = {"metadata": {"name": "n"}, "spec": {"taints": taints, "unschedulable": True}, "status": {}}
        [found], _ = read(NodeWire, NodeConverter(), item)
        assert found.unschedulable
        assert found.taints[0].added_at == datetime(2026, 11, 30, 9, tzinfo=UTC)


class TestWorkloads:
    template = {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}

    def test_keeps_the_masked_spec_of_gpu_workloads_only(self) -> None:
        container = self.template["spec"]["containers"][0] | {"env": [{"name": "T", "value": "abc123"}]}
        found = workload("Deployment", {"replicas": 2, "template": {"spec": {"containers": [container]}}})
        assert found.spec["replicas"] == 2
        assert found.spec["template"]["spec"]["containers"][0]["env"] == [{"name": "T", "value": MASKED}]
        assert workload("Deployment", {"replicas": 2, "template": {"spec": {"containers": [{}]}}}).spec == {}

    def test_finds_gpus_in_an_init_container_and_in_a_cron_job(self) -> None:
        init = {"spec": {"containers": [], "initContainers": self.template["spec"]["containers"]}}
        assert workload("StatefulSet", {"template": init}).spec
        assert workload("CronJob", {"jobTemplate": {"spec": {"template": self.template}}}).spec

    def test_drops_the_spec_of_old_revisions(self) -> None:
        owner = [{"kind": "Deployment", "name": "d", "controller": True}]
        assert not workload(
            "ReplicaSet", {"replicas": 0, "template": self.template}, ownerReferences=owner
        ).spec
        assert workload("ReplicaSet", {"replicas": 1, "template": self.template}, ownerReferences=owner).spec

    @pytest.mark.parametrize(
        ("kind", "spec", "status", "wanted", "ready"),
        [
            ("Deployment", {"replicas": 3}, {"readyReplicas": 2}, 3, 2),
            ("Deployment", {"replicas": 3}, {}, 3, 0),
            ("StatefulSet", {}, {}, None, 0),
            ("DaemonSet", {}, {"desiredNumberScheduled": 9, "numberReady": 7}, 9, 7),
            ("DaemonSet", {}, {}, None, None),
            ("Job", {"parallelism": 8, "completions": 8}, {"ready": 5}, 8, 5),
            ("Job", {"parallelism": 8}, {}, 8, None),
            ("CronJob", {"suspend": True}, {}, None, None),
        ],
    )
    def test_counts_what_each_kind_wants_and_has(
        self, kind: str, spec: Any, status: Any, wanted: int | None, ready: int | None
    ) -> None:
        found = workload(kind, spec, status)
        assert (found.replicas, found.ready) == (wanted, ready)
        assert found.is_suspended == (kind == "CronJob")

    def test_knows_an_indexed_job(self) -> None:
        body = (RECORDINGS / "partial-gang" / "apis_batch_v1_jobs.json").read_bytes()
        reader = ItemReader(WorkloadWire, WorkloadConverter("Job", "batch/v1"))
        jobs = {one.name: one for one in reader.read(opened(body, "/jobs"), Skips())}
        assert jobs["vit-huge"].is_indexed
        assert jobs["vit-huge"].completions == 8
        assert jobs["vit-huge"].spec["parallelism"] == 8
        assert "managedFields" not in json.dumps(jobs["vit-huge"].spec)


class TestEvents:
    def test_reads_a_schedulers_event(self) -> None:
        found = event(
            eventTime="2026-11-30T09:00:00.123456Z",
            firstTimestamp=None,
            lastTimestamp=None,
            count=None,
            source={},
            series={"count": 4, "lastObservedTime": "2026-11-30T09:20:00.000001Z"},
            reportingComponent="default-scheduler",
            message="0/4 nodes are available",
        )
        assert found.first_at == datetime(2026, 11, 30, 9, 0, 0, 123456, UTC)
        assert found.last_at == datetime(2026, 11, 30, 9, 20, 0, 1, UTC)
        assert (found.count, found.component) == (4, "default-scheduler")

    def test_reads_a_kubelets_event(self) -> None:
        found = event(
            firstTimestamp="2026-11-30T08:00:00Z",
            lastTimestamp="2026-11-30T09:00:00Z",
            count=12,
            source={"component": "kubelet", "host": "dgx-01"},
        )
        assert found.first_at == datetime(2026, 11, 30, 8, tzinfo=UTC)
        assert found.last_at == datetime(2026, 11, 30, 9, tzinfo=UTC)
        assert (found.count, found.component, found.host) == (12, "kubelet", "dgx-01")

    def test_has_no_time_where_none_is_set(self) -> None:
        assert event().last_at is None

    def test_an_event_about_nothing_is_skipped(self) -> None:
        item = {"metadata": METADATA, "involvedObject": {}}
        found, skips = read(EventWire, EventConverter(), item)
        assert found == []
        assert skips.found()[0].reason == "the event does not say what it is about"

    def test_masks_the_message(self) -> None:
        assert "hunter22" not in event(message="pull https://bob:hunter22@registry failed").message


def test_reads_a_headless_service() -> None:
    item = {
        "metadata": METADATA,
        "spec": {"clusterIP": "None", "ports": [{"port": 29500}], "publishNotReadyAddresses": True},
    }
    [found], _ = read(ServiceWire, ServiceConverter(), item)
    assert found == Service(
        namespace="ns", name="a", cluster_ip="None", ports=(("", 29500),), publish_not_ready_addresses=True
    )


def broken_copies(value: Any, wrong: Any) -> Iterator[Any]:
    """`value` with each part of it in turn replaced by something of another type."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield value | {key: wrong}
            for broken in broken_copies(item, wrong):
                yield value | {key: broken}
    elif isinstance(value, list):
        for index, item in enumerate(value):
            for broken in (wrong, *broken_copies(item, wrong)):
                yield [*value[:index], broken, *value[index + 1 :]]


@pytest.mark.parametrize("wrong", [None, 5, "word", [], {}, [5], {"name": {}}, True, 1e300])
def test_no_wrong_type_anywhere_in_a_pod_costs_more_than_that_pod(wrong: Any) -> None:
    items = json.loads((RECORDINGS / "oom-inference" / "api_v1_pods.json").read_text())["items"]
    first = items[0]
    del first["metadata"]["managedFields"]
    copies = list(broken_copies(first, wrong))
    found, skips = read(PodWire, PodConverter(), items[1], *copies, items[2])
    assert found[0].name == items[1]["metadata"]["name"]
    assert found[-1].name == items[2]["metadata"]["name"]
    assert len(found) + skips.total == len(copies) + 2
    msgspec.msgpack.encode(found)


@given(st.binary(max_size=300))
def test_no_bytes_make_a_page_raise_anything_but_a_refusal(junk: bytes) -> None:
    from diagnostics.collect.refusal import Refused

    for body in (junk, b'{"items":' + junk + b"}", b'{"items":[' + junk + b"]}"):
        try:
            page: Page = opened(body, "/list")
            ItemReader(PodWire, PodConverter()).read(page, Skips())
        except Refused as refused:
            assert refused.detail  # noqa: PT017 -- either outcome is fine, silence is not
