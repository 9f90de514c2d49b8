"""One poll of one cluster: what came back, what it cost, and what could not be judged."""

from typing import ClassVar

from django.db import models

from diagnostics.models.cluster import Cluster

STAGES = {
    "kubernetes": "Objects and events are read from the API server.",
    "logs": "The ends of the logs of failing GPU pods are read.",
    "metrics": "Prometheus, or else the exporters themselves, are asked what the GPUs do and did.",
    "usage": "Prometheus is asked what CPU and memory the containers of GPU pods use.",
    "assemble": "All of that is joined: who holds each GPU, and what it does.",
    "collect": "The stages before it together, and what earlier polls left is looked up.",
    "diagnose": "The rules judge what was collected.",
    "record": "Findings open incidents; those no longer found are resolved.",
    "ledger": "GPU time since the poll before is booked to its holders.",
    "archive": "What was seen is kept, for the pages and for the past.",
}
"""Stages of a poll and what happens in each, in the order in which they are shown: the parts of `collect`, then the
whole, then what follows.
"""


class ObservationStatus(models.TextChoices):
    OK = "ok"
    PARTIAL = "partial"
    """Some source or rule did not answer for all."""
    FAILED = "failed"
    """Neither nodes nor pods could be read, or the poll broke: `error` says why."""


class Observation(models.Model):
    """One row per recorded poll."""

    Status: ClassVar = ObservationStatus

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="observations")
    taken_at = models.DateTimeField()
    """The snapshot's time, corrected by the server's clock."""
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField()
    status = models.CharField(max_length=10, choices=ObservationStatus)
    error = models.TextField(blank=True)
    """In plain words, without secrets; empty when nothing broke."""

    sources = models.JSONField(default=list)
    """[{name, status, detail, items, seconds, skipped: [{reason, count, example}]}], one per source asked."""
    stages_ms = models.JSONField(default=dict)
    """Stage (one of STAGES) -> milliseconds."""

    nodes = models.PositiveIntegerField(null=True)
    """None where nodes could not be read; so for pods and GPUs."""
    pods = models.PositiveIntegerField(null=True)
    gpus = models.PositiveIntegerField(null=True)
    critical = models.PositiveIntegerField(default=0)
    """Findings of this severity, held or not; so for the next two."""
    warning = models.PositiveIntegerField(default=0)
    info = models.PositiveIntegerField(default=0)

    rules_skipped = models.JSONField(default=list)
    """[{code, reason}]: rules that could not look at all."""
    rules_partial = models.JSONField(default=list)
    """[{code, reason}]: rules that looked at incomplete data."""
    rules_failed = models.JSONField(default=list)
    """[{code, error}]: rules that broke."""
    coverage = models.JSONField(default=list)
    """[{code, what, cure}]: blind spots."""
    exempted = models.JSONField(default=list)
    """[{code, count, kept: [{kind, namespace, name, reason}]}]: what rules found but an annotation or override exempts.

    Only of the last poll that judged: nothing looks at earlier ones, and a site may exempt much for ever.
    """

    class Meta:
        ordering = ["-taken_at"]
        get_latest_by = "taken_at"
        constraints = [
            models.UniqueConstraint(fields=["cluster", "taken_at"], name="observation_once_per_poll"),
        ]

    def __str__(self) -> str:
        return f"{self.cluster_id} {self.taken_at:%Y-%m-%d %H:%M:%S} {self.status}"
