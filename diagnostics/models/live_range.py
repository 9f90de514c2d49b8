"""What Prometheus said last about devices that somebody looks at."""

from django.db import models

from diagnostics.models.cluster import Cluster


class LiveRange(models.Model):
    """The last answer about a set of slots; deleted soon after nobody asks any more (`archive.live`)."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="live_ranges")
    key = models.CharField(max_length=64)
    """Which slots (`archive.live.key_of`)."""
    answered_at = models.DateTimeField()
    detail = models.TextField(blank=True)
    """Why there is nothing, or not all of it."""
    data = models.BinaryField(default=bytes)
    """Empty where there is nothing."""

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "key"], name="live_range_once")]
