"""Guided fix for a scattered job: look first, then have its pods placed together at its next start."""

from collections.abc import Mapping, Sequence
from typing import Any

from diagnostics.fixes import Fix, Risk, Step, StepKind, kubectl, manifests, steps
from diagnostics.placement import Scatter
from diagnostics.rules.scheduling.owner_patch import in_words, patch_of_owner
from diagnostics.snapshot import Gang, Node, OwnerKey, Pod
from diagnostics.text import printable

HOSTNAME = "kubernetes.io/hostname"
_GROUP_LABELS = (
    "jobset.sigs.k8s.io/jobset-name",
    "leaderworkerset.sigs.k8s.io/name",
    "training.kubeflow.org/job-name",
    "volcano.sh/job-name",
    "batch.kubernetes.io/job-name",
    "job-name",
    "app",
    "app.kubernetes.io/name",
)


def scatter_fix(
    gang: Gang,
    placed: Sequence[Pod],
    scatter: Scatter,
    possible: Mapping[str, int] | None,
    *,
    spreads_itself: bool,
) -> Fix:
    summary = (
        "Drop what spreads it, and place its pods together" if spreads_itself else "Place its pods together"
    )
    return Fix(
        f"{summary} at its next start",
        (
            steps.look(
                title="See where the job's pods are",
                why="Placement may have changed since: a restarted pod can land elsewhere.",
                command=kubectl.kubectl(
                    "get",
                    "pods",
                    "-n",
                    gang.namespace,
                    "-o",
                    "wide",
                    "--",
                    *(pod.name for pod in placed[:16]),
                ),
                expect=f"The {scatter.hosts.used} hosts named in the evidence.",
            ),
            *(steps.see_pods_on_node(name) for name in list(possible or ())[:2]),
            steps.read_log(
                placed[0],
                expect="When it last saved a checkpoint: what comes after is lost by a restart.",
            ),
            *_together_again(gang, placed, scatter, spreads_itself=spreads_itself),
            steps.verify_finding_gone(
                "The job lies on as few hosts as it needs, or its scatter is below the limit."
            ),
        ),
    )


_LOSES = (
    "Starting again stops the job and loses everything since its last checkpoint, so wait for one, or do it at the "
    "next start."
)
_PREFERRED = "Preferred, not required: the job then starts even where the room is not there."


def _together_again(
    gang: Gang, placed: Sequence[Pod], scatter: Scatter, *, spreads_itself: bool
) -> tuple[Step, ...]:
    """Placement is decided once, when a pod is bound: so all of its pods go before the first comes back."""
    root = placed[0].root
    if root is not None and root.kind in {"StatefulSet", "Deployment"}:
        spec = _affinity_spec(placed, scatter, spreads_itself=spreads_itself)
        return _scaled_down_and_up(root, gang.size or len(placed), placed, spec)
    how = "A Job's pod template cannot be changed: delete it and make it anew." if gang.kind == "Job" else ""
    manifest = _manifest(gang, placed, scatter, spreads_itself=spreads_itself)
    lines = ""
    if not manifest:
        lines = in_words(placed[0], _affinity_spec(placed, scatter, spreads_itself=spreads_itself))
    return (
        Step(
            kind=StepKind.FIX,
            title="Ask the scheduler to keep the pods together, and start the job again",
            why=f"Placement is decided once, when a pod is bound. {_LOSES} {_PREFERRED} {how}".strip()
            + lines,
            risk=Risk.DISRUPTIVE,
            manifest=manifest,
            expect="Its pods on fewer hosts: see the placement that is possible in the evidence.",
        ),
    )


