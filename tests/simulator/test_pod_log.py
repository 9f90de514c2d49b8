"""The log endpoint: both runs, tails, limits, times, and the API's refusals."""

import json

import pytest

from diagnostics.simulator.config import WorldConfig
from diagnostics.simulator.faults import CATALOGUE
from diagnostics.simulator.server import SimulatedCluster
from tests.simulator.simulated import NOW, ask, ask_json


def _path(cluster: SimulatedCluster, name: str) -> str:
    """Of the log of the first pod whose name begins so."""
    for pod in ask_json(cluster.url + "/api/v1/pods")["items"]:
        if pod["metadata"]["name"].startswith(name):
            return f"{cluster.url}/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}/log"
    raise LookupError(name)


def test_tails_and_limits_are_kept(cluster: SimulatedCluster) -> None:
    path = _path(cluster, "llm-pretrain")
    whole = ask(path)[2]
    assert len(whole.splitlines()) == 400
    assert ask(path + "?tailLines=3")[2] == b"".join(whole.splitlines(keepends=True)[-3:])
    assert ask(path + "?limitBytes=100")[2] == whole[:100]
    assert ask(path + "?tailLines=0")[2] == b""
    stamped = ask(path + "?tailLines=1&timestamps=true")[2].decode()
    assert stamped.startswith("2026-11-30T09:5")
    assert stamped.split(" ", 1)[1] == whole.decode().splitlines(keepends=True)[-1]
    assert len(ask(path + "?sinceSeconds=60")[2].splitlines()) == 4


@pytest.mark.parametrize("slug", [s for s, f in CATALOGUE.items() if f.rule == "cuda-out-of-memory"])
def test_a_program_without_gpu_memory_says_so_in_its_last_line(slug: str) -> None:
    with SimulatedCluster(WorldConfig(faults=(slug,)), lambda: NOW) as cluster:
        path = _path(cluster, CATALOGUE[slug].name)
        for query in ("?previous=true&tailLines=1", "?tailLines=1"):
            assert ask(path + query)[2].startswith(
                b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate"
            )


def test_a_pod_that_never_ended_has_no_previous_log(cluster: SimulatedCluster) -> None:
    status, _, body = ask(_path(cluster, "chat") + "?previous=true")
    assert status == 400
    assert "previous terminated container" in json.loads(body)["message"]


def test_a_container_that_is_not_there_is_a_bad_request(cluster: SimulatedCluster) -> None:
    assert ask(_path(cluster, "chat") + "?container=nope")[0] == 400


@pytest.mark.parametrize(
    ("slug", "pod", "status", "message"),
    [
        ("pending-no-capacity", "notebook-mia", 400, "does not have a host assigned"),
        ("stuck-pull", "adapter-train", 400, "trying and failing to pull image"),
        ("driver-pull-failing", "nvidia-driver-daemonset", 400, "failing to pull"),
        ("stuck-unknown", "ranker", 500, "i/o timeout"),
    ],
)
def test_a_log_that_cannot_be_had_says_why(slug: str, pod: str, status: int, message: str) -> None:
    with SimulatedCluster(WorldConfig(faults=(slug,)), lambda: NOW) as cluster:
        if pod == "nvidia-driver-daemonset":
            pods = ask_json(cluster.url + "/api/v1/pods")["items"]
            pod = next(
                p["metadata"]["name"]
                for p in pods
                if p["metadata"]["name"].startswith(pod) and p["spec"]["nodeName"] == "gpu-11"
            )
        got, _, body = ask(_path(cluster, pod))
        assert got == status
        assert message in json.loads(body)["message"]


def test_an_init_container_says_what_it_waits_for() -> None:
    with SimulatedCluster(WorldConfig(faults=("driver-pull-failing",)), lambda: NOW) as cluster:
        pods = ask_json(cluster.url + "/api/v1/pods?fieldSelector=spec.nodeName%3Dgpu-11")["items"]
        name = next(
            p["metadata"]["name"] for p in pods if p["metadata"]["name"].startswith("nvidia-dcgm-exporter")
        )
        path = f"{cluster.url}/api/v1/namespaces/gpu-operator/pods/{name}/log?container=toolkit-validation&tailLines=1"
        assert ask(path)[2] == b"waiting for nvidia container stack to be setup\n"
