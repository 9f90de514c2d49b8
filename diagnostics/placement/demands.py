"""What a pod demands of a node, in words: selector, affinity, tolerations, and the pods that it must sit beside."""

from collections.abc import Iterator
from typing import Any

from diagnostics.placement.matching import affinity_terms
from diagnostics.snapshot import Pod, Toleration
from diagnostics.text import listed, printable

POD_RULES = {"podAffinity": "pod affinity", "podAntiAffinity": "pod anti-affinity"}


def selector_words(pod: Pod) -> str:
    """nodeSelector, as the pod spells it; empty without one."""
    pairs = [printable(f"{key}={value}", 160) for key, value in sorted(pod.node_selector.items())]
    return listed(pairs) if pairs else ""


def affinity_words(pod: Pod) -> str:
    """Required node affinity, its terms joined by OR; empty without one."""
    return " OR ".join(
        " and ".join(_expression(key, operator, values) for key, operator, values in term)
        for term in affinity_terms(pod)
    )


def toleration_words(pod: Pod) -> str:
    """Taints that it tolerates for good; empty for none."""
    kept = [_tolerated(t) for t in pod.tolerations if t.seconds is None]
    return listed(kept) if kept else ""


def pod_rule_words(pod: Pod) -> Iterator[tuple[str, str]]:
    """(field of `spec.affinity`, what it demands) for each required affinity and anti-affinity to other pods."""
    for field in POD_RULES:
        rules = pod.affinity.get(field)
        terms = (
            rules.get("requiredDuringSchedulingIgnoredDuringExecution") if isinstance(rules, dict) else None
        )
        listed_terms = terms if isinstance(terms, list) else []
        words = [_pod_term(term) for term in listed_terms if isinstance(term, dict)]
        if words:
            yield field, " AND ".join(words)


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
