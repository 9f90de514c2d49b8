"""What a site has entered: whose workloads are whose, and what a GPU-hour costs."""

from django.db.models import Q

from diagnostics.models import Cluster, Price, TeamRule
from diagnostics.usage.prices import PriceLine
from diagnostics.usage.teams import By, Rule


def price_lines(cluster: Cluster) -> list[PriceLine]:
    """The prices that concern the cluster."""
    rows = Price.objects.filter(Q(cluster=cluster) | Q(cluster=None)).order_by("pk")
    return [
        PriceLine(
            row.pattern,
            row.per_gpu_hour,
            row.currency,
            row.valid_from,
            row.valid_to,
            row.cluster_id is not None,
        )
        for row in rows
    ]


def team_rules(cluster: Cluster) -> list[Rule]:
    """The mapping that concerns the cluster, in its order."""
    rows = TeamRule.objects.filter(Q(cluster=cluster) | Q(cluster=None))
    return [Rule(By(row.by), row.key, row.pattern, row.team) for row in rows]
