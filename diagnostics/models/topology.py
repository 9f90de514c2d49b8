"""What the cluster is made of, who held what, and what changed."""

from typing import ClassVar

from django.db import models
from django.db.models import Q

from diagnostics.models.cluster import Cluster
from diagnostics.models.workload import Workload


class Node(models.Model):
    """A node that has or had GPUs. A node re-created under the same name is the same row with another UID."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="nodes")
    name = models.CharField(max_length=253)
    uid = models.CharField(max_length=60, blank=True)
    rack = models.CharField(max_length=253, blank=True)
    zone = models.CharField(max_length=253, blank=True)
    nvlink_domain = models.CharField(max_length=253, blank=True)
    model = models.CharField(max_length=120, blank=True)
    driver = models.CharField(max_length=60, blank=True)
    kubelet = models.CharField(max_length=60, blank=True)
    boot_id = models.CharField(max_length=60, blank=True)
    mig_config = models.CharField(max_length=120, blank=True)
    gpus = models.PositiveIntegerField(default=0)
    """Boards fitted at the last look; 0 while only a PCI label says that there are some."""
    most_gpus = models.PositiveIntegerField(default=0)
    """The most that it ever had."""
    mig_layout = models.CharField(max_length=300, blank=True)
    """Instances over all its boards, as in `7x1g.10gb, 1x3g.40gb`; empty without MIG. The last that was known."""
    replicas = models.PositiveSmallIntegerField(null=True, blank=True)
    """Shares that a GPU is handed out in; None until its labels say."""
    operator_pods = models.JSONField(default=dict)
    """Component -> [uid, name, restarts] of its pod on this node, as last seen."""
    is_cordoned = models.BooleanField(default=False)
    first_seen = models.DateTimeField()
    last_seen = models.DateTimeField()
    removed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "name"], name="node_once_per_cluster")]

    def __str__(self) -> str:
        return self.name


class Device(models.Model):
    """A slot: a board's place in a node, a MIG instance on it, or an unnamed place that only the counts know.

    `<board>/mig-rest` stands for the slices of a board that no instance uses: nobody can hold it.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="devices")
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="devices")
    slot = models.CharField(max_length=600)
    """As in `snapshot.Gpu.slot`."""
    uuid = models.CharField(max_length=80, blank=True)
    """Of the board that sits there now."""
    model = models.CharField(max_length=120, blank=True)
    resource = models.CharField(max_length=120)
    mig_profile = models.CharField(max_length=40, blank=True)
    offset = models.PositiveSmallIntegerField(default=0)
    parts = models.PositiveSmallIntegerField(default=1)
    whole = models.PositiveSmallIntegerField(default=1)
    """It is `parts` of `whole` compute slices of its board, from slice `offset` on (`stretches.share`)."""
    lost_at = models.DateTimeField(null=True, blank=True)
    """Since then it is unhealthy, not allocatable or not there; None while it can be given to pods."""
    first_seen = models.DateTimeField()
    last_seen = models.DateTimeField()
    removed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "slot"], name="device_once_per_cluster")]
        indexes = [
            models.Index(fields=["cluster"], condition=Q(removed_at__isnull=True), name="device_live"),
        ]

    def __str__(self) -> str:
        return self.slot


class Allocation(models.Model):
    """One pod's hold on devices of one node, from when to when."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="allocations")
    workload = models.ForeignKey(
        Workload, on_delete=models.CASCADE, related_name="allocations", db_index=False
    )
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="allocations")
    pod = models.CharField(max_length=253)
    """Name; its namespace is the workload's."""
    pod_uid = models.CharField(max_length=60, blank=True)
    slots = models.JSONField(default=list)
    """Slots that it holds, without the node's name; `<resource>#?` where only their number is known."""
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    """First poll that no longer saw it; None while it holds."""
    is_backfilled = models.BooleanField(default=False)

    class Meta:
        indexes = [
            models.Index(fields=["cluster", "started_at"]),
            models.Index(fields=["node", "started_at"]),
            models.Index(fields=["workload", "started_at"]),
            models.Index(fields=["cluster"], condition=Q(ended_at__isnull=True), name="allocation_open"),
        ]


class ChangeKind(models.TextChoices):
    NODE_ADDED = "node added"
    NODE_REMOVED = "node removed"
    NODE_RECREATED = "node re-created"
    NODE_REBOOTED = "node rebooted"
    CORDONED = "cordoned"
    UNCORDONED = "uncordoned"
    DRIVER_CHANGED = "driver changed"
    MIG_CHANGED = "MIG layout changed"
    SHARING_CHANGED = "sharing changed"
    GPU_COUNT_CHANGED = "GPU count changed"
    GPU_LOST = "GPU lost"
    GPU_FOUND = "GPU found"
    GPU_REPLACED = "GPU replaced"
    OPERATOR_POD_RESTARTED = "operator pod restarted"

    @property
    def words(self) -> str:
        """As pages call it: a GPU that is "lost" has fallen off the bus in NVIDIA's words, and this one need not."""
        renamed = {
            ChangeKind.GPU_LOST: "GPU withdrawn from scheduling",
            ChangeKind.GPU_FOUND: "GPU offered again",
        }
        return renamed.get(self, self.value)


class TopologyChange(models.Model):
    """Something about the cluster itself changed between two polls."""

    Kind: ClassVar = ChangeKind

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="changes")
    node = models.ForeignKey(Node, null=True, on_delete=models.CASCADE, related_name="changes")
    at = models.DateTimeField()
    """Time of the poll that first saw it; it happened after the one before."""
    kind = models.CharField(max_length=30, choices=ChangeKind)
    subject = models.CharField(max_length=600)
    before = models.CharField(max_length=300, blank=True)
    after = models.CharField(max_length=300, blank=True)

    class Meta:
        ordering = ["-at", "-pk"]
        indexes = [models.Index(fields=["cluster", "at"]), models.Index(fields=["node", "at"])]

    def __str__(self) -> str:
        return f"{self.subject}: {self.kind}"
