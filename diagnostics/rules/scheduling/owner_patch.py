"""Changes to a pod's spec, written as a patch of whatever owns it; and looks at the nodes of a reading."""

from typing import Any

from diagnostics.fixes import Risk, Step, StepKind, manifests, steps
from diagnostics.rules.scheduling.board import Reading
from diagnostics.snapshot import Pod

MOST_NODES = 2
"""Nodes that a fix names: more would be a list, not a step."""
_REPLICA_SPECS = {"PyTorchJob": "pytorchReplicaSpecs", "MPIJob": "mpiReplicaSpecs", "TFJob": "tfReplicaSpecs"}


def patch_of_owner(pod: Pod, spec: dict[str, Any]) -> str:
    """YAML patch that puts `spec` where the owner's kind keeps its pods' spec."""
    root = pod.root
    if root is None or root.kind == "Pod":
        root_kind, name, namespace, api_version = "Pod", pod.name, pod.namespace, "v1"
    else:
        root_kind, name, namespace, api_version = root.kind, root.name, root.namespace, root.api_version
    document: dict[str, Any] = {"apiVersion": api_version} if api_version else {}
    document |= {"kind": root_kind, "metadata": {"name": name, "namespace": namespace}}
    return manifests.to_yaml(document | {"spec": _nested(root_kind, api_version, pod, spec)})


def _nested(kind: str, api_version: str, pod: Pod, spec: dict[str, Any]) -> dict[str, Any]:
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
    if kind == "Job" and api_version.startswith("batch.volcano.sh/"):
        return {"tasks": [{"name": label("volcano.sh/task-spec", "worker"), **template}]}
    return template


def change(pod: Pod, title: str, why: str, spec: dict[str, Any], expect: str) -> Step:
    """A change of the spec of a pod that waits: it has done no work, so that nothing is lost."""
    return Step(
        kind=StepKind.FIX,
        title=title,
        why=f"{why} A pod's scheduling fields cannot be changed in place: its owner makes a new one; a Job or a bare "
        "pod is made anew. The waiting pod has done no work, so that nothing is lost.",
        risk=Risk.SAFE,
        manifest=patch_of_owner(pod, spec),
        expect=expect,
    )


def look_at_holders(reading: Reading) -> tuple[Step, ...]:
    return tuple(steps.see_pods_on_node(node) for node in reading.places[:MOST_NODES])


def look_at_nodes(reading: Reading) -> tuple[Step, ...]:
    return tuple(steps.describe_node(node) for node in reading.places[:MOST_NODES])
