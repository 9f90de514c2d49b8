"""GPU303 for device claims: each reason why a claim is not allocated, and what looks like one."""

from typing import Any

import pytest
import yaml

from diagnostics.findings import Confidence, Finding
from diagnostics.rules import diagnose
from diagnostics.snapshot import ServedApi, Snapshot, Source, SourceState, SourceStatus, Taint, Toleration
from diagnostics.snapshot.resource_claims import Alike, Demand, DeviceClass, DeviceRequest
from tests.builders import GIB, ago, event, node, pending_pod, snapshot, statuses
from tests.claims import (
    CANNOT,
    DRIVER,
    GPU_CLASS,
    claim,
    claimant,
    dra,
    dra_node,
    gpu_device,
    slice_of,
    template,
    waiting,
    wants,
    whole_gpus,
)

MEMORY = f"device.capacity['{DRIVER}'].memory.compareTo(quantity('100Gi')) >= 0"
XID = (Taint("gpu.nvidia.com/xid", "NoExecute", "79"),)
V1 = ServedApi("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim")


def pending(shot: Snapshot) -> list[Finding]:
    diagnosis = diagnose(shot)
    assert not diagnosis.failed
    return [finding for finding in diagnosis.findings if finding.code == "GPU303"]


def found(*parts: Any, given: Any = None, **fields: Any) -> Finding:
    fields = {"dra": given if given is not None else dra(whole_gpus()), "apis": (V1,)} | fields
    [finding] = pending(snapshot(*parts, **fields))
    return finding


def facts(finding: Finding) -> str:
    return "\n".join(f"{fact.label}: {fact.value}" for fact in finding.evidence)


def manifests(finding: Finding) -> list[Any]:
    return [yaml.safe_load(step.manifest) for step in finding.fix.steps if step.manifest]


def asks(demand: Demand, **fields: Any) -> tuple[Any, Any]:
    """A waiting pod and its claim."""
    return waiting(claimed_gpus={"nvidia.com/gpu": 1.0}, **fields), claim("gpus", demand=demand)


def test_a_claim_that_is_not_there() -> None:
    finding = found(dra_node(), waiting("wait-0", "shared", message="", conditions=()))
    assert finding.cause == "claim-missing"
    assert finding.title.startswith("Not a GPU shortage")
    assert "shared" in finding.title
    assert manifests(finding)[0]["kind"] == "ResourceClaim"
    assert finding.confidence is Confidence.MEDIUM


