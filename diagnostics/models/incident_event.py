"""What happened to an incident, and who did it. Rows are added, never changed or removed."""

from typing import Any, ClassVar, NoReturn

from django.conf import settings
from django.db import models
from django.db.models import Q

from diagnostics.models.incident import Incident


class EventKind(models.TextChoices):
    OPENED = "opened"
    SEVERITY_CHANGED = "severity changed"
    CAUSE_CHANGED = "cause changed"
    ACKNOWLEDGED = "acknowledged"
    UNACKNOWLEDGED = "unacknowledged"
    ASSIGNED = "assigned"
    COMMENTED = "commented"
    STEP_CHECKED = "step checked"
    STEP_UNCHECKED = "step taken back"
    RESOLVED = "resolved"
    REOPENED = "reopened"
    FIX_VERIFIED = "fix verified"
    """It was resolved with a fix checked off, and enough polls have looked again."""
    FIX_FAILED = "fix failed"
    """It was resolved with a fix checked off, and came back within a day."""


class AppendOnlyError(TypeError):
    """Somebody tried to rewrite the past."""

    def __init__(self) -> None:
        super().__init__("events of incidents are added, never changed or removed")


class IncidentEventQuerySet(models.QuerySet["IncidentEvent"]):
    """Refuses what would change rows that exist."""

    def update(self, **_: Any) -> NoReturn:
        raise AppendOnlyError

    def delete(self) -> NoReturn:
        raise AppendOnlyError

    def bulk_update(self, *_: Any, **__: Any) -> NoReturn:
        raise AppendOnlyError


class IncidentEvent(models.Model):
    """One entry of an incident's timeline. It goes only when its whole cluster is removed."""

    Kind: ClassVar = EventKind

    incident = models.ForeignKey(Incident, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField()
    kind = models.CharField(max_length=20, choices=EventKind)
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    """None: the polls themselves."""
    data = models.JSONField(default=dict)
    """Changes `{"from", "to"}`; opened `{"severity", "title"}`; resolved `{"reason", "title"}`; assigned `{"to"}`, a
    user's name or empty; comments `{"text"}`; steps `{"step", "number", "kind", "title"}` as they were shown
    (`incidents.steps`); fixes verified `{"cause"}` and failed `{"cause", "was_verified"}`.
    """

    objects = IncidentEventQuerySet.as_manager()

    class Meta:
        ordering = ["at", "pk"]
        indexes = [
            models.Index(
                fields=["kind", "incident"],
                condition=Q(kind__in=[EventKind.FIX_VERIFIED, EventKind.FIX_FAILED]),
                name="event_outcome",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M:%S} {self.kind}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Add it. Raises AppendOnlyError when it is there already."""
        if not self._state.adding:
            raise AppendOnlyError
        super().save(*args, **kwargs)

    def delete(self, *_: Any, **__: Any) -> NoReturn:
        """Raises AppendOnlyError."""
        raise AppendOnlyError
