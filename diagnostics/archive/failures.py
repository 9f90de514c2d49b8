"""Signs of failing hardware among the stored events of incidents: what polls and pages count alike."""

from datetime import datetime

from django.db.models import QuerySet

from diagnostics.models import Cluster, IncidentEvent
from diagnostics.rules.failures import failure_codes


def failure_signs(cluster: Cluster, since: datetime) -> QuerySet[IncidentEvent]:
    """Openings and reopenings of the incidents that count as failures of hardware, the oldest first."""
    return IncidentEvent.objects.filter(
        incident__cluster=cluster,
        incident__code__in=failure_codes(),
        incident__subject_kind__in=("Node", "GPU"),
        at__gte=since,
        kind__in=(IncidentEvent.Kind.OPENED, IncidentEvent.Kind.REOPENED),
    ).order_by("at", "pk")
