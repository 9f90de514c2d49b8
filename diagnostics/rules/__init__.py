"""The catalogue of rules, and diagnose(): one pass of all of them over one snapshot."""

import importlib
import pkgutil
from functools import cache

from diagnostics.findings import Diagnosis
from diagnostics.limits import Limits
from diagnostics.rules import base, engine
from diagnostics.rules.base import Rule
from diagnostics.snapshot import Snapshot

__all__ = ["RETIRED", "catalogue", "diagnose"]

RETIRED: dict[str, str] = {}
"""Codes of rules that are gone -> what replaced them. A code is never used again."""


@cache
def catalogue() -> tuple[Rule, ...]:
    """Every rule, by code. Found by walking this package's families: adding a file is enough."""
    for module in pkgutil.walk_packages(__path__, prefix=f"{__name__}."):
        importlib.import_module(module.name)
    return tuple(sorted(base.REGISTRY.values(), key=lambda rule: rule.code))


def diagnose(snapshot: Snapshot, limits: Limits | None = None) -> Diagnosis:
    """All rules over one snapshot. Pure; never raises for what a cluster says: a failing rule is listed as failed."""
    return engine.run(catalogue(), snapshot, limits or Limits())
