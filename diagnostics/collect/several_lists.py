"""Sources that are several lists each: volumes, and what the cluster allows; cut down to what GPU pods touch."""

from collections.abc import Callable, Iterable
from typing import Any

from diagnostics.collect.wire import policy as policies
from diagnostics.collect.wire import resource_claims as dra
from diagnostics.collect.wire import storage as volumes
from diagnostics.collect.wire.listing import ItemReader
from diagnostics.snapshot import Allocation, Pod, ServedApi
from diagnostics.snapshot.policy import Policy
from diagnostics.snapshot.storage import PersistentVolume, Storage

Reader = Callable[[ServedApi], ItemReader[Any]]
Lists = dict[str, list[Any] | None]
"""Resource -> its objects; None where the list could not be read."""
MOST_UNCLAIMED = 1_000
"""Volumes that nobody has claimed; more of them would tell no more."""


def storage_readers() -> dict[str, Reader]:
    """Resource -> how its items are read; one for each pass, since converters remember."""
    return {
        "persistentvolumeclaims": lambda _: ItemReader(volumes.ClaimWire, volumes.ClaimConverter()),
        "persistentvolumes": lambda _: ItemReader(volumes.VolumeWire, volumes.VolumeConverter()),
        "storageclasses": lambda _: ItemReader(volumes.ClassWire, volumes.storage_class),
    }


def policy_readers() -> dict[str, Reader]:
    """The same for what the cluster allows."""
    make = policies.PolicyConverters()
    return {
        "resourcequotas": lambda _: ItemReader(policies.QuotaWire, make.quota),
        "limitranges": lambda _: ItemReader(policies.LimitRangeWire, make.limit_range),
        "networkpolicies": lambda _: ItemReader(policies.NetworkPolicyWire, make.network_policy),
        "endpointslices": lambda _: ItemReader(policies.EndpointSliceWire, make.endpoint_slice),
        "runtimeclasses": lambda _: ItemReader(policies.RuntimeClassWire, policies.runtime_class),
        "priorityclasses": lambda _: ItemReader(policies.PriorityClassWire, policies.priority_class),
        "poddisruptionbudgets": lambda _: ItemReader(policies.BudgetWire, policies.budget),
    }


def claim_readers() -> dict[str, Reader]:
    """The same for dynamic resource allocation."""
    return {
        "resourceslices": lambda _: ItemReader(dra.SliceWire, dra.slice_of),
        "resourceclaims": lambda _: ItemReader(dra.ClaimWire, dra.ClaimConverter()),
        "resourceclaimtemplates": lambda _: ItemReader(dra.TemplateWire, dra.template_of),
        "deviceclasses": lambda _: ItemReader(dra.ClassWire, dra.class_of),
    }


def allocation_of(lists: Lists) -> Allocation:
    """All of it: devices and claims of every driver."""
    return Allocation(
        slices=tuple(lists["resourceslices"] or ()),
        claims=tuple(lists["resourceclaims"] or ()),
        templates=tuple(lists["resourceclaimtemplates"] or ()),
        classes=tuple(lists["deviceclasses"] or ()),
        unread=tuple(name for name, found in lists.items() if found is None),
    )


def storage_of(lists: Lists, pods: Iterable[Pod]) -> Storage:
    """What GPU pods touch: the claims of their namespaces, the volumes of these, and unclaimed volumes."""
    near = _namespaces(pods)
    volumes_ = lists["persistentvolumes"]
    return Storage(
        claims=_near(lists["persistentvolumeclaims"], near),
        volumes=None if volumes_ is None else _volumes(volumes_, near),
        classes=_all(lists["storageclasses"]),
    )


def policy_of(lists: Lists, pods: Iterable[Pod]) -> Policy:
    """All quotas, limits, classes and budgets; traffic rules and endpoints of namespaces with GPU pods."""
    near = _namespaces(pods)
    return Policy(
        quotas=_all(lists["resourcequotas"]),
        limit_ranges=_all(lists["limitranges"]),
        network_policies=_near(lists["networkpolicies"], near),
        endpoint_slices=_near(lists["endpointslices"], near),
        runtime_classes=_all(lists["runtimeclasses"]),
        priority_classes=_all(lists["priorityclasses"]),
        budgets=_all(lists["poddisruptionbudgets"]),
    )


def _namespaces(pods: Iterable[Pod]) -> frozenset[str]:
    return frozenset(pod.namespace for pod in pods if pod.gpus or pod.resource_claims)


def _all(found: list[Any] | None) -> tuple[Any, ...] | None:
    return None if found is None else tuple(found)


def _near(found: list[Any] | None, namespaces: frozenset[str]) -> tuple[Any, ...] | None:
    return None if found is None else tuple(one for one in found if one.namespace in namespaces)


def _volumes(found: list[PersistentVolume], namespaces: frozenset[str]) -> tuple[PersistentVolume, ...]:
    """Those that a claim near GPU pods has, and some that nobody has claimed."""
    kept, unclaimed = [], 0
    for volume in found:
        if not volume.claim:
            unclaimed += 1
            if unclaimed <= MOST_UNCLAIMED:
                kept.append(volume)
        elif volume.claim.partition("/")[0] in namespaces:
            kept.append(volume)
    return tuple(kept)
