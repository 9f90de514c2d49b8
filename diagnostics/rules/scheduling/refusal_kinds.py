"""Why the API server refuses to make a pod, told from its words (admission plugins of Kubernetes 1.2x to 1.37)."""

import re
from collections.abc import Callable, Mapping

import msgspec

from diagnostics.quantities import quantity
from diagnostics.signatures import SIGNATURES
from diagnostics.text import printable

LONGEST = 2_000
"""Characters of a message that are read."""
_EXCEEDED = re.compile(
    r"exceeded quota: (?P<quota>[^,]{1,253}), requested: (?P<requested>.+?), used: (?P<used>.+?), "
    r"limited: (?P<limited>[^\s\"]+)"
)
_UNNAMED = re.compile(r"failed quota: (?P<quota>[^:]{1,253}): must specify (?P<what>[^\"]+)")
_SCOPES = re.compile(r"insufficient quota to match these scopes: (?P<scopes>[^\"]{1,300})")
_LIMIT = re.compile(
    r"(?P<said>(?:maximum|minimum) \S+ usage per (?:Container|Pod) is [^\",\]]+(?:, but \w+ is [^\",\].]+"
    r"|\.\s+No \w+ is specified)?|\S+ max limit to request ratio per \w+ is [^\"\]]{1,80})"
)
_PRIORITY = re.compile(r"no PriorityClass with name (?P<name>\S{1,253}) was found")
_RUNTIME = re.compile(next(s.pattern for s in SIGNATURES if s.name == "runtime-class-missing"))
_AMOUNT = re.compile(r"([\w./-]+)=([\w.]+)")


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """One refusal in parts."""

    cause: str
    name: str
    """Of the quota or the class."""
    blamed: str
    """"… keeps X from making pods"."""
    why: str
    """A sentence."""
    facts: tuple[tuple[str, str], ...] = ()
    requested: Mapping[str, float] = {}
    """Resource, without the quota's `requests.` or `limits.` -> amount of one pod."""
    names: tuple[str, ...] = ()
    """What ran out, as the quota spells it."""


def told_by(message: str) -> Told | None:
    """The refusal in a controller's message; None where it is about something else."""
    text = message[:LONGEST]
    for pattern, told in _KINDS:
        match = pattern.search(text)
        if match is not None:
            return told(match)
    return None


def _quota(match: re.Match[str]) -> Told:
    quota = printable(match["quota"], 120)
    requested = _AMOUNT.findall(match["requested"])
    return Told(
        cause="namespace-resource-quota-exceeded",
        name=match["quota"],
        blamed=f"quota {quota}",
        why=f"The namespace's ResourceQuota {quota} is used up.",
        facts=(
            ("quota", quota),
            ("requested", printable(match["requested"], 200)),
            ("used", printable(match["used"], 200)),
            ("quota's limit", printable(match["limited"], 200)),
        ),
        requested={_resource(name): _amount(amount) for name, amount in requested},
        names=tuple(name for name, _ in requested),
    )


def _unnamed(match: re.Match[str]) -> Told:
    quota, what = printable(match["quota"], 120), printable(match["what"], 200)
    return Told(
        cause="request-missing-for-quota",
        name=match["quota"],
        blamed=f"quota {quota}",
        why=f"The namespace's ResourceQuota {quota} counts a resource for which the pod asks nothing.",
        facts=(("quota", quota), ("must name", what)),
    )


def _scopes(match: re.Match[str]) -> Told:
    scopes = printable(match["scopes"], 200)
    return Told(
        cause="priority-class-not-allowed",
        name="",
        blamed="a quota of the cluster",
        why="Pods of this priority class may only be made in a namespace that has a quota for it.",
        facts=(("scopes", scopes),),
    )


def _limit(match: re.Match[str]) -> Told:
    said = printable(match["said"], 200)
    return Told(
        cause="limit-range-violated",
        name="",
        blamed="a limit range",
        why="The namespace's LimitRange forbids what the pod asks for.",
        facts=(("limit range says", said),),
    )


def _priority(match: re.Match[str]) -> Told:
    name = printable(match["name"], 120)
    return Told(
        cause="priority-class-missing",
        name=match["name"],
        blamed=f"the missing priority class {name}",
        why=f"The pod names the PriorityClass {name}, which does not exist.",
        facts=(("priority class", name),),
    )


def _runtime(match: re.Match[str]) -> Told:
    name = printable(match["name"], 120)
    return Told(
        cause="runtime-class-missing",
        name=match["name"],
        blamed=f"the missing runtime class {name}",
        why=f"The pod names the RuntimeClass {name}, which does not exist.",
        facts=(("runtime class", name),),
    )


def _amount(text: str) -> float:
    """0 where it makes no sense: the resource is known all the same."""
    try:
        return quantity(text)
    except ValueError:
        return 0.0


def _resource(name: str) -> str:
    return name.removeprefix("requests.").removeprefix("limits.")


_KINDS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Told]], ...] = (
    (_EXCEEDED, _quota),
    (_UNNAMED, _unnamed),
    (_SCOPES, _scopes),
    (_PRIORITY, _priority),
    (_RUNTIME, _runtime),
    (_LIMIT, _limit),
)
CAUSES = frozenset(
    {
        "limit-range-violated",
        "namespace-resource-quota-exceeded",
        "priority-class-missing",
        "priority-class-not-allowed",
        "request-missing-for-quota",
        "runtime-class-missing",
    }
)
"""Causes of findings about pods that are never made."""
