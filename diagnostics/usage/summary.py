"""Where the GPU-hours and the money of a span went: by team, namespace, workload, model or state; and who wastes most.

Read from roll-ups where there are any and from the hours where not: the sums are the same. Teams and prices are applied
here, as they are now, so that a correction moves the past.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models import F, Subquery

from diagnostics.models import Backfill, Cluster, UsageHour, Workload
from diagnostics.usage.groups import (
    Grouping,
    Ledger,
    Name,
    Prices,
    Saving,
    Within,
    group,
    saving,
)
from diagnostics.usage.mapping import price_lines, team_rules
from diagnostics.usage.owners import keys_of
from diagnostics.usage.prices import boundaries, ceiled, floored
from diagnostics.usage.question import ANYBODY, Answer, Asked, Question
from diagnostics.usage.tables import Tables, tables
from diagnostics.usage.weights import OF_THE_BOARD

HOUR = timedelta(hours=1)


class Summary(NamedTuple):
    """One look at a span."""

    ledger: Ledger
    savings: tuple[Saving, ...]
    """Workloads that waste, most first, as many as were asked for."""


type NamesOf = Callable[[list[int], list[int]], dict[int, Name]]
"""From primary keys, of the groups and of the savings, to names: None for nobody."""


def workload_names(groups: list[int], savings: list[int]) -> dict[int, Name]:
    """One query, or none."""
    pks = {*groups, *savings}
    rows = Workload.objects.filter(pk__in=pks).values_list("pk", "kind", "namespace", "name")
    return {pk: tuple(name) if name[0] else None for pk, *name in rows} if pks else {}


def sums(
    cluster: Cluster,
    start: datetime,
    end: datetime,
    by: Grouping,
    *,
    within: Within = ANYBODY,
    skip: int = 0,
    most: int | None = None,
) -> Ledger:
    """GPU-time and money of [start, end), widened to full hours; teams and prices as they are mapped now.

    Of the groups, `most` after the first `skip`; None: all.
    """
    return summary(cluster, start, end, Asked(by, within), skip=skip, most=most).ledger


def summary(
    cluster: Cluster,
    start: datetime,
    end: datetime,
    asked: Asked,
    *,
    skip: int = 0,
    most: int | None = None,
    top: int = 0,
    names_of: NamesOf = workload_names,
) -> Summary:
    """Sums as of `sums`, with the `top` workloads that waste most. At most seven queries, and one more until a new
    team rule has reached the roll-ups; `names_of` is asked once.
    """
    start, end = floored(start), ceiled(end)
    extent = _extent(cluster, start, end)
    lines = price_lines(cluster)
    cuts = []
    if extent.begins is not None and extent.last is not None:
        first, stop = max(start, extent.begins), min(end, extent.last + HOUR)
        cuts = boundaries(lines, first, stop) if first < stop else []
    prices = Prices(lines, cuts)
    needs_teams = asked.by is Grouping.TEAM or asked.within.team is not None
    question = Question(asked, team_rules(cluster) if needs_teams else [], extent.nobody)
    read = Tables({})
    if cuts:
        fields = {question.field, *(["lines"] if top or asked.by is Grouping.WORKLOAD else [])}
        keys = keys_of(question.rules)
        read = tables(cluster, cuts, fields, keys, needs_owners=question.needs_owners)
    answer = Answer(question, read)
    count, chosen = answer.groups(skip, most)
    savers = answer.savings(top) if top else {}
    names = names_of([key for key, _ in chosen if isinstance(key, int)], list(savers))
    ledger = Ledger(
        start,
        end,
        extent.begins,
        extent.through,
        extent.left and min(extent.left, end),
        tuple(group(names.get(key) if isinstance(key, int) else key, whats, prices) for key, whats in chosen),
        count,
        group(None, answer.whole, prices),
        group(None, {w: spent for w, spent in answer.whole.items() if w.state not in OF_THE_BOARD}, prices),
        answer.unobserved_ms,
        answer.backfilled_ms,
        prices.unpriced_models,
    )
    savings = tuple(saving(pk, names.get(pk), whats, prices) for pk, whats in savers.items())
    return Summary(ledger, savings)


class _Extent(NamedTuple):
    through: datetime | None
    begins: datetime | None
    last: datetime | None
    """Its last hour."""
    nobody: int | None
    """Primary key of the row that stands for nobody."""
    left: datetime | None
    """From when on nothing is left to be back-filled; None where nothing is left of the span."""


def _extent(cluster: Cluster, start: datetime, end: datetime) -> _Extent:
    """How far the ledger goes, and how far [start, end) is back-filled. One query."""
    under_way = cluster.backfills.filter(status__in=(Backfill.Status.WAITING, Backfill.Status.RUNNING))
    left = under_way.filter(start__lt=end, done_from__gt=F("start")).filter(done_from__gt=start)
    hours = UsageHour.objects.filter(cluster=cluster).values("hour")
    nobody = Workload.objects.filter(cluster=cluster, kind="").values("pk")
    found = Cluster.objects.filter(pk=cluster.pk).values_list(
        "ledger__complete_through",
        Subquery(hours.order_by("hour")[:1]),
        Subquery(hours.order_by("-hour")[:1]),
        Subquery(nobody[:1]),
        Subquery(left.order_by("-done_from").values("done_from")[:1]),
    )
    return _Extent(*(found.first() or (None, None, None, None, None)))
