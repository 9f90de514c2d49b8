"""Pods that wait for a volume, which more GPUs would not help."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial

from diagnostics.simulator.claims import ZONE, SimClaim
from diagnostics.simulator.faults.entry import Fault, Twin
from diagnostics.simulator.identity import uuid_of
from diagnostics.simulator.templates import single
from diagnostics.simulator.timestamps import MINUTE
from diagnostics.simulator.workloads import Workload
from diagnostics.simulator.world import Note, World

RULE = "pending-gpu-pod"
AGE = 45 * MINUTE
_EXTERNAL = (
    "Waiting for a volume to be created either by the external provisioner '{}' or manually by the system "
    "administrator. If volume creation is delayed, please verify that the provisioner is running and correctly "
    "registered."
)


def _trainer(world: World, path: str, claim: str) -> Workload:
    template = single("train", 1)
    template.volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    return world.add("Pod", path, template, age=AGE)


def _says(world: World, claim: SimClaim, reason: str, message: str) -> None:
    """What the volume controller says of a claim every few minutes."""
    first, every = claim.created + MINUTE, timedelta(minutes=2)
    count = max(1, (world.now - first) // every)
    world.notes.append(
        Note(
            "PersistentVolumeClaim", claim.namespace, claim.name,
            uuid_of(world.config.seed, "PersistentVolumeClaim", claim.key), "v1", reason, message,
            "persistentvolume-controller", first, first + count * every, count,
            type="Normal" if reason == "ExternalProvisioning" else "Warning",
        )
    )  # fmt: skip


def _settle(world: World, pod: Workload, *, works: bool, cause: str) -> None:
    if works:
        world.place(pod, "gpu-10")
        return
    world.queue(pod)
    world.expect(RULE, pod, cause)


def _class(world: World, storage_class: str) -> None:
    works = storage_class == "shared-files"
    claim = world.claim("speech/corpus", storage_class, age=AGE, is_bound=works)
    if not works:
        said = f'storageclass.storage.k8s.io "{storage_class}" not found'
        _says(world, claim, "ProvisioningFailed", said)
    pod = _trainer(world, "speech/corpus-train", "corpus")
    _settle(world, pod, works=works, cause="its claim names a storage class that does not exist")


def _provisioner(world: World, *, answers: bool) -> None:
    claim = world.claim("recsys/features", "shared-files", age=AGE, is_bound=answers)
    if not answers:
        _says(world, claim, "ExternalProvisioning", _EXTERNAL.format("nfs.csi.example.com"))
    pod = _trainer(world, "recsys/features-train", "features")
    _settle(world, pod, works=answers, cause="the provisioner of its claim does not answer")


def _failing(world: World, *, fails: bool) -> None:
    claim = world.claim("speech/checkpoints", "shared-files", age=AGE, is_bound=not fails)
    if fails:
        said = 'failed to provision volume with StorageClass "shared-files": rpc error: code = ResourceExhausted '
        _says(world, claim, "ProvisioningFailed", f"{said}desc = storage quota is used up")
    pod = _trainer(world, "speech/asr-train", "checkpoints")
    _settle(world, pod, works=not fails, cause="the provisioner of its claim fails")


def _local(world: World, *, exists: bool) -> None:
    world.claim("recsys/cache", "local-nvme", age=AGE, is_bound=exists)
    pod = _trainer(world, "recsys/cache-train", "cache")
    _settle(world, pod, works=exists, cause="wants a local volume, of which none is left")


def _zone(world: World, zone: str) -> None:
    world.claim("vision/tiles", "fast-block", age=AGE, zone=zone)
    pod = _trainer(world, "vision/tiles-train", "tiles")
    _settle(world, pod, works=zone == ZONE, cause="its volume is in a zone without GPU nodes")


def _late(world: World, *, is_late: bool) -> None:
    """Its claim waits for its first consumer, as it should; what is missing is a node that it selects."""
    world.claim("research/shards", "fast-block", age=AGE, is_bound=not is_late)
    pod = _trainer(world, "research/shards-train", "shards")
    if is_late:
        pod.template.node_selector = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB"}
    _settle(world, pod, works=not is_late, cause="selects a GPU product that no node has; its claim is well")


def _fault(slug: str, twin: str, path: str, cause: str, apply: Callable[[World], None]) -> Fault:
    namespace, name = path.split("/")
    return Fault(slug, RULE, twin, "Pod", name, cause, apply, namespace=namespace)


FAULTS = (
    _fault(
        "pending-storage-class", "storage-class-exists", "speech/corpus-train", "storage class missing",
        partial(_class, storage_class="lustre-fast"),
    ),
    _fault(
        "pending-provisioner", "provisioner-answers", "recsys/features-train", "provisioner silent",
        partial(_provisioner, answers=False),
    ),
    _fault(
        "pending-provisioning", "provisioning-works", "speech/asr-train", "provisioner fails",
        partial(_failing, fails=True),
    ),
    _fault(
        "pending-local-volume", "local-volume-bound", "recsys/cache-train", "no local volume is left",
        partial(_local, exists=False),
    ),
    _fault(
        "pending-volume-zone", "volume-near", "vision/tiles-train", "volume in another zone",
        partial(_zone, zone="eu-north-1b"),
    ),
    _fault(
        "pending-late-claim", "late-claim-bound", "research/shards-train",
        "selector matches no node; the claim waits for its first consumer", partial(_late, is_late=True),
    ),
)  # fmt: skip
TWINS = (
    Twin("storage-class-exists", "its claim names a class that exists", partial(_class, storage_class="shared-files")),
    Twin("provisioner-answers", "the provisioner has made the volume", partial(_provisioner, answers=True)),
    Twin("provisioning-works", "the provisioner has made the volume", partial(_failing, fails=False)),
    Twin("local-volume-bound", "a local volume was there for it", partial(_local, exists=True)),
    Twin("volume-near", "its volume is where the nodes are", partial(_zone, zone=ZONE)),
    Twin("late-claim-bound", "selects nothing that no node has", partial(_late, is_late=False)),
)  # fmt: skip
