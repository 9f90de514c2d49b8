"""One question to the ledger: what is summed up, whose it is, and which of it is wanted. Pure."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from heapq import nlargest
from typing import NamedTuple

from diagnostics.models import STATES
from diagnostics.usage.groups import Grouping, Name, What, Whats, Within, ordered
from diagnostics.usage.lines import Columns, Values
from diagnostics.usage.owners import Keys, owner_of
from diagnostics.usage.tables import Tables
from diagnostics.usage.teams import Rule, team_of

ANYBODY = Within()


class Asked(NamedTuple):
    """What sums are made by, and of whom."""

    by: Grouping
    within: Within = ANYBODY
    is_held: bool = False
    """Without the group of nobody; the sum of all groups has its time all the same."""


class Known(NamedTuple):
    unobserved_ms: int
    backfilled_ms: int


class _Table(NamedTuple):
    """A table, and what becomes of each of its kinds and owners."""

    columns: Columns
    whats: list[What | None]
    """By kind; None for unobserved time."""
    keys: Keys
    """Of the values of its owners."""
    admits: list[bool]
    """By owner."""


class Question:
    """What is asked for, with what it takes to tell whose time is whose."""

    def __init__(self, asked: Asked, rules: list[Rule], nobody: int | None) -> None:
        self.by, self.within, self.is_held = asked
        self.rules, self.nobody = rules, nobody
        self.needs_owners = self.by in {Grouping.TEAM, Grouping.NAMESPACE} or self.within.is_any
        self._teams: dict[tuple[Keys, Values], str] = {}
        self._prepared: dict[str, list[_Table]] = {}

    @property
    def field(self) -> str:
        """Where all that is asked for can be told apart in the fewest lines."""
        return "owners" if self.needs_owners else "totals"

    @property
    def fields(self) -> set[str]:
        return {self.field, "workloads", "lines"} if self.by is Grouping.WORKLOAD else {self.field}

    def prepared(self, read: Tables, field: str) -> list[_Table]:
        """The tables of one field, with those of hours that are not rolled up."""
        if field not in self._prepared:
            self._prepared[field] = [self._table(*table) for table in read.of(field)]
        return self._prepared[field]

    def _table(self, segment: int, keys: Keys, columns: Columns) -> _Table:
        whats = [
            None if kind.is_gap else What(segment, kind.model, STATES[kind.state]) for kind in columns.kinds
        ]
        if self.within.is_any:
            return _Table(columns, whats, keys, [self._admits(keys, values) for values in columns.owners])
        return _Table(columns, whats, keys, [True] * len(columns.owners))

    def groups(
        self, read: Tables, whole: Whats, skip: int, most: int | None
    ) -> tuple[int, list[tuple[int | Name, Whats]]]:
        """How many there are, and those that are wanted, in order."""
        if self.by is Grouping.WORKLOAD:
            without = self.nobody if self.is_held else None
            keys, count = self._largest(read, lambda columns: columns.gpu_ms, without, skip, most)
            return count, list(self._of_workloads(read, keys).items())
        groups = self._gathered(self.prepared(read, self.field), whole)
        if self.is_held:
            groups.pop(None, None)
        order = ordered(groups, lambda name: name or ())
        last = None if most is None else skip + most
        return len(groups), [(name, groups[name]) for name in order[skip:last]]

    def savings(self, read: Tables, top: int) -> dict[int, Whats]:
        """The workloads that waste most, with all that they hold."""
        keys, _ = self._largest(read, lambda columns: columns.waste_ms, self.nobody, 0, top)
        return self._of_workloads(read, keys)

    def _largest(
        self,
        read: Tables,
        measure: Callable[[Columns], Iterable[int]],
        without: int | None,
        skip: int,
        most: int | None,
    ) -> tuple[list[int], int]:
        """Workloads with most of what is measured, after the first `skip`; and how many have any."""
        sizes: dict[int, int] = defaultdict(int)
        for columns, whats, _, admits in self.prepared(read, "workloads"):
            amounts = measure(columns)
            if all(admits) and all(what is not None for what in whats):
                for workload, amount in zip(columns.workload, amounts, strict=True):
                    sizes[workload] += amount
                continue
            rows = zip(columns.workload, columns.owner, columns.kind, amounts, strict=True)
            for workload, owner, kind, amount in rows:
                if whats[kind] is not None and admits[owner]:
                    sizes[workload] += amount
        if without is not None:
            sizes.pop(without, None)
        sizes = {workload: size for workload, size in sizes.items() if size}
        wanted = len(sizes) if most is None else skip + most
        least = min(nlargest(wanted, sizes.values()), default=0)
        order = sorted((-size, workload) for workload, size in sizes.items() if size >= least)
        return [workload for _, workload in order[skip:wanted]], len(sizes)

    def _of_workloads(self, read: Tables, keys: list[int]) -> dict[int, Whats]:
        """The sums of these workloads, in the order of `keys`."""
        found: dict[int, Whats] = {key: {} for key in keys}
        for columns, whats, _, _ in self.prepared(read, "lines"):
            for workload, sums in found.items():
                for place in columns.places_of(workload):
                    what = whats[columns.kind[place]]
                    if what is not None:
                        spent = sums.setdefault(what, [0, 0])
                        spent[0] += columns.gpu_ms[place]
                        spent[1] += columns.waste_ms[place]
        return found

    def _gathered(self, ready: list[_Table], whole: Whats) -> dict[Name, Whats]:
        groups: dict[Name, Whats] = {}
        if self.by in {Grouping.MODEL, Grouping.STATE}:
            for of, spent in whole.items():
                name = of.model if self.by is Grouping.MODEL else of.state.value
                groups.setdefault((name,), {})[of] = spent
            return groups
        for columns, whats, keys, admits in ready:
            of_owner = [groups.setdefault(self._name(keys, values), {}) for values in columns.owners]
            for owner, kind, gpu_ms, waste_ms in _rows(columns):
                what = whats[kind]
                if what is None or not admits[owner]:
                    continue
                sums = of_owner[owner]
                if what in sums:
                    sums[what][0] += gpu_ms
                    sums[what][1] += waste_ms
                else:
                    sums[what] = [gpu_ms, waste_ms]
        return {name: found for name, found in groups.items() if found}

    def _name(self, keys: Keys, values: Values) -> Name:
        if not values:
            return None
        if self.by is Grouping.NAMESPACE:
            return (values[0] or "",)
        return (self._team(keys, values),) if self.by is Grouping.TEAM else None

    def _admits(self, keys: Keys, values: Values) -> bool:
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


def whole_of(ready: list[_Table]) -> tuple[Whats, Known]:
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
    return whole, Known(unobserved, backfilled)