def test_a_template_that_is_not_there() -> None:
    wait = waiting("wait-0", "g", conditions=(), claim_templates={"g": "one-gpu"})
    finding = found(dra_node(), wait)
    assert finding.cause == "claim-template-missing"
    [written] = manifests(finding)
    assert (written["apiVersion"], written["kind"]) == ("resource.k8s.io/v1", "ResourceClaimTemplate")
    assert written["metadata"] == {"name": "one-gpu", "namespace": "research"}
    assert written["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1


def test_a_claim_that_nobody_makes_from_its_template() -> None:
    wait = waiting("wait-0", "g", conditions=(), claim_templates={"g": "one-gpu"})
    assert found(dra_node(), wait, given=dra(whole_gpus(), template())).cause == "claim-not-made"


def test_a_class_that_is_not_there() -> None:
    wait, mine = asks(wants(device_class="gpu.amd.com"))
    finding = found(dra_node(), wait, given=dra(whole_gpus(), mine))
    assert finding.cause == "device-class-missing"
    assert "gpu.amd.com" in finding.title
    assert "gpu.nvidia.com" in facts(finding)


def test_a_class_of_one_alternative_may_be_missing() -> None:
    subs = (DeviceRequest(name="a", device_class="gpu.amd.com"), DeviceRequest(name="b", device_class=DRIVER))
    wait, mine = asks(Demand(requests=(DeviceRequest(name="gpu", alternatives=subs),)))
    assert found(dra_node(), wait, given=dra(whole_gpus(), mine)).cause == "fits-now"


def test_more_devices_than_any_node_has() -> None:
    wait, mine = asks(wants(16))
    finding = found(dra_node(), wait, given=dra(whole_gpus(), mine))
    assert finding.cause == "larger-than-any-node"
    assert "asks for 16 devices, and no matching node has more than 8" in finding.title
    assert all("16" not in str(one["spec"]) for one in manifests(finding))


def test_a_selector_that_picks_nothing() -> None:
    other = f"device.attributes['{DRIVER}'].productName == 'NVIDIA H200'"
    wait, mine = asks(wants(selectors=(other,)))
    finding = found(dra_node(), wait, given=dra(whole_gpus(), mine))
    assert finding.cause == "claim-selector-matches-no-device"
    assert "productName of these: NVIDIA H100 80GB HBM3" in facts(finding)
    assert finding.title.startswith("Not a GPU shortage")


@pytest.mark.parametrize(
    "selector",
    [
        MEMORY,
        f"device.attributes['{DRIVER}'].productName.startsWith('NVIDIA') && {MEMORY}",
        f"device.capacity['{DRIVER}'].memory.isGreaterThan(quantity('90Gi'))",
    ],
)
def test_more_memory_than_any_device_has(selector: str) -> None:
    wait, mine = asks(wants(selectors=(selector,)))
    finding = found(dra_node(), wait, given=dra(whole_gpus(), mine))
    assert finding.cause == "device-memory-too-small"
    assert "the largest has 80 GiB" in finding.title


def test_a_device_that_is_free_and_tainted() -> None:
    wait, mine = asks(wants(2))
    devices = slice_of(gpu_device(0), gpu_device(1, taints=XID))
    finding = found(dra_node(gpus=2), wait, given=dra(devices, mine))
    assert finding.cause == "device-tainted"
    assert "gpu-1/gpu-1 gpu.nvidia.com/xid=79:NoExecute" in facts(finding)


def test_a_taint_that_the_request_tolerates_is_none() -> None:
    wait, mine = asks(wants(1, tolerations=(Toleration(operator="Exists"),)))
    assert (
        found(dra_node(gpus=1), wait, given=dra(slice_of(gpu_device(0, taints=XID)), mine)).cause
        == "fits-now"
    )


def test_a_driver_that_publishes_nothing() -> None:
    wait, mine = asks(wants())
    finding = found(dra_node(), wait, given=dra(mine))
    assert finding.cause == "dra-driver-missing"
    assert DRIVER in finding.title


def test_another_vendors_devices_do_not_hide_that_the_driver_is_missing() -> None:
    wait, mine = asks(wants())
    cards = slice_of(gpu_device(0), driver="dra.net")
    assert found(dra_node(), wait, given=dra(cards, mine)).cause == "dra-driver-missing"


def test_devices_that_are_all_held() -> None:
    wait, mine = asks(wants(1))
    held = claim("theirs", "gpu-0", "gpu-1", pods=("research/train-0",))
    finding = found(
        dra_node(gpus=2), wait, claimant("train-0", "theirs"), given=dra(whole_gpus(2), mine, held)
    )
    assert finding.cause == "no-capacity"
    assert "free of such devices: 0 (gpu-1 0 of 2)" in facts(finding)


def test_admin_access_of_others_holds_nothing() -> None:
    wait, mine = asks(wants(1))
    watch = claim("watch", "gpu-0", is_admin=True, pods=("research/dcgm",))
    assert found(dra_node(gpus=1), wait, given=dra(whole_gpus(1), mine, watch)).cause == "fits-now"


def test_free_devices_in_pieces() -> None:
    wait, mine = asks(wants(2), nodes=2)
    given = dra(
        whole_gpus(2, "gpu-1"),
        whole_gpus(2, "gpu-2"),
        claim("a", "gpu-0", home="gpu-1", pods=("research/a",)),
        claim("b", "gpu-0", home="gpu-2", pods=("research/b",)),
        mine,
    )
    assert found(dra_node("gpu-1", 2), dra_node("gpu-2", 2), wait, given=given).cause == "fragmented"


def test_devices_that_must_be_alike() -> None:
    numa = [gpu_device(i, attributes={f"{DRIVER}/numaNode": i // 2}) for i in range(4)]
    demand = Demand(
        requests=(DeviceRequest(name="gpu", device_class=DRIVER, count=3),),
        alike=(Alike(f"{DRIVER}/numaNode"),),
    )
    wait, mine = asks(demand)
    finding = found(dra_node(gpus=4), wait, given=dra(slice_of(*numa), mine))
    assert finding.cause == "larger-than-any-node"
    assert "constraints" in finding.title


def test_an_extended_resource_that_a_class_serves() -> None:
    serving = DeviceClass(name=DRIVER, selectors=GPU_CLASS.selectors, extended_resource="nvidia.com/gpu")
    given = dra(whole_gpus(), classes=(serving,))
    message = CANNOT.format(n=1)
    finding = found(dra_node(), pending_pod(gpus=16, message=message), given=given)
    assert finding.cause == "larger-than-any-node"
    assert finding.gpus == 16
    # Where a device plugin offers the resource, claims have no part in it.
    [other] = pending(snapshot(node(), pending_pod(gpus=16), dra=given))
    assert "status.capacity" in " ".join(fact.source for fact in other.evidence)


def test_a_node_that_lacks_the_memory() -> None:
    wait, mine = asks(wants(1))
    poor = dra_node(allocatable={"memory": 1.0 * GIB})
    assert found(poor, wait, given=dra(whole_gpus(), mine)).cause == "cpu-or-memory-stranded"


def test_a_node_whose_taint_keeps_the_pod_off() -> None:
    wait, mine = asks(wants(1))
    closed = dra_node(taints=(Taint("dedicated", "NoSchedule", "robots"),))
    assert found(closed, wait, given=dra(whole_gpus(), mine)).cause == "untolerated-taint"


def test_a_selector_that_cannot_be_evaluated_here_leaves_it_open() -> None:
    wait, mine = asks(wants(selectors=("cel.bind(a, 1, a == 2)",)))
    finding = found(dra_node(), wait, given=dra(whole_gpus(), mine))
    assert (finding.cause, finding.confidence) == ("claim-not-allocatable", Confidence.MEDIUM)


@pytest.mark.parametrize("unread", ["resourceslices", "deviceclasses"])
def test_without_devices_or_classes_the_words_are_all_there_is(unread: str) -> None:
    wait, mine = asks(wants(16))
    partial = SourceStatus(name=Source.CLAIMS, state=SourceState.PARTIAL, detail=f"without {unread}")
    sources = tuple(partial if s.name is Source.CLAIMS else s for s in statuses())
    given = type(dra())(claims=(mine,), unread=(unread,))
    finding = found(dra_node(), wait, given=given, sources=sources)
    assert finding.cause == "claim-not-allocatable"
    assert not manifests(finding)


def test_without_claims_the_events_tell_that_a_template_is_missing() -> None:
    said = event(
        "FailedResourceClaimCreation",
        'PodResourceClaim g: resource claim template "one-gpu": '
        'resourceclaimtemplate.resource.k8s.io "one-gpu" not found',
        name="wait-0",
    )
    wait = waiting("wait-0", "g", conditions=(), claim_templates={"g": "one-gpu"})
    finding = found(dra_node(), wait, said, given=dra(classes=()), apis=(), without=[Source.CLAIMS])
    assert finding.cause == "claim-template-missing"
    assert not manifests(finding), "which version is served is not known"


def test_the_flat_requests_of_v1beta1_are_written_where_that_is_what_is_served() -> None:
    beta = ServedApi("resource.k8s.io", "v1beta1", "resourceclaims", "ResourceClaim")
    finding = found(dra_node(), waiting("wait-0", "shared", conditions=()), apis=(beta,))
    [request] = manifests(finding)[0]["spec"]["devices"]["requests"]
    assert request == {
        "name": "gpu",
        "deviceClassName": "gpu.nvidia.com",
        "allocationMode": "ExactCount",
        "count": 1,
    }


def test_a_claim_that_waits_for_its_first_pod_is_healthy() -> None:
    assert not pending(snapshot(dra_node(), dra=dra(whole_gpus(), claim("unused", demand=wants(2)))))


def test_a_claim_that_is_for_other_devices_is_left_alone() -> None:
    wait = waiting("wait-0", "nic")
    cards = claim("nic", demand=wants(device_class="dra.net"))
    assert not pending(snapshot(dra_node(), wait, dra=dra(whole_gpus(), cards)))


def test_a_young_pod_is_left_alone() -> None:
    wait, mine = asks(wants(16), created_at=ago(minutes=1))
    assert not pending(snapshot(dra_node(), wait, dra=dra(whole_gpus(), mine)))


def test_a_gate_comes_before_the_claim() -> None:
    wait, mine = asks(wants(16), scheduling_gates=("example.com/hold",))
    assert found(dra_node(), wait, given=dra(whole_gpus(), mine)).cause == "scheduling-gate"


def test_a_volume_comes_before_a_claim_that_the_scheduler_does_not_speak_of() -> None:
    wait, mine = asks(
        wants(16), message="0/1 nodes are available: 1 node(s) had volume node affinity conflict."
    )
    assert found(dra_node(), wait, given=dra(whole_gpus(), mine)).cause == "volume-in-another-zone"


def test_hostile_names_stay_strings() -> None:
    name = "x'; rm -rf /\n- <b>"
    finding = found(dra_node(), waiting("wait-0", name, conditions=()))
    assert manifests(finding)[0]["metadata"]["name"] == name
    assert "\n" not in finding.title
