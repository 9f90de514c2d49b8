"""The cluster as it was: archived snapshots, excerpts of incidents, events, and roll-ups of what was measured."""

from typing import ClassVar

from django.db import models

from diagnostics.models.cluster import Cluster
from diagnostics.models.incident import Incident
from diagnostics.models.topology import Node


class Tier(models.TextChoices):
    POLL = "poll"
    HOUR = "hour"
    DAY = "day"


class ArchivedSnapshot(models.Model):
    """A snapshot of the past. Most are stored as what differs from a whole one (`base`)."""

    Tier: ClassVar = Tier

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="archive", db_index=False)
    taken_at = models.DateTimeField()
    tier = models.CharField(max_length=4, choices=Tier)
    """How long it is kept: every poll for a day, one an hour for a month, one a day for 13 months."""
    base = models.ForeignKey("self", null=True, on_delete=models.PROTECT, related_name="patches")
    format = models.PositiveSmallIntegerField()
    data = models.BinaryField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "taken_at"], name="archived_once")]
        indexes = [models.Index(fields=["cluster", "tier", "taken_at"])]


class Excerpt(models.Model):
    """What an incident was about, at the moment it opened or closed; at most 50 KB."""

    incident = models.ForeignKey(Incident, on_delete=models.CASCADE, related_name="excerpts")
    at = models.DateTimeField()
    moment = models.CharField(max_length=12)
    """opened, reopened or resolved."""
    is_cut = models.BooleanField(default=False)
    """Something was left out to keep it small."""
    data = models.BinaryField()
    """A snapshot of the subject, its nodes, gang and events alone (`snapshot.stored`)."""

    class Meta:
        ordering = ["at"]


class EventHour(models.Model):
    """Kubernetes events last seen within one hour, packed."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, db_index=False)
    hour = models.DateTimeField()
    count = models.PositiveIntegerField(default=0)
    data = models.BinaryField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "hour"], name="event_hour_once")]


class MetricDay(models.Model):
    """Hourly means and peaks of the GPUs of one node over one UTC day, packed."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="metric_days", db_index=False)
    day = models.DateField()
    data = models.BinaryField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["node", "day"], name="metric_day_once")]


class ArchiveState(models.Model):
    """What the archive of a cluster hands from one poll, and from one hour, to the next."""

    cluster = models.OneToOneField(Cluster, on_delete=models.CASCADE, related_name="archive_state")
    past = models.BinaryField(default=bytes)
    """The history that the next poll is told (`archive.past`), so that no snapshot need be read for it."""
    rolled_up_to = models.DateTimeField(null=True)
    """The hours before it are in MetricDay."""
