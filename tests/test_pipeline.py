"""observe(): whole polls or none."""

import signal
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from diagnostics import archive, pipeline
from diagnostics.clusters import DeclaredCluster
from diagnostics.collect import Take
from diagnostics.collect.windows import extended
from diagnostics.findings import Diagnosis
from diagnostics.limits import Limits
from diagnostics.models import (
    ArchivedSnapshot,
    ArchiveState,
    Cluster,
    Incident,
    IncidentEvent,
    Observation,
    StoredPicture,
    StoredSnapshot,
)
from diagnostics.models.observation import STAGES
from diagnostics.rules import diagnose
from diagnostics.snapshot import Metrics, Past, Snapshot, Source, SourceState, SourceStatus
from tests.builders import NOW, gpu, node, pod, snapshot
from tests.processes import python

pytestmark = pytest.mark.django_db

DAY = timedelta(hours=24)
IDENTITY = "3f1c0a52-7a64-4a6e-9a8a-1c1f5d1f0001"

Answer = Snapshot | Exception


@pytest.fixture
def asked() -> list[dict[str, Any]]:
    """What `take_snapshot` was called with, poll by poll."""
    return []


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch, settings: Any, asked: list[dict[str, Any]]) -> list[Answer]:
    """What the cluster `prod` answers, poll by poll."""
    queue: list[Answer] = []

    def take_snapshot(target: Any, **arguments: Any) -> Take:
        asked.append(arguments)
        answer = queue.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return Take(answer, {"kubernetes": 0.25}, extended(arguments["recent"], answer.gpus, answer.taken_at))

    monkeypatch.setattr(pipeline, "take_snapshot", take_snapshot)
    settings.CLUSTERS = {"prod": DeclaredCluster(name="Production")}
    return queue


def read(minutes: int = 0, **fields: Any) -> Snapshot:
    """A healthy cluster so many minutes after NOW."""
    defaults: dict[str, Any] = {
        "taken_at": NOW + timedelta(minutes=minutes),
        "cluster_id": IDENTITY,
        "nodes": (node(),),
        "pods": (pod(),),
        "server_version": "v1.35.2",
    }
    return snapshot(**(defaults | fields))


def unreadable(minutes: int = 0) -> Snapshot:
    """Nobody answered."""
    lost = tuple(
        SourceStatus(name=source, state=SourceState.FAILED, detail="connection refused") for source in Source
    )
    return Snapshot(taken_at=NOW + timedelta(minutes=minutes), sources=lost)


def test_a_poll_is_kept_whole(answers: list[Answer]) -> None:
    answers.append(read())
    observation = pipeline.observe("prod")

    assert observation is not None
    cluster = Cluster.objects.get()
    assert (cluster.slug, cluster.name, cluster.identity) == ("prod", "Production", IDENTITY)
    assert cluster.server_version == "v1.35.2"
    assert cluster.last_taken_at == NOW
    assert observation.cluster == cluster
    assert (observation.nodes, observation.pods) == (1, 1)
    assert {"kubernetes", "collect", "diagnose", "record"} <= observation.stages_ms.keys()
    assert observation.stages_ms.keys() <= STAGES.keys()
    assert {source["name"] for source in observation.sources} >= {"nodes", "pods"}
    assert archive.latest(cluster) == read()


def test_a_cluster_that_does_not_answer_leaves_the_last_picture(answers: list[Answer]) -> None:
    answers += [read(), unreadable(minutes=1)]
    pipeline.observe("prod")
    observation = pipeline.observe("prod")

    assert observation is not None
    assert observation.status == Observation.Status.FAILED
    assert observation.error == "connection refused"
    assert (observation.nodes, observation.pods, observation.gpus) == (None, None, None)
    assert StoredPicture.objects.get().taken_at == NOW


def test_a_cluster_that_never_answered_has_an_observation_and_no_picture(answers: list[Answer]) -> None:
    answers.append(unreadable())
    pipeline.observe("prod")

    assert Observation.objects.get().status == Observation.Status.FAILED
    assert not StoredSnapshot.objects.exists()
    assert not Cluster.objects.get().is_identified


def test_a_poll_that_breaks_is_noted_without_secrets(answers: list[Answer], caplog: Any) -> None:
    answers += [ValueError("https://admin:hunter2hunter2@prometheus/ is odd"), read()]
    observation = pipeline.observe("prod")

    assert observation is not None
    assert observation.status == Observation.Status.FAILED
    assert "ValueError" in observation.error
    assert "hunter2" not in observation.error + caplog.text
    assert "Traceback" not in observation.error
    assert pipeline.observe("prod") is not None, "the next poll carries on"


def test_a_late_poll_is_not_kept(answers: list[Answer]) -> None:
    answers += [read(minutes=5), read(minutes=4), read(minutes=5)]
    pipeline.observe("prod")

    assert pipeline.observe("prod") is None
    assert pipeline.observe("prod") is None
    assert Observation.objects.get().taken_at == NOW + timedelta(minutes=5)


