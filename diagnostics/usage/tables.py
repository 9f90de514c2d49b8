"""The lines of a span as tables, with the owners that team rules ask for: from roll-ups, else from the hours."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from diagnostics.models import Cluster
from diagnostics.usage.covering import bare_lines, cover, with_tables
from diagnostics.usage.lines import Columns, Kind, Line, Values, columns, lines_of, with_owners
from diagnostics.usage.owners import Keys, answers, looked_up
from diagnostics.usage.owners import read as read_keys

BARE = ""
"""Stands for the hours that are not rolled up."""


type Table = Columns[tuple[int, Kind], tuple[Keys, Values]]
"""Lines with the segment of each kind, within which no price changes, and with what the values of each owner are of but
for the first, which is the namespace."""


class Tables(NamedTuple):
    """Fields of `UsageRollup` -> tables. Hours that are not rolled up are in all of them, by workload."""

    by_field: dict[str, list[Table]]

    def of(self, field: str) -> list[Table]:
        """All lines of a field, and those of the hours that are not rolled up."""
        return [*self.by_field.get(field, []), *self.by_field.get(BARE, [])]


def tables(
    cluster: Cluster,
    cuts: Sequence[datetime],
    fields: Collection[str],
    keys: Keys,
    *,
    needs_owners: bool,
) -> Tables:
    """What `fields` hold between the first and the last of `cuts`; owners by `keys`, if they are needed.

    Three queries; one or two more while roll-ups do not know the keys.
    """
    covered = cover(cluster, cuts, fields)
    stale = [tile for tile in covered.tiles if keys and not answers(tile.keys, keys)]
    # Whose time it is tell the workloads' lines.
    wanted = {"lines", *fields} - {"owners"}
    strangers = with_tables(cluster, stale, tuple(wanted)) if not wanted <= set(fields) else stale
    gone = {tile.start for tile in stale} - {tile.start for tile in strangers}
    lost = [(tile.segment, (tile.start, tile.end)) for tile in stale if tile.start in gone]
    bare = bare_lines(cluster, [*covered.bare, *lost], cuts)
    owners: dict[int, Values] = {}
    if needs_owners:
        nameless = {line.workload for lines in bare.values() for line in lines}
        nameless.update(*(tile.tables["lines"].rows.workload.tolist() for tile in strangers))
        owners = looked_up(cluster, nameless, keys)

    def renamed(segment: int, lines: Iterable[Line]) -> Table:
        return _told(segment, keys, columns(with_owners(lines, owners) if needs_owners else lines))

    found: dict[str, list[Table]] = {field: [] for field in fields}
    for tile in covered.tiles:
        if tile not in stale:
            for field, table in tile.tables.items():
                found[field].append(_told(tile.segment, read_keys(tile.keys) or (), table))
    for tile in strangers:
        for field in fields:
            table = tile.tables["lines" if field == "owners" else field]
            found[field].append(renamed(tile.segment, lines_of(table)))
    found[BARE] = [renamed(segment, lines) for segment, lines in bare.items()]
    return Tables(found)


def _told(segment: int, keys: Keys, table: Columns[Kind, Values]) -> Table:
    kinds = [(segment, kind) for kind in table.kinds]
    return Columns(kinds, [(keys, values) for values in table.owners], table.rows)
