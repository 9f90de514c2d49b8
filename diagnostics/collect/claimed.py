"""How many GPUs each pod has or wants through claims (dynamic resource allocation). Pure."""

import re
from collections.abc import Iterable

import msgspec

from diagnostics.snapshot import Allocation, Pod
from diagnostics.snapshot.resource_claims import (
    Demand,
    Device,
    DeviceRequest,
    ResourceClaim,
    is_gpu_driver,
    resource_of,
)

DRIVER = re.compile(r"device\.driver\s*==\s*[\"']([^\"']+)[\"']")
"""How device classes name their driver; those of NVIDIA, AMD and Intel all do."""


def with_claimed(pods: Iterable[Pod], dra: Allocation) -> tuple[Pod, ...]:
    """Pods with claims, with the GPUs of these claims by the resource that stands for them.

    What was given counts; before that, what is asked for: of alternatives the preferred one, of "all" devices one.
    Admin access counts nothing. A pod that asks by an extended resource has its number already.
    """
    devices = {(s.driver, s.pool, d.name): d for s in dra.current for d in s.devices}
    return tuple(
        msgspec.structs.replace(pod, claimed_gpus=found)
        if pod.resource_claims and (found := _claimed(pod, dra, devices))
        else pod
        for pod in pods
    )


def _claimed(pod: Pod, dra: Allocation, devices: dict[tuple[str, str, str], Device]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name in pod.resource_claims:
        claim = dra.claim_by_key.get(f"{pod.namespace}/{name}")
        if claim is not None and claim.is_allocated:
            amounts = _given(claim, devices)
        elif claim is not None:
            amounts = _asked(claim.demand, dra)
        else:
            template = dra.template_by_key.get(f"{pod.namespace}/{pod.claim_templates.get(name, '')}")
            amounts = _asked(template.demand, dra) if template is not None else {}
        for resource, amount in amounts.items():
            found[resource] = found.get(resource, 0.0) + amount
    return found


def _given(claim: ResourceClaim, devices: dict[tuple[str, str, str], Device]) -> dict[str, float]:
    found: dict[str, float] = {}
    for one in claim.allotted:
        if not one.is_admin and is_gpu_driver(one.driver):
            device = devices.get((one.driver, one.pool, one.device))
            resource = resource_name(one.driver, device.text("profile") if device is not None else "")
            found[resource] = found.get(resource, 0.0) + 1.0
    return found


def _asked(demand: Demand, dra: Allocation) -> dict[str, float]:
    found: dict[str, float] = {}
    for request in demand.requests:
        first = request.alternatives[0] if request.alternatives else request
        driver = driver_of(first, dra)
        if first.is_admin or not is_gpu_driver(driver):
            continue
        resource = resource_name(driver, "")
        found[resource] = found.get(resource, 0.0) + float(1 if first.wants_all else first.count)
    return found


def driver_of(request: DeviceRequest, dra: Allocation) -> str:
    """The driver that the request's class names; else the class's own name, which by habit is the driver's."""
    known = dra.class_by_name.get(request.device_class)
    named = [m[1] for text in (known.selectors if known is not None else ()) for m in DRIVER.finditer(text)]
    name = named[0] if named else request.device_class
    return name.replace("mig.", "gpu.", 1) if name.startswith("mig.") else name


def resource_name(driver: str, profile: str) -> str:
    """`nvidia.com/gpu`, or `nvidia.com/mig-1g.10gb` for a partition."""
    whole = resource_of(driver)
    return f"{whole.partition('/')[0]}/mig-{profile.replace('+', '.')}" if profile else whole
