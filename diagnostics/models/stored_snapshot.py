"""The latest snapshot of each cluster, what pages show of it, and the metrics that we sampled ourselves."""

from django.db import models

from diagnostics.models.cluster import Cluster


class StoredSnapshot(models.Model):
    """A part of the last snapshot with something in it (`archive.parts`); each part is a snapshot of its own."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="snapshot_parts")
    part = models.PositiveSmallIntegerField(default=0)
    """0: all but nodes and their devices, which are spread over the others by the nodes' names."""
    taken_at = models.DateTimeField()
    format = models.PositiveSmallIntegerField()
    """Version of the stored form."""
    data = models.BinaryField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster", "part"], name="one_snapshot_part"),
        ]

    def __str__(self) -> str:
        return f"{self.cluster_id} {self.taken_at:%Y-%m-%d %H:%M:%S} part {self.part}"


class StoredPicture(models.Model):
    """What pages show of the same snapshot (`picture`)."""

    cluster = models.OneToOneField(Cluster, on_delete=models.CASCADE, related_name="picture")
    taken_at = models.DateTimeField()
    devices = models.BinaryField()
    workloads = models.BinaryField()

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
