"""Whoever holds GPUs: a root owner, as long as the ledger knows it."""

from django.db import models

from diagnostics.models.cluster import Cluster


class Workload(models.Model):
    """One root owner (kind, namespace, name) of a cluster. The row with an empty kind stands for nobody."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="workloads")
    kind = models.CharField(max_length=80, blank=True)
    namespace = models.CharField(max_length=253, blank=True)
    name = models.CharField(max_length=253, blank=True)
    labels = models.JSONField(default=dict)
    annotations = models.JSONField(default=dict)
    """The latest of the workload, its pods' where it says nothing: teams are mapped by them. Small ones alone."""
    first_seen = models.DateTimeField()
    last_seen = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "kind", "namespace", "name"], name="workload_once_per_cluster"
            )
        ]
        indexes = [models.Index(fields=["cluster", "last_seen"])]

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.kind else "nobody"
