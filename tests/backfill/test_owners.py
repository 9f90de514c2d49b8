"""Whose GPUs were whose: back-filling names the owners that polls name, else one workload would be counted as two."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from diagnostics.backfill.present import known_cluster
from diagnostics.collect import PrometheusTarget, take_snapshot
from diagnostics.collect.history import Cluster as KnownCluster
from diagnostics.collect.history import read_history
from diagnostics.limits import Limits
from diagnostics.models import Allocation, Node, Workload
from diagnostics.simulator.config import WORKING_WEEK
from diagnostics.snapshot import OwnerKey, Snapshot
from tests.backfill.past import polled
from tests.simulated import Stepping, simulated

START = datetime(2026, 6, 1, 3, 0, tzinfo=UTC)
CONFIG = replace(WORKING_WEEK, epoch=START - timedelta(days=20))
STEP = timedelta(minutes=2)
MOMENTS = [START + number * timedelta(hours=25) for number in range(14)]
"""Two weeks, since some episodes come every other week, and most hours of the day."""
Owners = dict[str, str]
"""Pod -> its root owner."""


def owners(shot: Snapshot) -> Owners:
    """Of every pod that has or wants GPUs."""
    wanted = [(pod.key, pod.root) for pod in shot.pods if pod.gpus and pod.root is not None]
    return {key: f"{root.kind} {root.namespace}/{root.name}" for key, root in wanted}


@pytest.fixture(scope="module")
def both() -> list[tuple[Owners, Owners]]:
    """Owners by a poll, and by what Prometheus tells somebody who never polled, at each moment."""
    clock = Stepping(START)
    found = []
    with simulated(CONFIG, clock) as (cluster, target):
        kept = PrometheusTarget(url=cluster.prometheus_url)
        for clock.now in MOMENTS:
            seen = take_snapshot(replace(target, exporters=()), clock=clock).snapshot
            past = read_history(
                kept, clock.now, clock.now, STEP, cluster=KnownCluster(), limits=Limits(), timeout_s=10
            )
            found.append((owners(seen), owners(next(past.snapshots))))
    return found


def test_every_pod_of_the_week_has_the_owner_that_polls_name(both: list[tuple[Owners, Owners]]) -> None:
    for seen, past in both:
        # The last scrape is a minute or two older: a few pods have come or gone since.
        common = past.keys() & seen.keys()
        assert len(common) >= 0.8 * len(seen)
        assert {key: past[key] for key in common} == {key: seen[key] for key in common}


def test_the_week_has_owners_of_every_kind(both: list[tuple[Owners, Owners]]) -> None:
    kinds = {owner.partition(" ")[0] for _, past in both for owner in past.values()}
    assert kinds == {"Deployment", "StatefulSet", "Job", "CronJob", "PyTorchJob", "Pod"}


@pytest.mark.django_db
def test_only_what_polls_saw_speaks_for_a_pod_by_its_uid() -> None:
    cluster = polled("lab", START)
    times = {"first_seen": START, "last_seen": START}
    node = Node.objects.create(cluster=cluster, name="gpu-1", **times)
    of = Workload.objects.create(cluster=cluster, kind="TrainJob", namespace="nlp", name="bert", **times)
    rest = {"cluster": cluster, "workload": of, "node": node, "started_at": START}
    Allocation.objects.create(pod="bert-0-x", pod_uid="u-1", **rest)
    Allocation.objects.create(pod="bert-1-x", pod_uid="u-2", is_backfilled=True, **rest)

    known = known_cluster(cluster, START - timedelta(hours=1)).owners

    owner = OwnerKey("TrainJob", "nlp", "bert")
    assert known.by_uid == {"u-1": owner}
    assert known.pods == {"nlp/bert-0-x": owner, "nlp/bert-1-x": owner}
