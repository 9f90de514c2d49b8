"""Whether the last polls still see an incident: what verifies a fix that somebody has checked off."""

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from diagnostics.models import Incident

PODS_GONE = "its pods are gone"
PODS_ENDED = "its pods have ended"
"""Resolutions of what was not mended, as far as anybody knows: there is nothing left that could show it."""
VERIFIED_AFTER = 3
"""Polls in a row in which the rule could look at complete data and did not see it (ours)."""


class Sight(StrEnum):
    SEEN = "seen"
    CLEARING = "clearing"
    """Not seen, but by too few polls to be sure."""
    VERIFIED = "verified"
    GONE = "gone"
    """Its pods are no more, and nobody has checked a fix off."""
    NOT_EVALUATED = "not evaluated"


class Verification(NamedTuple):
    sight: Sight
    words: str


def verification(incident: Incident, last_taken_at: datetime | None) -> Verification:
    """What the polls say, the last of which was taken at `last_taken_at`.

    A poll in which the rule could not look, or looked at incomplete data without seeing it, neither verifies nor
    refutes anything.
    """
    if incident.is_resolved and incident.resolution in {PODS_GONE, PODS_ENDED} and not incident.fix_status:
        return Verification(Sight.GONE, f"resolved: {incident.resolution}")
    if incident.clear_polls >= VERIFIED_AFTER:
        words = f"verified: the last {VERIFIED_AFTER} polls no longer see it"
        return Verification(Sight.VERIFIED, words)
    if last_taken_at is None or incident.judged_at != last_taken_at:
        return Verification(Sight.NOT_EVALUATED, "not evaluated")
    if incident.clear_polls == 0:
        return Verification(Sight.SEEN, "seen by the last poll")
    words = f"not seen by {incident.clear_polls} of {VERIFIED_AFTER} polls yet"
    return Verification(Sight.CLEARING, words)
