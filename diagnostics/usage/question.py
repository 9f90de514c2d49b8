"""One question to the ledger: what is summed up, whose it is, and which of it is wanted. Pure."""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from diagnostics.models import STATES
from diagnostics.usage.groups import Grouping, Name, What, Whats, Within
from diagnostics.usage.lines import Kind, Numbers, Values, added_up, end_to_end, joined, largest
from diagnostics.usage.owners import Keys, owner_of
from diagnostics.usage.tables import Table, Tables
from diagnostics.usage.teams import Rule, team_of

ANYBODY = Within()


class Asked(NamedTuple):
    """What sums are made by, and of whom."""

    by: Grouping
    within: Within = ANYBODY
    is_held: bool = False
    """Without the group of nobody; the sum of all groups has its time all the same."""


class Question:
    """What is asked for, with what it takes to tell whose time is whose."""

    def __init__(self, asked: Asked, rules: list[Rule], nobody: int | None) -> None:
        self.by, self.within, self.is_held = asked
        self.rules, self.nobody = rules, nobody
        self.needs_owners = self.by in {Grouping.TEAM, Grouping.NAMESPACE} or self.within.is_any
        self._teams: dict[tuple[Keys, Values], str] = {}

    @property
    def field(self) -> str:
        """Where all that is asked for can be told apart in the fewest lines."""
        return "owners" if self.needs_owners else "totals"

    def admits(self, owner: tuple[Keys, Values]) -> bool:
        """Whether it is asked what this one spent."""
        (team, namespace), (_, values) = self.within, owner
        return not self.within.is_any or (
            bool(values)
            and (namespace is None or values[0] == namespace)
            and (team is None or self._team(owner) == team)
        )

    def named(self, table: Table) -> tuple[list[Name], Numbers]:
        """Names, and for each line the place of its own among them; for all but workloads."""
        match self.by:
            case Grouping.MODEL:
                return [(kind.model,) for _, kind in table.kinds], table.rows.kind
            case Grouping.STATE:
                return [(STATES[kind.state].value,) for _, kind in table.kinds], table.rows.kind
            case Grouping.NAMESPACE:
                spaces = (values[0] or "" if values else None for _, values in table.owners)
                return [None if space is None else (space,) for space in spaces], table.rows.owner
        return [(self._team(owner),) if owner[1] else None for owner in table.owners], table.rows.owner

    def _team(self, owner: tuple[Keys, Values]) -> str:
        team = self._teams.get(owner)
        if team is None:
            keys, values = owner
            found = owner_of(values, keys)
            team = self._teams[owner] = team_of(found, self.rules) if found is not None else ""
        return team


class Answer:
    """What the tables of a span say to a question. Unobserved time is nobody's, whoever is asked about."""

    def __init__(self, question: Question, read: Tables) -> None:
        self._question, self._read = question, read

    @cached_property
    def whole(self) -> Whats:
        """Everything that is admitted."""
        return _whats(self._table, np.zeros_like(self._table.rows.kind), [0])[0]

    @property
    def unobserved_ms(self) -> int:
        gaps = (table.where(_is_gap) for table in self._read.of(self._question.field))
        return sum(int(gap.rows.gpu_ms.sum()) for gap in gaps)

    @property
    def backfilled_ms(self) -> int:
        return int(self._table.where(lambda what: what[1].is_backfilled).rows.gpu_ms.sum())

    def groups(self, skip: int, most: int | None) -> tuple[int, list[tuple[int | Name, Whats]]]:
        """How many there are, and those that are wanted, in order."""
        if self._question.by is Grouping.WORKLOAD:
            without = self._question.nobody if self._question.is_held else None
            keys, gpu_ms, _ = self._sums
            count, chosen = largest(keys, gpu_ms, skip=skip, most=most, without=without)
            return count, list(self._of_workloads(chosen).items())
        some, places = self._question.named(self._table)
        names = sorted(set(some), key=lambda name: name or ())
        numbers = {name: number for number, name in enumerate(names)}
        key = np.array([numbers[name] for name in some], np.int64)[places]
        keys, gpu_ms, _ = added_up(key, self._table.rows.gpu_ms, self._table.rows.waste_ms)
        without = numbers.get(None) if self._question.is_held else None
        count, chosen = largest(keys, gpu_ms, skip=skip, most=most, without=without)
        found = _whats(self._table, key, chosen)
        return count, [(names[number], found[number]) for number in chosen]

    def savings(self, top: int) -> dict[int, Whats]:
        """The workloads that waste most, with all that they hold."""
        keys, _, waste_ms = self._sums
        _, chosen = largest(keys, waste_ms, skip=0, most=top, without=self._question.nobody)
        return self._of_workloads(chosen)

    @cached_property
    def _table(self) -> Table:
        """All that is admitted, where it can be told apart in the fewest lines."""
        return joined(self._admitted(self._question.field))

    @cached_property
    def _lines(self) -> list[Table]:
        return self._admitted("lines")

    @cached_property
    def _sums(self) -> tuple[Numbers, Numbers, Numbers]:
        """Workloads, what they hold, and what they waste."""
        rows = [table.rows for table in self._lines]
        sums = [added_up(some.workload, some.gpu_ms, some.waste_ms) for some in rows]
        workload, gpu_ms, waste_ms = (end_to_end(one[place] for one in sums) for place in range(3))
        return added_up(workload, gpu_ms, waste_ms)

    def _admitted(self, field: str) -> list[Table]:
        return [table.where(_is_observed, self._question.admits) for table in self._read.of(field)]

    def _of_workloads(self, keys: list[int]) -> dict[int, Whats]:
        wanted = np.array(sorted(keys), np.int64)
        table = joined([table.of(wanted) for table in self._lines])
        return _whats(table, table.rows.workload, keys)


def _is_gap(what: tuple[int, Kind]) -> bool:
    return what[1].is_gap


def _is_observed(what: tuple[int, Kind]) -> bool:
    return not what[1].is_gap


def _whats(table: Table, key: Numbers, keys: list[int]) -> dict[int, Whats]:
    """Sums of the lines with one of `keys`, in their order; `key` says which each line has."""
    found: dict[int, Whats] = {one: {} for one in keys}
    number = max(1, len(table.kinds))
    whats = [What(segment, kind.model, STATES[kind.state]) for segment, kind in table.kinds]
    sums = added_up(key * number + table.rows.kind, table.rows.gpu_ms, table.rows.waste_ms)
    for code, gpu_ms, waste_ms in zip(*(column.tolist() for column in sums), strict=True):
        one, place = divmod(code, number)
        if one in found:
            spent = found[one].setdefault(whats[place], [0, 0])
            spent[0] += gpu_ms
            spent[1] += waste_ms
    return found
