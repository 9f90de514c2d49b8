"""Steps for pods that wait because GPUs are lacking, each cause with its own."""

import msgspec

from diagnostics.fixes import Risk, Step, StepKind, kubectl, manifests, steps
from diagnostics.fixes.stopping import stop_owner
from diagnostics.rules.scheduling.board import Reading
from diagnostics.rules.scheduling.owner_patch import (
    change,
    in_words,
    look_at_holders,
    look_at_nodes,
    owner_kind,
    patch_of_owner,
)
from diagnostics.snapshot import Pod
from diagnostics.text import counted, listed, printable

MOST_HOLDERS = 16
"""Holders that a step names, or that get a step; the rest is counted."""


def capacity(pod: Pod, reading: Reading) -> tuple[Step, ...]:
    return (
        *look_at_holders(reading),
        *_ask_holders(reading),
        *_stop_unused(reading),
        steps.escalate(
            "whoever plans the cluster's capacity",
            why=_who_may_end(reading)
            + "GPUs come free when one of them ends, or when nodes are added. A job that needs all members at once "
            "belongs into a queue or under a gang scheduler, so that it holds nothing meanwhile.",
            expect="A holder that may wait, more nodes, or a smaller request.",
        ),
    )


def _who_may_end(reading: Reading) -> str:
    if reading.unused:
        return "Where the holders work, "
    own = ""
    if reading.own_gpus:
        own = f"Pods of its own job hold {counted(reading.own_gpus, 'GPU')} there; if they wait for it, suspending the "
        own += "job gives these back until all fit. "
    return f"{own}No {'other ' if own else ''}holder is measured as idle: "


def _ask_holders(reading: Reading) -> tuple[Step, ...]:
    if not reading.unused:
        return ()
    told = [one.words for one in reading.unused]
    return (
        steps.look(
            title="Ask the owners of holders that hardly use their GPUs",
            why=f"{listed(told, MOST_HOLDERS)}. Only an owner knows what such a pod still has in memory. Idle ones "
            "have findings of their own (GPU501).",
            expect="One of them ends, or says why it must stay.",
        ),
    )


def _stop_unused(reading: Reading) -> tuple[Step, ...]:
    """The command for each owner of such holders, to be run with its consent only."""
    by_owner = {one.pod.root or one.pod.key: one for one in reversed(reading.unused)}
    made = []
    for one in reversed(by_owner.values()):
        step = stop_owner(one.pod)
        who = (
            f"{owner_kind(one.pod)} {printable(f'{one.pod.namespace}/{(one.pod.root or one.pod).name}', 200)}"
        )
        made.append(
            msgspec.structs.replace(
                step,
                title=printable(f"Only if its owner agrees: {step.title[0].lower()}{step.title[1:]}", 240),
                why=f"{one.words}. It belongs to {who}: ask its owner first. All of its pods end, and what they have "
                "in memory and did not save is lost, such as the state of a notebook's kernel.",
            )
        )
    return tuple(made[:MOST_HOLDERS])


def fragmented(pod: Pod, reading: Reading) -> tuple[Step, ...]:
    scoring = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "pluginConfig": [
                    {
                        "name": "NodeResourcesFit",
                        "args": {
                            "scoringStrategy": {
                                "type": "MostAllocated",
                                "resources": [{"name": name, "weight": 10} for name in sorted(pod.gpus)],
                            }
                        },
                    }
                ],
            }
        ],
    }
    return (
        *look_at_holders(reading),
        steps.escalate(
            "the owners of the small pods on one of these nodes",
            why="Moving them to nodes that are already in part used frees a whole node. Each moved pod restarts and "
            "loses what it has not saved, so that its owner decides.",
            expect=f"One node with {pod.gpu_count} free GPUs.",
        ),
        Step(
            kind=StepKind.FIX,
            title="Let the scheduler pack GPUs instead of spreading pods",
            why="The default scoring prefers the emptiest node, so that one-GPU pods leave a piece free on each. "
            "Packing changes where new pods land; running ones stay.",
            risk=Risk.SAFE,
            manifest=manifests.to_yaml(scoring),
            expect="New small pods land on nodes that are already in use.",
        ),
    )


def larger(pod: Pod, reading: Reading) -> tuple[Step, ...]:
    asking = [c.name for c in pod.containers if c.gpus]
    resource = max(pod.gpus, key=lambda name: pod.gpus[name])
    spec = {
        "containers": [
            {"name": name, "resources": {"limits": {resource: "<GPUs for this container>"}}}
            for name in asking
        ]
    }
    return (
        *look_at_nodes(reading),
        Step(
            kind=StepKind.FIX,
            title="Ask for no more GPUs in one pod than one node has",
            why="The GPUs of one pod are always on one node, and the requests of its containers add up. More GPUs for "
            f"one job come from more pods. Limits and requests of a GPU are equal.{in_words(pod, spec)}",
            risk=Risk.SAFE,
            manifest=patch_of_owner(pod, spec),
            expect="The pod's containers together ask for at most what the largest node has.",
        ),
    )


def no_resource(pod: Pod, reading: Reading) -> tuple[Step, ...]:
    instead = reading.names[0] if reading.names else "nvidia.com/gpu"
    columns = "nvidia.com/gpu.product,nvidia.com/gpu.count,nvidia.com/mig.config"
    offered = (
        listed([printable(name, 80) for name in reading.names]) if reading.names else "no GPU resource at all"
    )
    return (
        steps.look(
            title="See which GPUs and MIG layouts the nodes have",
            why="A resource name exists only where a device plugin registers it: MIG slices need a MIG layout, shared "
            "names need sharing, AMD and Intel GPUs their own plugins.",
            command=kubectl.kubectl("get", "nodes", "-L", columns),
            expect=f"The nodes offer {offered}.",
        ),
        change(
            pod,
            "Ask for a resource that exists here",
            "The name must be spelled as the nodes offer it.",
            {
                "containers": [
                    {"name": c.name, "resources": {"limits": {instead: "1"}}}
                    for c in pod.containers
                    if c.gpus
                ]
            },
            "The scheduler counts nodes that offer the resource.",
            has_working=reading.has_working,
        ),
    )


def elsewhere(pod: Pod, reading: Reading) -> tuple[Step, ...]:
    return (
        *look_at_nodes(reading),
        *look_at_holders(reading),
        steps.escalate(
            "the finding about these nodes, if there is one",
            why="The GPUs are there and cannot be used: that is repaired on the node or at its holders, not here.",
            expect="Its cause, and its own steps.",
        ),
    )


def wait(pod: Pod, reading: Reading) -> tuple[Step, ...]:
    return (
        *look_at_holders(reading),
        steps.look(
            title="Read what its scheduler says now",
            why="A quiet cluster is tried again about every five minutes; a gang only when all members fit.",
            command=kubectl.events_of("pod", pod.name, pod.namespace),
            expect="A newer event than the one in the evidence.",
        ),
    )
