"""Slices, claims, templates and classes of every served version become the same objects."""

from collections.abc import Callable
from typing import Any

import pytest

from diagnostics.collect.wire.resource_claims import (
    ClaimConverter,
    ClaimWire,
    ClassWire,
    SliceWire,
    TemplateWire,
    class_of,
    slice_of,
    template_of,
)
from diagnostics.snapshot import Taint
from diagnostics.snapshot.resource_claims import Alike, Allotted, ResourceClaim, ResourceSlice
from tests.collect.test_kube_wire import pod, read

CONTENT = {
    "attributes": {
        "type": {"string": "gpu"},
        "index": {"int": 3},
        "spare": {"bool": False},
        "driverVersion": {"version": "570.124.6"},
        "resource.kubernetes.io/pciBusID": {"string": "0000:0f:00.0"},
        "modes": {"strings": ["a"]},
    },
    "capacity": {"memory": {"value": "80Gi"}},
    "consumesCounters": [{"counterSet": "gpu-0", "counters": {"memory-slices": {"value": "8"}}}],
    "taints": [{"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoExecute"}],
}
EXACT = {
    "deviceClassName": "gpu.nvidia.com",
    "selectors": [{"cel": {"expression": "true"}}],
    "count": 2,
    "allocationMode": "ExactCount",
    "tolerations": [{"key": "k", "operator": "Exists"}],
}


def one[T](wire: type[Any], convert: Callable[[Any], T], spec: Any, **more: Any) -> T:
    [found], skips = read(wire, convert, {"metadata": {"name": "a", "namespace": "ns"}, "spec": spec} | more)
    assert skips.total == 0
    return found


def a_slice(device: dict[str, Any], **more: Any) -> ResourceSlice:
    pool = {"name": "gpu-1", "generation": 2, "resourceSliceCount": 1}
    spec = {"driver": "gpu.nvidia.com", "pool": pool, "nodeName": "gpu-1", "devices": [device]}
    return one(SliceWire, slice_of, spec | more)


def a_claim(request: dict[str, Any], status: Any = None, **devices: Any) -> ResourceClaim:
    spec = {"devices": {"requests": [request]} | devices}
    return one(ClaimWire, ClaimConverter(), spec, **({"status": status} if status is not None else {}))


def test_a_device_is_the_same_in_v1_and_under_basic_of_v1beta1() -> None:
    now, before = a_slice({"name": "gpu-0"} | CONTENT), a_slice({"name": "gpu-0", "basic": CONTENT})
    assert now == before
    [device] = now.devices
    assert device.attributes == {
        "gpu.nvidia.com/type": "gpu",
        "gpu.nvidia.com/index": 3,
        "gpu.nvidia.com/spare": False,
        "gpu.nvidia.com/driverVersion": "570.124.6",
        "resource.kubernetes.io/pciBusID": "0000:0f:00.0",
    }
    assert device.capacity == {"gpu.nvidia.com/memory": 80.0 * 2**30}
    assert device.counters == {"gpu-0": {"memory-slices": 8.0}}
    assert device.taints == (Taint("gpu.nvidia.com/xid", "NoExecute", "79"),)


def test_a_capacity_may_be_a_bare_quantity() -> None:
    [device] = a_slice({"name": "gpu-0", "basic": {"capacity": {"memory": "1Gi"}}}).devices
    assert device.capacity == {"gpu.nvidia.com/memory": 2.0**30}


def test_a_slice_of_counters_has_no_devices() -> None:
    counters = [{"name": "gpu-0", "counters": {"memory-slices": {"value": "8"}}}]
    found = a_slice({"name": "x"}, devices=None, sharedCounters=counters)
    assert found.devices == ()
    assert found.counters == {"gpu-0": {"memory-slices": 8.0}}
    assert (found.node, found.pool, found.generation) == ("gpu-1", "gpu-1", 2)


def test_a_request_is_the_same_under_exactly_and_flat() -> None:
    now, before = a_claim({"name": "gpu", "exactly": EXACT}), a_claim({"name": "gpu"} | EXACT)
    assert now == before
    [request] = now.demand.requests
    assert (request.device_class, request.count, request.selectors) == ("gpu.nvidia.com", 2, ("true",))
    assert request.tolerations[0].operator == "Exists"
    assert not now.is_allocated


