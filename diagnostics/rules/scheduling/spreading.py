"""Rules in a job's own manifest that push its pods apart."""

from collections.abc import Sequence
from typing import Any

from diagnostics.placement import labels_match
from diagnostics.snapshot import Pod
from diagnostics.text import printable


def spread_rules(pods: Sequence[Pod]) -> tuple[str, ...]:
    """Anti-affinity and spread constraints that select the job's own pods, in words.

    A rule whose selector matches none of them has no effect and is not named.
    """
    found: list[str] = []
    for pod in pods[:1]:
        found += [words for term, how in _anti_terms(pod) if (words := _anti_words(term, how, pod))]
        for constraint in pod.topology_spread:
            if labels_match(constraint.get("labelSelector"), pod.labels):
                key = printable(str(constraint.get("topologyKey", "")), 80)
                how = "required" if constraint.get("whenUnsatisfiable") != "ScheduleAnyway" else "preferred"
                found.append(f"{how} topology spread over {key}")
    return tuple(dict.fromkeys(found))


def _anti_terms(pod: Pod) -> list[tuple[dict[str, Any], str]]:
    anti = pod.affinity.get("podAntiAffinity")
    if not isinstance(anti, dict):
        return []
    required = anti.get("requiredDuringSchedulingIgnoredDuringExecution") or []
    preferred = anti.get("preferredDuringSchedulingIgnoredDuringExecution") or []
    found = [(term, "required") for term in required if isinstance(term, dict)]
    found += [
        (term["podAffinityTerm"], "preferred")
        for term in preferred
        if isinstance(term, dict) and isinstance(term.get("podAffinityTerm"), dict)
    ]
    return found


def _anti_words(term: dict[str, Any], how: str, pod: Pod) -> str:
    namespaces = term.get("namespaces")
    if isinstance(namespaces, list) and namespaces and pod.namespace not in namespaces:
        return ""
    if not labels_match(term.get("labelSelector"), pod.labels):
        return ""
    return f"{how} anti-affinity to its own pods over {printable(str(term.get('topologyKey', '')), 80)}"
