"""The simulated cluster that `up` shows when no real one is named, with half an hour of history from the start."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from django.utils import timezone

from diagnostics.models import Observation
from diagnostics.pipeline import observe
from diagnostics.simulator.config import DEMO
from diagnostics.simulator.server import SimulatedCluster

SLUG = "simulated"
POLLS = 36
APART = timedelta(minutes=1)
"""Together longer than the window and than every holding time, so that all rules can judge at once. As far apart as
real polls, or the window would count as half empty as soon as those follow."""


@dataclass
class SimulatedTime:
    """The cluster's clock: now, unless history is being made."""

    at: datetime | None = None

    def __call__(self) -> datetime:
        return self.at or timezone.now()


@dataclass(frozen=True)
class Simulation:
    """A running simulated cluster, and how to declare it."""

    time: SimulatedTime
    fields: dict[str, Any]
    """As in the settings."""

    @property
    def past_minutes(self) -> int:
        return round((POLLS - 1) * APART / timedelta(minutes=1))

    def make_history(self) -> Observation | None:
        """Poll at past instants, up to now; the last observation."""
        now = timezone.now()
        last: Observation | None = None
        try:
            for number in reversed(range(POLLS)):
                self.time.at = now - number * APART
                last = observe(SLUG, clock=self.time)
        finally:
            self.time.at = None
        return last


@contextmanager
def simulation(folder: Path) -> Iterator[Simulation]:
    """Serve it on loopback, in this process. Its epoch is kept in `folder`, so that it is the same one next time."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    time = SimulatedTime()
    with SimulatedCluster(replace(DEMO, epoch=_epoch(folder / "epoch")), time) as cluster:
        kubeconfig = cluster.write_kubeconfig(folder / "kubeconfig")
        fields = {
            "name": "Simulated cluster",
            "kubeconfig": str(kubeconfig),
            "exporters": cluster.exporter_urls,
        }
        yield Simulation(time, fields)


def _epoch(path: Path) -> datetime:
    """Before the history begins, so that every fault is there from its first poll on."""
    try:
        return datetime.fromisoformat(path.read_text().strip()).astimezone(UTC)
    except (OSError, ValueError):
        epoch = timezone.now() - POLLS * APART
        path.write_text(epoch.isoformat())
        return epoch
