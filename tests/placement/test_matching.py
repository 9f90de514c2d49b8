"""Whether a node would take a pod: labels, affinity, taints, cordon."""

from typing import Any

import pytest

from diagnostics.placement import admits, labels_match, selects, untolerated, wanted_labels
from diagnostics.snapshot import Condition, Taint, Toleration
from tests.builders import node, pending_pod

GPU_TAINT = Taint("nvidia.com/gpu", "NoSchedule", "present")


def affinity(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    listed = [{"matchExpressions": term} for term in terms]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": listed}}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def test_a_node_without_taints_admits_any_pod() -> None:
    assert admits(pending_pod(), node())


def test_a_taint_keeps_a_pod_away() -> None:
    assert untolerated(pending_pod(), node(taints=(GPU_TAINT,))) == (GPU_TAINT,)


@pytest.mark.parametrize(
    "toleration",
    [
        Toleration(key="nvidia.com/gpu", operator="Exists"),
        Toleration(key="nvidia.com/gpu", value="present", effect="NoSchedule"),
        Toleration(operator="Exists"),
    ],
)
def test_a_toleration_lets_it_in(toleration: Toleration) -> None:
    assert admits(pending_pod(tolerations=(toleration,)), node(taints=(GPU_TAINT,)))


def test_a_soft_taint_keeps_nobody_away() -> None:
    assert admits(pending_pod(), node(taints=(Taint("pool", "PreferNoSchedule", "batch"),)))


def test_a_cordoned_node_admits_nobody_who_does_not_tolerate_it() -> None:
    cordoned = node(unschedulable=True)
    everywhere = pending_pod(tolerations=(Toleration(operator="Exists"),))

    assert not admits(pending_pod(), cordoned)
    assert admits(everywhere, cordoned)


def test_a_node_that_is_not_ready_admits_nobody() -> None:
    assert not admits(pending_pod(), node(conditions=(Condition("Ready", "Unknown"),)))


def test_a_node_that_says_nothing_of_ready_is_not_ruled_out() -> None:
    assert admits(pending_pod(), node(conditions=()))


def test_a_node_selector_must_match_whole() -> None:
    pod = pending_pod(node_selector={"pool": "train", "zone": "a"})

    assert selects(pod, node(labels={"pool": "train", "zone": "a"}))
    assert not selects(pod, node(labels={"pool": "train"}))


@pytest.mark.parametrize(
    ("term", "matches"),
    [
        (expression("pool", "In", "train", "serve"), True),
        (expression("pool", "In", "serve"), False),
        (expression("pool", "NotIn", "serve"), True),
        (expression("pool", "NotIn", "train"), False),
        (expression("absent", "NotIn", "x"), True),
        (expression("pool", "Exists"), True),
        (expression("absent", "Exists"), False),
        (expression("absent", "DoesNotExist"), True),
        (expression("pool", "DoesNotExist"), False),
        (expression("memory", "Gt", "40000"), True),
        (expression("memory", "Gt", "90000"), False),
        (expression("memory", "Lt", "90000"), True),
        (expression("pool", "Gt", "1"), False),
        (expression("memory", "Gt", "1", "2"), False),
        (expression("pool", "Resembles", "train"), False),
    ],
)
def test_operators_of_node_affinity(term: dict[str, Any], matches: bool) -> None:
    labels = {"pool": "train", "memory": "81920"}

    assert selects(pending_pod(affinity=affinity([term])), node(labels=labels)) is matches


def test_terms_are_alternatives_and_expressions_are_not() -> None:
    wrong, right = expression("pool", "In", "x"), expression("pool", "Exists")
    labels = {"pool": "train"}

    assert selects(pending_pod(affinity=affinity([wrong], [right])), node(labels=labels))
    assert not selects(pending_pod(affinity=affinity([wrong, right])), node(labels=labels))


def test_an_empty_term_matches_nothing() -> None:
    assert not selects(pending_pod(affinity=affinity([])), node())


def test_a_field_names_the_node() -> None:
    fields = [{"matchFields": [expression("metadata.name", "In", "gpu-1")]}]
    pod = pending_pod(
        affinity={
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": fields}}
        }
    )

    assert selects(pod, node("gpu-1"))
    assert not selects(pod, node("gpu-2"))


def test_a_preferred_affinity_demands_nothing() -> None:
    pod = pending_pod(affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}})

    assert selects(pod, node())


@pytest.mark.parametrize("affinity", [{"nodeAffinity": "x"}, {"nodeAffinity": {}}, {"podAffinity": 3}])
def test_a_malformed_affinity_demands_nothing(affinity: dict[str, Any]) -> None:
    assert selects(pending_pod(affinity=affinity), node())


def test_wanted_labels_name_selector_and_affinity() -> None:
    pod = pending_pod(node_selector={"a": "1"}, affinity=affinity([expression("b", "In", "2", "3")]))

    assert wanted_labels(pod) == (("a", "In", ("1",)), ("b", "In", ("2", "3")))


def test_label_selectors() -> None:
    labels = {"app": "train"}

    assert labels_match({"matchLabels": {"app": "train"}}, labels)
    assert labels_match({"matchExpressions": [expression("app", "In", "train")]}, labels)
    assert labels_match({}, labels)
    assert not labels_match({"matchLabels": {"job-name": "train"}}, labels)
    assert not labels_match(None, labels)