def test_no_poll_begins_while_another_runs(answers: list[Answer], monkeypatch: pytest.MonkeyPatch) -> None:
    inner: list[Observation | None] = []
    answers += [read(), read(minutes=1)]

    def again(snapshot: Snapshot, limits: Limits) -> Diagnosis:
        inner.append(pipeline.observe("prod"))
        return diagnose(snapshot, limits)

    monkeypatch.setattr(pipeline, "diagnose", again)
    assert pipeline.observe("prod") is not None
    assert inner == [None]


def test_nothing_is_kept_once_another_took_over(
    answers: list[Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    def overtaken(snapshot: Snapshot, limits: Limits) -> Diagnosis:
        Cluster.objects.update(lease_token="another")
        return diagnose(snapshot, limits)

    def overtaken_and_broken(*_: Any) -> Any:
        Cluster.objects.update(lease_token="another")
        raise ValueError

    for trouble in (overtaken, overtaken_and_broken):
        answers.append(read())
        Cluster.objects.update(lease_token="")
        monkeypatch.setattr(pipeline, "diagnose", trouble)
        assert pipeline.observe("prod") is None
    assert not Observation.objects.exists()


def test_the_same_cluster_twice_is_said(answers: list[Answer], settings: Any) -> None:
    settings.CLUSTERS = {"prod": DeclaredCluster(name="Prod"), "copy": DeclaredCluster(name="Copy")}
    answers += [read(), read(minutes=1)]
    pipeline.observe("prod")
    observation = pipeline.observe("copy")

    assert observation is not None
    assert observation.cluster.slug == "copy"
    assert observation.error == "this is the same cluster as 'prod'; declare it once"
    assert Observation.objects.filter(cluster__slug="prod").count() == 1


def test_a_poll_gets_what_earlier_ones_measured(answers: list[Answer], asked: list[dict[str, Any]]) -> None:
    for minute in range(3):
        at = NOW + timedelta(minutes=minute)
        busy = gpu(metrics=Metrics(sampled_at=at, utilization_ratio=0.5))
        answers.append(read(minutes=minute, gpus=(busy,)))
        pipeline.observe("prod")

    assert [len(arguments["recent"].polls) for arguments in asked] == [0, 1, 2]
    assert asked[2]["recent"].slots == {gpu().slot}
    assert asked[2]["past"].last_active == {gpu().slot: NOW + timedelta(minutes=1)}


def test_a_damaged_history_costs_itself_and_not_the_poll(
    answers: list[Answer], asked: list[dict[str, Any]]
) -> None:
    answers += [read(), read(minutes=1)]
    pipeline.observe("prod")
    ArchiveState.objects.update(past=b"damaged")
    assert pipeline.observe("prod") is not None
    assert asked[1]["past"] == Past()


def test_another_cluster_under_the_slug_begins_without_samples(answers: list[Answer]) -> None:
    busy = gpu(metrics=Metrics(sampled_at=NOW, utilization_ratio=0.5))
    answers += [read(gpus=(busy,)), read(minutes=1, gpus=(busy,), cluster_id="another")]
    old = pipeline.observe("prod")
    new = pipeline.observe("prod")

    assert old is not None
    assert new is not None
    assert (old.cluster.identity, new.cluster.identity) == (IDENTITY, "another")
    assert archive.earlier(old.cluster, DAY)[1].slots
    assert not archive.earlier(new.cluster, DAY)[1].slots
    assert archive.latest(new.cluster) == read(minutes=1, gpus=(busy,), cluster_id="another")


# Killed with SIGKILL, in a process of its own.

HANGS = """
import sys, time
from diagnostics import observations, pipeline
from diagnostics.collect import Take
from diagnostics.collect.windows import extended
from tests.test_pipeline import read

def hang(*_, **__):
    print('here', flush=True)
    time.sleep(60)

pipeline.take_snapshot = lambda *_, **__: Take(read(), {}, None)
{patch} = hang
pipeline.observe('prod')
"""


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "stage", ["pipeline.diagnose", "pipeline.record", "observations.publish"], ids=["before", "in", "end"]
)
def test_a_killed_poll_leaves_nothing_and_the_next_carries_on(
    stage: str, answers: list[Answer], settings: Any
) -> None:
    process = python(HANGS.replace("{patch}", stage), GPUHEALTH_CLUSTERS='{"prod": {"name": "Production"}}')
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n", process.communicate(timeout=10)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=10)

    for model in (
        Observation,
        Incident,
        IncidentEvent,
        StoredSnapshot,
        StoredPicture,
        ArchivedSnapshot,
        ArchiveState,
    ):
        assert not model.objects.exists(), model
    answers.append(read())
    assert pipeline.observe("prod") is None, "its lease still runs"

    expires_at = Cluster.objects.get().lease_expires_at
    assert expires_at is not None
    assert timedelta() < expires_at - timezone.now() <= timedelta(seconds=180)
    Cluster.objects.update(lease_expires_at=timezone.now())
    assert pipeline.observe("prod") is not None
