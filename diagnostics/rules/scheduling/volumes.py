"""Why a pod's volume claim keeps it from a node: read from the claim, its class and its volume, else from words.

A claim that waits for its first consumer is no reason by itself: it is bound once the pod finds a node.
"""

from collections.abc import Iterator

import msgspec

from diagnostics.findings import Evidence
from diagnostics.placement import fitted, node_terms_match
from diagnostics.quantities import rfc3339
from diagnostics.rules.scheduling.board import Board, Reading
from diagnostics.rules.scheduling.refusals import Refusal
from diagnostics.snapshot import Node, Pod
from diagnostics.snapshot.storage import StorageClass, VolumeClaim
from diagnostics.text import counted, listed, printable

SAID = (
    ('persistentvolumeclaim "', "volume-claim-missing", "does not exist"),
    ("storageclass", "storage-class-missing", "names a storage class that does not exist"),
    ("readwriteoncepod", "volume-in-use", "is in use by another pod, and only one may use it"),
    ("max volume count", "volume-attach-limit", "would exceed the volumes that a node can attach"),
    ("find available persistent volumes", "no-volume-to-bind", "finds no volume on any suitable node"),
    ("node affinity", "volume-in-another-zone", "is bound to a volume that no suitable node can reach"),
    ("volume zone", "volume-in-another-zone", "is bound to a volume that no suitable node can reach"),
    ("externalprovisioning", "volume-provisioner-silent", "waits for a provisioner that has not answered"),
    ("provisioningfailed", "volume-provisioning-failed", "could not be given a volume by its provisioner"),
    ("unbound", "volume-claim-unbound", "is not bound to a volume yet"),
)
"""(in the words or the claim's events, in lower case; cause; in plain words); the first that is said counts."""


class _Fault(msgspec.Struct, frozen=True):
    """What is wrong with one claim."""

    cause: str
    words: str
    """"its volume claim X <words>"."""
    facts: tuple[Evidence, ...] = ()
    is_sure: bool = True


def volume_reading(pod: Pod, board: Board, words: Refusal | None) -> Reading:
    """The claim that is to blame, and what its objects show; less is known where they could not be read."""
    names = claim_names(pod)
    said = event_facts(pod, board)
    for name in names:
        fault = _fault(name, pod, board, words)
        if fault is not None:
            facts = (_named(names, pod), *fault.facts, *said)
            shown = f"its volume claim {printable(name, 80)} {fault.words}"
            return Reading(fault.cause, shown, is_sure=fault.is_sure, facts=facts, names=(name,))
    text = " ".join((words.text if words else "", *(fact.value for fact in said))).lower()
    cause, state = next(
        ((cause, state) for sign, cause, state in SAID if sign in text and not _is_refuted(cause, board)),
        ("volume", "cannot be used where it fits"),
    )
    shown = f"its volume claim {listed([printable(name, 80) for name in names])} {state}"
    return Reading(cause, shown, facts=(_named(names, pod), *said), names=tuple(names))


def _is_refuted(cause: str, board: Board) -> bool:
    """Words are older than objects: what they miss is there by now."""
    storage = board.snapshot.storage
    if cause in {"volume-claim-missing", "volume-claim-unbound"}:
        return storage.claims is not None
    return cause == "storage-class-missing" and storage.classes is not None


def has_unanswered_claim(pod: Pod, board: Board) -> bool:
    """A claim has events, or a node was chosen for its volume and none came: why a scheduler may say nothing."""
    storage = board.snapshot.storage
    found = (storage.claim_by_key.get(f"{pod.namespace}/{name}") for name in claim_names(pod))
    asked = any(c is not None and c.phase != "Bound" and c.selected_node for c in found)
    return asked or bool(event_facts(pod, board))


def claim_names(pod: Pod) -> list[str]:
    """Of its claims, those of ephemeral volumes by the name that they are given: `<pod>-<volume>`."""
    names = [
        f"{pod.name}-{volume.name}" if volume.kind == "ephemeral" else volume.claim for volume in pod.volumes
    ]
    return list(dict.fromkeys(name for name in names if name))


def event_facts(pod: Pod, board: Board) -> tuple[Evidence, ...]:
    """What the volume controllers say of the pod's claims."""
    found = []
    for claim in claim_names(pod):
        events = board.snapshot.events_by_object.get(("PersistentVolumeClaim", pod.namespace, claim), [])
        if events:
            name = printable(claim, 80)
            said = f"{printable(events[-1].reason, 60)}: {printable(events[-1].message, 300)}"
            found.append(
                Evidence(f"volume claim {name}", said, source=f"event of PersistentVolumeClaim {name}")
            )
    return tuple(found)


def _fault(name: str, pod: Pod, board: Board, words: Refusal | None) -> _Fault | None:
    storage = board.snapshot.storage
    if storage.claims is None:
        return None
    claim = storage.claim_by_key.get(f"{pod.namespace}/{name}")
    if claim is None:
        source = f"PersistentVolumeClaims of namespace {printable(pod.namespace, 80)}"
        others = [printable(c.name, 80) for c in storage.claims if c.namespace == pod.namespace]
        fact = Evidence("claims that exist", listed(others, 8) if others else "none", source=source)
        return _Fault("volume-claim-missing", "does not exist", (fact,))
    if claim.phase == "Bound":
        return _bound(claim, pod, board)
    if claim.phase == "Lost":
        return _Fault(
            "volume-lost", f"has lost its volume {printable(claim.volume, 80)}", tuple(_state(claim))
        )
    fault = _pending(claim, board, words)
    return msgspec.structs.replace(fault, facts=(*_state(claim), *fault.facts)) if fault else None


