"""Steps towards nodes that a waiting pod's own selector or affinity, or their taints, close to it."""

import json
from typing import Any

import msgspec

from diagnostics.fixes import Risk, Step, StepKind, kubectl, steps
from diagnostics.rules.scheduling.board import Reading
from diagnostics.rules.scheduling.owner_patch import (
    PATCHABLE,
    change,
    in_words,
    is_volcano_job,
    look_at_nodes,
    owner_kind,
    patch_of_owner,
)
from diagnostics.snapshot import Pod, Toleration
from diagnostics.text import listed, printable


def taint(pod: Pod, reading: Reading) -> tuple[Step, ...]:
    added = [
        _toleration(Toleration(t.key, "Equal" if t.value else "Exists", t.value, t.effect))
        for t in reading.taints
    ]
    tolerate = _tolerate_in_template if owner_kind(pod) in PATCHABLE else _tolerate_in_pod
    return (*look_at_nodes(reading), _ask(pod, reading), tolerate(pod, added, reading))


_WHY_TAINTED = "Only once the taint's owner agrees."


def _ask(pod: Pod, reading: Reading) -> Step:
    """How to find the taint's owner: who set it, and who runs behind it."""
    behind = "No GPU pod runs on these nodes now." if reading.places else ""
    if reading.behind:
        own = printable(pod.namespace, 80)
        its = "is" if pod.namespace in reading.behind else "is not"
        names = listed([printable(name, 80) for name in reading.behind], 6)
        behind = (
            f"GPU pods of these namespaces run behind it: {names}; the pod's own, {own}, {its} among them."
        )
    # Where nodes could not be read, none is known.
    node = kubectl.named(reading.places[0]) if reading.places else ()
    kind = "node" if node else "nodes"
    return steps.look(
        title="Ask the taint's owner whether the pod may run there",
        why="A taint on GPU nodes keeps other pods off; one that names a team or a pool reserves them. Who set it: "
        "metadata.managedFields of the node names the client that wrote spec.taints, such as a node pool's controller "
        f"or kubectl; its labels may name the pool. {behind}".rstrip(),
        command=kubectl.kubectl("get", kind, "--show-managed-fields", "-o", "yaml", *node),
        expect="An owner who agrees, or who says why the nodes are kept from it.",
    )


def _title(reading: Reading) -> str:
    if (
        reading.troubled
        and len(reading.troubled) == len(reading.places)
        and not any(t.is_fit for t in reading.troubled)
    ):
        return "Tolerate the taint, once its nodes are repaired and its owner agrees"
    return "Tolerate the taint, if its owner agrees"


def _caution(reading: Reading) -> str:
    """What the snapshot shows against the nodes; empty where it shows nothing."""
    told = [(t.is_fit, f"{t.words}, {t.room}" if t.room else t.words) for t in reading.troubled]
    fit = [words for is_fit, words in told if is_fit]
    unfit = [words for is_fit, words in told if not is_fit]
    words = ""
    if fit:
        words += (
            f" Not all is well on {listed(fit, 3)}; but it is Ready and schedulable with enough healthy GPUs free, so "
            "that this may go ahead once the owner agrees, and the pod gets a healthy GPU."
        )
    if unfit:
        words += (
            " Wait until these are repaired and, where cordoned, uncordoned, since they have too few GPUs that are "
            f"healthy and free, or may give out one that is not well: {listed(unfit, 3)}."
        )
    return words


def _tolerate_in_template(pod: Pod, added: list[dict[str, Any]], reading: Reading) -> Step:
    kept = [_toleration(t) for t in pod.tolerations if t.seconds is None]
    made = change(
        pod,
        _title(reading),
        f"{_WHY_TAINTED}{_caution(reading)} A patch replaces the whole list, so that the tolerations it has are "
        "repeated here.",
        {"tolerations": [*kept, *added]},
        "The scheduler no longer counts these nodes as tainted for this pod.",
        has_working=reading.has_working,
    )
    # It lands on what others reserved, or on a node that is not well, even where it disturbs no pod of its own.
    return msgspec.structs.replace(made, risk=Risk.DISRUPTIVE)


def _tolerate_in_pod(pod: Pod, added: list[dict[str, Any]], reading: Reading) -> Step:
    """Adding tolerations is the one change of placement that a pod allows (Kubernetes: pod update and replacement)."""
    path, values = ("/spec/tolerations/-", added) if pod.tolerations else ("/spec/tolerations", [added])
    body = json.dumps([{"op": "add", "path": path, "value": value} for value in values])
    kept = [_toleration(t) for t in pod.tolerations if t.seconds is None]
    spec = {"tolerations": [*kept, *added]}
    lines = (
        in_words(pod, spec)
        if is_volcano_job(pod)
        else " The lines below belong into the manifest that it comes from, for its next start."
    )
    return Step(
        kind=StepKind.FIX,
        title=_title(reading),
        why=f"{_WHY_TAINTED}{_caution(reading)} A toleration may be added to a pod in place, which the command "
        f"does; no other field of its placement may.{lines}",
        # It lands on what others reserved, or on a node that is not well.
        risk=Risk.DISRUPTIVE,
        command=kubectl.kubectl(
            "patch", "pod", "-n", pod.namespace, "--type=json", "-p", body, *kubectl.named(pod.name)
        ),
        manifest=patch_of_owner(pod, spec),
        expect="The scheduler no longer counts these nodes as tainted for this pod.",
    )


def loosen(pod: Pod, reading: Reading) -> tuple[Step, ...]:
    """Where free GPUs are out of its reach by its own demands or by taints: the way to them, if it may be gone."""
    closed = reading.shut_out
    if closed is None:
        return ()
    where = listed([printable(name, 80) for name in closed.fitting or closed.nodes], 4)
    room = (
        f"One such pod fits on {where}." if closed.fitting else f"{where}: none has room for a whole one yet."
    )
    steps_to_take = []
    if closed.by_labels:
        spec: dict[str, Any] = {"nodeSelector": dict.fromkeys(pod.node_selector)} if pod.node_selector else {}
        if "affinity" in closed.demand:
            spec |= {"affinity": {"nodeAffinity": None}}
        loosened = change(
            pod,
            f"If its owner agrees: loosen its {closed.demand}",
            f"{closed.elsewhere[0].upper()}{closed.elsewhere[1:]}. A pool, a model or a zone may be asked for "
            f"with good reason, and the nodes may be another team's: its owner decides, and drops the lines that need "
            f"not be.{_caution(reading)}",
            spec,
            room,
            has_working=reading.has_working,
        )
        # It may land on what others count on, even where it disturbs no pod of its own.
        steps_to_take.append(msgspec.structs.replace(loosened, risk=Risk.DISRUPTIVE))
    if closed.by_taints:
        steps_to_take.append(
            steps.escalate(
                "the owners of the tainted nodes",
                why=f"{closed.elsewhere[0].upper()}{closed.elsewhere[1:]}, and taints reserve "
                f"{listed([printable(name, 80) for name in closed.by_taints], 4)}.{_caution(reading)}",
                expect="A toleration for this workload, or the reason why the nodes are kept.",
            )
        )
    return tuple(steps_to_take)


def _toleration(toleration: Toleration) -> dict[str, Any]:
    parts = {
        "key": toleration.key,
        "operator": toleration.operator,
        "value": toleration.value,
        "effect": toleration.effect,
    }
    return {name: text for name, text in parts.items() if text}
