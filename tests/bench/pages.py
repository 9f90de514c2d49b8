"""What pages cost at 8,000 GPUs and 10,000 pods with 13 months of history, on SQLite and on PostgreSQL.

A simulated cluster is collected once, lives on for some polls through the pipeline (its two ends replaced), and is
given a past (`history`, `happened`). Then every page is asked for as a signed-in browser does it, in turn as a whole
and as its live part. Limits: 12 queries a page, 150 ms for 95 of 100 requests, and 200 KB for the map, compressed.
"""

import gzip
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import time_machine

from tests.postgres import Postgres, programs

NODES, PODS = 1_000, 10_000
POLLS = 4
NOW = datetime(2026, 6, 17, 14, 37, tzinfo=UTC)
WARM, TIMED, TIMED_VARIANT = 3, 40, 20
MOST_QUERIES, MOST_MS, MOST_MAP_KB = 12, 150.0, 200.0
NOTABLE_MS = 15.0
"""Of one query: it is shown where its page misses a limit."""
HTMX = {"HX-Request": "true"}
VARIANTS: dict[str, tuple[str, ...]] = {
    "cluster_map": (
        *("?by=temperature&group=none", "?by=finding&q=gpu-9&namespace=research"),
        "?at=2026-06-17T14:35:30Z",
    ),
    "node_list": ("?page=2",),
    "node_detail": ("?period=24h", "?period=13mo"),
    "gpu_detail": ("?period=13mo",),
    "workload_list": ("?page=2", "?q=run-9"),
    "workload_detail": ("?period=13mo",),
    "pending_list": ("?page=2&namespace=research",),
    "finding_list": ("?page=2", "?q=gpu-9&severity=warning"),
    "incident_list": ("?period=all&status=resolved&page=90", "?period=all&q=gpu-9"),
    "waste": (
        "?period=30d&by=namespace",
        "?from=2025-05-20&to=2026-06-16",
        "?from=2025-05-20&to=2026-06-16&by=workload",
    ),
    "rule_list": ("?cluster=bench",),
}
"""Name of a page -> what else it is asked, beside the plain address."""

HURRY = {
    "sqlite": (
        *("PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", "PRAGMA temp_store = MEMORY"),
        "PRAGMA cache_size = -400000",
    ),
    # Rows that refer to each other by arithmetic need not be looked up one by one.
    "postgresql": (
        "SET session_replication_role = replica",
        "SET maintenance_work_mem = '512MB'",
        "SET work_mem = '128MB'",
    ),
}
"""Settings for making 40 million rows; they go with the connection."""
SETTLE = {"sqlite": "PRAGMA journal_mode = WAL", "postgresql": "VACUUM ANALYZE"}

Figures = dict[str, Any]


