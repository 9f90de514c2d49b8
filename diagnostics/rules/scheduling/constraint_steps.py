"""Steps for pods that wait for another reason than a lack of GPUs, each cause with its own."""

from typing import Any

from diagnostics.fixes import Step, kubectl, steps
from diagnostics.rules.scheduling.board import Reading
from diagnostics.rules.scheduling.owner_patch import change, look_at_holders, look_at_nodes
from diagnostics.snapshot import Pod
from diagnostics.text import printable


def selector(pod: Pod, reading: Reading) -> tuple[Step, ...]:
    keys = [key for key in reading.names if key][:6]
    look = steps.look(
        title="Compare the labels that it wants with those of the nodes",
        why="A product label is spelled as feature discovery writes it, with -SHARED or -MIG-… appended under sharing "
        "or MIG; without feature discovery it is absent.",
        command=kubectl.kubectl("get", "nodes", *(["-L", ",".join(keys)] if keys else ["--show-labels"])),
        expect="The values in the evidence; none of them is the one that is asked for.",
    )
    return (
        look,
        change(
            pod,
            "Ask for labels that a node has, or label the node",
            "Selector and affinity must both match one node.",
            {"nodeSelector": {key: "<value of a node>" for key in keys if key in pod.node_selector}}
            if any(key in pod.node_selector for key in keys)
            else {"affinity": {"nodeAffinity": None}},
            "At least one node with GPUs matches.",
            has_working=reading.has_working,
        ),
    )


def cordoned(pod: Pod, reading: Reading) -> tuple[Step, ...]:
    return (
        *look_at_nodes(reading),
        *(steps.uncordon(node) for node in reading.places[:1]),
        steps.escalate(
            "whoever cordoned the node",
            why="A cordon is set for a reason: a repair, a driver upgrade, a drain. Put the node back only when that "
            "is over.",
            expect="The reason, and when it ends.",
        ),
    )


def down(pod: Pod, reading: Reading) -> tuple[Step, ...]:
    return (
        *look_at_nodes(reading),
        steps.escalate(
            "whoever runs the nodes",
            why="The node's own condition keeps pods away; it must be repaired there.",
            expect="The node is Ready again, or is replaced.",
        ),
    )


def stranded(pod: Pod, reading: Reading) -> tuple[Step, ...]:
    requests = {
        name: "<less>" for name in reading.names if name in pod.effective_requests and name not in pod.gpus
    } or {"cpu": "<less>"}
    return (
        *look_at_holders(reading),
        change(
            pod,
            "Ask for less CPU or memory per GPU",
            "A node's CPU and memory are shared by its GPUs: a pod that takes more than its share strands the rest.",
            {
                "containers": [
                    {"name": c.name, "resources": {"requests": requests}} for c in pod.containers if c.gpus
                ]
            },
            "The request fits beside the holders of the nodes in the evidence.",
        ),
    )


def placement_rule(pod: Pod, reading: Reading) -> tuple[Step, ...]:
    field: dict[str, dict[str, Any]] = {
        "topology-spread": {"topologySpreadConstraints": None},
        "affinity-excludes-gpu-node": {"affinity": {"podAffinity": None}},
        "anti-affinity": {"affinity": {"podAntiAffinity": None}},
        "host-ports": {"hostNetwork": False},
    }
    return (
        change(
            pod,
            "Drop the constraint, or make it preferred",
            "A required rule that no node can meet keeps the pod waiting for ever; a preferred one only weighs. "
            "Anti-affinity gives no better interconnect: it spreads a job.",
            field[reading.cause],
            "The scheduler finds a node.",
            has_working=reading.has_working,
        ),
    )


def gate(pod: Pod, reading: Reading) -> tuple[Step, ...]:
    is_kueue = any(gate.startswith("kueue.x-k8s.io/") for gate in pod.scheduling_gates)
    looks = (
        steps.look(
            title="See where its workload stands in the queue",
            why="Kueue holds pods back until quota or a place is reserved for the whole workload: it waits its turn.",
            command=kubectl.kubectl("get", "workloads.kueue.x-k8s.io", "-n", pod.namespace, "-o", "wide"),
            expect="The workload, its queue, and whether it is admitted.",
        ),
    )
    return (
        *(looks if is_kueue else ()),
        steps.escalate(
            "the controller that set the gate",
            why="Only who set a gate knows when to lift it. Removing it by hand goes around the queue.",
            expect="The gate is lifted, or the reason why not.",
        ),
    )


def scheduler(pod: Pod, reading: Reading) -> tuple[Step, ...]:
    return (
        steps.look(
            title="Look for the scheduler that it names",
            why="A pod is left alone by every scheduler but the one in spec.schedulerName.",
            command=kubectl.kubectl(
                "get", "pods", "-A", "--field-selector", "status.phase=Running", "-o", "wide"
            ),
            expect=f"A running pod of {printable(pod.scheduler, 80)}; if there is none, it is not installed.",
        ),
        change(
            pod,
            "Name a scheduler that runs, or start the one that is named",
            "The default scheduler places pods one by one: a job that needs all members at once loses its gang.",
            {"schedulerName": "default-scheduler"},
            "An event from that scheduler within a minute.",
            has_working=reading.has_working,
        ),
    )
