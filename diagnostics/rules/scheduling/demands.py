"""What a waiting pod demands of a node, as evidence: selector, affinity terms, tolerations."""

from collections.abc import Iterator

from diagnostics.findings import Evidence
from diagnostics.placement import (
    POD_RULES,
    affinity_terms,
    affinity_words,
    pod_rule_words,
    selector_words,
    toleration_words,
)
from diagnostics.snapshot import Pod


def demand(pod: Pod) -> str:
    """The name of what picks nodes by their labels: "selector", "affinity", both, or nothing."""
    parts = ["selector"] if pod.node_selector else []
    parts += ["affinity"] if affinity_terms(pod) else []
    return " and ".join(parts)


def label_facts(pod: Pod) -> tuple[Evidence, ...]:
    """nodeSelector and required node affinity, as the pod spells them."""
    found = (
        ("node selector", selector_words(pod), "nodeSelector"),
        ("node affinity", affinity_words(pod), "affinity.nodeAffinity"),
    )
    return tuple(
        Evidence(label, words, source=f"spec.{field} of pod {pod.key}")
        for label, words, field in found
        if words
    )


def toleration_fact(pod: Pod) -> Evidence:
    source = f"spec.tolerations of pod {pod.key}"
    return Evidence("tolerates", toleration_words(pod) or "no taint", source=source)


def pod_rule_facts(pod: Pod) -> Iterator[Evidence]:
    """Required affinity and anti-affinity to other pods."""
    for field, words in pod_rule_words(pod):
        yield Evidence(POD_RULES[field], words, source=f"spec.affinity.{field} of pod {pod.key}")
