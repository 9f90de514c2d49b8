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
    return (*look_at_nodes(reading), tolerate(pod, added, reading))


_TOLERATE = "Tolerate the taint, if the pod belongs on these nodes"
_WHY_TAINTED = (
    "A taint on GPU nodes keeps other pods off; one that names a team or a pool reserves them: "
    "ask its owner first."
)


def _caution(reading: Reading) -> str:
    """What the snapshot shows against the nodes; empty where it shows nothing."""
    if not reading.troubled:
        return ""
    return (
        " Not all of these nodes are well, so look at their findings first, and add no toleration for one that is to "
        f"be drained: {listed(reading.troubled, 3)}."
    )


def _tolerate_in_template(pod: Pod, added: list[dict[str, Any]], reading: Reading) -> Step:
    kept = [_toleration(t) for t in pod.tolerations if t.seconds is None]
    made = change(
        pod,
        _TOLERATE,
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
        title=_TOLERATE,
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
        steps_to_take.append(
            change(
                pod,
                f"Loosen its {closed.demand}, if it need not be",
                f"{closed.elsewhere[0].upper()}{closed.elsewhere[1:]}. A pool, a model or a zone may be asked for "
                f"with good reason: its owner decides, and drops the lines that need not be.{_caution(reading)}",
                spec,
                room,
                has_working=reading.has_working,
            )
        )
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