def run() -> bool:
    """Print a table for each database; True when every page keeps the limits on each."""
    with tempfile.TemporaryDirectory(prefix="gpuhealth-bench-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        _child("collect", folder, "")
        with ExitStack() as stack:
            databases = {"SQLite": f"sqlite://{folder}/pages.sqlite3"}
            if programs() is None:
                print("  PostgreSQL: skipped, its server is missing: install the Debian package postgresql")
            else:
                databases["PostgreSQL"] = stack.enter_context(Postgres(folder / "postgres")).create("pages")
            # All at once: one core makes the rows of SQLite, another those of PostgreSQL.
            with ThreadPoolExecutor() as threads:
                making = {
                    name: threads.submit(_child, "make", folder, url) for name, url in databases.items()
                }
            kept = True
            for database, url in databases.items():
                kept = _report(database, making[database].result(), _child("measure", folder, url)) and kept
            return kept


def _child(side: str, folder: Path, database_url: str) -> Figures:
    """In a process of its own; its answer."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GPUHEALTH_")}
    environment |= {
        "DJANGO_SETTINGS_MODULE": "gpuhealth.settings",
        "GPUHEALTH_DATA_DIR": str(folder / "data"),
        "GPUHEALTH_STATIC_ROOT": str(folder / "static"),
        "GPUHEALTH_DATABASE_URL": database_url or f"sqlite://{folder}/unused.sqlite3",
        "GPUHEALTH_SECRET_KEY": "for-measuring-only-0123456789abcdefghijklmnopqrstuvwxyz",
        "GPUHEALTH_CLUSTERS": '{"bench": {}}',
    }
    command = [sys.executable, "-m", "tests.bench.pages", side, str(folder)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
    figures: Figures = json.loads(done.stdout)
    return figures


def _report(database: str, made: Figures, figures: Figures) -> bool:
    rows = ", ".join(f"{number:,} {what}" for what, number in made["rows"].items())
    print(f"pages on {database}, made in {made['seconds']:.0f} s: {rows}")
    print(f"  {'page':44} {'queries':>7} {'median':>7} {'p95':>7} {'CPU':>6} {'SQL':>6} {'KB':>7} {'gz':>6}")
    kept = True
    for page in figures["pages"]:
        missed = page["missed"]
        print(
            f"  {page['page']:56} {page['queries']:7} {page['median']:7.1f} {page['p95']:7.1f} "
            f"{page['cpu']:6.1f} {page['sql']:6.1f} {page['kb']:7.1f} {page['gz']:6.1f}  {'; '.join(missed)}"
        )
        if missed and page["slowest"] and page["slowest"][0] > NOTABLE_MS:
            print(f"      slowest query, {page['slowest'][0]:.1f} ms: {page['slowest'][1][:600]}")
        kept = kept and not missed
    return kept


def _collect(folder: Path) -> Figures:
    """What every database begins with: a snapshot, what the rules say of it, and static files."""
    import msgspec
    from django.core.management import call_command

    from diagnostics.rules import diagnose
    from diagnostics.snapshot import stored
    from tests.bench.lived_in import many
    from tests.bench.steady import collected

    call_command("collectstatic", verbosity=0, interactive=False)
    snapshot = collected(NODES, PODS, NOW - timedelta(minutes=POLLS))
    (folder / "snapshot").write_bytes(stored.dumps(snapshot))
    (folder / "diagnosis").write_bytes(msgspec.msgpack.encode(many(diagnose(snapshot), snapshot)))
    return {}


def _make(folder: Path) -> Figures:
    begun = time.perf_counter()
    with time_machine.travel(NOW, tick=False):
        return {"rows": _made(folder), "seconds": time.perf_counter() - begun}


def _measure(folder: Path) -> Figures:
    with time_machine.travel(NOW, tick=False):
        return {"pages": _pages()}


def _made(folder: Path) -> dict[str, int]:
    """Fill the database; how many rows of the large tables there are."""
    from django.core.management import call_command
    from django.db import connection

    from diagnostics.models import Cluster, User
    from tests.bench import happened
    from tests.bench.history import History

    call_command("migrate", verbosity=0)
    _poll(folder)
    with connection.cursor() as cursor:
        for setting in HURRY[connection.vendor]:
            cursor.execute(setting)
    user = User.objects.create_user("sre")
    cluster = Cluster.objects.get(slug="bench")
    happened.priced(cluster, NOW)
    history = History(cluster, NOW)
    parts: dict[str, Callable[[], None]] = {
        "workloads": history.workloads,
        "usage": history.usage,
        "roll-ups": history.rolled_up,
        "states": history.states,
        "incidents": partial(happened.incidents, history, user.pk),
        "changes": partial(happened.changes, history),
        "metrics and events": partial(happened.measured, history),
        "polls": partial(happened.polls, history),
    }
    for name, write in parts.items():
        begun = time.perf_counter()
        write()
        print(f"  {connection.vendor}: {name} in {time.perf_counter() - begun:.0f} s", file=sys.stderr)
    with connection.cursor() as cursor:
        cursor.execute(SETTLE[connection.vendor])
    connection.close()  # temporary tables and settings go
    return _counted()


def _counted() -> dict[str, int]:
    from diagnostics import models

    names = ("Workload", "UsageHour", "StateInterval", "Allocation", "Incident", "Observation", "MetricDay")
    return {f"{name}s": getattr(models, name).objects.count() for name in names}


def _poll(folder: Path) -> None:
    """A few polls through the pipeline, its two ends replaced."""
    from itertools import islice

    import msgspec

    from diagnostics import pipeline
    from diagnostics.collect import Take
    from diagnostics.collect.windows import RecentSamples, extended
    from diagnostics.findings import Diagnosis
    from diagnostics.snapshot import Snapshot, stored
    from tests.bench import steady
    from tests.bench.lived_in import lived_in

    diagnosis = msgspec.msgpack.decode((folder / "diagnosis").read_bytes(), type=Diagnosis)
    minutes = lived_in(steady.Steady(stored.loads((folder / "snapshot").read_bytes())).minutes())
    recent = RecentSamples()
    now: list[Snapshot] = []
    ends = {
        "take_snapshot": lambda *_, **__: Take(now[0], {}, recent),
        "diagnose": lambda *_: diagnosis,
    }
    for name, instead in ends.items():
        setattr(pipeline, name, instead)
    for snapshot in islice(minutes, POLLS):
        now[:] = [snapshot]
        recent = extended(recent, snapshot.gpus, snapshot.taken_at)
        observation = pipeline.observe("bench", clock=lambda: now[0].taken_at)
        assert observation is not None
        assert not observation.error, observation.error


def _pages() -> list[Figures]:
    from django.test import Client
    from django.urls import NoReverseMatch

    from diagnostics.models import User
    from tests.pages.addresses import FRAGMENTS, PAGES, address

    import_module("gpuhealth.wsgi")  # as every web process begins
    client = Client(headers={"host": "localhost"}, raise_request_exception=False)
    client.force_login(User.objects.get())
    example = _example()
    found = []
    for name in [*PAGES, *FRAGMENTS]:
        try:
            plain = address(name, example)
        except NoReverseMatch:
            found.append(_missing(name))
            continue
        found += [_page(client, name, plain, query) for query in ("", *VARIANTS.get(name, ()))]
    return found


def _missing(name: str) -> Figures:
    nothing = dict.fromkeys(("queries", "median", "p95", "cpu", "sql", "kb", "gz"), 0)
    return {"page": name, **nothing, "missed": ["there is no such page"], "slowest": None}


def _example() -> Any:
    """A node, a GPU, a workload and a finding with a long past."""
    from django.db.models import Count

    from diagnostics.models import Allocation, Cluster, Incident, IncidentEvent
    from tests.pages.addresses import Example

    cluster = Cluster.objects.get(slug="bench")
    holding = Allocation.objects.filter(cluster=cluster, ended_at=None).select_related("workload", "node")
    longest = holding.order_by("workload__first_seen", "pk").exclude(workload__kind="Job").first()
    assert longest is not None
    again = cluster.incidents.values("fingerprint").annotate(number=Count("pk")).order_by("-number")
    worst = cluster.incidents.opened().filter(fingerprint__in=[row["fingerprint"] for row in again[:200]])
    finding = worst.order_by("severity_rank", "pk").first()
    assert isinstance(finding, Incident)
    return Example(
        slug="bench",
        node=longest.node.name,
        place=longest.slots[0],
        kind=longest.workload.kind,
        namespace=longest.workload.namespace,
        workload=longest.workload.name,
        finding=finding.fingerprint,
        event=finding.events.get(kind=IncidentEvent.Kind.OPENED).pk,
    )


def _page(client: Any, name: str, plain: str, query: str) -> Figures:
    """One address, asked for again and again."""
    timed = TIMED_VARIANT if query else TIMED
    asked = [{} if number % 2 else HTMX for number in range(WARM + timed)]
    whole = client.get(plain + query)
    for headers in asked[:WARM]:
        client.get(plain + query, headers=headers)
    queries, sql, slowest = _queries(client, plain + query)
    walls, cpus = [], []
    for headers in asked[WARM:]:
        cpu, wall = time.process_time(), time.perf_counter()
        client.get(plain + query, headers=headers)
        walls.append(1000 * (time.perf_counter() - wall))
        cpus.append(1000 * (time.process_time() - cpu))
    body = b"".join(whole) if whole.streaming else whole.content
    figures: Figures = {
        "page": name + query,
        "queries": queries,
        "median": statistics.median(walls),
        "p95": sorted(walls)[math.ceil(0.95 * timed) - 1],
        "cpu": statistics.median(cpus),
        "sql": sql,
        "kb": len(body) / 1000,
        "gz": len(gzip.compress(body, 6)) / 1000,
        "slowest": slowest,
    }
    missed = [] if whole.status_code in {200, 302} else [f"it answers {whole.status_code}"]
    missed += ["too many queries"] if queries > MOST_QUERIES else []
    missed += ["too slow"] if figures["p95"] > MOST_MS else []
    missed += ["too large"] if name == "cluster_map" and figures["gz"] > MOST_MAP_KB else []
    return figures | {"missed": missed}


def _queries(client: Any, address: str) -> tuple[int, float, tuple[float, str] | None]:
    """Of the page or its live part, whichever takes more: number, milliseconds in all, and the slowest.

    Each is timed by running it again: SQLite looks for most rows only when they are fetched.
    """
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    most: list[str] = []
    for headers in ({}, HTMX):
        with CaptureQueriesContext(connection) as captured:
            client.get(address, headers=headers)
        most = max(most, [one["sql"] for one in captured.captured_queries], key=len)
    spent = sorted(((_rerun(sql), sql) for sql in most if sql.startswith("SELECT")), reverse=True)
    return len(most), sum(ms for ms, _ in spent), spent[0] if spent else None


def _rerun(sql: str) -> float:
    from django.db import connection

    with connection.cursor() as cursor:
        begun = time.perf_counter()
        cursor.execute(sql)
        cursor.fetchall()
        return 1000 * (time.perf_counter() - begun)


if __name__ == "__main__":
    import django

    django.setup()
    answer = {"collect": _collect, "make": _make, "measure": _measure}[sys.argv[1]](Path(sys.argv[2]))
    print(json.dumps(answer))
