"""PersistentVolumeClaims, PersistentVolumes and StorageClasses."""

from diagnostics.simulator.claims import CLASSES, SimClaim, SimClass
from diagnostics.simulator.identity import uuid_of
from diagnostics.simulator.manifests import metadata as meta
from diagnostics.simulator.timestamps import DAY
from diagnostics.simulator.workloads import Json
from diagnostics.simulator.world import World

_MODE = {"disk.csi.example.com": "ReadWriteOnce", "kubernetes.io/no-provisioner": "ReadWriteOnce"}


def claims(world: World) -> list[Json]:
    return [_claim(world, claim) for claim in world.claims.values() if claim.created <= world.now]


def volumes(world: World) -> list[Json]:
    return [_volume(world, c) for c in world.claims.values() if c.volume and c.created <= world.now]


def classes(world: World) -> list[Json]:
    return [_class(world, one) for one in CLASSES]


def _claim(world: World, claim: SimClaim) -> Json:
    notes = {"pv.kubernetes.io/bind-completed": "yes"} if claim.is_bound else {}
    is_asked = claim.of_class is not None and (not claim.of_class.waits or claim.selected_node)
    if claim.of_class is not None and is_asked:
        notes["volume.kubernetes.io/storage-provisioner"] = claim.of_class.provisioner
    if claim.selected_node:
        notes["volume.kubernetes.io/selected-node"] = claim.selected_node
    metadata = meta.metadata(
        claim.name,
        claim.namespace,
        _uid(world, claim),
        claim.created,
        claim.is_bound,
        annotations=notes,
        finalizers=["kubernetes.io/pvc-protection"],
    )
    modes = [_mode(claim)]
    spec: Json = {"accessModes": modes, "resources": {"requests": {"storage": claim.size}}}
    spec |= {"storageClassName": claim.storage_class, "volumeMode": "Filesystem"}
    status: Json = {"phase": "Pending"}
    if claim.is_bound:
        spec["volumeName"] = claim.volume
        status = {"phase": "Bound", "accessModes": modes, "capacity": {"storage": claim.size}}
    return {"metadata": metadata, "spec": spec, "status": status}


def _volume(world: World, claim: SimClaim) -> Json:
    uid = uuid_of(world.config.seed, "PersistentVolume", claim.key)
    metadata = meta.metadata(
        claim.volume, "", uid, claim.created, 0, finalizers=["kubernetes.io/pv-protection"]
    )
    reference = {"kind": "PersistentVolumeClaim", "namespace": claim.namespace, "name": claim.name}
    driver = claim.of_class.provisioner if claim.of_class else "disk.csi.example.com"
    spec: Json = {
        "capacity": {"storage": claim.size},
        "csi": {"driver": driver, "volumeHandle": hex_handle(uid)},
        "accessModes": [_mode(claim)],
        "claimRef": reference | {"uid": _uid(world, claim), "apiVersion": "v1"},
        "persistentVolumeReclaimPolicy": "Delete",
        "storageClassName": claim.storage_class,
        "volumeMode": "Filesystem",
    }
    if claim.zone:
        term = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [claim.zone]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Bound"}}


def hex_handle(uid: str) -> str:
    """As a driver names the volume on its side."""
    return f"vol-{uid.replace('-', '')[:17]}"


def _class(world: World, one: SimClass) -> Json:
    notes = {"storageclass.kubernetes.io/is-default-class": "true"} if one.is_default else {}
    uid = uuid_of(world.config.seed, "StorageClass", one.name)
    return {
        "metadata": meta.metadata(one.name, "", uid, world.before(40 * DAY), 0, annotations=notes),
        "provisioner": one.provisioner,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer" if one.waits else "Immediate",
    }


def _mode(claim: SimClaim) -> str:
    if claim.one_pod_only:
        return "ReadWriteOncePod"
    return _MODE.get(claim.of_class.provisioner if claim.of_class else "", "ReadWriteMany")


def _uid(world: World, claim: SimClaim) -> str:
    return uuid_of(world.config.seed, "PersistentVolumeClaim", claim.key)
