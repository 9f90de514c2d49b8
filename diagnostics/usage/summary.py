"""Where the GPU-hours and the money of a span went: by team, namespace, workload, model or state; and who wastes most.

Read from roll-ups where there are any and from the hours where not: the sums are the same. Teams and prices are applied
here, as they are now, so that a correction moves the past.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime, timedelta
from heapq import nsmallest
from typing import NamedTuple

from django.db.models import Subquery

from diagnostics.models import STATES, Cluster, UsageHour, Workload
from diagnostics.usage.groups import (
    Grouping,
    Ledger,
    Name,
    Prices,
    Saving,
    What,
    Whats,
    Within,
    group,
    ordered,
    saving,
)
from diagnostics.usage.lines import Columns, Values
from diagnostics.usage.mapping import price_lines, team_rules
from diagnostics.usage.owners import Keys, keys_of, owner_of
from diagnostics.usage.prices import boundaries, ceiled, floored
from diagnostics.usage.tables import BY_WORKLOAD, Table, Tables, tables
from diagnostics.usage.teams import Rule, team_of

ANYBODY = Within()
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


class Asked(NamedTuple):
    """What sums are made by, and of whom."""

    by: Grouping
    within: Within = ANYBODY
    is_held: bool = False
    """Without the group of nobody; the sum of all groups has its time all the same."""


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
    extent = _extent(cluster)
    lines = price_lines(cluster)
    cuts = []
    if extent.begins is not None and extent.last is not None:
        first, stop = max(start, extent.begins), min(end, extent.last + HOUR)
        cuts = boundaries(lines, first, stop) if first < stop else []
    prices = Prices(lines, cuts)
    needs_teams = asked.by is Grouping.TEAM or asked.within.team is not None
    question = _Question(asked, team_rules(cluster) if needs_teams else [], extent.nobody)
    read = Tables({})
    fields = question.fields | ({"wasting"} if top else set())
    if cuts:
        keys = keys_of(question.rules)
        read = tables(cluster, cuts, fields, keys, needs_owners=question.needs_owners)
    count, chosen, whole, known = question.groups(read.of(*question.fields), skip, most)
    savers = question.savings(read.of("wasting"), top) if top else {}
    names = names_of([key for key, _ in chosen if isinstance(key, int)], list(savers))
    ledger = Ledger(
        start,
        end,
        extent.begins,
        extent.through,
        tuple(group(names.get(key) if isinstance(key, int) else key, whats, prices) for key, whats in chosen),
        count,
        group(None, whole, prices),
        known.unobserved_ms,
        known.backfilled_ms,
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


def _extent(cluster: Cluster) -> _Extent:
    """How far the ledger goes. One query."""
    hours = UsageHour.objects.filter(cluster=cluster).values("hour")
    nobody = Workload.objects.filter(cluster=cluster, kind="").values("pk")
    found = Cluster.objects.filter(pk=cluster.pk).values_list(
        "ledger__complete_through",
        Subquery(hours.order_by("hour")[:1]),
        Subquery(hours.order_by("-hour")[:1]),
        Subquery(nobody[:1]),
    )
    return _Extent(*(found.first() or (None, None, None, None)))


class _Known(NamedTuple):
    unobserved_ms: int
    backfilled_ms: int


class _Table(NamedTuple):
    """A table, and what becomes of each of its kinds and owners."""

    columns: Columns
    whats: list[What | None]
    """By kind; None for unobserved time."""
    names: list[Name]
    """By owner."""
    admits: list[bool]
    """By owner."""


class _Question:
    """What is asked for, with what it takes to tell whose time is whose."""

    def __init__(self, asked: Asked, rules: list[Rule], nobody: int | None) -> None:
        self.by, self.within, self.is_held = asked
        self.rules, self.nobody = rules, nobody
        self.needs_owners = self.by in {Grouping.TEAM, Grouping.NAMESPACE} or self.within.is_any
        self._teams: dict[tuple[Keys, Values], str] = {}

    @property
    def fields(self) -> set[str]:
        if self.by is Grouping.WORKLOAD:
            return set(BY_WORKLOAD)
        return {"owners"} if self.needs_owners else {"totals"}

    def prepared(self, found: Iterable[Table]) -> Iterator[_Table]:
        for segment, keys, columns in found:
            whats = [
                None if kind.is_gap else What(segment, kind.model, STATES[kind.state])
                for kind in columns.kinds
            ]
            names = [self._name(keys, values) for values in columns.owners]
            yield _Table(columns, whats, names, [self._admits(keys, values) for values in columns.owners])

    def groups(
        self, found: list[Table], skip: int, most: int | None
    ) -> tuple[int, list[tuple[int | Name, Whats]], Whats, _Known]:
        """How many there are, those that are wanted in order, all in one, and what the sums rest on."""
        ready = list(self.prepared(found))
        whole, known = _whole(ready)
        if self.by is Grouping.WORKLOAD:
            without = self.nobody if self.is_held else None
            keys, count = _largest(ready, lambda columns: columns.gpu_ms, without, skip, most)
            return count, list(_of_workloads(ready, keys).items()), whole, known
        groups = self._gathered(ready, whole)
        if self.is_held:
            groups.pop(None, None)
        order = ordered(groups, lambda name: name or ())
        last = None if most is None else skip + most
        return len(groups), [(name, groups[name]) for name in order[skip:last]], whole, known

    def savings(self, found: list[Table], top: int) -> dict[int, Whats]:
        """The workloads that waste most, with what they waste."""
        ready = list(self.prepared(found))
        keys, _ = _largest(ready, lambda columns: columns.waste_ms, self.nobody, 0, top)
        return _of_workloads(ready, keys)

    def _gathered(self, ready: list[_Table], whole: Whats) -> dict[Name, Whats]:
        groups: dict[Name, Whats] = {}
        if self.by in {Grouping.MODEL, Grouping.STATE}:
            for of, spent in whole.items():
                name = of.model if self.by is Grouping.MODEL else of.state.value
                groups.setdefault((name,), {})[of] = spent
            return groups
        for columns, whats, names, admits in ready:
            for owner, kind, gpu_ms, waste_ms in _rows(columns):
                what = whats[kind]
                if what is None or not admits[owner]:
                    continue
                spent = groups.setdefault(names[owner], {}).setdefault(what, [0, 0])
                spent[0] += gpu_ms
                spent[1] += waste_ms
        return groups

    def _name(self, keys: Keys, values: Values) -> Name:
        if not values:
            return None
        if self.by is Grouping.NAMESPACE:
            return (values[0] or "",)
        return (self._team(keys, values),) if self.by is Grouping.TEAM else None

    def _admits(self, keys: Keys, values: Values) -> bool:
        if not self.within.is_any:
            return True
        namespace, team = self.within.namespace, self.within.team
        return (
            bool(values)
            and (namespace is None or values[0] == namespace)
            and (team is None or self._team(keys, values) == team)
        )

    def _team(self, keys: Keys, values: Values) -> str:
        team = self._teams.get((keys, values))
        if team is None:
            owner = owner_of(values, keys)
            team = self._teams[keys, values] = team_of(owner, self.rules) if owner is not None else ""
        return team


def _rows(columns: Columns) -> Iterator[tuple[int, int, int, int]]:
    return zip(columns.owner, columns.kind, columns.gpu_ms, columns.waste_ms, strict=True)


def _whole(ready: list[_Table]) -> tuple[Whats, _Known]:
    """Everything that is admitted; unobserved time is nobody's, whoever is asked for."""
    whole: Whats = {}
    unobserved = backfilled = 0
    for columns, whats, _, admits in ready:
        sums = [[0, 0] for _ in columns.kinds]
        for owner, kind, gpu_ms, waste_ms in _rows(columns):
            if admits[owner] or whats[kind] is None:
                spent = sums[kind]
                spent[0] += gpu_ms
                spent[1] += waste_ms
        for of, what, (gpu_ms, waste_ms) in zip(columns.kinds, whats, sums, strict=True):
            if what is None:
                unobserved += gpu_ms
                continue
            backfilled += gpu_ms if of.is_backfilled else 0
            if gpu_ms or waste_ms:
                spent = whole.setdefault(what, [0, 0])
                spent[0] += gpu_ms
                spent[1] += waste_ms
    return whole, _Known(unobserved, backfilled)


