"""13 months of a large cluster, made by SQL out of what its polls have stored, so that it takes minutes and not months.

Each workload that ran (`slots`) has its row, its GPU-hours, the states of its GPUs, and the pods that held them.
Incidents with their events, polls, metrics of nodes and events are copies of the present ones at other times.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection, models

from diagnostics.models import (
    STATE_NUMBERS,
    Allocation,
    Cluster,
    StateInterval,
    UsageHour,
    UsageRollup,
    Workload,
)
from diagnostics.snapshot import State
from diagnostics.usage import rollups
from diagnostics.usage.ledger import nobody_key
from diagnostics.usage.lines import Kind, Line, Values
from diagnostics.usage.mapping import team_rules
from diagnostics.usage.owners import keys_of, looked_up
from diagnostics.usage.weights import HOUR_MS
from tests.bench.slots import HOURS, STARTING_MS, slots_of

HOUR = timedelta(hours=1)
EXACT = timedelta(days=2)
"""The last days are rolled up as the product does it; those before by the same arithmetic as their hours."""
FREE_GPUS = 320

_GENERATION = "((h.n + s.phase) / s.life)"
_PK = f"CASE WHEN {_GENERATION} >= s.last THEN s.present ELSE s.base + {_GENERATION} END"
"""Who is in slot `s` in hour `h`."""
_STARTING, _FREE = STATE_NUMBERS[State.STARTING], STATE_NUMBERS[State.FREE]
_EFFECTIVE, _IDLE = STATE_NUMBERS[State.EFFECTIVE], STATE_NUMBERS[State.IDLE_HELD]


class History:
    """Writes what was before the hour in which `now` is."""

    def __init__(self, cluster: Cluster, now: datetime) -> None:
        self.cluster = cluster
        self.start = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0) - HOURS * HOUR
        self.slots = slots_of(cluster)
        self.is_postgres = connection.vendor == "postgresql"
        self.moment_type = "timestamptz" if self.is_postgres else "datetime"
        self._cursor = connection.cursor()
        self._template_tables()

    def moment(self, hour: int) -> datetime:
        """Beginning of hour number `hour`, of which HOURS are over."""
        return self.start + hour * HOUR

    def run(self, sql: str) -> None:
        self._cursor.execute(sql)

    def table(self, name: str, columns: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """A temporary table with these rows."""
        self.run(f"CREATE TEMPORARY TABLE {name} ({columns})")
        marks = ", ".join(["%s"] * len(columns.split(",")))
        self._cursor.executemany(f"INSERT INTO {name} VALUES ({marks})", list(rows))
        self._known(name)

    def copied(self, model: type[models.Model], source: str, **instead: str) -> None:
        """Rows of `model` as those of `t` in `source`, but for the columns that `instead` gives."""
        names = [
            f.column or f.attname for f in model._meta.concrete_fields if not f.primary_key or "id" in instead
        ]
        quoted = ", ".join(connection.ops.quote_name(name) for name in names)
        values = ", ".join(instead.get(name, f"t.{connection.ops.quote_name(name)}") for name in names)
        self.run(f"INSERT INTO {model._meta.db_table} ({quoted}) SELECT {values} FROM {source}")

    def json(self, text: str) -> str:
        """An expression that is text, as JSON."""
        return f"({text})::jsonb" if self.is_postgres else f"({text})"

    def later(self, moment: str, minutes: str) -> str:
        """An expression: so many minutes after `moment`."""
        if self.is_postgres:
            return f"{moment} + {minutes} * interval '1 minute'"
        return f"datetime({moment}, '+' || {minutes} || ' minutes')"

    def _known(self, name: str) -> None:
        """Let PostgreSQL know how large a temporary table is; it never finds out by itself."""
        if self.is_postgres:
            self.run(f"ANALYZE {name}")

    @contextmanager
    def without_indexes(self, model: type[models.Model]) -> Iterator[None]:
        """They are made when all rows are there, which takes half the time; SQLite keeps those of constraints."""
        table = model._meta.db_table
        quoted = connection.ops.quote_name
        made = self._indexes(table)
        for name, _ in made:
            self.run(f"DROP INDEX {quoted(name)}")
        unique = [one for one in model._meta.constraints if isinstance(one, models.UniqueConstraint)]
        if self.is_postgres:
            self.run(f"ALTER TABLE {table} SET UNLOGGED")
            with connection.schema_editor() as editor:
                for one in unique:
                    editor.remove_constraint(model, one)
        yield
        for _, sql in made:
            self.run(sql)
        if self.is_postgres:
            with connection.schema_editor() as editor:
                for one in unique:
                    editor.add_constraint(model, one)

    def _indexes(self, table: str) -> list[tuple[str, str]]:
        """Name and definition of those that are no constraint."""
        self.run(
            "SELECT indexname, indexdef FROM pg_indexes WHERE indexname NOT IN (SELECT conname FROM pg_constraint) "
            f"AND tablename = '{table}'"
            if self.is_postgres
            else f"SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql <> '' AND tbl_name = '{table}'"
        )
        return list(self._cursor.fetchall())

    def _template_tables(self) -> None:
        adapted = connection.ops.adapt_datetimefield_value
        hours = (
            (n, adapted(self.moment(n)), int(self.moment(n).timestamp() * 1000)) for n in range(HOURS + 1)
        )
        self.table("hours", f"n integer PRIMARY KEY, at {self.moment_type}, ms bigint", hours)
        days = (connection.ops.adapt_datefield_value(self.moment(n).date()) for n in range(0, HOURS, 24))
        self.table("days", "day date", ((day,) for day in days))
        self.table(
            "slots",
            "slot integer PRIMARY KEY, present bigint, gpus bigint, places text, node bigint, model bigint, "
            "life bigint, phase bigint, base bigint, last bigint, works bigint",
            (
                (
                    *(
                        slot.number,
                        slot.present,
                        len(slot.gpus),
                        json.dumps(slot.places),
                        slot.node,
                        slot.model,
                    ),
                    *(slot.life, slot.phase, slot.base, slot.last, slot.works),
                )
                for slot in self.slots
            ),
        )
        self.table(
            "kinds",
            "slot integer, no integer, state smallint, ms bigint, sign bigint, waste bigint",
            ((slot.number, no, *kind) for slot in self.slots for no, kind in enumerate(slot.kinds())),
        )
        self.table(
            "gpus",
            "slot integer, device bigint",
            ((slot.number, pk) for slot in self.slots for pk in slot.gpus),
        )
        self.run("CREATE INDEX kinds_slot ON kinds (slot)")
        self.run("CREATE INDEX gpus_slot ON gpus (slot)")

    def _generations(self) -> None:
        """Everything that ran, oldest first, and what runs now."""
        self.run(
            "CREATE TEMPORARY TABLE runs (pk bigint, slot integer, g integer, first integer, past integer)"
        )
        begin, end = "h.n * s.life - s.phase", "(h.n + 1) * s.life - s.phase"
        self.run(
            f"INSERT INTO runs SELECT CASE WHEN h.n = s.last THEN s.present ELSE s.base + h.n END, s.slot, h.n, "
            f"CASE WHEN {begin} < 0 THEN 0 ELSE {begin} END, CASE WHEN {end} > {HOURS} THEN {HOURS} ELSE {end} END "
            f"FROM slots s JOIN hours h ON h.n <= s.last ORDER BY 4, 2"
        )
        self._known("runs")

    def workloads(self) -> None:
        """All that ran: named after what runs there now."""
        self._generations()
        table = Workload._meta.db_table
        self.copied(
            Workload,
            f"runs r JOIN slots s ON s.slot = r.slot JOIN {table} t ON t.id = s.present "
            "JOIN hours b ON b.n = r.first JOIN hours e ON e.n = r.past WHERE r.g < s.last ORDER BY r.first, r.slot",
            id="r.pk",
            name="t.name || '-' || r.g",
            first_seen="b.at",
            last_seen="e.at",
        )
        self.run(
            f"UPDATE {table} SET first_seen = (SELECT b.at FROM runs r JOIN hours b ON b.n = r.first "
            f"WHERE r.pk = {table}.id) WHERE id IN (SELECT present FROM slots)"
        )
        self.copied(
            Allocation,
            f"runs r JOIN slots s ON s.slot = r.slot JOIN {table} w ON w.id = r.pk "
            "JOIN hours b ON b.n = r.first JOIN hours e ON e.n = r.past WHERE r.g < s.last ORDER BY r.first, r.slot",
            cluster_id="w.cluster_id",
            workload_id="r.pk",
            node_id="s.node",
            pod="w.name || '-0'",
            pod_uid="'uid-' || r.pk",
            slots=self.json("s.places"),
            started_at="b.at",
            ended_at="e.at",
            is_backfilled="FALSE",
        )

    def usage(self) -> None:
        """The ledger's hours, a day at a time, as they come in."""
        here = {
            "cluster_id": str(self.cluster.pk),
            "is_gap": "FALSE",
            "is_backfilled": "FALSE",
            "hour": "w.at",
        }
        nobody = nobody_key(self.cluster.pk)
        self.run(
            f"CREATE TEMPORARY TABLE who (at {self.moment_type}, slot integer, pk bigint, more bigint, early bigint)"
        )
        each = "k.ms + k.sign * w.more - CASE WHEN k.sign < 0 THEN w.early ELSE 0 END"
        with self.without_indexes(UsageHour):
            for day in range(0, HOURS, 24):
                self.run("DELETE FROM who")
                self.run(
                    "INSERT INTO who SELECT x.at, x.slot, x.pk, (x.pk * 7919 % 997) * 100, x.early "
                    f"FROM (SELECT h.at, s.slot, {_PK} AS pk, "
                    f"CASE WHEN (h.n + s.phase) % s.life = 0 THEN s.gpus * {STARTING_MS} ELSE 0 END AS early "
                    f"FROM hours h CROSS JOIN slots s WHERE h.n >= {day} AND h.n < {day + 24}) x"
                )
                self.copied(
                    UsageHour,
                    "who w CROSS JOIN slots s CROSS JOIN kinds k WHERE k.slot = w.slot AND s.slot = w.slot",
                    workload_id="w.pk",
                    model_id="s.model",
                    state="k.state",
                    gpu_ms=each,
                    waste_ms=f"({each}) * k.waste / 1000",
                    **here,
                )
                self.copied(
                    UsageHour,
                    "who w CROSS JOIN slots s WHERE s.slot = w.slot AND w.early > 0",
                    workload_id="w.pk",
                    model_id="s.model",
                    state=str(_STARTING),
                    gpu_ms="w.early",
                    waste_ms="0",
                    **here,
                )
                self.copied(
                    UsageHour,
                    f"hours w WHERE w.n >= {day} AND w.n < {day + 24}",
                    workload_id=str(nobody),
                    model_id=str(self.slots[0].model),
                    state=str(_FREE),
                    gpu_ms=str(FREE_GPUS * HOUR_MS),
                    waste_ms="0",
                    **here,
                )

    def rolled_up(self) -> None:
        """The last days as the product does it, the whole days before by the same arithmetic as their hours."""
        cluster, end = self.cluster, self.moment(HOURS)
        rollups.roll_up(cluster, end - EXACT, is_over=lambda: False)
        keys = keys_of(team_rules(cluster))
        owners = looked_up(cluster, [slot.present for slot in self.slots], keys)
        made = UsageRollup.objects.filter(cluster=cluster)
        days = made.filter(hour=UsageRollup.WHOLE_DAY)
        exact = {day: bytes(lines) for day, lines in days.values_list("day", "lines")}
        for begin in range(-self.start.hour % 24, HOURS - 23, 24):
            day = self.moment(begin).date()
            rollups._write(cluster, (day, UsageRollup.WHOLE_DAY), keys, list(self._lines(begin, owners)))
            assert exact.get(day) in {None, bytes(days.get(day=day).lines)}, (
                "the hours come to something else"
            )
        assert exact
        hour = made.filter(hour=12).order_by("-day").first()
        assert hour is not None
        table, whole = UsageRollup._meta.db_table, UsageRollup.WHOLE_DAY
        self.copied(
            UsageRollup,
            f"{table} t CROSS JOIN (SELECT DISTINCT day FROM {table} WHERE hour = {whole}) d CROSS JOIN hours h "
            f"WHERE t.id = {hour.pk} AND h.n < 24 AND d.day NOT IN (SELECT day FROM {table} WHERE hour <> {whole})",
            day="d.day",
            hour="h.n",
        )
        rollups.roll_up(cluster, self.start, is_over=lambda: False)  # months

    def _lines(self, begin: int, owners: dict[int, Values]) -> Iterator[Line]:
        for slot in self.slots:
            for pk, state, gpu_ms, waste_ms in slot.lines(begin, begin + 24):
                yield Line(
                    pk, owners[slot.present], Kind(slot.model_name, state, False, False), gpu_ms, waste_ms
                )
        free = Kind(self.slots[0].model_name, _FREE, False, False)
        yield Line(nobody_key(self.cluster.pk) or 0, (), free, 24 * FREE_GPUS * HOUR_MS, 0)

    def states(self) -> None:
        """Each GPU with each workload that it had, a day at a time: it starts, works, and is idle at last."""
        self.run(
            "CREATE TEMPORARY TABLE pieces "
            "(day integer, pk bigint, slot integer, starts boolean, begin bigint, until bigint)"
        )
        self.run(
            "INSERT INTO pieces SELECT b.n / 24, r.pk, r.slot, k.n = 0, "
            f"b.ms + CASE WHEN k.n = 0 THEN {STARTING_MS} ELSE 0 END, e.ms "
            "FROM runs r JOIN hours k ON k.n * 24 < r.past - r.first JOIN hours b ON b.n = r.first + k.n * 24 "
            "JOIN hours e ON e.n = CASE WHEN r.past < b.n + 24 THEN r.past ELSE b.n + 24 END"
        )
        self.run("CREATE INDEX pieces_day ON pieces (day)")
        self._known("pieces")
        common = {
            "cluster_id": str(self.cluster.pk),
            "device_id": "g.device",
            "holders": self.json("'[' || p.pk || ']'"),
            "is_gap": "FALSE",
            "is_backfilled": "FALSE",
            "gap_shape": "NULL",
        }
        works = "p.begin + (p.until - p.begin) * s.works / 1000"
        with self.without_indexes(StateInterval):
            for day in range(HOURS // 24):
                pieces = (
                    "pieces p CROSS JOIN slots s CROSS JOIN gpus g "
                    f"WHERE p.day = {day} AND s.slot = p.slot AND g.slot = p.slot"
                )
                self.copied(
                    StateInterval,
                    pieces + " AND p.starts",
                    start_ms=f"p.begin - {STARTING_MS}",
                    end_ms="p.begin",
                    state=str(_STARTING),
                    ineffective_ms="0",
                    waste_ms="0",
                    **common,
                )
                self.copied(
                    StateInterval,
                    pieces + " AND s.works > 0",
                    start_ms="p.begin",
                    end_ms=works,
                    state=str(_EFFECTIVE),
                    ineffective_ms="(p.until - p.begin) / 10",
                    waste_ms="(p.until - p.begin) / 20",
                    **common,
                )
                self.copied(
                    StateInterval,
                    pieces + " AND s.works < 1000",
                    start_ms=works,
                    end_ms="p.until",
                    state=str(_IDLE),
                    ineffective_ms="0",
                    waste_ms=f"p.until - ({works})",
                    **common,
                )
