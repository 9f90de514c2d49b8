"""Whether a node would take a pod, capacity aside: labels, affinity, taints, cordon.

The semantics are those of kube-scheduler's NodeAffinity, TaintToleration and NodeUnschedulable plugins.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from diagnostics.snapshot import Node, Pod, Taint

UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"
CONDITION_TAINTS = frozenset(
    {
        UNSCHEDULABLE_TAINT,
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/memory-pressure",
        "node.kubernetes.io/disk-pressure",
        "node.kubernetes.io/pid-pressure",
        "node.kubernetes.io/network-unavailable",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "node.cloudprovider.kubernetes.io/shutdown",
    }
)
"""Taints that Kubernetes sets by itself for a node's condition: cured on the node, not by a toleration."""


def admits(pod: Pod, node: Node) -> bool:
    """The node is up, not cordoned, selected by the pod, and without a taint that the pod does not tolerate."""
    return (
        node.is_ready is not False
        and not is_cordoned_for(pod, node)
        and selects(pod, node)
        and not untolerated(pod, node)
    )


def is_cordoned_for(pod: Pod, node: Node) -> bool:
    """Cordoned, and the pod does not tolerate that (DaemonSet pods do)."""
    cordon = Taint(UNSCHEDULABLE_TAINT, "NoSchedule")
    return node.unschedulable and not any(t.tolerates(cordon) for t in pod.tolerations)


def untolerated(pod: Pod, node: Node) -> tuple[Taint, ...]:
    """Taints of effect NoSchedule or NoExecute that keep the pod away; PreferNoSchedule does not."""
    return tuple(
        taint
        for taint in node.taints
        if taint.effect in {"NoSchedule", "NoExecute"}
        and not any(t.tolerates(taint) for t in pod.tolerations)
    )


def selects(pod: Pod, node: Node) -> bool:
    """nodeSelector and required node affinity both match; the terms of the affinity are alternatives."""
    if any(node.labels.get(key) != value for key, value in pod.node_selector.items()):
        return False
    terms = _required_terms(pod.affinity)
    return terms is None or any(_term_matches(term, node) for term in terms)


def node_terms_match(terms: Iterable[dict[str, Any]], node: Node) -> bool:
    """Any of these nodeSelectorTerms matches: as in node affinity, also of a volume."""
    return any(_term_matches(term, node) for term in terms)


Demand = tuple[str, str, tuple[str, ...]]
"""One demand on a node's labels or fields: (key, operator, values)."""


def wanted_labels(pod: Pod) -> tuple[Demand, ...]:
    """What the pod demands of a node's labels, all terms in one list."""
    found: list[Demand] = [(key, "In", (value,)) for key, value in pod.node_selector.items()]
    for term in _required_terms(pod.affinity) or []:
        found += _demands(term.get("matchExpressions"))
    return tuple(found)


def affinity_terms(pod: Pod) -> tuple[tuple[Demand, ...], ...]:
    """Required node affinity: the terms are alternatives, the demands of one term hold together."""
    return tuple(
        (*_demands(term.get("matchExpressions")), *_demands(term.get("matchFields")))
        for term in _required_terms(pod.affinity) or []
    )


def _demands(expressions: Any) -> list[Demand]:
    return [
        (str(e.get("key", "")), str(e.get("operator", "")), tuple(str(v) for v in _values(e)))
        for e in _listed(expressions)
    ]


def labels_match(selector: Any, labels: Mapping[str, str]) -> bool:
    """A LabelSelector on labels: an absent selector matches nothing, an empty one everything."""
    if not isinstance(selector, dict):
        return False
    wanted = selector.get("matchLabels") or {}
    if not isinstance(wanted, dict) or any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_expression_matches(e, labels) for e in _listed(selector.get("matchExpressions")))


def _required_terms(affinity: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """None without a required node affinity."""
    node_affinity = affinity.get("nodeAffinity")
    if not isinstance(node_affinity, dict):
        return None
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return _listed(required.get("nodeSelectorTerms")) if isinstance(required, dict) else None


def _term_matches(term: dict[str, Any], node: Node) -> bool:
    expressions, fields = _listed(term.get("matchExpressions")), _listed(term.get("matchFields"))
    if not expressions and not fields:
        return False
    return all(_expression_matches(e, node.labels) for e in expressions) and all(
        _expression_matches(e, {"metadata.name": node.name}) for e in fields
    )


def _expression_matches(expression: dict[str, Any], labels: Mapping[str, str]) -> bool:
    key, operator, values = str(expression.get("key", "")), expression.get("operator"), _values(expression)
    have = labels.get(key)
    if operator == "In":
        return have is not None and have in values
    if operator == "NotIn":
        return have is None or have not in values
    if operator == "Exists":
        return have is not None
    if operator == "DoesNotExist":
        return have is None
    if operator in {"Gt", "Lt"} and have is not None and len(values) == 1:
        try:
            return int(have) > int(values[0]) if operator == "Gt" else int(have) < int(values[0])
        except ValueError:
            return False
    return False


def _listed(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _values(expression: dict[str, Any]) -> list[Any]:
    values = expression.get("values")
    return values if isinstance(values, list) else []
