"""What a poll costs after the diagnosis, at 8,000 GPUs in the steady state: at most 1.0 s on SQLite and on PostgreSQL.

A simulated cluster of 1,000 nodes and 10,000 pods is collected once. Then it lives on, minute by minute: one in a
hundred pods is replaced, and every GPU is measured anew. Each minute goes through the pipeline as it is, with the
collecting taken out; what follows the diagnosis is timed, part by part, over the full hour as well. The median of ten
polls counts.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.bench.steady import Steady, collected
from tests.postgres import Postgres, programs

NODES, PODS = 1_000, 10_000
BEFORE, TIMED = 36, 10
"""Polls before: as many as fill the window; all but the last few only pass their samples on."""
WARM = 3
LIMIT_S = 1.0
BEGIN = datetime(2026, 6, 1, 11, 16, tzinfo=UTC)
"""So that the hour is full in the middle of the timed polls."""
PARTS = ("packed", "incidents", "topology", "usage", "publish", "observation")

Figures = dict[str, Any]


def run() -> bool:
    """Print the figures; True when the limit holds on every database that is there."""
    with tempfile.TemporaryDirectory(prefix="gpuhealth-bench-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        _child("collect", folder, "")
        kept = _report("SQLite", _child("record", folder, f"sqlite://{folder}/bench.sqlite3"))
        if programs() is None:
            print("  PostgreSQL: skipped, its server is missing: install the Debian package postgresql")
            return kept
        with Postgres(folder / "postgres") as server:
            return _report("PostgreSQL", _child("record", folder, server.create("bench"))) and kept


def _report(database: str, figures: Figures) -> bool:
    totals: list[float] = [one["total"] for one in figures["polls"]]
    median, worst = statistics.median(totals), max(totals)
    print(
        f"recording {figures['gpus']} GPUs and {figures['pods']} pods on {database}, median of {TIMED} polls"
    )
    for part in (*PARTS, "rest"):
        spent = [one.get(part, 0.0) for one in figures["polls"]]
        print(f"  {part:12} {statistics.median(spent):6.3f} s   at most {max(spent):.3f} s")
    cpu = statistics.median(one["cpu"] for one in figures["polls"])
    print(f"  {'total':12} {median:6.3f} s   at most {worst:.3f} s (limit of the median {LIMIT_S} s)")
    print(f"  of which this process computes for {cpu:.3f} s")
    return median <= LIMIT_S


def _child(side: str, folder: Path, database_url: str) -> Figures:
    """In a process of its own; its answer."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GPUHEALTH_")}
    environment |= {
        "DJANGO_SETTINGS_MODULE": "gpuhealth.settings",
        "GPUHEALTH_DATA_DIR": str(folder / "data"),
        "GPUHEALTH_DATABASE_URL": database_url or f"sqlite://{folder}/unused.sqlite3",
        "GPUHEALTH_SECRET_KEY": "for-measuring-only-0123456789abcdefghijklmnopqrstuvwxyz",
        "GPUHEALTH_CLUSTERS": '{"bench": {}}',
    }
    command = [sys.executable, "-m", "tests.bench.recording", side, str(folder)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
    figures: Figures = json.loads(done.stdout)
    return figures


class _Clock:
    """Seconds of each part of the poll that runs."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self.diagnosed = self.diagnosed_cpu = 0.0

    def watch(self, module: ModuleType, name: str, part: str) -> None:
        """Time every call of this function of this module; one that is not there yet costs nothing."""
        original: Callable[..., Any] | None = getattr(module, name, None)
        if original is None:
            return

        @wraps(original)
        def timed(*args: Any, **kwargs: Any) -> Any:
            begun = time.perf_counter()
            try:
                return original(*args, **kwargs)
            finally:
                self.spent[part] = self.spent.get(part, 0.0) + time.perf_counter() - begun

        setattr(module, name, timed)

    def poll(self) -> Figures:
        """What the poll that has just ended took since its diagnosis."""
        total = time.perf_counter() - self.diagnosed
        cpu = time.process_time() - self.diagnosed_cpu
        figures = self.spent | {"total": total, "cpu": cpu, "rest": total - sum(self.spent.values())}
        self.spent = {}
        return figures


def _collect(folder: Path) -> Figures:
    from diagnostics.snapshot import stored

    snapshot = collected(NODES, PODS, BEGIN)
    (folder / "snapshot").write_bytes(stored.dumps(snapshot))
    return {}


def _record(folder: Path) -> Figures:
    """Poll after poll through the pipeline, its two ends replaced."""
    from django.core.management import call_command

    from diagnostics import archive, observations, pipeline, topology, usage
    from diagnostics.collect import Take
    from diagnostics.collect.windows import RecentSamples, extended
    from diagnostics.rules import diagnose
    from diagnostics.snapshot import Snapshot, stored

    call_command("migrate", verbosity=0)
    minutes = Steady(stored.loads((folder / "snapshot").read_bytes())).minutes()
    recent, clock = RecentSamples(), _Clock()
    for _ in range(BEFORE - WARM):
        snapshot = next(minutes)
        recent = extended(recent, snapshot.gpus, snapshot.taken_at)
    now: list[Snapshot] = []

    def take_snapshot(*_: Any, **__: Any) -> Take:
        return Take(now[0], {}, recent)

    def diagnosed(*args: Any) -> Any:
        found = diagnose(*args)
        clock.diagnosed, clock.diagnosed_cpu = time.perf_counter(), time.process_time()
        return found

    for name, instead in (("take_snapshot", take_snapshot), ("diagnose", diagnosed)):
        setattr(pipeline, name, instead)
    for module, name, part in (
        (archive, "packed", "packed"),
        (pipeline, "record", "incidents"),
        (topology, "record", "topology"),
        (usage, "record", "usage"),
        (archive, "publish", "publish"),
        (observations, "publish", "observation"),
    ):
        clock.watch(module, name, part)
    polls = []
    for number in range(WARM + TIMED):
        now[:] = [next(minutes)]
        recent = extended(recent, now[0].gpus, now[0].taken_at)
        observation = pipeline.observe("bench", clock=lambda: now[0].taken_at)
        figures = clock.poll()
        assert observation is not None
        assert not observation.error, observation.error
        if number >= WARM:
            polls.append(figures)
    pods = len(now[0].pods)
    return {"polls": polls, "gpus": len(now[0].gpus), "pods": pods}


if __name__ == "__main__":
    import django

    django.setup()
    answer = {"collect": _collect, "record": _record}[sys.argv[1]](Path(sys.argv[2]))
    print(json.dumps(answer))
