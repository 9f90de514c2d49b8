"""The life of one trouble: from the first poll that saw it to the one that saw it gone."""

from datetime import datetime
from typing import ClassVar

import msgspec
from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Coalesce

from diagnostics.findings import Confidence, Finding, Severity
from diagnostics.models.cluster import Cluster


class IncidentStatus(models.TextChoices):
    PENDING = "pending"
    """Seen, but not for as many polls as its rule wants; not shown."""
    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    """Somebody looks after it."""
    RESOLVED = "resolved"


class FixStatus(models.TextChoices):
    """What became of the guided fix in the present occurrence, or in the last one of what is resolved."""

    NONE = "", "not checked off"
    CHECKED = "checked"
    """A step of kind `fix` stands checked off; since it was resolved, that it stood so then."""
    VERIFIED = "verified"
    """And enough polls have not seen the trouble since."""


OPEN_SINCE = Coalesce("reopened_at", "opened_at")
"""`Incident.open_since`, for queries."""
OPEN_STATUSES = (IncidentStatus.OPEN, IncidentStatus.ACKNOWLEDGED)


class IncidentQuerySet(models.QuerySet["Incident"]):
    def opened(self) -> "IncidentQuerySet":
        """Open or acknowledged."""
        return self.filter(status__in=OPEN_STATUSES)

    def shown(self) -> "IncidentQuerySet":
        """All that ever opened."""
        return self.exclude(status=IncidentStatus.PENDING)


class Incident(models.Model):
    """One fingerprint's life. At most one per cluster and fingerprint is not resolved."""

    Status: ClassVar = IncidentStatus
    FixStatus: ClassVar = FixStatus

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="incidents")
    fingerprint = models.CharField(max_length=16)
    """`findings.fingerprint()`: cluster, rule and subject."""
    code = models.CharField(max_length=10)
    slug = models.CharField(max_length=80)
    """Code and slug of the rule."""

    status = models.CharField(max_length=12, choices=IncidentStatus, default=IncidentStatus.PENDING)
    severity = models.CharField(max_length=10, choices=[(s.value, s.value) for s in Severity])
    severity_rank = models.PositiveSmallIntegerField()
    """0 is worst: sort ascending."""
    confidence = models.CharField(max_length=10, choices=[(c.value, c.value) for c in Confidence])
    cause = models.CharField(max_length=80)
    subject_kind = models.CharField(max_length=80)
    subject_namespace = models.CharField(max_length=253, blank=True)
    subject_name = models.CharField(max_length=600)
    subject_uid = models.CharField(max_length=120, blank=True)
    title = models.TextField()
    summary = models.TextField()
    gpus = models.PositiveIntegerField(default=0)
    waste_gpus = models.FloatField(null=True, blank=True)
    """GPUs wasted for as long as it lasts; None where nothing is known."""
    finding = models.JSONField()
    """The latest finding, fix and evidence included; `latest_finding` reads it."""
    causes = models.ManyToManyField("self", symmetrical=False, related_name="symptoms", blank=True)
    """Incidents that explain this one."""

    first_seen = models.DateTimeField()
    """First poll that ever saw it; earlier than `opened_at` where its rule holds."""
    last_seen = models.DateTimeField()
    opened_at = models.DateTimeField(null=True, blank=True)
    """When it opened first; None while pending."""
    reopened_at = models.DateTimeField(null=True, blank=True)
    reopened_count = models.PositiveIntegerField(default=0)
    resolved_at = models.DateTimeField(null=True, blank=True)
    resolution = models.TextField(blank=True)
    """Why it counts as resolved, in words."""
    seen_polls = models.PositiveIntegerField(default=0)
    """Polls in a row that saw it, since it first appeared or since it was resolved."""
    absent_polls = models.PositiveIntegerField(default=0)
    """Polls in a row that looked and did not see it."""
    clear_polls = models.PositiveSmallIntegerField(default=0)
    """The same, counting only polls with complete data, up to `incidents.verification.VERIFIED_AFTER`."""
    judged_at = models.DateTimeField(null=True, blank=True)
    """`taken_at` of the last poll that saw it, or that looked at complete data and did not."""

    assignee = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="assigned"
    )
    """Who looks after it. Only people change it, never a poll."""
    fix_status = models.CharField(max_length=10, choices=FixStatus, default=FixStatus.NONE, blank=True)

    objects = IncidentQuerySet.as_manager()

    class Meta:
        ordering = ["severity_rank", "-last_seen", "pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "fingerprint"],
                condition=~Q(status="resolved"),
                name="incident_one_alive",
            ),
        ]
        indexes = [
            models.Index(fields=["cluster", "status", "severity_rank"]),
            models.Index(fields=["cluster", "fingerprint"]),
            # All that the history filters by, so that counting it reads no row.
            models.Index(
                fields=["cluster", "-opened_at", "status", "severity_rank", "slug", "subject_namespace"],
                name="incident_history",
            ),
        ]

    def __str__(self) -> str:
        return self.title

    @property
    def latest_finding(self) -> Finding:
        """The finding of the last poll that saw it, with evidence and guided fix."""
        return msgspec.convert(self.finding, Finding)

    @property
    def open_since(self) -> datetime | None:
        """When its present occurrence, or its last, began; None while pending."""
        return self.reopened_at or self.opened_at

    @property
    def is_open(self) -> bool:
        """Open or acknowledged."""
        return self.status in OPEN_STATUSES

    @property
    def is_resolved(self) -> bool:
        return self.status == IncidentStatus.RESOLVED
