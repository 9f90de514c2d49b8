"""Which step was checked off: the step as it was shown, so that a check-off never moves to another one."""

import hashlib
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

import msgspec
from django.core import signing

from diagnostics.fixes import Fix
from diagnostics.models import IncidentEvent
from diagnostics.storable import storable_text

LONGEST_TITLE = 200
_SIGNER = signing.Signer(salt="diagnostics.incidents.steps")
Kind = IncidentEvent.Kind


class ShownStep(NamedTuple):
    """A step as a page shows it."""

    digest: str
    """16 hex digits of all that it says but its diff; steps of one fix that say the same are told apart by a count."""
    number: int
    """Place in its fix, from 1."""
    kind: str
    """One of `fixes.StepKind`."""
    title: str


class CheckedStep(NamedTuple):
    """A step that stands checked off."""

    step: ShownStep
    at: datetime
    by: str
    """Empty where that user is gone."""


def shown_steps(fix: Fix) -> tuple[ShownStep, ...]:
    """The steps of a fix, each with what identifies it."""
    seen: Counter[str] = Counter()
    steps = []
    for number, step in enumerate(fix.steps, start=1):
        # A diff has lines of the workload that the step leaves alone: they may change under a step that stands.
        said = msgspec.structs.replace(step, diff="")
        digest = hashlib.sha256(msgspec.json.encode(said)).hexdigest()[:16]
        seen[digest] += 1
        if seen[digest] > 1:
            digest = f"{digest}-{seen[digest]}"
        steps.append(ShownStep(digest, number, step.kind.value, storable_text(step.title, LONGEST_TITLE)))
    return tuple(steps)


def signed(incident_pk: int, step: ShownStep) -> str:
    """What a form carries, so that the step as it was shown comes back, whatever the fix says by then."""
    return _SIGNER.sign_object([incident_pk, *step])


def unsigned(incident_pk: int, text: str) -> ShownStep | None:
    """The step that was shown; None where `text` is not what `signed` made for this incident."""
    try:
        pk, digest, number, kind, title = _SIGNER.unsign_object(text)
    except (signing.BadSignature, ValueError, TypeError):
        return None
    return ShownStep(digest, number, kind, title) if pk == incident_pk else None


def checked(events: Iterable[IncidentEvent]) -> dict[str, CheckedStep]:
    """Digest -> the steps that stand checked off after these events, the oldest first.

    What was checked off before the incident came back does not count any more.
    """
    standing: dict[str, CheckedStep] = {}
    for event in events:
        if event.kind == Kind.REOPENED:
            standing.clear()
        elif event.kind == Kind.STEP_CHECKED:
            data = event.data
            step = ShownStep(*(data[name] for name in ("step", "number", "kind", "title")))
            standing[step.digest] = CheckedStep(step, event.at, str(event.actor or ""))
        elif event.kind == Kind.STEP_UNCHECKED:
            standing.pop(event.data["step"], None)
    return standing
