"""The latest picture of each cluster, and the metrics that we sampled ourselves."""

from django.db import models

from diagnostics.models.cluster import Cluster


class StoredSnapshot(models.Model):
    """The last snapshot with something in it; `snapshot.stored.loads(bytes(row.data))` gives it back."""

    cluster = models.OneToOneField(Cluster, on_delete=models.CASCADE, related_name="stored_snapshot")
    taken_at = models.DateTimeField()
    format = models.PositiveSmallIntegerField()
    """Version of the stored form."""
    data = models.BinaryField()

    def __str__(self) -> str:
        return f"{self.cluster_id} {self.taken_at:%Y-%m-%d %H:%M:%S}"


class RecentSamplesRow(models.Model):
    """GPU metrics of one of the last polls: windows are made of them where there is no Prometheus."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="recent_samples")
    taken_at = models.DateTimeField()
    data = models.BinaryField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster", "taken_at"], name="recent_samples_once_a_poll"),
        ]

    def __str__(self) -> str:
        return f"{self.cluster_id} {self.taken_at:%Y-%m-%d %H:%M:%S}"
