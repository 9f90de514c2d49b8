"""What team rules and prices come to: how many workloads each team gets, and what each model costs now."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models import Count

from diagnostics.models import Cluster, Device, Workload
from diagnostics.usage.prices import PriceLine, price_of
from diagnostics.usage.teams import Owner, Rule, decided

SEEN_WITHIN = timedelta(days=1)
MOST_WORKLOADS = 4_000
"""Labels are read of so many; the latest count."""


class Shares(NamedTuple):
    """Workloads by team."""

    teams: dict[str, int]
    """Most first."""
    decided: dict[int, int]
    """Place of a rule -> workloads whose team it names."""
    by_namespace: int
    """Whose team is their namespace, because no rule matches."""

    @property
    def workloads(self) -> int:
        return sum(self.teams.values())


class PricedModel(NamedTuple):
    """A model that the cluster has now."""

    name: str
    devices: int
    line: PriceLine | None
    """The one that wins; None where no price is known."""


def owners(cluster: Cluster, now: datetime) -> list[Owner]:
    """Workloads that were seen lately, at most MOST_WORKLOADS. One query."""
    rows = Workload.objects.filter(cluster=cluster, last_seen__gte=now - SEEN_WITHIN).exclude(kind="")
    found = rows.order_by("-last_seen", "-pk").values_list("namespace", "labels", "annotations")
    return [
        Owner(namespace, labels or {}, words or {}) for namespace, labels, words in found[:MOST_WORKLOADS]
    ]


def shares(found: Sequence[Owner], rules: Sequence[Rule]) -> Shares:
    """How these rules divide them up."""
    teams: Counter[str] = Counter()
    places: Counter[int | None] = Counter()
    for owner in found:
        team, place = decided(owner, rules)
        teams[team] += 1
        places[place] += 1
    without = places.pop(None, 0)
    ordered = sorted(teams.items(), key=lambda one: (-one[1], one[0]))
    return Shares(dict(ordered), {place: n for place, n in places.items() if place is not None}, without)


def priced_models(cluster: Cluster, lines: Sequence[PriceLine], now: datetime) -> list[PricedModel]:
    """Models of the devices that are there, most devices first. One query."""
    rows = Device.objects.filter(cluster=cluster, removed_at=None).order_by()
    counted = rows.values_list("model").annotate(number=Count("pk"))
    found = [PricedModel(model, number, price_of(model, now, lines)) for model, number in counted]
    return sorted(found, key=lambda one: (-one.devices, one.name))
