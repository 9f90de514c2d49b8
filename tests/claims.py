"""Builders of dynamic resource allocation: a node's slice of GPUs, classes, claims and the pods that have them."""

from typing import Any

from diagnostics.snapshot import Allocation, Node, Pod
from diagnostics.snapshot.resource_claims import (
    Allotted,
    ClaimTemplate,
    Demand,
    Device,
    DeviceClass,
    DeviceRequest,
    ResourceClaim,
    ResourceSlice,
)
from tests.builders import GIB, container, node, pending_pod, pod

DRIVER = "gpu.nvidia.com"
IS_GPU = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'gpu'"
IS_MIG = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'mig'"
GPU_CLASS = DeviceClass(name=DRIVER, selectors=(IS_GPU,))
MIG_CLASS = DeviceClass(name="mig.nvidia.com", selectors=(IS_MIG,))
CANNOT = (
    "0/{n} nodes are available: {n} cannot allocate all claims. still not schedulable, preemption: 0/{n} nodes are "
    "available: {n} Preemption is not helpful for scheduling."
)


def gpu_device(index: int = 0, home: str = "gpu-1", memory_gib: float = 80.0, **fields: Any) -> Device:
    """A whole H100 with a PCI address."""
    attributes = {
        f"{DRIVER}/type": "gpu",
        f"{DRIVER}/uuid": f"GPU-{home}-{index}",
        f"{DRIVER}/productName": "NVIDIA H100 80GB HBM3",
        "resource.kubernetes.io/pciBusID": f"0000:{index + 16:02x}:00.0",
    } | fields.pop("attributes", {})
    return Device(
        name=f"gpu-{index}", attributes=attributes, capacity={f"{DRIVER}/memory": memory_gib * GIB}, **fields
    )


def mig_device(
    board: int = 0, number: int = 0, home: str = "gpu-1", slices: float = 1.0, **fields: Any
) -> Device:
    """A 1g.10gb partition that shares the board's eight memory slices."""
    profile = fields.pop("profile", "1g.10gb")
    return Device(
        name=f"gpu-{board}-mig-{profile.replace('.', '')}-{number}",
        attributes={
            f"{DRIVER}/type": "mig",
            f"{DRIVER}/uuid": f"MIG-{home}-{board}-{profile}-{number}",
            f"{DRIVER}/parentUUID": f"GPU-{home}-{board}",
            f"{DRIVER}/profile": profile,
        },
        capacity={f"{DRIVER}/memory": 10.0 * slices * GIB},
        counters={f"gpu-{board}": {"memory-slices": slices}},
        **fields,
    )


def slice_of(*devices: Device, home: str = "gpu-1", **fields: Any) -> ResourceSlice:
    defaults: dict[str, Any] = {
        "driver": DRIVER,
        "pool": home,
        "node": home,
        "generation": 1,
        "pool_slices": 1,
    }
    return ResourceSlice(name=f"{home}-{DRIVER}-x7k2p", devices=devices, **(defaults | fields))


def whole_gpus(count: int = 8, home: str = "gpu-1", **fields: Any) -> ResourceSlice:
    return slice_of(*(gpu_device(i, home, **fields) for i in range(count)), home=home)


def wants(count: int = 1, device_class: str = DRIVER, **fields: Any) -> Demand:
    """One request for so many devices of a class."""
    return Demand(requests=(DeviceRequest(name="gpu", device_class=device_class, count=count, **fields),))


def claim(name: str = "gpus", *devices: str, home: str = "gpu-1", **fields: Any) -> ResourceClaim:
    """A claim on one GPU; allocated where devices of `home` are named."""
    is_admin = fields.pop("is_admin", False)
    given = tuple(Allotted(DRIVER, home, device, "gpu", is_admin) for device in devices)
    defaults: dict[str, Any] = {"demand": wants(len(devices) or 1), "is_allocated": bool(devices)}
    return ResourceClaim(namespace="research", name=name, allotted=given, **(defaults | fields))


def template(name: str = "one-gpu", demand: Demand | None = None) -> ClaimTemplate:
    return ClaimTemplate(namespace="research", name=name, demand=demand or wants())


def dra_node(name: str = "gpu-1", gpus: int = 8, **fields: Any) -> Node:
    """A node without a device plugin: its GPUs are counted by a label alone."""
    labels = {"nvidia.com/gpu.count": str(gpus), "nvidia.com/gpu.present": "true"}
    return node(name, gpus=0, labels=labels, **fields)


def claimant(name: str = "train-0", *claims: str, **fields: Any) -> Pod:
    return pod(name, containers=(container(gpus=0),), resource_claims=claims or ("gpus",), **fields)


def waiting(name: str = "wait-0", *claims: str, nodes: int = 1, **fields: Any) -> Pod:
    """A pod whose claim the scheduler could not allocate."""
    defaults: dict[str, Any] = {"message": CANNOT.format(n=nodes), "resource_claims": claims or ("gpus",)}
    return pending_pod(name, gpus=0, **(defaults | fields))


def dra(*parts: Any, classes: tuple[DeviceClass, ...] = (GPU_CLASS, MIG_CLASS)) -> Allocation:
    """Slices, claims and templates beside NVIDIA's classes."""
    return Allocation(
        slices=tuple(p for p in parts if isinstance(p, ResourceSlice)),
        claims=tuple(p for p in parts if isinstance(p, ResourceClaim)),
        templates=tuple(p for p in parts if isinstance(p, ClaimTemplate)),
        classes=classes,
    )
