"""What a site has entered: whose workloads are whose, and what a GPU-hour costs."""

from django.db.models import Q

from diagnostics.models import Cluster, Price, TeamRule
from diagnostics.usage.prices import PriceLine
from diagnostics.usage.teams import By, Rule


def price_lines(cluster: Cluster) -> list[PriceLine]:
    """The prices that concern the cluster."""
    rows = Price.objects.filter(Q(cluster=cluster) | Q(cluster=None)).order_by("pk")
    return [price_line(row) for row in rows]


def team_rules(cluster: Cluster) -> list[Rule]:
    """The mapping that concerns the cluster, in its order."""
    rows = TeamRule.objects.filter(Q(cluster=cluster) | Q(cluster=None))
    return [team_rule(row) for row in rows]


def price_line(row: Price) -> PriceLine:
    """As `price_of` takes it."""
    is_for_cluster = row.cluster_id is not None
    return PriceLine(
        row.pattern, row.per_gpu_hour, row.currency, row.valid_from, row.valid_to, is_for_cluster
    )


def team_rule(row: TeamRule) -> Rule:
    """As `team_of` takes it."""
    return Rule(By(row.by), row.key, row.pattern, row.team)
