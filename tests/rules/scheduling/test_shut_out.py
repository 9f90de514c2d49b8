"""Free GPUs that a waiting pod's own demands, or taints, keep from it: they are named, with the way to them."""

import json
import shlex
from typing import Any

import msgspec
import pytest
import yaml

from diagnostics.findings import Hit
from diagnostics.fixes import Risk, Step, StepKind
from diagnostics.snapshot import Condition, Node, Past, Pod, Taint, Toleration, XidSeen
from tests.builders import ago, gpu, node, owner, pending_pod, pod
from tests.rules.scheduling.waiting import hit

POOL = "example.com/pool"
TRAIN = {POOL: "train"}
RESERVED = Taint("dedicated", "NoSchedule", "robotics")


def facts(found: Hit) -> dict[str, str]:
    return {fact.label: fact.value for fact in found.evidence}


def full(name: str, **fields: Any) -> tuple[Node, Pod]:
    return node(name, **fields), pod(f"holder-{name}", node=name, gpus=8)


def step_of(found: Hit, words: str) -> Step:
    return next(step for step in found.fix.steps if words in step.title)


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def wants(key: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}


def test_a_selector_that_leaves_full_nodes_is_named_with_what_is_free_elsewhere() -> None:
    found = hit(*full("a", labels=TRAIN), node("b"), node("c"), pending_pod(node_selector=TRAIN))

    assert found.cause == "no-capacity"
    assert found.title.endswith("every node that its selector admits is full; 16 GPUs are free on 2 others")
    assert "lacking only where it may run" in found.summary
    assert "closed to it by its selector" in found.summary


def test_evidence_names_the_selector_and_how_many_nodes_it_admits() -> None:
    found = facts(hit(*full("a", labels=TRAIN), node("b"), pending_pod(node_selector=TRAIN)))

    assert found["node selector"] == "example.com/pool=train"
    assert found["selector admits"] == "1 of 2 nodes"
    assert found["free on nodes that it rules out"] == "8 (b 8)"


