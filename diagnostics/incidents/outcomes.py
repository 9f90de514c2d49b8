"""How often fixes that people checked off have held, in this installation."""

from typing import NamedTuple

from django.db.models import Count, Q

from diagnostics.models import IncidentEvent

ENOUGH = 5
"""Outcomes; fewer say nothing (ours)."""
Kind = IncidentEvent.Kind


class Outcomes(NamedTuple):
    """Incidents that were resolved after a step of kind `fix` had been checked off."""

    held: int
    """Verified, and not back within a day."""
    failed: int
    """Back within a day."""

    @property
    def total(self) -> int:
        return self.held + self.failed

    @property
    def rate_ratio(self) -> float | None:
        """0 to 1; None while there are not enough of them."""
        return self.held / self.total if self.total >= ENOUGH else None


def outcomes(code: str, cause: str) -> Outcomes:
    """Of one rule and cause, over all clusters of this installation. One query."""
    events = IncidentEvent.objects.filter(
        kind__in=[Kind.FIX_VERIFIED, Kind.FIX_FAILED], incident__code=code, data__cause=cause
    )
    failed = Q(kind=Kind.FIX_FAILED)
    counts = events.aggregate(
        verified=Count("pk", filter=~failed),
        failed=Count("pk", filter=failed),
        failed_later=Count("pk", filter=failed & Q(data__was_verified=True)),
    )
    return Outcomes(held=counts["verified"] - counts["failed_later"], failed=counts["failed"])
