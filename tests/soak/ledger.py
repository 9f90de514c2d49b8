"""What was recorded, as plain lines that two installations can be compared by; and a worker that nothing disturbs."""

import json
import subprocess
import sys
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.processes import ROOT
from tests.soak.installation import declare, poll_all, watched


def replay(folder: Path, moments: list[datetime]) -> None:
    """Poll at exactly these moments, in this process, into its own database."""
    again = folder / "again"
    again.mkdir()
    with watched(moments[0], again) as seen:
        declare(seen.declaration())
        poll_all(seen, moments)


def dumped(environment: dict[str, str]) -> dict[str, list[str]]:
    """Everything that was recorded about the past in the installation of this environment, by table."""
    found: dict[str, list[str]] = asked("dump", environment)
    return found


def asked(what: str, environment: dict[str, str]) -> Any:
    """An answer of this module in a process of that installation."""
    command = [sys.executable, "-m", "tests.soak.ledger", what]
    answer = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    return json.loads(answer.stdout)


def _kept() -> list[str]:
    from diagnostics.models import Observation

    kept = Observation.objects.filter(error="").order_by("taken_at").values_list("taken_at", flat=True)
    return [moment.isoformat() for moment in kept]


def _dump() -> dict[str, list[str]]:
    from diagnostics.models import (
        Allocation,
        Cluster,
        Device,
        IncidentEvent,
        LedgerState,
        StateInterval,
        TopologyChange,
        UsageHour,
        Workload,
    )
    from diagnostics.usage import open_stays

    names = {w.pk: f"{w.kind} {w.namespace}/{w.name}" for w in Workload.objects.all()}
    slots = dict(Device.objects.values_list("pk", "slot"))
    cluster = Cluster.objects.get()
    hours = UsageHour.objects.values_list(
        *("hour", "workload", "model__name", "state", "is_gap", "is_backfilled", "gpu_ms", "waste_ms")
    )
    intervals = StateInterval.objects.values_list(
        *("device__slot", "start_ms", "end_ms", "state", "ineffective_ms", "waste_ms", "holders", "is_gap")
    )
    allocations = Allocation.objects.values_list(
        "workload", "node__name", "pod", "pod_uid", "slots", "started_at", "ended_at"
    )
    return {
        "hours": _lines((hour, names[workload], *rest) for hour, workload, *rest in hours),
        "intervals": _lines(
            (*front, [names.get(key, key) for key in holders], is_gap)
            for *front, holders, is_gap in intervals
        ),
        "open stays": _lines(
            (slots[device], stay.start, stay.end, stay.state, stay.is_gap)
            for device, stay in open_stays(cluster).items()
        ),
        "allocations": _lines((names[workload], *rest) for workload, *rest in allocations),
        "changes": _lines(TopologyChange.objects.values_list("at", "kind", "subject", "before", "after")),
        "incident events": _lines(IncidentEvent.objects.values_list("incident__fingerprint", "at", "kind")),
        "complete through": _lines(LedgerState.objects.values_list("complete_through")),
    }


def _lines(rows: Iterable[Iterable[object]]) -> list[str]:
    return [" | ".join(str(value) for value in row) for row in rows]


if __name__ == "__main__":
    import django

    django.setup()
    print(json.dumps({"kept": _kept, "dump": _dump}[sys.argv[1]]()))
