"""Rules in a job's own manifest that push its pods apart, and such rules that do nothing."""

from collections.abc import Iterator, Sequence
from typing import Any

from diagnostics.placement import labels_match
from diagnostics.snapshot import Pod
from diagnostics.text import printable


def spread_rules(pods: Sequence[Pod]) -> tuple[str, ...]:
    """Anti-affinity and spread constraints that select the job's own pods, in words.

    A rule whose selector matches none of them has no effect and is not named here.
    """
    return tuple(dict.fromkeys(words for words, selects in _rules(pods) if selects))


def idle_spread_rules(pods: Sequence[Pod]) -> tuple[str, ...]:
    """Anti-affinity whose selector matches none of the job's pods, in words: copied with a label of another system,
    such as `job-name` under Volcano, which writes `volcano.sh/job-name`.
    """
    return tuple(dict.fromkeys(words for words, selects in _rules(pods) if not selects))


def _rules(pods: Sequence[Pod]) -> Iterator[tuple[str, bool]]:
    """(in words, whether it selects pods of the job) for each rule; pods of one template count once."""
    for pod in {repr((p.affinity, p.topology_spread)): p for p in reversed(pods)}.values():
        for term, how in _anti_terms(pod):
            own = _is_within(term, pod) and any(
                labels_match(term.get("labelSelector"), p.labels) for p in pods
            )
            topology = printable(str(term.get("topologyKey", "")), 80)
            if own:
                yield f"{how} anti-affinity to its own pods over {topology}", True
            else:
                yield f"{how} anti-affinity over {topology} that selects none of its pods", False
        for constraint in pod.topology_spread:
            if any(labels_match(constraint.get("labelSelector"), p.labels) for p in pods):
                key = printable(str(constraint.get("topologyKey", "")), 80)
                how = "required" if constraint.get("whenUnsatisfiable") != "ScheduleAnyway" else "preferred"
                yield f"{how} topology spread over {key}", True


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


def _is_within(term: dict[str, Any], pod: Pod) -> bool:
    """The term looks at pods of the job's own namespace."""
    namespaces = term.get("namespaces")
    return not (isinstance(namespaces, list) and namespaces and pod.namespace not in namespaces)
