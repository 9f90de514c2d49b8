"""An installation of its own in a temporary folder, and the simulated month that it watches."""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from diagnostics.simulator.config import WorldConfig
from diagnostics.simulator.server import SimulatedCluster
from tests.simulated import Stepping

SLUG = "month"
START = datetime(2026, 6, 1, tzinfo=UTC)
MONTH = WorldConfig(schedule="month", epoch=START)


class Watched(NamedTuple):
    """The running cluster, its clock, and how it is declared."""

    clock: Stepping
    cluster: SimulatedCluster
    kubeconfig: Path

    def declaration(self) -> dict[str, object]:
        """Of this moment: nodes come and go, and their exporters with them."""
        return {"kubeconfig": str(self.kubeconfig), "exporters": self.cluster.exporter_urls, "log_pods": 0}


@contextmanager
def watched(moment: datetime, folder: Path, config: WorldConfig = MONTH) -> Iterator[Watched]:
    """The month behind HTTP on loopback, its clock at `moment`."""
    clock = Stepping(moment)
    with SimulatedCluster(replace(config), clock) as cluster:
        yield Watched(clock, cluster, cluster.write_kubeconfig(folder / "kubeconfig"))


def variables(folder: Path, database_url: str, every_s: int, declared: dict[str, object]) -> dict[str, str]:
    """The environment of the installation's processes: nothing of this machine's own."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("GPUHEALTH_")}
    return plain | {
        "DJANGO_SETTINGS_MODULE": "gpuhealth.settings",
        "GPUHEALTH_DATA_DIR": str(folder),
        "GPUHEALTH_DATABASE_URL": database_url,
        "GPUHEALTH_SECRET_KEY": "for-soaking-only-0123456789abcdefghijklmnopqrstuvwxyz",
        "GPUHEALTH_POLL_INTERVAL": f"{every_s}s",
        "GPUHEALTH_CLUSTERS": json.dumps({SLUG: declared}),
    }


@contextmanager
def scratch() -> Iterator[Path]:
    with TemporaryDirectory(prefix="gpuhealth-soak-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def set_up(environment: dict[str, str]) -> None:
    """Make this process part of the installation: settings, Django, tables."""
    for name in [name for name in os.environ if name.startswith("GPUHEALTH_")]:
        del os.environ[name]
    os.environ.update(environment)
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def declare(declared: dict[str, object]) -> None:
    """Change how the cluster is declared in this process."""
    from django.conf import settings

    from diagnostics.clusters import declaration

    settings.CLUSTERS = declaration({"clusters": {SLUG: declared}}, "soak").clusters


def poll_all(seen: Watched, moments: Iterable[datetime]) -> None:
    """One real poll at each moment. Raises AssertionError when one is not recorded."""
    from diagnostics.pipeline import observe

    urls: list[str] = []
    for moment in moments:
        seen.clock.now = moment
        if seen.cluster.exporter_urls != urls:
            urls = seen.cluster.exporter_urls
            declare(seen.declaration())
        recorded = observe(SLUG, clock=seen.clock)
        assert recorded is not None, f"the poll of {moment} was not recorded"
        assert not recorded.error, f"{moment}: {recorded.error}"
        seen.cluster.requests.clear()
