"""What people change by hand is remembered: who, when, and what it was before."""

from django.conf import settings
from django.db import models


class Edit(models.Model):
    """One change of something that people enter. Only ever added to."""

    class Action(models.TextChoices):
        ADDED = "added"
        CHANGED = "changed"
        REMOVED = "removed"

    at = models.DateTimeField(auto_now_add=True)
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    actor_name = models.CharField(max_length=150)
    """As it was then: the user may be gone."""
    action = models.CharField(max_length=12, choices=Action)
    before = models.TextField(blank=True)
    """In words; empty for what was added."""
    after = models.TextField(blank=True)

    class Meta:
        abstract = True
        ordering = ["-at", "-pk"]
