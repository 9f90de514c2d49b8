"""A cluster that is watched, whatever it is called at the moment."""

import uuid
from datetime import timedelta

from django.db import models

GENERATED = "generated:"
LATE_AT_MOST = timedelta(minutes=15)
"""No poll takes as long; one that is older than the last by more follows a clock that ran ahead and was set right."""


def generated_identity() -> str:
    """Stands in until the cluster's own identity can be read."""
    return f"{GENERATED}{uuid.uuid4()}"


class Cluster(models.Model):
    """One cluster. The identity says which it is; slug and name are how the site calls it now."""

    identity = models.CharField(max_length=100, unique=True, default=generated_identity)
    """UID of its kube-system namespace; `generated:<uuid>` while that may not be read."""
    slug = models.CharField(max_length=60, unique=True)
    """As declared in the settings, and in URLs. A replaced one keeps `<slug>-<start of its identity>`."""
    name = models.CharField(max_length=200)
    server_version = models.CharField(max_length=60, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    last_taken_at = models.DateTimeField(null=True, blank=True)
    """`taken_at` of the last recorded poll: whatever is not newer comes too late."""

    lease_token = models.CharField(max_length=32, blank=True)
    """Held by the poll that runs; empty when none does."""
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    """From then on anybody may take the lease: its holder was killed."""

    class Meta:
        ordering = ["slug"]

    def __str__(self) -> str:
        return self.name or self.slug

    @property
    def is_identified(self) -> bool:
        """Its own identity has been read."""
        return not self.identity.startswith(GENERATED)
