"""Which incidents count as failures of a node's hardware, and over how long."""

from datetime import timedelta

from diagnostics.rules import catalogue

FAILURES_OVER = timedelta(days=30)
OCCASION = timedelta(hours=6)
"""From the first sign of a failure until a node is repaired or back at work (ours)."""
LEMON = "lemon-node"
"""Slug of the rule that counts them, which is no failure itself."""


def failure_codes() -> list[str]:
    """Codes of the rules that find failures of hardware."""
    return [rule.code for rule in catalogue() if rule.family == "hardware" and rule.slug != LEMON]
