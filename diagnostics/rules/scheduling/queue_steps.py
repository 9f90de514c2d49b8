"""Steps for what queues and pod groups hold back: look at the queue first; its owner changes it, not the job."""

from diagnostics.findings import Subject
from diagnostics.fixes import Fix, Risk, Step, StepKind, in_order, kubectl, manifests, steps
from diagnostics.rules.scheduling.board import Reading
from diagnostics.snapshot import Pod
from diagnostics.text import printable

_SUMMARIES = {
    "kueue-inadmissible": "Make the job and its queue agree",
    "kueue-deactivated": "Switch its workload on again, once it is known who switched it off",
    "kueue-pods-not-ready": "Find out why its pods were not ready in time",
    "kueue-admission-check": "See what the admission check waits for",
    "kueue-waits-its-turn": "Wait for its turn",
    "queue-closed": "Open the queue, or use another one",
    "volcano-queue-missing": "Name a queue that exists",
    "volcano-queue-closed": "Open the queue, or use another one",
    "volcano-job-larger-than-queue": "Ask for less at once, or have the queue enlarged",
    "volcano-queue-over-capability": "Wait for its turn, or have the queue enlarged",
    "volcano-queue-over-deserved": "Wait for its turn, or have the queue's share raised",
    "volcano-queue-quota-used": "Wait for its turn, or have the queue enlarged",
    "yunikorn-queue-quota": "Wait for its turn, or have the queue enlarged",
    "pod-group-too-few-pods": "Let the group's size be what its job makes",
    "gang-does-not-fit": "Make room for the whole gang, or ask for less",
}


KEPT_BACK = tuple(_SUMMARIES.keys() - {"pod-group-too-few-pods", "gang-does-not-fit"})
"""Causes that are the queue's own decision."""


def summary_of(cause: str) -> str:
    return _SUMMARIES[cause]


def queue_fix(subject: Subject, reading: Reading) -> Fix:
    """For a job that has no pods."""
    look = steps.look(
        title=f"Read the state and events of {printable(subject.kind, 40)} {printable(subject.name, 120)}",
        why="A job that a queue keeps back is suspended, or has no pods yet: its events say by whom.",
        command=kubectl.describe(_resource(subject), subject.name, subject.namespace),
        expect="No pods, and the queue that it names.",
    )
    return Fix(
        summary_of(reading.cause),
        in_order(
            look,
            *_looks(subject.namespace, reading),
            *_decide(reading),
            steps.verify_finding_gone("The queue lets it in, and its pods are made."),
        ),
    )


def queue(pod: Pod, reading: Reading) -> tuple[Step, ...]:
    """For a pod that waits behind a gate, or whose pod group is not let in."""
    return (*_looks(pod.namespace, reading), *_decide(reading))


def too_few(pod: Pod, reading: Reading) -> tuple[Step, ...]:
    return (
        steps.look(
            title="Count the pods of the group",
            why="The scheduler waits for as many pods as the group says, whatever is free; a job that makes fewer "
            "never starts.",
            command=kubectl.kubectl("get", "pods", "-n", pod.namespace, "-o", "wide"),
            expect="Fewer pods of this group than it waits for.",
        ),
        steps.escalate(
            "the owner of the job",
            why="Either the job must make more pods (a quota or an error may keep it from it), or the group's "
            "minMember must be what the job makes. Both are its owner's numbers.",
            expect="As many pods as the group waits for.",
        ),
    )


def whole_gang(pod: Pod, reading: Reading) -> tuple[Step, ...]:
    return (
        *(steps.see_pods_on_node(node) for node in reading.places[:2]),
        steps.escalate(
            "whoever plans the cluster's capacity",
            why="The gang holds nothing while it waits, which is what gang scheduling is for. It starts when enough "
            "GPUs are free at one moment: smaller jobs that come meanwhile may take them first, unless the queue "
            "keeps an order.",
            expect="Enough free GPUs at once, or a job of fewer or smaller members.",
        ),
    )


