"""Where a waiting pod may run: the nodes that have such GPUs, those that admit it, and what is free there."""

from diagnostics.placement import (
    NodeRooms,
    affinity_words,
    pod_rule_words,
    selector_words,
    toleration_words,
)
from diagnostics.snapshot import Condition, Taint, Toleration
from tests.builders import container, node, pending_pod, pod, snapshot

IN_A = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]},
                {"matchExpressions": [{"key": "pool", "operator": "Exists"}]},
            ]
        }
    }
}


def names(given: tuple[object, ...]) -> list[str]:
    return [room.node.name for room in given]  # type: ignore[attr-defined]


def test_counts_nodes_with_such_gpus_then_those_that_admit_the_pod_and_what_is_free_on_them() -> None:
    seen = snapshot(
        node("cpu-1", gpus=0),
        node("other", labels={"zone": "c"}),
        node("taken", labels={"zone": "a"}),
        node("roomy", labels={"zone": "a"}),
        node("tainted", labels={"zone": "a"}, taints=(Taint("team", "NoSchedule", "x"),)),
        node("cordoned", labels={"zone": "a"}, unschedulable=True),
        node("down", labels={"zone": "a"}, conditions=(Condition("Ready", "Unknown"),)),
        pod("holds-8", gpus=8, node="taken"),
        pod("holds-3", gpus=3, node="roomy"),
    )
    reach = NodeRooms(seen).reach(pending_pod(gpus=8, affinity=IN_A))

    assert reach.resource == "nvidia.com/gpu"
    assert names(reach.offering) == ["other", "taken", "roomy", "tainted", "cordoned", "down"]
    assert names(reach.selected) == ["taken", "roomy", "tainted", "cordoned", "down"]
    assert names(reach.admitting) == ["taken", "roomy"]
    assert reach.shares == [0, 5]


def test_a_node_on_which_more_is_held_than_it_offers_has_none_free() -> None:
    sick = node(allocatable={"nvidia.com/gpu": 6.0})
    reach = NodeRooms(snapshot(sick, pod(gpus=8))).reach(pending_pod())

    assert reach.shares == [0]


def test_a_resource_that_no_node_has_is_offered_by_none() -> None:
    slices = {"nvidia.com/mig-1g.10gb": 1.0}
    asks = pending_pod(containers=(container(gpus=0, requests=slices, limits=slices),))

    assert NodeRooms(snapshot(node())).reach(asks).offering == ()


def test_demands_are_spelled_as_the_pod_spells_them() -> None:
    beside = {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
    asks = pod(
        node_selector={"pool": "gold"},
        affinity=IN_A | {"podAntiAffinity": beside},
        tolerations=(
            Toleration("team", value="x", effect="NoSchedule"),
            Toleration("node.kubernetes.io/not-ready", "Exists", effect="NoExecute", seconds=300),
        ),
    )

    assert selector_words(asks) == "pool=gold"
    assert affinity_words(asks) == "zone In a, b OR pool Exists"
    assert toleration_words(asks) == "team=x:NoSchedule"
    assert list(pod_rule_words(asks)) == [
        ("podAntiAffinity", "pods with app=web within kubernetes.io/hostname")
    ]


def test_a_pod_without_demands_has_no_words_for_them() -> None:
    free = pod()

    assert selector_words(free) == affinity_words(free) == toleration_words(free) == ""
    assert not list(pod_rule_words(free))


def test_malformed_rules_about_other_pods_demand_nothing() -> None:
    odd = pod(affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": 5}})

    assert not list(pod_rule_words(odd))