def _largest(
    ready: list[_Table],
    measure: Callable[[Columns], list[int]],
    without: int | None,
    skip: int,
    most: int | None,
) -> tuple[list[int], int]:
    """Primary keys of the workloads with most of what is measured, after the first `skip`; and how many have any."""
    sizes: dict[int, int] = {}
    for columns, whats, _, admits in ready:
        counts = [what is not None for what in whats]
        rows = zip(columns.workload, columns.owner, columns.kind, measure(columns), strict=True)
        for workload, owner, kind, amount in rows:
            if amount and counts[kind] and admits[owner]:
                sizes[workload] = sizes.get(workload, 0) + amount
    if without is not None:
        sizes.pop(without, None)
    wanted = len(sizes) if most is None else skip + most
    return nsmallest(wanted, sizes, key=lambda pk: (-sizes[pk], pk))[skip:], len(sizes)


def _of_workloads(ready: list[_Table], keys: Collection[int]) -> dict[int, Whats]:
    """The sums of these workloads, in the order of `keys`."""
    found: dict[int, Whats] = {key: {} for key in keys}
    for columns, whats, _, _ in ready:
        rows = zip(columns.workload, columns.kind, columns.gpu_ms, columns.waste_ms, strict=True)
        for workload, kind, gpu_ms, waste_ms in rows:
            if workload in found and (what := whats[kind]) is not None:
                spent = found[workload].setdefault(what, [0, 0])
                spent[0] += gpu_ms
                spent[1] += waste_ms
    return found
