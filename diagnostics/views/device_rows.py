"""Devices with who holds them and what they measured last, as the pages of a node and of a GPU show them."""

from collections.abc import Sequence
from dataclasses import dataclass

from diagnostics.models import Allocation
from diagnostics.picture import Devices, NodeLine
from diagnostics.picture.drawing import cell_name
from diagnostics.snapshot import Gpu, Metrics, State
from diagnostics.views.page import gpu_url, workload_url


@dataclass(frozen=True, kw_only=True)
class Holder:
    """A pod that holds a device."""

    pod: str
    """`namespace/name`."""
    workload: str
    """Kind and name of its root owner; empty where that is the pod, or not known."""
    url: str
    """Page of the workload; empty where it has none."""


@dataclass(frozen=True, kw_only=True)
class DeviceRow:
    name: str
    slot: str
    url: str
    uuid: str | None
    model: str | None
    resource: str
    replicas: int
    state: State | None
    is_unjudged: bool
    is_healthy: bool | None
    holders: tuple[Holder, ...]
    holder_source: str
    metrics: Metrics | None


def device_row(slug: str, gpu: Gpu, holders: tuple[Holder, ...]) -> DeviceRow:
    return DeviceRow(
        name=cell_name(gpu),
        slot=gpu.slot,
        url=gpu_url(slug, gpu.slot),
        uuid=gpu.uuid,
        model=gpu.model,
        resource=gpu.mig_profile or gpu.resource,
        replicas=gpu.replicas,
        state=gpu.state,
        is_unjudged=gpu.is_unjudged,
        is_healthy=gpu.is_healthy,
        holders=holders,
        holder_source=gpu.holder_source,
        metrics=gpu.metrics,
    )


def holders_by_slot(slug: str, devices: Devices, line: NodeLine) -> dict[str, tuple[Holder, ...]]:
    """Slot -> its holders with their owners, as the picture has them."""
    return {
        f"{line.name}/{cell.place}": tuple(
            holder(slug, pod, owner.kind, owner.namespace, owner.name)
            for pod, owner in zip(
                cell.holders, (devices.owners[place] for place in cell.owners), strict=False
            )
        )
        for cell in line.gpus
    }


def holders_of(slug: str, gpu: Gpu, allocations: Sequence[Allocation]) -> tuple[Holder, ...]:
    """Its holders, with the owners that the open allocations of its node name."""
    owners = {
        f"{row.workload.namespace}/{row.pod}": row.workload for row in allocations if row.ended_at is None
    }
    found = []
    for pod in gpu.holders:
        owner = owners.get(pod)
        name = (owner.kind, owner.namespace, owner.name) if owner is not None else ("", "", "")
        found.append(holder(slug, pod, *name))
    return tuple(found)


def holder(slug: str, pod: str, kind: str, namespace: str, name: str) -> Holder:
    """Of a workload that is not known, its parts are empty."""
    return Holder(
        pod=pod,
        workload=f"{kind} {name}" if kind and kind != "Pod" else "",
        url=workload_url(slug, kind, namespace, name),
    )
