"""What is stored. Every row but users belongs to a cluster; times are UTC."""

from diagnostics.models.cluster import Cluster
from diagnostics.models.history import ArchivedSnapshot, ArchiveState, EventHour, Excerpt, MetricDay, Tier
from diagnostics.models.incident import Incident
from diagnostics.models.incident_event import IncidentEvent
from diagnostics.models.live_range import LiveRange
from diagnostics.models.observation import Observation
from diagnostics.models.rule_override import OverrideEdit, RuleOverride
from diagnostics.models.stored_snapshot import RecentSamplesRow, StoredPicture, StoredSnapshot
from diagnostics.models.topology import Allocation, ChangeKind, Device, Node, TopologyChange
from diagnostics.models.usage import (
    STATE_NUMBERS,
    STATES,
    Backfill,
    BackfillStatus,
    GpuModel,
    LedgerState,
    Price,
    StateInterval,
    TeamRule,
    UsageEdit,
    UsageHour,
    UsageRollup,
)
from diagnostics.models.user import User
from diagnostics.models.workload import Workload

__all__ = [
    "STATES",
    "STATE_NUMBERS",
    "Allocation",
    "ArchiveState",
    "ArchivedSnapshot",
    "Backfill",
    "BackfillStatus",
    "ChangeKind",
    "Cluster",
    "Device",
    "EventHour",
    "Excerpt",
    "GpuModel",
    "Incident",
    "IncidentEvent",
    "LedgerState",
    "LiveRange",
    "MetricDay",
    "Node",
    "Observation",
    "OverrideEdit",
    "Price",
    "RecentSamplesRow",
    "RuleOverride",
    "StateInterval",
    "StoredPicture",
    "StoredSnapshot",
    "TeamRule",
    "Tier",
    "TopologyChange",
    "UsageEdit",
    "UsageHour",
    "UsageRollup",
    "User",
    "Workload",
]
