"""Pods that wait for a volume: which object is to blame, and claims that only seem to be."""

from typing import Any

import pytest

from diagnostics.findings import Hit
from diagnostics.snapshot import Event, Storage, Volume
from diagnostics.snapshot.storage import PersistentVolume, StorageClass, VolumeClaim
from tests.builders import ago, node, pending_pod, pod
from tests.rules.scheduling.waiting import SILENT, hit

MISSING = '0/1 nodes are available: persistentvolumeclaim "data" not found. not found'
UNBOUND = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found"
UNREACHED = "0/1 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity."
NO_VOLUME = "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind."
ZONE = "topology.kubernetes.io/zone"
IN_B = ({"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["eu-1b"]}]},)
FILES = StorageClass(name="files", provisioner="nfs.example.com")
LATE = StorageClass(name="block", provisioner="disk.example.com", binding_mode="WaitForFirstConsumer")
LOCAL = StorageClass(
    name="local", provisioner="kubernetes.io/no-provisioner", binding_mode="WaitForFirstConsumer"
)


def claim(**fields: Any) -> VolumeClaim:
    defaults: dict[str, Any] = {"namespace": "research", "name": "data", "phase": "Pending"}
    return VolumeClaim(**(defaults | {"storage_class": "files"} | fields))


def found(message: str, *claims: VolumeClaim, classes: Any = (FILES, LATE, LOCAL), **fields: Any) -> Hit:
    storage = Storage(claims=claims, volumes=fields.pop("volumes", ()), classes=classes)
    waits = {"message": message} if message else SILENT
    return hit(
        node(labels={ZONE: "eu-1a"}),
        *fields.pop("parts", ()),
        pending_pod(
            volumes=(Volume("d", "persistentVolumeClaim", "data"),), **waits, **fields.pop("pod", {})
        ),
        storage=storage,
        **fields,
    )


def said(one: Hit) -> str:
    return "\n".join(f"{fact.label}: {fact.value} [{fact.source}]" for fact in one.evidence)


def test_a_claim_that_does_not_exist_with_those_that_do() -> None:
    one = found(MISSING, claim(name="datas"))
    assert one.cause == "volume-claim-missing"
    assert "claims that exist: datas" in said(one)
    assert "kind: PersistentVolumeClaim" in "".join(step.manifest for step in one.fix.steps)


def test_a_claim_of_an_ephemeral_volume_is_named_after_pod_and_volume() -> None:
    own = hit(
        node(),
        pending_pod(volumes=(Volume("cache", "ephemeral"),), message=UNBOUND),
        storage=Storage(claims=(claim(name="wait-0-cache", storage_class="gone"),), classes=(FILES,)),
    )
    assert own.cause == "storage-class-missing"
    assert "wait-0-cache" in own.title


def test_a_class_that_does_not_exist() -> None:
    one = found(UNBOUND, claim(storage_class="lustre"))
    assert one.cause == "storage-class-missing"
    assert "lustre" in one.title
    assert "storage classes that exist: files, block and local" in said(one)


def test_no_class_and_no_default() -> None:
    assert found(UNBOUND, claim(storage_class=None)).cause == "no-default-storage-class"
    default = StorageClass(name="files", provisioner="nfs.example.com", is_default=True)
    assert found(UNBOUND, claim(storage_class=None), classes=(default,)).cause == "volume-claim-unbound"
    assert found(UNBOUND, claim(storage_class="")).cause == "no-volume-to-bind"


def test_a_provisioner_that_does_not_answer() -> None:
    one = found(UNBOUND, claim(provisioner="nfs.example.com"))
    assert one.cause == "volume-provisioner-silent"
    assert "nfs.example.com" in one.title


def test_a_provisioner_that_fails_says_why() -> None:
    event = Event(
        namespace="research", kind="PersistentVolumeClaim", name="data", reason="ProvisioningFailed",
        message="rpc error: quota exceeded on filer", last_at=ago(minutes=1),
    )  # fmt: skip
    one = found(UNBOUND, claim(provisioner="nfs.example.com"), parts=(event,))
    assert one.cause == "volume-provisioning-failed"
    assert "quota exceeded on filer" in said(one)


def test_a_dead_provisioner_of_a_late_class_leaves_only_the_chosen_node() -> None:
    late = claim(storage_class="block", selected_node="gpu-1")
    one = found("", late, pod={"nominated_node": "gpu-1"})
    assert one.cause == "volume-provisioner-silent"
    assert "node chosen for the volume: gpu-1" in said(one)


def test_a_claim_that_waits_for_its_first_consumer_is_no_reason() -> None:
    """The pod lacks GPUs; its claim is bound once it has a node."""
    full = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    one = found(full, claim(storage_class="block"), parts=(pod(gpus=8),))
    assert one.cause == "no-capacity"


def test_a_class_that_nobody_makes_volumes_for() -> None:
    assert found(NO_VOLUME, claim(storage_class="local")).cause == "no-volume-to-bind"


def test_a_volume_in_another_zone_than_every_gpu_node() -> None:
    volume = PersistentVolume(name="pv-1", claim="research/data", node_terms=IN_B)
    bound = claim(phase="Bound", volume="pv-1")
    cpu_only = node("cpu-1", gpus=0, labels={ZONE: "eu-1b"})
    one = found(UNREACHED, bound, volumes=(volume,), parts=(cpu_only,))
    assert one.cause == "volume-in-another-zone"
    assert f"volume reached from: {ZONE} In eu-1b [spec.nodeAffinity of PersistentVolume pv-1]" in said(one)
    assert "zones of nodes with its GPUs: eu-1a" in said(one)
    assert "delet" not in "".join(step.command for step in one.fix.steps)


def test_a_lost_volume() -> None:
    assert found(UNBOUND, claim(phase="Lost", volume="pv-1")).cause == "volume-lost"


@pytest.mark.parametrize("message", [MISSING, UNBOUND])
def test_words_that_are_older_than_the_objects_are_not_repeated(message: str) -> None:
    one = found(message, claim(phase="Bound", volume="pv-1"))
    assert one.cause == "volume"
    assert "does not exist" not in one.title


def test_without_the_lists_the_words_decide() -> None:
    volumes = (Volume("d", "persistentVolumeClaim", "data"),)
    one = hit(node(), pending_pod(volumes=volumes, message=MISSING))
    assert one.cause == "volume-claim-missing"
    partly = Storage(claims=(claim(storage_class="lustre"),))
    two = hit(node(), pending_pod(volumes=volumes, message=UNBOUND), storage=partly)
    assert two.cause != "storage-class-missing"
