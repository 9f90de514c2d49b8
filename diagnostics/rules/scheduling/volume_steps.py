"""Steps for pods that wait for a volume, each cause with its own."""

from diagnostics.fixes import Risk, Step, StepKind, kubectl, manifests, steps
from diagnostics.rules.scheduling.board import Reading
from diagnostics.rules.scheduling.volumes import claim_names
from diagnostics.snapshot import Pod
from diagnostics.text import printable

MOST = 3
"""Claims that are looked at."""


def volume(pod: Pod, reading: Reading) -> tuple[Step, ...]:
    """Look at the claims and the classes, then what the cause asks for."""
    claims = (list(reading.names) or claim_names(pod))[:MOST]
    looks = tuple(
        steps.look(
            title=f"Read the state and events of volume claim {printable(claim, 80)}",
            why="A claim can be missing, name a class that does not exist, wait for a provisioner that does not run, "
            "or be bound to a volume in another zone.",
            command=kubectl.describe("pvc", claim, pod.namespace),
            expect="Not found, or Pending with the reason in its events, or Bound to a volume with node affinity.",
        )
        for claim in claims
    )
    more = _OWN.get(reading.cause)
    return (*looks, *(more(pod, claims) if more else _classes()), _storage_team())


def _classes() -> tuple[Step, ...]:
    return (
        steps.look(
            title="List the storage classes",
            why="The claim's class must be among them, and its provisioner must run.",
            command=kubectl.kubectl("get", "storageclass"),
            expect="The class that the claim names.",
        ),
    )


def _missing(pod: Pod, claims: list[str]) -> tuple[Step, ...]:
    name = claims[0] if claims else "<claim>"
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": pod.namespace},
        "spec": {
            "accessModes": ["<ReadWriteOnce, or ReadWriteMany for pods on several nodes>"],
            "storageClassName": "<a class of the list>",
            "resources": {"requests": {"storage": "<size>"}},
        },
    }
    return (
        steps.look(
            title="See which claims the namespace has",
            why="The name may be spelled otherwise, or the claim stands in another namespace: a pod uses only its own.",
            command=kubectl.kubectl("get", "pvc", "-n", pod.namespace),
            expect=f"No claim of the name {printable(name, 80)}.",
        ),
        *_classes(),
        Step(
            kind=StepKind.FIX,
            title="Create the claim, or name one that exists",
            why="A new claim begins empty: data that the job expects must be copied there. The scheduler tries the pod "
            "again by itself.",
            risk=Risk.SAFE,
            manifest=manifests.to_yaml(claim),
            expect="The claim is Bound, or Pending until the pod has a node where its class waits for that.",
        ),
    )


def _provisioner(pod: Pod, claims: list[str]) -> tuple[Step, ...]:
    return (
        *_classes(),
        steps.look(
            title="See whether the storage driver runs",
            why="The provisioner of a class is a pod (csi-provisioner) beside the driver, which watches for claims.",
            command=kubectl.kubectl("get", "csidrivers"),
            expect="The provisioner that the evidence names. If it is there, its controller pod must be Running.",
        ),
    )


def _zone(pod: Pod, claims: list[str]) -> tuple[Step, ...]:
    return (
        steps.look(
            title="Compare the zones of volumes and nodes",
            why="A zonal disk or a local disk stays where it was made: only nodes there can mount it.",
            command=kubectl.kubectl(
                "get", "nodes", "-L", "topology.kubernetes.io/zone,nvidia.com/gpu.product"
            ),
            expect="GPU nodes in other zones than the volume's.",
        ),
        steps.escalate(
            "the owner of the data",
            why="The data must come to a zone with GPUs: a snapshot that is restored there, a copy into a new claim of "
            "a class with WaitForFirstConsumer, or storage that every zone reaches. Deleting the claim may delete it.",
            expect="A claim whose volume GPU nodes can reach.",
        ),
    )


def _storage_team() -> Step:
    return steps.escalate(
        "whoever runs the storage",
        why="A missing claim is made by the workload's owner; a provisioner or a volume in the wrong zone is theirs.",
        expect="The claim is Bound where the GPU nodes are.",
    )


_OWN = {
    "volume-claim-missing": _missing,
    "volume-provisioner-silent": _provisioner,
    "volume-provisioning-failed": _provisioner,
    "volume-claim-unbound": _provisioner,
    "volume-in-another-zone": _zone,
}