def _scaled_down_and_up(
    root: OwnerKey, replicas: int, placed: Sequence[Pod], spec: dict[str, Any]
) -> tuple[Step, ...]:
    """A change of the template alone would replace one pod after another, each drawn to the scattered ones."""
    kind, name = root.kind.lower(), printable(root.name, 120)
    head: dict[str, Any] = {"apiVersion": root.api_version} if root.api_version else {}
    head |= {"kind": root.kind, "metadata": {"name": root.name, "namespace": root.namespace}}
    patch = {"spec": {"replicas": replicas, "template": {"spec": spec}}}
    scale = ("scale", kind, "-n", root.namespace, "--replicas=0", *kubectl.named(root.name))
    gone = ("wait", "pod", "-n", root.namespace, "--for=delete", "--timeout=10m", "--")
    return (
        Step(
            kind=StepKind.FIX,
            title=f"Scale {root.kind} {name} to zero",
            why="A new template alone starts a rolling update, in which each new pod is drawn to the old, scattered "
            f"ones. {_LOSES}",
            risk=Risk.DISRUPTIVE,
            command=kubectl.kubectl(*scale),
            expect="Its pods are Terminating.",
        ),
        Step(
            kind=StepKind.VERIFY,
            title="Wait until all of its pods are gone",
            why="A pod that is left attracts the new ones.",
            risk=Risk.READ_ONLY,
            command=kubectl.kubectl(*gone, *(pod.name for pod in placed)),
            expect="It returns without an error.",
        ),
        Step(
            kind=StepKind.FIX,
            title=f"Ask the scheduler to keep the pods together, and scale back to {replicas}",
            why=f"{_PREFERRED} With no pod left, all of them are placed anew; one that is left would be replaced, too.",
            risk=Risk.DISRUPTIVE,
            command=kubectl.patch(kind, root.name, root.namespace, manifests.to_json(patch)),
            manifest=manifests.to_yaml(head | patch),
            expect="Its pods on fewer hosts: see the placement that is possible in the evidence.",
        ),
    )


def _manifest(gang: Gang, placed: Sequence[Pod], scatter: Scatter, *, spreads_itself: bool) -> str:
    key = _rack_key(scatter.nodes)
    if not spreads_itself and key:
        if gang.kind == "LeaderWorkerSet":
            return _annotated(gang, {"leaderworkerset.sigs.k8s.io/exclusive-topology": key})
        if gang.gang_scheduler == "kueue" and gang.kind == "Job":
            template = {"metadata": {"annotations": {"kueue.x-k8s.io/podset-preferred-topology": key}}}
            return manifests.to_yaml(_head(gang) | {"spec": {"template": template}})
        if gang.system == "Volcano" and gang.kind == "Job":
            topology = {"networkTopology": {"mode": "soft", "highestTierAllowed": 1}}
            return manifests.to_yaml(_head(gang) | {"spec": topology})
    return patch_of_owner(placed[0], _affinity_spec(placed, scatter, spreads_itself=spreads_itself))


def _affinity_spec(placed: Sequence[Pod], scatter: Scatter, *, spreads_itself: bool) -> dict[str, Any]:
    """The pod spec's part that draws the job's pods together, and takes away what drives them apart."""
    affinity: dict[str, Any] = {"podAffinity": _together(placed, _rack_key(scatter.nodes))}
    if spreads_itself:
        affinity["podAntiAffinity"] = None
    spec: dict[str, Any] = {"affinity": affinity}
    if spreads_itself and placed[0].topology_spread:
        spec["topologySpreadConstraints"] = None
    return spec


def _head(gang: Gang) -> dict[str, Any]:
    head: dict[str, Any] = {"apiVersion": gang.api_version} if gang.api_version else {}
    return head | {"kind": gang.kind, "metadata": {"name": gang.name, "namespace": gang.namespace}}


def _annotated(gang: Gang, annotations: dict[str, str]) -> str:
    head = _head(gang)
    head["metadata"] = head["metadata"] | {"annotations": annotations}
    return manifests.to_yaml(head)


def _together(placed: Sequence[Pod], key: str) -> dict[str, Any]:
    """Preferred affinity to the job's own pods: one host first, then one rack."""
    keys = [(100, HOSTNAME), (50, key)] if key else [(100, HOSTNAME)]
    return {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": weight,
                "podAffinityTerm": {
                    "labelSelector": {"matchLabels": _own_labels(placed)},
                    "topologyKey": topology,
                },
            }
            for weight, topology in keys
        ]
    }


def _own_labels(placed: Sequence[Pod]) -> dict[str, str]:
    """Labels that all of its pods share; the one that names the job alone, where there is one."""
    shared = dict(set.intersection(*(set(pod.labels.items()) for pod in placed)))
    named = next((label for label in _GROUP_LABELS if label in shared), None)
    if named is not None:
        return {named: shared[named]}
    return dict(sorted(shared.items())) or {"app": "<label that its pods share>"}


def _rack_key(nodes: Sequence[Node]) -> str:
    """The label whose value is the rack of every node; empty where the rack is unknown."""
    if any(node.rack is None for node in nodes):
        return ""
    keys = set.intersection(*({k for k, v in node.labels.items() if v == node.rack} for node in nodes))
    return min(keys, key=lambda key: ("rack" not in key, key), default="")