def _pending(claim: VolumeClaim, board: Board, words: Refusal | None) -> _Fault | None:
    classes = board.snapshot.storage.classes
    wanted = claim.storage_class
    if wanted == "":
        return _Fault("no-volume-to-bind", "wants a volume without a class, and no such volume fits it")
    if classes is None:
        return None
    kind = next((c for c in classes if (c.is_default if wanted is None else c.name == wanted)), None)
    existing = listed([printable(c.name, 80) for c in classes], 8) if classes else "none"
    fact = Evidence("storage classes that exist", existing, source="StorageClasses of the cluster")
    if kind is None and wanted is None:
        return _Fault("no-default-storage-class", "names no storage class, and none is the default", (fact,))
    if kind is None:
        shown = printable(wanted or "", 80)
        return _Fault(
            "storage-class-missing", f"names the storage class {shown}, which does not exist", (fact,)
        )
    return _of_class(claim, kind, board, words)


def _of_class(claim: VolumeClaim, kind: StorageClass, board: Board, words: Refusal | None) -> _Fault | None:
    waits = kind.binding_mode == "WaitForFirstConsumer"
    binding = f"{printable(kind.name, 80)}, {printable(kind.provisioner, 120)}, {kind.binding_mode}"
    fact = Evidence(
        "its storage class", binding, source=f"provisioner of StorageClass {printable(kind.name, 80)}"
    )
    events = board.snapshot.events_by_object.get(("PersistentVolumeClaim", claim.namespace, claim.name), [])
    provisioner = printable(kind.provisioner, 120)
    if kind.is_static:
        is_said = words is not None and "find available persistent volumes" in words.text
        if waits and not is_said:
            return None
        shown = f"finds no volume of class {printable(kind.name, 80)}, for which nobody makes any"
        return _Fault("no-volume-to-bind", shown, (fact,))
    if waits and not claim.selected_node:
        return None
    if any(event.reason == "ProvisioningFailed" for event in events):
        shown = f"could not be given a volume: provisioner {provisioner} failed"
        return _Fault("volume-provisioning-failed", shown, (fact,))
    if claim.provisioner or claim.selected_node or any(e.reason == "ExternalProvisioning" for e in events):
        shown = f"waits for provisioner {provisioner}, which has not answered"
        return _Fault("volume-provisioner-silent", shown, (fact,))
    return _Fault("volume-claim-unbound", "is not bound to a volume yet", (fact,))


def _bound(claim: VolumeClaim, pod: Pod, board: Board) -> _Fault | None:
    """A volume that only some nodes reach, and none of those with the pod's GPUs is among them."""
    volume = board.snapshot.storage.volume_by_name.get(claim.volume)
    if volume is None or not volume.node_terms:
        return None
    offering = [node for node in board.snapshot.nodes if _offers(pod, node)]
    if not offering or any(node_terms_match(volume.node_terms, node) for node in offering):
        return None
    name = printable(volume.name, 80)
    places = listed([_place(term) for term in volume.node_terms], 4)
    zones = sorted(
        {node.zone or node.labels.get("topology.kubernetes.io/zone", "unknown") for node in offering}
    )
    return _Fault(
        "volume-in-another-zone",
        f"is bound to a volume that none of the {counted(len(offering), 'node')} with its GPUs can reach",
        (
            Evidence("volume reached from", places, source=f"spec.nodeAffinity of PersistentVolume {name}"),
            Evidence(
                "zones of nodes with its GPUs",
                listed([printable(zone, 80) for zone in zones], 6),
                source="label topology.kubernetes.io/zone of the nodes",
            ),
        ),
    )


def _offers(pod: Pod, node: Node) -> bool:
    return all(fitted(node, name) != 0 for name in pod.gpus)


def _place(term: dict[str, object]) -> str:
    """`topology.kubernetes.io/zone In eu-1a` of one alternative."""
    parts = []
    for field in ("matchExpressions", "matchFields"):
        found = term.get(field)
        for one in found if isinstance(found, list) else ():
            if isinstance(one, dict):
                values = one.get("values")
                shown = ", ".join(map(str, values)) if isinstance(values, list) else ""
                parts.append(f"{one.get('key', '')} {one.get('operator', '')} {shown}".strip())
    return printable(" and ".join(parts) or "no node", 200)


def _named(names: list[str], pod: Pod) -> Evidence:
    shown = listed([printable(name, 80) for name in names])
    return Evidence("volume claims", shown, source=f"spec.volumes of pod {pod.key}")


def _state(claim: VolumeClaim) -> Iterator[Evidence]:
    name = printable(claim.key, 160)
    since = f" since {rfc3339(claim.created_at)}" if claim.created_at else ""
    wanted = (
        "the default class"
        if claim.storage_class is None
        else printable(claim.storage_class, 80) or "no class"
    )
    yield Evidence(
        "phase of the claim",
        f"{printable(claim.phase, 40)}{since}",
        source=f"PersistentVolumeClaim {name}",
        at=claim.created_at,
    )
    yield Evidence("class of the claim", wanted, source=f"PersistentVolumeClaim {name}")
    if claim.selected_node:
        yield Evidence(
            "node chosen for the volume",
            printable(claim.selected_node, 80),
            source=f"annotation volume.kubernetes.io/selected-node of PersistentVolumeClaim {name}",
        )
