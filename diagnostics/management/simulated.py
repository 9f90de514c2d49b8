"""The simulated cluster that `up` shows when no real one is named."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from django.utils import timezone

from diagnostics.management.past import NAME, REACH
from diagnostics.simulator.config import WORKING_WEEK
from diagnostics.simulator.server import SimulatedCluster

SLUG = "simulated"
SETTLED = timedelta(days=2)
"""What always stands was there for so long when the history begins."""


@dataclass(frozen=True)
class Simulation:
    """A running simulated cluster, and how to declare it."""

    url: str
    fields: dict[str, Any]
    """As in the settings."""


@contextmanager
def simulation(folder: Path) -> Iterator[Simulation]:
    """Serve it on loopback, in this process. Its epoch is kept in `folder`, so that it is the same one next time."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    config = replace(WORKING_WEEK, epoch=_epoch(folder / "epoch"))
    with SimulatedCluster(config, timezone.now) as cluster:
        fields = {
            "name": NAME,
            "kubeconfig": str(cluster.write_kubeconfig(folder / "kubeconfig")),
            "prometheus": {"url": cluster.prometheus_url},
            # What is asked of its past is worked out only then.
            "request_timeout_s": 120,
        }
        yield Simulation(cluster.url, fields)


def _epoch(path: Path) -> datetime:
    """Before the history begins."""
    try:
        return datetime.fromisoformat(path.read_text().strip()).astimezone(UTC)
    except (OSError, ValueError):
        epoch = timezone.now() - REACH - SETTLED
        path.write_text(epoch.isoformat())
        return epoch
