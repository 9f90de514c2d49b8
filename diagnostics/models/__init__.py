"""What is stored. Every row but users belongs to a cluster; times are UTC."""

from diagnostics.models.cluster import Cluster
from diagnostics.models.incident import Incident
from diagnostics.models.incident_event import IncidentEvent
from diagnostics.models.observation import Observation
from diagnostics.models.stored_snapshot import RecentSamplesRow, StoredSnapshot
from diagnostics.models.user import User

__all__ = [
    "Cluster",
    "Incident",
    "IncidentEvent",
    "Observation",
    "RecentSamplesRow",
    "StoredSnapshot",
    "User",
]
