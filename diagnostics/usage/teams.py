"""Whose a workload is, by the site's rules over its labels, annotations and namespace. Pure."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import NamedTuple


class By(StrEnum):
    """What a rule looks at."""

    LABEL = "label"
    ANNOTATION = "annotation"
    NAMESPACE = "namespace"


class Rule(NamedTuple):
    """One line of the mapping, as `models.TeamRule` stores it."""

    by: By
    key: str = ""
    """Of the label or annotation."""
    pattern: str = ""
    """Shell-style pattern of the value, or of the namespace; empty matches all."""
    team: str = ""
    """Empty: the value itself is the team."""


class Owner(NamedTuple):
    """What a team is mapped by."""

    namespace: str
    labels: Mapping[str, object]
    annotations: Mapping[str, object]


def team_of(owner: Owner, rules: Iterable[Rule]) -> str:
    """The team of the first rule that matches; without one, the namespace. Values that are no text match nothing."""
    return decided(owner, rules)[0]


def decided(owner: Owner, rules: Iterable[Rule]) -> tuple[str, int | None]:
    """The team, and the place of the rule that names it; None where it is the namespace for want of one."""
    for place, rule in enumerate(rules):
        value = _value(owner, rule)
        if value and (not rule.pattern or fnmatchcase(value, rule.pattern)):
            return rule.team or value, place
    return owner.namespace, None


def _value(owner: Owner, rule: Rule) -> str:
    if rule.by == By.NAMESPACE:
        return owner.namespace
    value = (owner.labels if rule.by == By.LABEL else owner.annotations).get(rule.key)
    return value if isinstance(value, str) else ""
