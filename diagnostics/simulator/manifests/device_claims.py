"""ResourceSlices, ResourceClaims, ResourceClaimTemplates and DeviceClasses of resource.k8s.io/v1."""

from diagnostics.simulator.devices import DRIVER as DRIVER_VERSION
from diagnostics.simulator.devices import MEMORY_MIB, MODEL, Device, SimNode
from diagnostics.simulator.dra import DRIVER, SimDeviceClaim
from diagnostics.simulator.identity import suffix, uuid_of
from diagnostics.simulator.manifests import metadata as meta
from diagnostics.simulator.timestamps import DAY
from diagnostics.simulator.workloads import Json
from diagnostics.simulator.world import World


def slices(world: World) -> list[Json]:
    names = sorted(world.dra.nodes) if world.dra.is_driver_up else []
    return [_slice(world, world.nodes[name]) for name in names]


def _slice(world: World, node: SimNode) -> Json:
    name = f"{node.name}-{DRIVER}-{suffix(5, world.config.seed, node.name, 'slice')}"
    spec: Json = {
        "driver": DRIVER,
        "pool": {"name": node.name, "generation": 1, "resourceSliceCount": 1},
        "nodeName": node.name,
        "devices": [_device(world, device) for device in node.devices],
    }
    return {"metadata": _metadata(world, "ResourceSlice", "", name), "spec": spec}


def _device(world: World, device: Device) -> Json:
    major, minor, patch = (str(int(part)) for part in DRIVER_VERSION.split("."))
    pci = device.pci_bus_id.lower().removeprefix("0000")
    attributes: Json = {
        "architecture": {"string": "Hopper"},
        "brand": {"string": "Nvidia"},
        "cudaComputeCapability": {"version": "9.0.0"},
        "driverVersion": {"version": f"{major}.{minor}.{patch}"},
        "productName": {"string": MODEL},
        "resource.kubernetes.io/pciBusID": {"string": pci},
        "type": {"string": "gpu"},
        "uuid": {"string": device.uuid},
    }
    found: Json = {
        "name": f"gpu-{device.index}",
        "attributes": attributes,
        "capacity": {"memory": {"value": f"{MEMORY_MIB}Mi"}},
    }
    taint = world.dra.taints.get(device.uuid)
    return found | ({"taints": [taint]} if taint else {})


def claims(world: World) -> list[Json]:
    return [_claim(world, claim) for claim in world.dra.claims if not claim.is_template]


def templates(world: World) -> list[Json]:
    return [
        {
            "metadata": _metadata(world, "ResourceClaimTemplate", claim.namespace, claim.name),
            "spec": {"metadata": {}, "spec": _spec(claim)},
        }
        for claim in world.dra.claims
        if claim.is_template
    ]


def classes(world: World) -> list[Json]:
    return [
        {"metadata": _metadata(world, "DeviceClass", "", name), "spec": spec}
        for name, spec in world.dra.classes.items()
    ]


def _spec(claim: SimDeviceClaim) -> Json:
    return {"devices": {"requests": [{"name": "gpu", "exactly": claim.request}]}}


def _claim(world: World, claim: SimDeviceClaim) -> Json:
    status: Json = {}
    if claim.given:
        results = [
            {"request": "gpu", "driver": DRIVER, "pool": device.node, "device": f"gpu-{device.index}"}
            for device in claim.given
        ]
        only = {"key": "metadata.name", "operator": "In", "values": [claim.given[0].node]}
        status = {
            "allocation": {
                "devices": {"results": results},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [only]}]},
            },
            "reservedFor": [{"resource": "pods", "name": claim.pod, "uid": claim.pod_uid}],
        }
    metadata = _metadata(world, "ResourceClaim", claim.namespace, claim.name)
    return {"metadata": metadata, "spec": _spec(claim), "status": status}


def _metadata(world: World, kind: str, namespace: str, name: str) -> Json:
    uid = uuid_of(world.config.seed, kind, namespace, name)
    return meta.metadata(name, namespace, uid, world.before(2 * DAY), kind)
