"""Which incidents count as failures of a node's hardware, over how long, and which of them are one failure."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from diagnostics.rules import catalogue

FAILURES_OVER = timedelta(days=30)
OCCASION = timedelta(hours=6)
"""From the first sign of a failure until a node is repaired or back at work (ours)."""
LEMON = "lemon-node"
"""Slug of the rule that counts them, which is no failure itself."""


def failure_codes() -> list[str]:
    """Codes of the rules that find failures of hardware."""
    return [rule.code for rule in catalogue() if rule.family == "hardware" and rule.slug != LEMON]


def occasions[T](signs: Iterable[tuple[str, datetime, T]]) -> Iterator[tuple[str, datetime, T]]:
    """Of the signs of failures (name of a node or GPU, when, anything), the oldest first, those that begin a failure of
    their node, with the node's name.

    One failure shows in several rules and for a while: what comes within `OCCASION` of its first sign is the same one.
    """
    begun: dict[str, datetime] = {}
    for subject, at, sign in signs:
        # A GPU is named by its slot, which begins with its node.
        node = subject.partition("/")[0]
        if node not in begun or at - begun[node] > OCCASION:
            begun[node] = at
            yield node, at, sign
