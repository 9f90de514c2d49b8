"""History as an installation stores it: a simulated cluster polled at earlier moments, by a process of its own.

That process has its own database, so that tests which only read a snapshot need none.
"""

import json
import subprocess
import sys
from collections.abc import Iterable
from datetime import datetime, timedelta

from diagnostics.simulator.config import WorldConfig


def incidents_after(config: WorldConfig, looks: Iterable[timedelta]) -> dict[str, int]:
    """Node -> incidents as the poll at the config's epoch is told of them, after polls at these ages before it."""
    assert config.epoch is not None
    asked = {
        "faults": config.faults,
        "nodes": config.nodes,
        "epoch": config.epoch.isoformat(),
        "looks_s": [look.total_seconds() for look in looks],
    }
    command = [sys.executable, "-m", "tests.polled", json.dumps(asked)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    incidents: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return incidents


def main(question: str) -> None:
    """In a process of its own: write the answer as the last line."""
    from tests.soak.installation import SLUG, declare, poll_all, scratch, set_up, variables, watched

    asked = json.loads(question)
    epoch = datetime.fromisoformat(asked["epoch"])
    moments = [epoch - timedelta(seconds=age) for age in asked["looks_s"]]
    config = WorldConfig(faults=tuple(asked["faults"]), nodes=asked["nodes"], epoch=epoch)
    with scratch() as folder, watched(moments[0], folder, config) as seen:
        declared = seen.declaration()
        set_up(variables(folder, f"sqlite://{folder}/polled.sqlite3", 300, declared))
        declare(declared)
        poll_all(seen, moments)

        from diagnostics.archive.past import known
        from diagnostics.limits import Limits
        from diagnostics.models import Cluster

        incidents = known(Cluster.objects.get(slug=SLUG), Limits().site.xid_recent).incidents
    sys.stdout.write(f"\n{json.dumps(incidents)}\n")


if __name__ == "__main__":
    main(sys.argv[1])
