"""Dynamic resource allocation (resource.k8s.io), cut down: devices that drivers publish, and who was given them.

The same in all served versions: `exactly` of v1 and v1beta2 and the flat requests of v1beta1 become one shape.
"""

from functools import cached_property
from typing import Any

import msgspec

from diagnostics.snapshot.kubernetes import OwnerKey, Struct, Taint, Toleration

Attribute = str | int | bool
"""Versions are text, as the driver publishes them."""


class Device(Struct, frozen=True, kw_only=True):
    """One device of a slice: a whole GPU, a partition, a network card."""

    name: str
    attributes: dict[str, Attribute] = {}
    """`domain/name` -> value; a name without a domain gets the driver's, as the API has it."""
    capacity: dict[str, float] = {}
    """`domain/name` -> amount in base units."""
    counters: dict[str, dict[str, float]] = {}
    """Counter set -> counter -> what it takes of it: partitions of one board share a set."""
    taints: tuple[Taint, ...] = ()
    node: str = ""
    """Where the slice gives each device a node of its own."""

    def attribute(self, name: str) -> Attribute | None:
        """Of whichever domain: the driver's own, or `resource.kubernetes.io`."""
        return next((v for key, v in self.attributes.items() if key.rpartition("/")[2] == name), None)

    def text(self, name: str) -> str:
        """An attribute that is text; empty where it is none."""
        value = self.attribute(name)
        return value if isinstance(value, str) else ""


class ResourceSlice(Struct, frozen=True, kw_only=True):
    """What one driver publishes of one pool."""

    name: str
    driver: str
    pool: str
    generation: int = 0
    """Slices of an older generation of their pool no longer count."""
    pool_slices: int = 0
    """Slices that the pool has, the driver says; until all are there, nothing is allocated from it."""
    node: str = ""
    """Empty for devices that several nodes reach."""
    is_everywhere: bool = False
    node_selector: dict[str, Any] = {}
    devices: tuple[Device, ...] = ()
    counters: dict[str, dict[str, float]] = {}
    """Counter set -> counter -> total."""


class DeviceClass(Struct, frozen=True, kw_only=True):
    """Which devices a class of requests may get."""

    name: str
    selectors: tuple[str, ...] = ()
    """CEL expressions; a device must meet all of them."""
    extended_resource: str = ""
    """A resource name, such as `nvidia.com/gpu`, that pods may ask for and that this class then serves."""


class DeviceRequest(Struct, frozen=True, kw_only=True):
    """One request of a claim, or one of the alternatives of a request."""

    name: str = ""
    device_class: str = ""
    selectors: tuple[str, ...] = ()
    wants_all: bool = False
    count: int = 1
    is_admin: bool = False
    """Admin access: looks at devices that others hold, and holds none."""
    tolerations: tuple[Toleration, ...] = ()
    capacity: dict[str, float] = {}
    """Amounts of a device that can be shared by capacity."""
    alternatives: tuple["DeviceRequest", ...] = ()
    """`firstAvailable`, the preferred one first; then the other fields are empty."""


class Alike(msgspec.Struct, frozen=True, omit_defaults=True):
    """A constraint: the devices of these requests (all, where none is named) have one value of an attribute."""

    attribute: str
    requests: tuple[str, ...] = ()


class Demand(Struct, frozen=True, kw_only=True):
    """What a claim or a template asks for."""

    requests: tuple[DeviceRequest, ...] = ()
    alike: tuple[Alike, ...] = ()


class Allotted(msgspec.Struct, frozen=True, omit_defaults=True):
    """One device that a claim was given."""

    driver: str
    pool: str
    device: str
    request: str = ""
    is_admin: bool = False


class ResourceClaim(Struct, frozen=True, kw_only=True):
    """A claim, with what it was given and for whom it is kept."""

    namespace: str
    name: str
    uid: str = ""
    owners: tuple[OwnerKey, ...] = ()
    demand: Demand = Demand()
    is_allocated: bool = False
    allotted: tuple[Allotted, ...] = ()
    pods: tuple[str, ...] = ()
    """Keys of the pods in status.reservedFor. An allocated claim without one keeps its devices all the same."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class ClaimTemplate(Struct, frozen=True, kw_only=True):
    """What claims of its pods are made from."""

    namespace: str
    name: str
    demand: Demand = Demand()

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class Allocation(Struct, frozen=True, kw_only=True):
    """All of resource.k8s.io; empty where the cluster has none or does not let it be read (`Source.CLAIMS` says)."""

    slices: tuple[ResourceSlice, ...] = ()
    classes: tuple[DeviceClass, ...] = ()
    claims: tuple[ResourceClaim, ...] = ()
    templates: tuple[ClaimTemplate, ...] = ()
    unread: tuple[str, ...] = ()
    """Lists that could not be read, by their plural: what is not in them may well be there."""

    @cached_property
    def current(self) -> tuple[ResourceSlice, ...]:
        """Slices of the newest generation of their pool."""
        newest: dict[tuple[str, str], int] = {}
        for one in self.slices:
            pool = (one.driver, one.pool)
            newest[pool] = max(one.generation, newest.get(pool, one.generation))
        return tuple(s for s in self.slices if s.generation == newest[s.driver, s.pool])

    @cached_property
    def claim_by_key(self) -> dict[str, ResourceClaim]:
        return {claim.key: claim for claim in self.claims}

    @cached_property
    def template_by_key(self) -> dict[str, ClaimTemplate]:
        return {template.key: template for template in self.templates}

    @cached_property
    def class_by_name(self) -> dict[str, DeviceClass]:
        return {one.name: one for one in self.classes}

    @cached_property
    def claims_on(self) -> dict[tuple[str, str, str], list[ResourceClaim]]:
        """(driver, pool, device) -> the claims that hold it; admin access holds nothing."""
        found: dict[tuple[str, str, str], list[ResourceClaim]] = {}
        for claim in self.claims:
            for one in claim.allotted:
                if not one.is_admin:
                    found.setdefault((one.driver, one.pool, one.device), []).append(claim)
        return found

    @cached_property
    def claims_of_pod(self) -> dict[str, list[ResourceClaim]]:
        """Pod key -> claims that are kept for it."""
        found: dict[str, list[ResourceClaim]] = {}
        for claim in self.claims:
            for pod in claim.pods:
                found.setdefault(pod, []).append(claim)
        return found

    def class_serving(self, resource: str) -> DeviceClass | None:
        """The class that serves an extended resource, by `extendedResourceName` or by its implicit name."""
        implicit = resource.removeprefix("deviceclass.resource.kubernetes.io/")
        return next(
            (
                c
                for c in self.classes
                if c.extended_resource == resource or (implicit != resource and c.name == implicit)
            ),
            None,
        )


def is_gpu_driver(driver: str) -> bool:
    """Drivers of GPUs are named so: gpu.nvidia.com, gpu.amd.com, gpu.intel.com, hami-core-gpu.project-hami.io."""
    return "gpu" in driver.partition(".")[0].split("-")


def resource_of(driver: str) -> str:
    """The extended resource that stands for whole devices of a driver: gpu.nvidia.com -> nvidia.com/gpu."""
    kind, _, vendor = driver.partition(".")
    return f"{vendor}/{kind}"
