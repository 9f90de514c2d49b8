"""A simulated day of 96 GPUs, back-filled from a real Prometheus: interrupted or not, it is what really went on."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from diagnostics import backfill, pipeline, usage
from diagnostics.clusters import DeclaredCluster, DeclaredPrometheus
from diagnostics.models import Allocation, Backfill, Cluster, Device
from diagnostics.simulator import truth
from diagnostics.simulator.server import SimulatedCluster
from tests.backfill import blocks, past
from tests.servers import prometheus
from tests.simulated import Stepping

pytestmark = [pytest.mark.service, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]

STEP = timedelta(minutes=2)
START = blocks.START + timedelta(days=3)
END = START + timedelta(days=1)
NOW = END + timedelta(hours=1)
TAIL = timedelta(minutes=40)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    text = "".join(blocks.openmetrics(START, NOW, STEP))
    with prometheus(tmp_path_factory.mktemp("prometheus"), openmetrics=text) as served:
        yield served


@pytest.fixture
def declared(url: str, settings: Any) -> None:
    one = DeclaredCluster(prometheus=DeclaredPrometheus(url=url))
    settings.CLUSTERS = {"undisturbed": one, "disturbed": one}
    settings.POLL_INTERVAL = STEP


class Killed(BaseException):
    """The worker died."""


def filled(slug: str) -> tuple[Cluster, Backfill]:
    """A cluster that was polled for the first time at END, and the row for the day before."""
    cluster = past.polled(slug, END)
    return cluster, Backfill.objects.create(cluster=cluster, start=START, end=END, done_from=END)


def test_a_day_is_what_the_simulator_says(declared: None) -> None:
    cluster, row = filled("undisturbed")
    row = backfill.run(cluster, row, lambda: NOW)
    assert (row.status, row.detail, row.done_from) == (Backfill.Status.DONE, "", START)
    found, real = past.sums(cluster, START, END), truth.usage(blocks.CONFIG, START, END)
    assert past.differences(found, real) == {}
    assert sum(found.values()) == sum(real.values())
    assert not Device.objects.exclude(first_seen=START).exists()
    assert not Allocation.objects.exclude(is_backfilled=True).exists()


def test_a_killed_run_is_taken_up_where_it_was(declared: None, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, row = filled("undisturbed")
    backfill.run(whole, row, lambda: NOW)
    cluster, row = filled("disturbed")
    fill, calls = usage.fill, []

    def killed_now_and_then(*args: Any) -> None:
        fill(*args)
        calls.append(args)
        if len(calls) in (1, 3):
            raise Killed

    monkeypatch.setattr(usage, "fill", killed_now_and_then)
    monkeypatch.setattr(backfill.filling, "LONGEST", timedelta(hours=5))
    for _ in range(2):
        with pytest.raises(Killed):
            backfill.run(cluster, row, lambda: NOW)
    row.refresh_from_db()
    assert row.status == Backfill.Status.RUNNING
    assert START < row.done_from < END
    stopped = backfill.run(cluster, row, lambda: NOW, stop=lambda: True)
    assert stopped.status == Backfill.Status.WAITING
    row = backfill.run(cluster, row, lambda: NOW)
    assert row.status == Backfill.Status.DONE
    assert past.ledger(cluster) == past.ledger(whole)
    assert past.stays(cluster) == past.stays(whole)
    assert past.allocations(cluster) == past.allocations(whole)


def test_live_and_back_filled_agree(declared: None, settings: Any, tmp_path: Path) -> None:
    """Ninety minutes polled from the API and the exporters, and the same from Prometheus."""
    start, end = START + timedelta(hours=8), START + timedelta(hours=9, minutes=30)
    clock = Stepping(start - TAIL)
    with SimulatedCluster(blocks.CONFIG, clock) as simulated:
        target = DeclaredCluster(
            kubeconfig=str(simulated.write_kubeconfig(tmp_path / "kubeconfig")),
            exporters=tuple(simulated.exporter_urls),
            log_pods=0,
        )
        settings.CLUSTERS |= {"live": target}
        while clock.now <= end + TAIL:
            assert pipeline.observe("live", clock=clock) is not None
            clock.now += STEP
    live = Cluster.objects.get(slug="live")
    cluster = past.polled("undisturbed", end)
    row = Backfill.objects.create(cluster=cluster, start=start, end=end, done_from=end)
    backfill.run(cluster, row, lambda: NOW)
    rebuilt, seen = past.sums_within(cluster, start, end), past.sums_within(live, start, end)
    assert past.differences(rebuilt, seen) == {}
    assert sum(rebuilt.values()) == sum(seen.values()) == 96 * 90 * 60_000
