"""What a waiting pod demands of a node, in words and as evidence: selector, affinity terms, tolerations."""

from collections.abc import Iterator
from typing import Any

from diagnostics.findings import Evidence
from diagnostics.placement import affinity_terms
from diagnostics.snapshot import Pod, Toleration
from diagnostics.text import listed, printable

_POD_RULES = {"podAffinity": "pod affinity", "podAntiAffinity": "pod anti-affinity"}


def demand(pod: Pod) -> str:
    """The name of what picks nodes by their labels: "selector", "affinity", both, or nothing."""
    parts = ["selector"] if pod.node_selector else []
    parts += ["affinity"] if affinity_terms(pod) else []
    return " and ".join(parts)


def label_facts(pod: Pod) -> tuple[Evidence, ...]:
    """nodeSelector and required node affinity, as the pod spells them."""
    found = []
    if pod.node_selector:
        pairs = listed([printable(f"{key}={value}", 160) for key, value in sorted(pod.node_selector.items())])
        found.append(Evidence("node selector", pairs, source=f"spec.nodeSelector of pod {pod.key}"))
    terms = [
        " and ".join(_expression(key, operator, values) for key, operator, values in term)
        for term in affinity_terms(pod)
    ]
    if terms:
        source = f"spec.affinity.nodeAffinity of pod {pod.key}"
        found.append(Evidence("node affinity", " OR ".join(terms), source=source))
    return tuple(found)


def toleration_fact(pod: Pod) -> Evidence:
    kept = [_tolerated(t) for t in pod.tolerations if t.seconds is None]
    return Evidence(
        "tolerates", listed(kept) if kept else "no taint", source=f"spec.tolerations of pod {pod.key}"
    )


def pod_rule_facts(pod: Pod) -> Iterator[Evidence]:
    """Required affinity and anti-affinity to other pods."""
    for field, label in _POD_RULES.items():
        rules = pod.affinity.get(field)
        terms = (
            rules.get("requiredDuringSchedulingIgnoredDuringExecution") if isinstance(rules, dict) else None
        )
        words = [_pod_term(term) for term in terms or () if isinstance(term, dict)]
        if words:
            yield Evidence(label, " AND ".join(words), source=f"spec.affinity.{field} of pod {pod.key}")


def _expression(key: str, operator: str, values: tuple[str, ...]) -> str:
    return printable(f"{key} {operator} {', '.join(values)}".strip(), 200)


def _tolerated(toleration: Toleration) -> str:
    key = toleration.key or "every taint"
    value = f"={toleration.value}" if toleration.value else ""
    effect = f":{toleration.effect}" if toleration.effect else ""
    return printable(f"{key}{value}{effect}", 160)


def _pod_term(term: dict[str, Any]) -> str:
    selector = term.get("labelSelector")
    selector = selector if isinstance(selector, dict) else {}
    labels, expressions = selector.get("matchLabels"), selector.get("matchExpressions")
    parts = [f"{key}={value}" for key, value in labels.items()] if isinstance(labels, dict) else []
    for one in expressions if isinstance(expressions, list) else []:
        if isinstance(one, dict):
            values = one.get("values")
            shown = ", ".join(map(str, values)) if isinstance(values, list) else ""
            parts.append(f"{one.get('key', '')} {one.get('operator', '')} {shown}".strip())
    return printable(
        f"pods with {listed(parts) if parts else 'any label'} within {term.get('topologyKey', '')}", 300
    )
