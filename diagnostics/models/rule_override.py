"""What a site judges differently from the catalogue, entered on the page of its exceptions."""

from django.db import models
from django.db.models import Q

from diagnostics.findings import Severity
from diagnostics.models.cluster import Cluster
from diagnostics.models.edit import Edit

TWICE = "There is an exception for this rule, cluster and namespace already: change that one."


class RuleOverride(models.Model):
    """An exception for one rule or all, in one cluster and namespace or in all (`limits.Override`)."""

    cluster = models.ForeignKey(Cluster, null=True, blank=True, on_delete=models.CASCADE)
    """None: every cluster."""
    rule = models.CharField(max_length=80, blank=True)
    """Its slug; empty: every rule."""
    namespace = models.CharField(max_length=253, blank=True)
    """Empty: every namespace, and what has none."""
    exempt = models.BooleanField(default=False)
    """Off: what it finds there is not raised."""
    severity = models.CharField(max_length=10, blank=True, choices=[(s.value, s.value) for s in Severity])
    """Empty: the rule's own."""
    values = models.JSONField(default=dict, blank=True)
    """Name of a limit -> its value as people write it: `{"pending_after": "1h"}`."""
    reason = models.CharField(max_length=300)
    expires_at = models.DateTimeField(null=True, blank=True)
    """First moment at which it changes nothing any more; None: until further notice."""

    class Meta:
        ordering = ["rule", "cluster__slug", "namespace", "pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "rule", "namespace"],
                name="override_once",
                violation_error_message=TWICE,
            ),
            models.UniqueConstraint(
                fields=["rule", "namespace"],
                condition=Q(cluster__isnull=True),
                name="override_of_every_cluster_once",
                violation_error_message=TWICE,
            ),
        ]


class OverrideEdit(Edit):
    """Who made, changed and removed exceptions, and how."""

    rule = models.CharField(max_length=80, blank=True)
    """Slug of the rule that it is about; empty: every rule."""
