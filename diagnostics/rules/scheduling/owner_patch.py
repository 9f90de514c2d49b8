"""What is done at a pod's owner (patches of its template), and looks at the nodes of a reading."""

from collections.abc import Sequence
from typing import Any

from diagnostics.fixes import Risk, Step, StepKind, kubectl, manifests, steps
from diagnostics.rules.scheduling.board import Reading
from diagnostics.snapshot import Pod
from diagnostics.text import printable

MOST_NODES = 2
"""Nodes that a fix names: more would be a list, not a step."""
MOST_LINES = 1500
"""Characters of a change that is told in words."""
_REPLICA_SPECS = {"PyTorchJob": "pytorchReplicaSpecs", "MPIJob": "mpiReplicaSpecs", "TFJob": "tfReplicaSpecs"}


def patch_of_owner(pod: Pod, spec: dict[str, Any]) -> str:
    """YAML patch that puts `spec` where the owner's kind keeps its pods' spec.

    Empty for a Volcano Job, whose tasks have no map key: applied, a list of one would replace them all.
    """
    root = pod.root
    if is_volcano_job(pod):
        return ""
    if root is None or root.kind == "Pod":
        root_kind, name, namespace, api_version = "Pod", pod.name, pod.namespace, "v1"
    else:
        root_kind, name, namespace, api_version = root.kind, root.name, root.namespace, root.api_version
    document: dict[str, Any] = {"apiVersion": api_version} if api_version else {}
    document |= {"kind": root_kind, "metadata": {"name": name, "namespace": namespace}}
    return manifests.to_yaml(document | {"spec": _nested(root_kind, pod, spec)})


def in_words(pod: Pod, spec: dict[str, Any]) -> str:
    """Where `spec` belongs, as a sentence to be added, for the kind that `patch_of_owner` gives nothing for."""
    if not is_volcano_job(pod):
        return ""
    task = printable(pod.labels.get("volcano.sh/task-spec", ""), 80)
    which = f'of task "{task}"' if task else "of the task that makes this pod"
    lines = printable(manifests.to_json(spec), MOST_LINES)
    gone = " (null: remove the field)" if ":null" in lines else ""
    return f" The lines, for the manifest of the Volcano Job, in spec.tasks, template.spec {which}{gone}: {lines}."


def is_volcano_job(pod: Pod) -> bool:
    root = pod.root
    return root is not None and root.kind == "Job" and root.api_version.startswith("batch.volcano.sh/")


def _nested(kind: str, pod: Pod, spec: dict[str, Any]) -> dict[str, Any]:
    template: dict[str, Any] = {"template": {"spec": spec}}
    label = pod.labels.get
    if kind == "Pod":
        return spec
    if kind == "CronJob":
        return {"jobTemplate": {"spec": template}}
    if kind == "JobSet":
        name = label("jobset.sigs.k8s.io/replicatedjob-name", "workers")
        return {"replicatedJobs": [{"name": name, "template": {"spec": template}}]}
    if kind == "LeaderWorkerSet":
        return {"leaderWorkerTemplate": {"workerTemplate": {"spec": spec}}}
    if kind in _REPLICA_SPECS:
        role = label("training.kubeflow.org/replica-type", "worker").capitalize()
        return {_REPLICA_SPECS[kind]: {role: template}}
    return template


def change(
    pod: Pod, title: str, why: str, spec: dict[str, Any], expect: str, *, has_working: bool = True
) -> Step:
    """A change of the spec of a pod that waits, in the way that its owner's kind allows.

    A command only where the change can be applied as it stands: the template may change, no value is left open.
    """
    kind = owner_kind(pod)
    is_template = kind in PATCHABLE
    body = manifests.to_json({"spec": {"template": {"spec": spec}}})
    root = pod.root
    return Step(
        kind=StepKind.FIX,
        title=title,
        why=f"{why} {_how(pod, kind, has_working)}{in_words(pod, spec)}",
        risk=Risk.SAFE if kind == "Pod" or (is_template and not has_working) else Risk.DISRUPTIVE,
        command=kubectl.patch(kind.lower(), root.name, root.namespace, body)
        if root is not None and is_template and "<" not in body
        else "",
        manifest=patch_of_owner(pod, spec),
        expect=expect,
    )


def owner_kind(pod: Pod) -> str:
    return pod.root.kind if pod.root is not None else "Pod"


PATCHABLE = frozenset({"Deployment", "StatefulSet", "DaemonSet"})
"""Kinds whose pod template may change in place."""
_ROLLS = "A change of the template makes it replace its pods, those that work included"
_ROLLS_WAITING = (
    "A change of the template makes it replace its pods; none of them works, so that nothing is lost"
)
_HOW = {
    "Job": "A Job's pod template cannot be changed: delete the Job and create it anew with these lines. Its "
    "pods that run lose what they have not checkpointed.",
    "Pod": "These fields of a pod cannot be changed in place: delete it and create it anew from its manifest with "
    "these lines. A pod that waits has done no work, so that nothing is lost.",
}
"""How a change gets to the pods, by the owner's kind (documentation of the workload kinds, and of pod updates)."""
_HOW_OTHERS = (
    "Change these lines in the manifest of the {kind}; where its controller does not take that, make it anew."
)


def _how(pod: Pod, kind: str, has_working: bool) -> str:
    if kind not in PATCHABLE:
        return _HOW.get(kind, _HOW_OTHERS.format(kind=kind))
    rolls = _ROLLS if has_working else _ROLLS_WAITING
    if kind != "StatefulSet":
        return f"{rolls}."
    return f"{rolls}. It stops at a pod that does not become ready, so delete the waiting pod afterwards."


def delete_waiting(pod: Pod, made: Sequence[Step]) -> tuple[Step, ...]:
    """What a StatefulSet needs after a change of its template; nothing where no step of `made` changes it."""
    patching = [s for s in made if owner_kind(pod) == "StatefulSet" and _OF_SET in s.manifest]
    if not patching:
        return ()
    return (
        Step(
            kind=StepKind.FIX,
            title=f"After the change: delete the waiting pod {printable(pod.name, 120)}",
            why="A StatefulSet's update stops at a pod that does not become ready. It makes this one anew from the "
            "changed template; a pod that waits has done no work, so that nothing is lost.",
            risk=max((step.risk for step in patching), key=lambda risk: risk.rank),
            command=kubectl.delete_pod(pod.name, pod.namespace),
            expect="A new pod of the same name, with the change.",
        ),
    )


_OF_SET = "\nkind: StatefulSet\n"


def look_at_holders(reading: Reading) -> tuple[Step, ...]:
    return tuple(steps.see_pods_on_node(node) for node in reading.places[:MOST_NODES])


def look_at_nodes(reading: Reading) -> tuple[Step, ...]:
    return tuple(steps.describe_node(node) for node in reading.places[:MOST_NODES])