def tas(pod: Pod, reading: Reading) -> tuple[Step, ...]:
    """Topology-aware scheduling: quota is reserved only where the nodes have room for each pod."""
    topology = {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Topology",
        "metadata": {"name": "gpu-nodes"},
        "spec": {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]},
    }
    flavor = {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "ResourceFlavor",
        "metadata": {"name": "<flavour of its queue>"},
        "spec": {"nodeLabels": {"<label of the GPU nodes>": "<value>"}, "topologyName": "gpu-nodes"},
    }
    return (
        *(steps.see_pods_on_node(node) for node in reading.places[:2]),
        Step(
            kind=StepKind.FIX,
            title="Let Kueue count room on nodes, not only the sum",
            why="With topology-aware scheduling Kueue admits a workload only where the nodes of its flavour have room "
            "for each of its pods, so that it waits as a whole instead of starting in part. Use the version that "
            "`kubectl api-resources` shows for kueue.x-k8s.io; a flavour is shared by queues, so its owner adds the "
            "line.",
            risk=Risk.SAFE,
            manifest=manifests.to_yaml(topology) + "---\n" + manifests.to_yaml(flavor),
            expect="A new workload of this shape stays in the queue until one node has room for each pod.",
        ),
        steps.escalate(
            "the owners of the small pods on one of these nodes",
            why="The job that waits now needs one whole node's worth: moving small pods together frees it. Each moved "
            "pod restarts, so that its owner decides.",
            expect=f"One node with {pod.gpu_count} free GPUs.",
        ),
    )


def _looks(namespace: str, reading: Reading) -> tuple[Step, ...]:
    name = reading.names[0] if reading.names else ""
    if reading.cause.startswith("volcano-"):
        return (
            steps.look(
                title=f"See state, limits and use of queue {printable(name, 80)}",
                why="A Volcano queue lets a pod group in when it is open and its capability leaves room.",
                command=kubectl.get_yaml("queues.scheduling.volcano.sh", name),
                expect="spec.capability and spec.deserved against status.allocated; status.state.",
            ),
        )
    if reading.cause.startswith(("kueue-", "queue-")):
        found = [
            steps.look(
                title="See where its workload stands in the queue",
                why="Kueue admits a workload as a whole when quota for all of it is free.",
                command=kubectl.kubectl("get", "workloads.kueue.x-k8s.io", "-n", namespace, "-o", "wide"),
                expect="The workload, its queue, and whether it is admitted.",
            )
        ]
        if name:
            found.append(
                steps.look(
                    title=f"See quota and use of ClusterQueue {printable(name, 80)}",
                    why="What is reserved, and by how many workloads, stands in its status.",
                    command=kubectl.describe("clusterqueues.kueue.x-k8s.io", name),
                    expect="Nominal quota against reserved quota, and the condition Active.",
                )
            )
        return tuple(found)
    return ()


_DECISIONS = {
    "kueue-inadmissible": (
        "whoever runs the queue, and the job's owner",
        "Waiting does not help: the request must become smaller, or the queue's quota or flavours must take it. "
        "Removing the queue label or the gate by hand goes around everybody else's turn.",
        "A request that the queue can admit, or a queue that can admit it.",
    ),
    "kueue-deactivated": (
        "whoever switched it off",
        "Kueue does so itself after too many requeues; else a person did.",
        "spec.active is true again, or the reason why not.",
    ),
    "kueue-pods-not-ready": (
        "the job's owner",
        "Kueue gives quota back when the pods of an admitted workload are not ready in time, and tries again. Why they "
        "were not is in their events: images, volumes, GPUs in pieces.",
        "The pods become ready in time at the next try.",
    ),
}
_BY_DEFAULT = (
    "whoever runs the queue",
    "What a queue gives, and to whom first, is a decision and not a repair.",
    "The queue lets it in, or its owner says when.",
)


def _decide(reading: Reading) -> tuple[Step, ...]:
    to, why, expect = _DECISIONS.get(reading.cause, _BY_DEFAULT)
    return (steps.escalate(to, why=why, expect=expect),)


def _resource(subject: Subject) -> str:
    """Kind as kubectl takes it; with its group where that is not a built-in one."""
    group = subject.api_version.rpartition("/")[0]
    kind = subject.kind.lower()
    return kind if group in ("", "batch", "apps") else f"{kind}.{group}"