def test_the_terms_of_an_affinity_are_told_apart() -> None:
    both = affinity(
        wants(POOL, "train", "dev"), {"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}
    )

    found = hit(*full("a", labels=TRAIN), node("b"), pending_pod(affinity=affinity(wants(POOL, "train"))))
    alternatives = hit(node("b", unschedulable=True), pending_pod(affinity=both))

    assert "that its affinity admits" in found.title
    assert facts(alternatives)["node affinity"] == "example.com/pool In train, dev OR metadata.name Exists"


def test_a_taint_that_keeps_free_gpus_is_named() -> None:
    found = hit(*full("a"), node("b", taints=(RESERVED,)), pending_pod())

    assert "every node whose taints it tolerates is full; 8 GPUs are free on 1 other" in found.title
    assert facts(found)["taints that it does not tolerate"] == "dedicated=robotics:NoSchedule"
    assert facts(found)["tolerates"] == "no taint"
    assert step_of(found, "tainted nodes").kind is StepKind.ESCALATE


def test_nodes_that_are_not_quite_full_are_not_called_full() -> None:
    half = (node("a", labels=TRAIN), pod("holder", node="a", gpus=4))

    found = hit(*half, node("b"), pending_pod(gpus=8, node_selector=TRAIN))

    assert "has too few free GPUs; 8 GPUs are free on 1 other" in found.title


def test_without_free_gpus_elsewhere_nothing_is_said_of_them() -> None:
    found = hit(*full("a", labels=TRAIN), *full("b"), pending_pod(node_selector=TRAIN))

    assert found.title.endswith("every GPU that it could use is held")
    assert facts(found)["free on nodes that it rules out"] == "0"
    assert not [step for step in found.fix.steps if "loosen its" in step.title]


def test_a_node_behind_selector_and_taint_is_evidence_alone() -> None:
    reserved = node("b", taints=(RESERVED,))

    found = hit(*full("a", labels=TRAIN), reserved, node("c"), pending_pod(node_selector=TRAIN))

    assert "8 GPUs are free on 1 other" in found.title
    assert facts(found)["free on nodes that it rules out"] == "8 (c 8)"
    assert facts(found)["free on nodes that it rules out and that are tainted, too"] == "8 (b 8)"
    assert step_of(found, "loosen its").expect == "One such pod fits on c."


def test_cordoned_nodes_have_nothing_to_give() -> None:
    found = hit(*full("a", labels=TRAIN), node("b", unschedulable=True), pending_pod(node_selector=TRAIN))

    assert found.title.endswith("every GPU that it could use is held")


def test_gpus_in_pieces_keep_their_cause_and_name_the_rest_beside_it() -> None:
    pieces = [
        part for name in "ab" for part in (node(name, labels=TRAIN), pod(f"half-{name}", node=name, gpus=4))
    ]

    found = hit(*pieces, node("c"), pending_pod(gpus=8, node_selector=TRAIN))

    assert found.cause == "fragmented"
    assert "Besides, 8 GPUs are free on 1 other, closed to it by its selector" in found.summary


@pytest.mark.parametrize(("kind", "has_command"), [("Deployment", True), ("Job", False)])
def test_the_step_that_loosens_a_selector_is_one_that_its_owner_takes(
    kind: str, *, has_command: bool
) -> None:
    waits = pending_pod(node_selector=TRAIN, root=owner(kind))

    works = pod("works", node="b", gpus=0, root=owner(kind))

    step = step_of(hit(*full("a", labels=TRAIN), node("b"), works, waits), "loosen its selector")

    assert bool(step.command) is has_command
    assert step.risk is Risk.DISRUPTIVE
    assert "One such pod fits on b" in step.expect
    template = yaml.safe_load(step.manifest)["spec"]["template"]["spec"]
    assert template == {"nodeSelector": {POOL: None}}


def test_whoever_is_asked_comes_after_what_can_be_done() -> None:
    found = hit(*full("a", labels=TRAIN), node("b"), pending_pod(node_selector=TRAIN))

    kinds = [step.kind for step in found.fix.steps]
    assert kinds.index(StepKind.FIX) < kinds.index(StepKind.ESCALATE)


def test_a_toleration_is_added_to_the_waiting_pod_itself() -> None:
    kept = (Toleration("nvidia.com/gpu", "Exists"),)

    step = step_of(hit(node(taints=(RESERVED,)), pending_pod(tolerations=kept)), "Tolerate")

    words = shlex.split(step.command)
    (patch,) = json.loads(words[words.index("-p") + 1])
    assert words[:3] == ["kubectl", "patch", "pod"]
    assert patch["path"] == "/spec/tolerations/-"
    assert patch["value"]["key"] == "dedicated"


def test_a_toleration_of_a_deployment_goes_into_its_template() -> None:
    step = step_of(hit(node(taints=(RESERVED,)), pending_pod(root=owner("Deployment"))), "Tolerate")

    assert shlex.split(step.command)[:3] == ["kubectl", "patch", "deployment"]
    assert step.risk is Risk.DISRUPTIVE


def test_the_taints_owner_is_asked_first_and_who_runs_behind_it_is_named() -> None:
    works = pod("other", node="gpu-1", gpus=1, namespace="robotics")
    found = hit(node("gpu-1", taints=(RESERVED,)), works, pending_pod())

    ask = step_of(found, "Ask the taint's owner")
    assert "run behind it: robotics; the pod's own, research, is not among them" in ask.why
    assert found.fix.steps.index(ask) < found.fix.steps.index(step_of(found, "Tolerate"))


def test_a_taint_of_nodes_that_could_not_be_read_has_an_owner_too() -> None:
    said = Condition(
        "PodScheduled", "False", message="0/1 nodes are available: 1 node(s) had untolerated taint(s)."
    )

    found = hit(pending_pod(conditions=(said,)))

    assert (
        step_of(found, "Ask the taint's owner").command == "kubectl get nodes --show-managed-fields -o yaml"
    )
    assert step_of(found, "Tolerate").title == "Tolerate the taint, if its owner agrees"


def test_a_node_with_enough_healthy_gpus_may_take_the_pod_beside_a_sick_one() -> None:
    sick = gpu(node="gpu-1", index=7, slot="gpu-1/x", is_healthy=False)
    seven = {"nvidia.com/gpu": 7.0, "pods": 110.0}
    tainted = node("gpu-1", taints=(RESERVED,))
    tainted = msgspec.structs.replace(tainted, allocatable={**tainted.allocatable, **seven})

    some = step_of(hit(tainted, pending_pod(gpus=1), sick), "Tolerate")
    assert some.title == "Tolerate the taint, if its owner agrees"
    assert "7 of 8 GPUs healthy and free" in some.why
    assert "may go ahead once the owner agrees" in some.why
    assert "Wait until" not in some.why

    full = pod("full", node="gpu-1", gpus=7)
    none = step_of(hit(tainted, full, pending_pod(gpus=1), sick), "Tolerate")
    assert none.title == "Tolerate the taint, once its nodes are repaired and its owner agrees"
    assert "0 of 8 GPUs healthy and free" in none.why
    assert "Wait until these are repaired and, where cordoned, uncordoned" in none.why


def test_trouble_of_the_node_behind_a_taint_is_mentioned() -> None:
    sick = gpu(node="gpu-1", index=7, slot="gpu-1/x", is_healthy=False)
    past = Past(xids={"gpu-1/x": (XidSeen(code=95, last_at=ago(minutes=6)),)})
    waits = (node(taints=(RESERVED,)), pending_pod(), sick)

    found = hit(*waits, past=past)

    assert facts(found)["trouble behind the taint"].endswith("GPU 7 had Xid 95 6 min ago")
    assert "1 GPU not healthy" in step_of(found, "Tolerate").why


def test_a_well_node_behind_a_taint_is_not_spoken_of() -> None:
    found = hit(node(taints=(RESERVED,)), pending_pod(), gpu(node="gpu-1"))

    assert "trouble behind the taint" not in facts(found)
    assert "not well" not in step_of(found, "Tolerate").why


def test_a_pod_affinity_that_excludes_the_only_gpu_node_is_not_a_shortage() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "helper"}}, "topologyKey": "kubernetes.io/hostname"}
    rule = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    message = (
        "0/4 nodes are available: 1 node(s) didn't match pod affinity rules, 3 Insufficient nvidia.com/gpu. "
        "preemption: 0/4 nodes are available: 1 Preemption is not helpful for scheduling."
    )
    cpu_nodes = [node(f"cpu-{n}", gpus=0) for n in range(3)]

    found = hit(node(), *cpu_nodes, pending_pod(message=message, affinity=rule))

    assert found.cause == "affinity-excludes-gpu-node"
    assert "pod affinity excludes the only node with such GPUs" in found.title
    assert facts(found)["pod affinity"] == "pods with app=helper within kubernetes.io/hostname"
    assert facts(found)["nodes with such GPUs"] == "1 of 4 nodes"


def test_malformed_affinity_is_read_as_far_as_it_goes() -> None:
    odd: dict[str, Any] = {
        "nodeAffinity": "x",
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": 7},
    }

    assert hit(*full("a"), pending_pod(affinity=odd)).cause == "no-capacity"
