"""The GPU-hour ledger: states in time, their sums, who pays for them, and what was not observed."""

from typing import ClassVar

from django.db import models
from django.db.models import Q

from diagnostics.models.cluster import Cluster
from diagnostics.models.edit import Edit
from diagnostics.models.topology import Device
from diagnostics.models.workload import Workload
from diagnostics.snapshot import State

STATES = tuple(State)
STATE_NUMBERS = {state: number for number, state in enumerate(STATES)}
"""States are stored by their place in `snapshot.State`, which is only ever added to at its end."""


class GpuModel(models.Model):
    """Name of a GPU model, so that millions of rows need not spell it."""

    name = models.CharField(max_length=120, unique=True)

    def __str__(self) -> str:
        return self.name


class StateInterval(models.Model):
    """A device's stay in one state with one set of holders. Effective and ineffective time alternate by the minute:
    one interval holds both, and `ineffective_ms` says how much of it was the latter.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, db_index=False)
    device = models.ForeignKey(Device, on_delete=models.CASCADE, db_index=False)
    start_ms = models.BigIntegerField()
    """Milliseconds since 1970, UTC."""
    end_ms = models.BigIntegerField()
    state = models.PositiveSmallIntegerField()
    """Place in STATES; `effective` for working time."""
    ineffective_ms = models.BigIntegerField(default=0)
    waste_ms = models.BigIntegerField(default=0)
    holders = models.JSONField(default=list)
    """Primary keys of the workloads, one per share."""
    is_gap = models.BooleanField(default=False)
    """Nobody looked."""
    is_backfilled = models.BooleanField(default=False)
    gap_shape = models.JSONField(null=True)
    """Of a gap alone: what its time weighs (`usage.weights.Shape`), for whoever fills it."""

    class Meta:
        indexes = [
            models.Index(fields=["device", "start_ms"]),
            models.Index(fields=["cluster", "end_ms"]),
            models.Index(fields=["cluster", "start_ms"], condition=Q(is_gap=True), name="state_gap"),
        ]


class UsageHour(models.Model):
    """GPU-milliseconds of one workload in one state on one model in one hour."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, db_index=False)
    hour = models.DateTimeField()
    """Its beginning, UTC."""
    workload = models.ForeignKey(Workload, on_delete=models.CASCADE)
    model = models.ForeignKey(GpuModel, on_delete=models.PROTECT, db_index=False)
    state = models.PositiveSmallIntegerField()
    is_gap = models.BooleanField(default=False)
    is_backfilled = models.BooleanField(default=False)
    gpu_ms = models.BigIntegerField(default=0)
    waste_ms = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "hour", "workload", "model", "state", "is_gap", "is_backfilled"],
                name="usage_once",
            )
        ]


class UsageRollup(models.Model):
    """What one hour of the ledger comes to, or a whole day or month of them, packed (`usage.lines`): made of final
    hours, and gone as soon as one of them is written to again.
    """

    WHOLE_DAY: ClassVar = 24
    WHOLE_MONTH: ClassVar = 25

    cluster = models.ForeignKey(
        Cluster, on_delete=models.CASCADE, related_name="usage_rollups", db_index=False
    )
    day = models.DateField()
    """In UTC; of a month the first."""
    hour = models.PositiveSmallIntegerField()
    """0 to 23, WHOLE_DAY or WHOLE_MONTH."""
    keys = models.TextField(blank=True)
    """Labels and annotations that tell its owners apart, as JSON; empty: its owners have to be looked up anew."""
    totals = models.BinaryField()
    """By model and state."""
    owners = models.BinaryField()
    """By what teams are mapped by, too."""
    lines = models.BinaryField()
    """By workload, model and state."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster", "day", "hour"], name="usage_rolled_up_once")
        ]


class LedgerState(models.Model):
    """Where the ledger of a cluster stands: written in the same transaction as what it became."""

    cluster = models.OneToOneField(Cluster, on_delete=models.CASCADE, related_name="ledger")
    complete_through = models.DateTimeField(null=True)
    """Everything before is final."""
    data = models.BinaryField(default=bytes)
    """Tracks of the devices, open intervals and sums of the hours that are not final (`usage.Books`)."""


class BackfillStatus(models.TextChoices):
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    IMPOSSIBLE = "impossible"
    """Prometheus holds nothing of that time."""
    FAILED = "failed"


class Backfill(models.Model):
    """A span that nobody observed, to be filled from Prometheus; progress is stored chunk by chunk."""

    Status: ClassVar = BackfillStatus

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="backfills")
    start = models.DateTimeField()
    end = models.DateTimeField()
    done_from = models.DateTimeField()
    """Filled from here to `end`: the newest chunk first, so that the last days are there soon."""
    status = models.CharField(max_length=12, choices=BackfillStatus, default=BackfillStatus.WAITING)
    detail = models.TextField(blank=True)
    attempts = models.PositiveSmallIntegerField(default=0)
    """That failed since the last progress."""
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["-end"]


class TeamRule(models.Model):
    """Maps workloads to a team; the first rule that matches wins. Applied when reading: a correction moves the past."""

    class By(models.TextChoices):
        LABEL = "label"
        ANNOTATION = "annotation"
        NAMESPACE = "namespace"

    priority = models.PositiveIntegerField(default=100)
    cluster = models.ForeignKey(Cluster, null=True, blank=True, on_delete=models.CASCADE)
    """None: every cluster."""
    by = models.CharField(max_length=12, choices=By)
    key = models.CharField(max_length=253, blank=True)
    """Of the label or annotation; its value is the team unless `team` is given."""
    pattern = models.CharField(max_length=253, blank=True)
    """Shell-style pattern of the value or of the namespace; empty matches all."""
    team = models.CharField(max_length=120, blank=True)

    class Meta:
        ordering = ["priority", "pk"]


class Price(models.Model):
    """What one GPU-hour of a model costs, and when. Applied when reading: a correction re-prices the past."""

    cluster = models.ForeignKey(Cluster, null=True, blank=True, on_delete=models.CASCADE)
    pattern = models.CharField(max_length=120)
    """Shell-style pattern of the model's name, in any case."""
    per_gpu_hour = models.DecimalField(max_digits=12, decimal_places=4)
    currency = models.CharField(max_length=3, default="USD")
    valid_from = models.DateTimeField(null=True, blank=True)
    valid_to = models.DateTimeField(null=True, blank=True)
    """First moment at which it no longer holds; None: until further notice."""

    class Meta:
        ordering = ["-valid_from", "pk"]


class UsageEdit(Edit):
    """Who changed team rules and prices, and how."""

    class About(models.TextChoices):
        TEAM_RULE = "team rule"
        PRICE = "price"

    about = models.CharField(max_length=12, choices=About)