def test_alternatives_keep_their_order() -> None:
    subs = [{"name": "b200", "deviceClassName": "b"}, {"name": "h100", "deviceClassName": "h", "count": 2}]
    [request] = a_claim({"name": "gpu", "firstAvailable": subs}).demand.requests
    assert [(sub.name, sub.count) for sub in request.alternatives] == [("b200", 1), ("h100", 2)]


def test_an_allocation_says_what_was_given_and_for_whom_it_is_kept() -> None:
    results = [
        {"driver": "gpu.nvidia.com", "pool": "gpu-1", "device": "gpu-0", "request": "gpu/h100"},
        {
            "driver": "gpu.nvidia.com",
            "pool": "gpu-1",
            "device": "gpu-1",
            "request": "all",
            "adminAccess": True,
        },
    ]
    reserved = [{"resource": "pods", "name": "train-0", "uid": "1"}, {"resource": "podgroups", "name": "g"}]
    found = a_claim(
        {"name": "gpu", "exactly": EXACT},
        {"allocation": {"devices": {"results": results}}, "reservedFor": reserved},
        constraints=[{"requests": ["gpu"], "matchAttribute": "gpu.nvidia.com/numaNode"}],
    )
    assert found.is_allocated
    assert found.pods == ("ns/train-0",)
    assert found.allotted == (
        Allotted("gpu.nvidia.com", "gpu-1", "gpu-0", "gpu/h100"),
        Allotted("gpu.nvidia.com", "gpu-1", "gpu-1", "all", True),
    )
    assert found.demand.alike == (Alike("gpu.nvidia.com/numaNode", ("gpu",)),)


def test_a_class_may_serve_an_extended_resource() -> None:
    spec = {"selectors": [{"cel": {"expression": "true"}}], "extendedResourceName": "nvidia.com/gpu"}
    assert one(ClassWire, class_of, spec).extended_resource == "nvidia.com/gpu"


def test_a_template_asks_as_its_claims_do() -> None:
    spec = {"metadata": {}, "spec": {"devices": {"requests": [{"name": "gpu", "exactly": EXACT}]}}}
    assert one(TemplateWire, template_of, spec).demand == a_claim({"name": "gpu", "exactly": EXACT}).demand


@pytest.mark.parametrize("wrong", ["many", -1, [], {"value": "x"}])
def test_a_malformed_slice_costs_no_more_than_itself(wrong: Any) -> None:
    good = {"metadata": {"name": "b"}, "spec": {"driver": "d", "pool": {"name": "p"}}}
    bad_device = {"name": "gpu-0", "capacity": {"memory": wrong}, "taints": wrong}
    bad = {"metadata": {"name": "a"}, "spec": {"driver": "d", "pool": {"name": "p"}, "devices": [bad_device]}}
    found, skips = read(SliceWire, slice_of, good, bad)
    assert len(found) + skips.total == 2
    assert found[0].name == "b"


def test_a_pod_tells_its_claims_and_the_templates_that_they_are_made_from() -> None:
    claims = [
        {"name": "a", "resourceClaimTemplateName": "one-gpu"},
        {"name": "b", "resourceClaimTemplateName": "not-there"},
        {"name": "c", "resourceClaimName": "shared"},
    ]
    made = [{"name": "a", "resourceClaimName": "train-0-a-x7f2"}]
    found = pod({"resourceClaims": claims}, {"resourceClaimStatuses": made})
    assert found.resource_claims == ("train-0-a-x7f2", "b", "shared")
    assert found.claim_templates == {"train-0-a-x7f2": "one-gpu", "b": "not-there"}


def test_the_layout_of_kubernetes_1_30_and_before_is_still_read() -> None:
    claims = [
        {"name": "a", "source": {"resourceClaimTemplateName": "one-gpu"}},
        {"name": "c", "source": {"resourceClaimName": "shared"}},
    ]
    found = pod({"resourceClaims": claims})
    assert found.resource_claims == ("a", "shared")
    assert found.claim_templates == {"a": "one-gpu"}
