"""What 13 months of 1,000 nodes take: one busy hour is recorded as it is, its tables measured, and multiplied out.

A simulated cluster of 1,000 nodes, 8,000 GPUs and 10,000 pods is collected once and lives on for an hour of polls
(200 GPU pods are replaced and 12,000 events come in), through the whole of the pipeline but for collecting and
diagnosing. Then every table with its indexes is measured, on PostgreSQL where its server is there, and taken to the
default retention: what grows with time by the hour, snapshots by the size of one. Incidents are added by arithmetic,
each with three excerpts. Limit: 20 GB.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.bench import steady
from tests.postgres import Postgres, programs

NODES, PODS = 1_000, 10_000
POLLS = 61
PODS_PER_MINUTE, EVENTS_PER_MINUTE = 200 / 60, 200
INCIDENTS_PER_DAY, EXCERPTS_EACH = 50, 3
LIMIT_BYTES = 20e9
BEGIN = datetime(2026, 6, 1, 10, 59, tzinfo=UTC)
"""The first poll is of the hour before, so that the hour is whole and over."""
MINUTE = timedelta(minutes=1)
_BY_INCIDENT = {"incidents", "events of incidents", "excerpts"}
"""In the hour there are none: they are added by arithmetic."""


def run() -> bool:
    """Print the table; True when the sum keeps the limit."""
    with tempfile.TemporaryDirectory(prefix="gpuhealth-bench-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        if programs() is None:
            print("  PostgreSQL is missing: SQLite is measured instead")
            return _report("SQLite", _child(folder, f"sqlite://{folder}/sizes.sqlite3"))
        with Postgres(folder / "postgres") as server:
            return _report("PostgreSQL", _child(folder, server.create("sizes")))


def _child(folder: Path, database_url: str) -> list[dict[str, Any]]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GPUHEALTH_")}
    environment |= {
        "DJANGO_SETTINGS_MODULE": "gpuhealth.settings",
        "GPUHEALTH_DATA_DIR": str(folder / "data"),
        "GPUHEALTH_DATABASE_URL": database_url,
        "GPUHEALTH_SECRET_KEY": "for-measuring-only-0123456789abcdefghijklmnopqrstuvwxyz",
        "GPUHEALTH_CLUSTERS": '{"bench": {}}',
    }
    command = [sys.executable, "-m", "tests.bench.sizes"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def _report(database: str, rows: list[dict[str, Any]]) -> bool:
    print(f"13 months of {NODES} nodes on {database}, from {POLLS} polls ({PODS} pods, 8,000 GPUs)")
    print(f"  {'kind':28} {'rows':>8} {'MB measured':>12} {'bytes each':>11}  {'kept':28} {'GB then':>8}")
    for row in rows:
        each = row["bytes"] / row["rows"] if row["rows"] else 0
        print(
            f"  {row['kind']:28} {row['rows']:8,} {row['bytes'] / 1e6:12,.2f} {each:11,.0f}  "
            f"{row['how']:28} {row['then'] / 1e9:8.2f}"
        )
    total = sum(row["then"] for row in rows)
    print(f"  {'all':28} {'':8} {'':12} {'':11}  {'':28} {total / 1e9:8.2f} (limit {LIMIT_BYTES / 1e9:.0f})")
    return bool(total <= LIMIT_BYTES)


def _measure() -> list[dict[str, Any]]:
    """In the child: record the hour, then measure."""
    from django.conf import settings
    from django.core.management import call_command
    from django.db import connection

    from diagnostics import usage
    from diagnostics.archive import sizes
    from diagnostics.archive.event_hours import compact
    from diagnostics.models import Cluster

    call_command("migrate", verbosity=0)
    last = _record_the_hour()
    cluster = Cluster.objects.get(slug="bench")
    _fill_a_day_of_metrics(cluster)
    compact(cluster, last + timedelta(hours=3))
    usage.roll_up(cluster, BEGIN - timedelta(days=1))
    with connection.cursor() as cursor:
        cursor.execute("VACUUM FULL" if connection.vendor == "postgresql" else "VACUUM")
    found = sizes.sizes(cluster, settings.RETENTION, MINUTE)
    rows = [_row(cluster, size) for size in found if size.kind not in _BY_INCIDENT]
    rows.append(_incidents(cluster, settings.RETENTION.incidents))
    return rows


def _row(cluster: Any, size: Any) -> dict[str, Any]:
    """One kind: what it takes now, how it goes on, and what it comes to."""
    now, kept_for = size.bytes_now or 0, size.kept_for
    each, days = now / max(1, size.rows), kept_for.days if kept_for else 0
    match size.kind:
        case "snapshots poll" | "snapshots hour" | "snapshots day":
            how, then = f"{days} days", size.bytes_then or 0
        case "metrics":
            how, then = f"{days} days of {size.rows:,}", now * days
        case "usage":
            # The hours before and after are in it, with a minute each.
            number = cluster.usagehour_set.filter(hour=BEGIN + MINUTE).count()
            how, then = f"{days} days, {number:,} an hour", each * number * 24 * days
        case "workloads" | "holders":
            # Most were there at first; what is new in this hour is what an hour adds.
            first, field = cluster.workloads, "first_seen__gt"
            if size.kind == "holders":
                first, field = cluster.allocations, "started_at__gt"
            number = first.filter(**{field: BEGIN}).count()
            how, then = f"{days} days, {number:,} an hour", each * (size.rows + number * 24 * days)
        case _ if kept_for is None:
            how, then = "for all time", now
        case _:
            how, then = f"{days} days, as in this hour", now * 24 * days
    return {"kind": size.kind, "rows": size.rows, "bytes": now, "how": how, "then": then}


def _record_the_hour() -> datetime:
    """Poll after poll through the pipeline, its two ends replaced."""
    from diagnostics import pipeline
    from diagnostics.collect import Take
    from diagnostics.collect.windows import RecentSamples, extended
    from diagnostics.rules import diagnose
    from diagnostics.snapshot import Snapshot

    steady.CHANGED = PODS_PER_MINUTE / PODS
    snapshots = _with_events(steady.Steady(steady.collected(NODES, PODS, BEGIN - MINUTE)).minutes())
    now: list[Snapshot] = []
    recent = RecentSamples()
    diagnosis: list[Any] = []

    def take_snapshot(*_: Any, **__: Any) -> Take:
        return Take(now[0], {}, recent)

    def diagnosed(*args: Any) -> Any:
        if not diagnosis:
            diagnosis.append(diagnose(*args))
        return diagnosis[0]

    for name, instead in (("take_snapshot", take_snapshot), ("diagnose", diagnosed)):
        setattr(pipeline, name, instead)
    for number in range(POLLS + 1):
        now[:] = [next(snapshots)]
        if number in {0, POLLS}:
            recent = extended(recent, now[0].gpus, now[0].taken_at)
        observation = pipeline.observe("bench", clock=lambda: now[0].taken_at)
        assert observation is not None
        assert not observation.error, observation.error
    return now[0].taken_at


def _with_events(snapshots: Iterator[Any]) -> Iterator[Any]:
    """Each with as many events more as a busy cluster has, with names as pods have."""
    from random import Random

    from msgspec.structs import replace

    from diagnostics.snapshot import Event

    chance, kept = Random(1), list[Event]()
    for snapshot in snapshots:
        now = snapshot.taken_at
        for _ in range(EVENTS_PER_MINUTE // 4):
            pod = f"train-{chance.randrange(16**10):x}-{chance.randrange(36**5):05d}"
            node = f"gpu-{chance.randrange(NODES)}"
            for reason, message in (
                ("Scheduled", f"Successfully assigned research/{pod} to {node}"),
                ("Pulled", f"Successfully pulled image in {chance.random() * 100:.3f}s"),
                ("Started", "Started container main"),
                ("Killing", "Stopping container main"),
            ):
                at = now - timedelta(seconds=chance.randrange(60))
                about: dict[str, Any] = {"kind": "Pod", "namespace": "research", "name": pod}
                said: dict[str, Any] = {"type": "Normal", "reason": reason, "message": message}
                kept.append(Event(**about, **said, component="kubelet", host=node, first_at=at, last_at=at))
        del kept[: -60 * EVENTS_PER_MINUTE]
        yield replace(snapshot, events=(*snapshot.events, *kept))


def _fill_a_day_of_metrics(cluster: Any) -> None:
    """The hour's polls as 24 hours of two polls each: a node's row is as large as after a day."""
    from diagnostics.archive import rollups, tiers

    for hour in range(24):
        start = BEGIN + MINUTE * (1 + 2 * hour)
        sums = rollups._sums(tiers.samples_of(cluster, start, start + 2 * MINUTE))
        rollups._write(cluster, BEGIN.replace(hour=hour, minute=0), sums, expected=2.0)


def _incidents(cluster: Any, kept_for: timedelta) -> dict[str, Any]:
    """By the mean of an excerpt of each gang, and 10 kB for an incident with its finding and events."""
    from diagnostics import archive
    from diagnostics.archive.excerpts import excerpt_of
    from diagnostics.models import Incident

    snapshot = archive.latest(cluster)
    assert snapshot is not None
    sizes = [
        len(
            excerpt_of(
                snapshot,
                Incident(subject_kind=g.kind, subject_namespace=g.namespace, subject_name=g.name),
            )[0]
        )
        for g in snapshot.gangs[:100]
    ]
    excerpt = sum(sizes) / len(sizes)
    each = 10_000 + EXCERPTS_EACH * excerpt
    return {
        "kind": "incidents with excerpts",
        "rows": 1,
        "bytes": each,
        "how": f"{INCIDENTS_PER_DAY} a day for {kept_for.days} days",
        "then": each * INCIDENTS_PER_DAY * kept_for.days,
    }


if __name__ == "__main__":
    import django

    django.setup()
    print(json.dumps(_measure()))
