"""A guided fix: read-only steps first, then the mildest repair before one that loses something, then what puts back,
verifies and escalates; each with its why and what to expect.
"""

from enum import StrEnum

import msgspec


class StepKind(StrEnum):
    DIAGNOSE = "diagnose"
    FIX = "fix"
    RESTORE = "restore"
    """Brings back what was repaired, or taken out of service for it."""
    VERIFY = "verify"
    ESCALATE = "escalate"

    @property
    def stage(self) -> int:
        """Its place in a fix: look, repair, then put back and verify (each as it needs the other), then escalate."""
        after = {StepKind.DIAGNOSE: 0, StepKind.FIX: 1, StepKind.ESCALATE: 3}
        return after.get(self, 2)


class Risk(StrEnum):
    READ_ONLY = "read-only"
    SAFE = "safe"
    """Changes something, disturbs no running pod."""
    DISRUPTIVE = "disruptive"
    """Restarts or evicts something that runs."""
    DESTRUCTIVE = "destructive"
    """Loses something; `why` says what."""

    @property
    def rank(self) -> int:
        return list(Risk).index(self)


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing to do. `command` is one shell line, quoted; `manifest` is YAML or a patch."""

    kind: StepKind
    title: str
    why: str
    risk: Risk
    expect: str
    """What the operator should see before going on."""
    command: str = ""
    manifest: str = ""
    diff: str = ""
    """What the manifest changes of the workload's own, as a unified diff; empty for something new, or where the
    workload's own is not known."""


class Fix(msgspec.Struct, frozen=True, omit_defaults=True):
    summary: str
    steps: tuple[Step, ...]


def in_order(*steps: Step) -> tuple[Step, ...]:
    """By stage; those of one stage as given."""
    return tuple(sorted(steps, key=lambda step: step.kind.stage))


def mildest_first(*steps: Step) -> tuple[Step, ...]:
    """By stage, and repairs by what they risk; those alike as given."""
    return tuple(sorted(steps, key=lambda s: (s.kind.stage, s.risk.rank if s.kind is StepKind.FIX else 0)))
